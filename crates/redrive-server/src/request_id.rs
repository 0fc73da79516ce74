//! The id of a request: the client's own, when it is one that a log can show, or one that is made here.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it, both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The most characters in a client's.
const MAX_CHARS: usize = 64;

/// Which request it is. It stands in the extensions of every request.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) HeaderValue);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What the ids of this process begin with.
static START: LazyLock<u64> = LazyLock::new(|| {
    let mut bytes = [0; 8];
    // Without random numbers ids may repeat between processes, which nothing depends on.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
});
static NEXT: AtomicU64 = AtomicU64::new(0);

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap) -> RequestId {
        match headers.get(X_REQUEST_ID).filter(|id| is_sane(id.as_bytes())) {
            Some(id) => RequestId(id.clone()),
            None => RequestId(fresh()),
        }
    }

    /// As text, which it always is.
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

fn is_sane(id: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=MAX_CHARS).contains(&id.len()) && id.iter().all(fits)
}

fn fresh() -> HeaderValue {
    // An odd factor makes each number another one, and neighbours look unlike.
    let number = START.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let digit = |at: u32| DIGITS[usize::try_from(number >> (60 - 4 * at) & 15).unwrap_or(0)];
    let text: [u8; 16] = std::array::from_fn(|at| digit(u32::try_from(at).unwrap_or(0)));
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability, Security: what a client calls its request reaches the log only when it cannot disturb it.
    #[test]
    fn a_clients_id_is_kept_when_it_is_sane() {
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap());
            RequestId::of(&headers).as_str().to_owned()
        };
        assert_eq!(of("a-1_b.c:2"), "a-1_b.c:2");
        for odd in ["", "a b", "a\"b", &"x".repeat(65), "日本"] {
            let made = of(odd);
            assert!(made != odd && made.len() == 16, "{odd}: {made}");
        }
        assert_ne!(of(""), of(""));
    }
}
