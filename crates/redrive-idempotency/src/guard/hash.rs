//! What makes a request this request: a hash of its caller, key, method, path, query, content types and body.

use http::header::{CONTENT_TYPE, COOKIE};
use http::{HeaderMap, Method, Uri};
use sha2::{Digest, Sha256};

/// Everything but the body, which is framed behind it. The key is in it, so that equal requests of different keys cannot be told by their
/// hashes.
pub(super) fn head(principal: &str, key: &str, method: &Method, uri: &Uri, headers: &HeaderMap) -> Sha256 {
    let mut hash = Sha256::new();
    for part in [principal, key, method.as_str(), uri.path()] {
        frame(&mut hash, part.as_bytes());
    }
    frame_some(&mut hash, uri.query().map(str::as_bytes));
    for content_type in headers.get_all(CONTENT_TYPE) {
        frame_some(&mut hash, Some(content_type.as_bytes()));
    }
    frame_some(&mut hash, None);
    hash
}

/// A caller's credentials as they are meant: a scheme's name has no case, and spaces behind it say nothing.
pub(super) fn credentials(value: &[u8]) -> Vec<u8> {
    let value = value.trim_ascii();
    let scheme = value.iter().position(|byte| *byte == b' ').unwrap_or(0);
    let (scheme, rest) = value.split_at(scheme);
    [&scheme.to_ascii_lowercase(), rest.trim_ascii()].join(&b' ')
}

/// What else may tell callers apart where nobody has said what does: who has another cookie or key gets a mismatch, and never the answer
/// that was somebody else's. Not the host: a service that moves to another address is still the same.
pub(super) fn other_credentials(hash: &mut Sha256, headers: &HeaderMap) {
    for name in [COOKIE.as_str(), "x-api-key"] {
        for value in headers.get_all(name) {
            frame_some(hash, Some(value.as_bytes()));
        }
        frame_some(hash, None);
    }
}

/// Each part says its length, so that no two requests are written the same.
pub(super) fn frame(hash: &mut Sha256, part: &[u8]) {
    hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(part);
}

fn frame_some(hash: &mut Sha256, part: Option<&[u8]>) {
    hash.update([u8::from(part.is_some())]);
    frame(hash, part.unwrap_or_default());
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    /// Few letters, so that equal parts and parts that run into each other are common.
    #[derive(Debug, Clone, PartialEq)]
    struct Asked {
        principal: String,
        key: String,
        method: &'static str,
        path: String,
        query: Option<String>,
        types: Vec<String>,
        body: Vec<u8>,
    }

    impl Asked {
        fn hash(&self) -> String {
            let mut uri = self.path.clone();
            if let Some(query) = &self.query {
                uri = format!("{uri}?{query}");
            }
            let mut headers = HeaderMap::new();
            for value in &self.types {
                headers.append(CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
            }
            let method = self.method.parse().unwrap();
            let mut hash = head(&self.principal, &self.key, &method, &uri.parse().unwrap(), &headers);
            frame(&mut hash, &self.body);
            hex(&hash.finalize())
        }
    }

    fn asked() -> impl Strategy<Value = Asked> {
        let method = prop_oneof![Just("POST"), Just("PATCH"), Just("PO")];
        let types = prop::collection::vec("[ab]{0,2}", 0..3);
        let body = prop::collection::vec(prop_oneof![Just(b'a'), Just(0), Just(1)], 0..3);
        ("[ab]{0,2}", "[ab]{1,2}", method, "/[ab]{0,2}", prop::option::of("[ab]{0,2}"), types, body).prop_map(
            |(principal, key, method, path, query, types, body)| Asked {
                principal,
                key,
                method,
                path,
                query,
                types,
                body,
            },
        )
    }

    /// R-I2: one caller, however its scheme is written; another token is another caller.
    #[test]
    fn a_scheme_is_written_in_many_ways() {
        let same = ["Bearer t1", "bearer t1", "BEARER   t1", " Bearer t1 "]
            .map(|value| credentials(value.as_bytes()));
        assert!(same.iter().all(|one| *one == same[0]));
        for other in ["Bearer T1", "Basic t1", "Bearert1", "t1", "Bearer t1 x"] {
            assert_ne!(credentials(other.as_bytes()), same[0], "{other}");
        }
    }

    /// R-I2: without an Authorization header, whoever has another cookie or key is not taken for the same.
    #[test]
    fn who_nobody_named_is_told_apart_by_what_there_is() {
        let hash = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let mut hash = Sha256::new();
            other_credentials(&mut hash, &headers);
            hex(&hash.finalize())
        };
        let alice = hash(&[("cookie", "session=alice"), ("host", "a")]);
        assert_eq!(alice, hash(&[("host", "b"), ("cookie", "session=alice"), ("accept", "*/*")]));
        for other in [
            &[("cookie", "session=bob"), ("host", "a")][..],
            &[("x-api-key", "session=alice"), ("host", "a")],
            &[("cookie", "session=alice"), ("cookie", "x"), ("host", "a")],
            &[],
        ] {
            assert_ne!(alice, hash(other));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        /// R-I4: equal requests have equal hashes, and different ones different ones, wherever their parts begin and end.
        #[test]
        fn hashes_are_equal_where_requests_are(one in asked(), other in asked()) {
            prop_assert_eq!(one.hash() == other.hash(), one == other);
            prop_assert_eq!(one.hash(), one.clone().hash());
        }

        /// R-I4: nor does a letter that moves from one part to the next make them the same.
        #[test]
        fn a_letter_that_moves_to_the_next_part_changes_the_hash(one in asked()) {
            let mut moved = one.clone();
            let letter = moved.principal.pop();
            moved.key = format!("{}{}", letter.map(String::from).unwrap_or_default(), moved.key);
            prop_assert_eq!(one.hash() == moved.hash(), letter.is_none());
        }
    }
}
