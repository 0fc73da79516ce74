//! A body as JSON of a known shape, or a problem that says where it is not.
//!
//! In this order: its media type, its length, how deep it nests, and then its shape. Nothing is built of a body that nests too
//! deep. The way of a good body is short; only a bad one is read again, to find the place.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::Server;
use crate::fault::fault;
use crate::heavy::reading;
use crate::problem::{Code, Problem};
use crate::weight::TooMuch;

/// How many bytes are read where the request is: that takes no longer than a millisecond or two.
const AT_ONCE: usize = 128 * 1024;

/// The body of a request, read as JSON.
pub(crate) struct Body<T>(pub(crate) T);

/// The same, where there may be none: then it is the default.
pub(crate) struct MayBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Server> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Body<T>, Problem> {
        let json = is_json(request.headers());
        let bytes = read(request, server.settings().max_body).await?;
        if bytes.is_empty() {
            return Err(Problem::new(Code::Invalid, "json.empty"));
        }
        if !json {
            return Err(Problem::of(Code::UnsupportedMediaType));
        }
        read_in_turn(bytes, server.settings().max_depth).await.map(Body)
    }
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Server> for MayBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<MayBody<T>, Problem> {
        let json = is_json(request.headers());
        let bytes = read(request, server.settings().max_body).await?;
        if bytes.is_empty() {
            return Ok(MayBody(T::default()));
        }
        if !json {
            return Err(Problem::of(Code::UnsupportedMediaType));
        }
        read_in_turn(bytes, server.settings().max_depth).await.map(MayBody)
    }
}

/// Whether a body is JSON by its own account. A browser sends that to another site only after it has asked, so a missing type does
/// not do.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else { return false };
    if kind == b"application/json" {
        return true;
    }
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let kind = kind.to_ascii_lowercase();
    kind == b"application/json" || (kind.starts_with(b"application/") && kind.ends_with(b"+json"))
}

/// Reads a whole body, up to this many bytes.
pub(crate) async fn read(request: Request, limit: usize) -> Result<Bytes, Problem> {
    let body = request.into_body();
    let too_large = || Problem::of(Code::TooLarge).with("most", limit);
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let read = Limited::new(body, limit).collect().await.map_err(|error| {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
        while let Some(error) = source {
            if error.is::<LengthLimitError>() {
                return too_large();
            }
            if error.is::<TooMuch>() {
                return Problem::of(Code::TooMany);
            }
            source = error.source();
        }
        Problem::new(Code::Invalid, "json.broken_off")
    })?;
    Ok(read.to_bytes())
}

/// Reads JSON of a known shape; much of it beside everything else, so that nobody's heartbeat waits for it.
async fn read_in_turn<T: DeserializeOwned + Send + 'static>(
    bytes: Bytes,
    max_depth: usize,
) -> Result<T, Problem> {
    if bytes.len() <= AT_ONCE {
        return parse(&bytes, max_depth);
    }
    reading(move || parse(&bytes, max_depth)).await?
}

/// Reads JSON of a known shape.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, Problem> {
    if nests_deeper(bytes, max_depth) {
        return Err(Problem::new(Code::Invalid, "json.deep").with("most", max_depth));
    }
    serde_json::from_slice(bytes).map_err(|error| found::<T>(bytes, &error))
}

/// What is wrong with a body that could not be read, and where.
#[cold]
fn found<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return Problem::new(Code::Invalid, "json.syntax")
            .with("line", error.line())
            .with("column", error.column());
    }
    let mut again = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut again) {
        Err(error) => fault(&error.path().to_string(), &error.inner().to_string()),
        Ok(_) => Problem::new(Code::Invalid, "json.wants.other"),
    }
}

/// Whether brackets outside of texts nest deeper than this.
pub(crate) fn nests_deeper(bytes: &[u8], most: usize) -> bool {
    let mut depth = 0_usize;
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => loop {
                match rest.next() {
                    Some(b'\\') => drop(rest.next()),
                    Some(b'"') | None => break,
                    Some(_) => {}
                }
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 8, limits: what nests too deep is refused before anything is built of it; brackets in texts do not count.
    #[test]
    fn depth_is_counted_outside_of_texts() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!nests_deeper(deep(64).as_bytes(), 64));
        assert!(nests_deeper(deep(65).as_bytes(), 64));
        assert!(nests_deeper("[".repeat(100_000).as_bytes(), 64));
        assert!(!nests_deeper(br#"{"a":"[[[[\"[[[","b":"\\"}"#, 2));
        assert!(nests_deeper(br#"{"a":"\\","b":[[]]}"#, 2));
        let problem = parse::<serde_json::Value>(deep(65).as_bytes(), 64).unwrap_err();
        assert_eq!(problem.code, Code::Invalid);
    }

    /// Where a value was read.
    struct ReadOn(std::thread::ThreadId);

    impl<'de> serde::Deserialize<'de> for ReadOn {
        fn deserialize<D: serde::Deserializer<'de>>(read: D) -> Result<ReadOn, D::Error> {
            serde::de::IgnoredAny::deserialize(read)?;
            Ok(ReadOn(std::thread::current().id()))
        }
    }

    /// Reliability 62: a large body is read beside everything else, so that no heartbeat waits for it; a small one where it is.
    #[tokio::test]
    async fn a_large_body_keeps_nobody_waiting() {
        let here = std::thread::current().id();
        let body = |size: usize| Bytes::from(format!("\"{}\"", "x".repeat(size)));
        assert_eq!(read_in_turn::<ReadOn>(body(1_000), 64).await.ok().map(|read| read.0), Some(here));
        let elsewhere = read_in_turn::<ReadOn>(body(AT_ONCE), 64).await.ok().map(|read| read.0);
        assert!(elsewhere.is_some_and(|thread| thread != here));
    }

    /// Issue 8, API: what stands behind the value, and what breaks off, is no body.
    #[test]
    fn trailing_data_and_half_a_value_are_refused() {
        for bad in ["{} {}", "{", "[1,]", "{\"a\":}", "nul", "\u{feff}{}"] {
            let problem = parse::<serde_json::Value>(bad.as_bytes(), 64).unwrap_err();
            assert_eq!(problem.code, Code::Invalid, "{bad}");
        }
        assert!(parse::<serde_json::Value>(b"{\"a\":\"\xff\"}", 64).is_err());
    }
}
