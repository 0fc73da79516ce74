//! The `Idempotency-Key` header (R-I1): read strictly, before anything else is done.
//!
//! The header's draft makes it a structured field, so a string in quotes; most clients send it bare. Both name the same key. Two headers are
//! two keys, and nobody knows which is meant.

use http::{HeaderMap, HeaderName};
use redrive_policy::idempotency::{KeyForm, MAX_KEY_CHARS};

/// The header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A key that has the form that its route demands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

/// Why a header is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// There is more than one.
    #[error("the header is there more than once")]
    Twice,
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it is longer than {MAX_KEY_CHARS} characters")]
    TooLong,
    /// A character is not visible ASCII.
    #[error("only visible ASCII characters may be in it")]
    NotVisible,
    /// Its quotes do not match.
    #[error("its quotes do not match")]
    Quotes,
    /// The route wants a UUID.
    #[error("it is not a UUID, as this route demands")]
    NotUuid,
}

impl BadKey {
    /// Its name in the texts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            BadKey::Twice => "twice",
            BadKey::Empty => "empty",
            BadKey::TooLong => "too_long",
            BadKey::NotVisible => "not_visible",
            BadKey::Quotes => "quotes",
            BadKey::NotUuid => "not_uuid",
        }
    }
}

impl Key {
    /// The key of a request; nothing when it carries none.
    pub fn from_headers(headers: &HeaderMap, form: KeyForm) -> Result<Option<Key>, BadKey> {
        let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(BadKey::Twice);
        }
        Key::parse(value.as_bytes(), form).map(Some)
    }

    /// Reads a header's value.
    ///
    /// ```
    /// use redrive_idempotency::Key;
    /// use redrive_policy::idempotency::KeyForm;
    /// let bare = Key::parse(b"order-7", KeyForm::Any);
    /// assert_eq!(Key::parse(b"\"order-7\"", KeyForm::Any), bare);
    /// assert!(Key::parse(b"order-7", KeyForm::Uuid).is_err());
    /// ```
    pub fn parse(value: &[u8], form: KeyForm) -> Result<Key, BadKey> {
        let value = value.trim_ascii();
        let text = match value.split_first() {
            None => return Err(BadKey::Empty),
            Some((b'"', rest)) => unquoted(rest)?,
            Some(_) => value.to_vec(),
        };
        if text.is_empty() {
            return Err(BadKey::Empty);
        }
        if !text.iter().all(u8::is_ascii_graphic) {
            return Err(BadKey::NotVisible);
        }
        if text.len() > MAX_KEY_CHARS {
            return Err(BadKey::TooLong);
        }
        let text = String::from_utf8(text).map_err(|_| BadKey::NotVisible)?;
        match form {
            KeyForm::Any => Ok(Key(text)),
            KeyForm::Uuid if is_uuid(&text) => Ok(Key(text.to_ascii_lowercase())),
            KeyForm::Uuid => Err(BadKey::NotUuid),
        }
    }

    /// The key, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A structured field's string after its opening quote. Parameters behind it say nothing about the key.
fn unquoted(rest: &[u8]) -> Result<Vec<u8>, BadKey> {
    let mut text = Vec::with_capacity(rest.len());
    let mut bytes = rest.iter();
    loop {
        match *bytes.next().ok_or(BadKey::Quotes)? {
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => text.push(*escaped),
                _ => return Err(BadKey::Quotes),
            },
            b'"' => break,
            byte => text.push(byte),
        }
    }
    let behind = bytes.as_slice().trim_ascii();
    if behind.is_empty() || behind.starts_with(b";") { Ok(text) } else { Err(BadKey::Quotes) }
}

fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(
            |(at, byte)| {
                if dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_key(text: &str) -> bool {
        (1..=MAX_KEY_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    }

    proptest! {
        /// R-I1: whatever comes, it is a key of 1 to 255 visible ASCII characters, or refused.
        #[test]
        fn whatever_comes_is_a_key_or_refused(value in prop::collection::vec(any::<u8>(), 0..600)) {
            for form in [KeyForm::Any, KeyForm::Uuid] {
                if let Ok(key) = Key::parse(&value, form) {
                    prop_assert!(is_key(key.as_str()));
                    prop_assert!(form == KeyForm::Any || is_uuid(key.as_str()));
                }
            }
        }

        /// R-I1: the same from bytes that look like keys, in which quotes and backslashes are common.
        #[test]
        fn what_looks_like_a_key_is_one_or_refused(value in "[ \t]{0,2}[a-c\"\\\\; é]{0,300}[ \t]{0,2}") {
            if let Ok(key) = Key::parse(value.as_bytes(), KeyForm::Any) {
                prop_assert!(is_key(key.as_str()));
            }
        }

        /// R-I1: a key in quotes is the same key as without, and nothing else is.
        #[test]
        fn quoted_is_bare(text in "[!-~]{1,255}", behind in prop_oneof![Just(""), Just(";v=1"), Just("  ")]) {
            let quoted = format!("\"{}\"{behind}", text.replace('\\', "\\\\").replace('"', "\\\""));
            let key = Key::parse(quoted.as_bytes(), KeyForm::Any).unwrap();
            prop_assert_eq!(key.as_str(), &*text);
            if !text.starts_with('"') {
                prop_assert_eq!(Key::parse(text.as_bytes(), KeyForm::Any).unwrap(), key);
            }
        }

        /// R-I1: a UUID is read in either case, and is the same key.
        #[test]
        fn a_uuid_is_read_in_either_case(text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
            let lower = Key::parse(text.as_bytes(), KeyForm::Uuid).unwrap();
            let upper = Key::parse(text.to_ascii_uppercase().as_bytes(), KeyForm::Uuid).unwrap();
            prop_assert_eq!(&lower, &upper);
            prop_assert_eq!(lower.as_str(), &*text);
            prop_assert_eq!(Key::parse(&text.as_bytes()[1..], KeyForm::Uuid), Err(BadKey::NotUuid));
        }
    }
}
