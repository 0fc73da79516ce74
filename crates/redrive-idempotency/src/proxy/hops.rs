//! Headers that belong to one connection and not to the request (RFC 9110 §7.6.1): they end here, on both sides.
//!
//! This is done before the guard looks, so that the guard and the service see the same request.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Version};

use crate::key::IDEMPOTENCY_KEY;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Takes off what belongs to the connection that a message came by. Trailers may pass, and nothing else of TE.
/// What the guard goes by stays, whatever a message says of it: the key, the host and the length, and these.
pub(super) fn end_here(headers: &mut HeaderMap, stays: &[HeaderName]) {
    let wants_trailers = list(headers, &TE).any(|coding| coding.eq_ignore_ascii_case("trailers"));
    let named: Vec<HeaderName> =
        list(headers, &CONNECTION).filter_map(|name| HeaderName::try_from(name).ok()).collect();
    for name in named {
        // Who asks that such a header be forgotten on the way asks for a request to be mistaken for another.
        if ![IDEMPOTENCY_KEY, HOST, CONTENT_LENGTH].contains(&name) && !stays.contains(&name) {
            headers.remove(&name);
        }
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        // The length of something that is framed otherwise says nothing.
        headers.remove(CONTENT_LENGTH);
    }
    for name in [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Whether a body is what it says it is once its chunks are put together. Another coding would be passed off as the content.
pub(super) fn is_framed_plainly(headers: &HeaderMap) -> bool {
    let values = headers.get_all(TRANSFER_ENCODING);
    values.iter().count() == 0
        || (values.iter().count() == 1
            && values.iter().all(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked")))
}

/// The protocol that a message wants to change to, or changes to.
pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = list(headers, &CONNECTION).any(|option| option.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asked).cloned()
}

/// Puts the wish for another protocol back.
pub(super) fn upgrade_to(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Whether the client waits with its body until it is told to go on.
pub(super) fn waits_to_go_on(version: Version, headers: &HeaderMap) -> bool {
    version >= Version::HTTP_11
        && headers.get(EXPECT).is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    /// R-I6: what belongs to one connection ends there; the key does not, whatever a client says about it.
    #[test]
    fn what_belongs_to_a_connection_ends_with_it() {
        let mut message = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "idempotency-key, X-Account"),
            ("x-account", "ada"),
            ("x-secret", "1"),
            ("idempotency-key", "k"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("content-length", "9"),
            ("upgrade", "h2c"),
            ("x-stays", "1"),
        ]);
        end_here(&mut message, &[HeaderName::from_static("x-account")]);
        assert_eq!(message, headers(&[("idempotency-key", "k"), ("x-account", "ada"), ("x-stays", "1")]));
    }

    /// R-I6: trailers are passed on for whoever can take them.
    #[test]
    fn trailers_may_pass() {
        let mut message = headers(&[("te", "trailers, deflate;q=0.5"), ("connection", "TE")]);
        end_here(&mut message, &[]);
        assert_eq!(message, headers(&[("te", "trailers"), ("connection", "te")]));
    }

    /// R-I6: another protocol is asked for by both headers, or not at all.
    #[test]
    fn an_upgrade_is_asked_for_by_two_headers() {
        let asked = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade_of(&asked).unwrap(), "websocket");
        assert!(upgrade_of(&headers(&[("upgrade", "websocket")])).is_none());
        assert!(upgrade_of(&headers(&[("connection", "upgrade")])).is_none());
    }
}
