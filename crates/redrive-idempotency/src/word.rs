//! What an answer says about its key beyond its status: the service's own word, and whether it has an end.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, StatusCode};
use redrive_policy::idempotency::Keep;

/// By which a service says itself what becomes of the key: `store`, `release` or `unknown`. Taken off before the client sees it.
pub const REDRIVE_IDEMPOTENCY: HeaderName = HeaderName::from_static("redrive-idempotency");

/// What is kept in the place of an answer's body, put into the extensions of the answer. For what is shown once, such as a secret:
/// who sends the same again is told what was done, and not that.
#[derive(Debug, Clone)]
pub struct KeptInstead(pub Bytes);

/// Takes the word of a service off its answer.
pub(crate) fn taken(headers: &mut HeaderMap) -> Option<Keep> {
    let header = headers.remove(REDRIVE_IDEMPOTENCY)?;
    let word = String::from_utf8_lossy(header.as_bytes()).trim().to_ascii_lowercase();
    let keep = Keep::named(&word);
    if keep.is_none() {
        tracing::warn!(word, "a service says in Redrive-Idempotency what nobody knows; its status counts");
    }
    keep
}

/// Whether an answer is one that never ends, so that nobody can wait for the whole of it.
pub(crate) fn is_endless(status: StatusCode, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    status == StatusCode::SWITCHING_PROTOCOLS
        || kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"))
}
