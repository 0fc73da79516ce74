//! Requests and their answers: what may be sent again, and what must not be done twice.
//!
//! One `Idempotency-Key` stays with a request through all its attempts. A request whose method is not idempotent
//! (POST, PATCH, and methods nobody knows) and that carries no key is sent again only when the failure proves
//! that it was not processed: no connection came about, or the answer was 429, or 503 with a `Retry-After`.
//! The tower layer and the client middleware both ask here, so that they cannot differ.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::chance;

/// The header by which a server knows a request again.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether sending this a second time does no harm, whatever became of the first.
pub(crate) fn may_be_done_twice(method: &Method, headers: &HeaderMap) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    ) || has_key(headers)
}

/// Whether there is a key. A blank one is none: a server cannot tell two requests apart by it, nor know one again.
fn has_key(headers: &HeaderMap) -> bool {
    headers.get_all(IDEMPOTENCY_KEY).iter().any(|key| !key.as_bytes().trim_ascii().is_empty())
}

/// Whether an answer proves that the request was turned away unprocessed.
pub(crate) fn was_turned_away(status: StatusCode, retry_after: Option<Duration>) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status == StatusCode::SERVICE_UNAVAILABLE && retry_after.is_some())
}

/// Gives a POST or PATCH without a key one of its own. A key that the caller set stays as it is.
pub(crate) fn ensure_key(method: &Method, headers: &mut HeaderMap) {
    if matches!(*method, Method::POST | Method::PATCH)
        && !has_key(headers)
        && let Ok(key) = HeaderValue::from_str(&random_uuid(chance::sixteen_bytes()))
    {
        headers.insert(IDEMPOTENCY_KEY, key);
    }
}

/// A UUID of version 4 from random bytes.
fn random_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let number = u128::from_be_bytes(bytes);
    let digits = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_version_and_its_dashes() {
        assert_eq!(random_uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(random_uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_ne!(chance::sixteen_bytes(), chance::sixteen_bytes());
    }

    #[test]
    fn a_key_of_the_callers_own_stays_verbatim() {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("order 17"));
        ensure_key(&Method::POST, &mut headers);
        assert_eq!(headers[IDEMPOTENCY_KEY], "order 17");
        let mut headers = HeaderMap::new();
        ensure_key(&Method::GET, &mut headers);
        assert!(headers.is_empty());
        ensure_key(&Method::PATCH, &mut headers);
        assert_eq!(headers[IDEMPOTENCY_KEY].len(), 36);
    }

    /// R-P13: a blank key makes nothing repeatable, and is replaced.
    #[test]
    fn a_blank_key_is_no_key() {
        for blank in ["", "  ", "\t"] {
            let mut headers = HeaderMap::new();
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static(blank));
            assert!(!may_be_done_twice(&Method::POST, &headers), "{blank:?}");
            ensure_key(&Method::POST, &mut headers);
            assert_eq!(headers[IDEMPOTENCY_KEY].len(), 36, "{blank:?}");
            assert!(may_be_done_twice(&Method::POST, &headers));
        }
    }

    #[test]
    fn only_idempotent_requests_may_be_done_twice() {
        let none = HeaderMap::new();
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
            assert!(may_be_done_twice(&method.parse().unwrap(), &none), "{method}");
        }
        for method in ["POST", "PATCH", "CONNECT", "FROBNICATE"] {
            assert!(!may_be_done_twice(&method.parse().unwrap(), &none), "{method}");
        }
    }
}
