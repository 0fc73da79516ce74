//! An answer from a record (R-I3): verbatim, with its own date, and marked as what it is.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use redrive_policy::Lang;
use redrive_policy::idempotency::{NEVER_KEPT, Rules};
use redrive_store::StoredResponse;

use crate::problem::Problem;

/// Marks an answer from a record.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What is kept of an answer.
pub fn kept(rules: &Rules, status: StatusCode, headers: &HeaderMap, body: Option<Vec<u8>>) -> StoredResponse {
    let is_kept = |name: &HeaderName| {
        let name = name.as_str();
        rules.headers.iter().any(|kept| kept == name) && !NEVER_KEPT.contains(&name)
    };
    let headers = headers.iter().filter(|(name, _)| is_kept(name));
    let headers = headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    StoredResponse { status: status.as_u16(), headers: headers.collect(), body }
}

/// The answer that was kept, once more.
pub(crate) fn replayed(stored: StoredResponse, lang: Lang) -> Response<Bytes> {
    let marked = |mut response: Response<Bytes>| {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        response
    };
    let Some(body) = stored.body else {
        return marked(Problem::ResponseNotKept { status: stored.status }.response(lang));
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in stored.headers {
        // Written by us from a valid answer; what cannot be read any more is left out rather than guessed.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&value)) {
            response.headers_mut().append(name, value);
        }
    }
    marked(response)
}
