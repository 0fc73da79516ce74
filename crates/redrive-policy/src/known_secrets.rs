//! Secrets that are known by their value: what a variable, a header, an address or a payload holds is blanked wherever it turns
//! up, whatever stands around it.
//!
//! [`redact`](crate::redact) goes by shape and cannot know that `Xk2-91Qz` is somebody's token; whoever handed it to a job
//! can. Nothing here reads the environment: names and values are given. `found` says where secrets stand, `written` in which
//! ways one may be written.

mod found;
mod written;

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;
use serde_json::Value;

use crate::redact::{BLANK, SECRET_NAME, SECRET_WORD};

pub use found::{is_plain_header, looks_random};

/// Shorter values are not looked for: they would be found in innocent words.
const SHORTEST: usize = 8;
/// The same for a value that is a plain lower-case word, such as `postgres`.
const SHORTEST_WORD: usize = 12;
/// How long a part of a value with several words or lines must be to be looked for by itself.
const SHORTEST_PART: usize = 16;
/// The most values that one payload gives to be looked for.
const MOST: usize = 1_000;
/// The most that are looked for at all, each way of writing counted.
const MOST_WRITTEN: usize = 64_000;

/// Values that are blanked wherever they stand.
///
/// ```
/// use redrive_policy::KnownSecrets;
///
/// let known = KnownSecrets::of_variables([("API_TOKEN", "Xk2-91Qz"), ("LANG", "en_GB.UTF-8")]);
/// assert_eq!(known.mask("401 for Xk2-91Qz in en_GB.UTF-8"), "401 for [redacted] in en_GB.UTF-8");
/// ```
#[derive(Clone, Default)]
pub struct KnownSecrets {
    values: Vec<String>,
    found_by: Option<AhoCorasick>,
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownSecrets").finish_non_exhaustive()
    }
}

impl KnownSecrets {
    /// The values of those variables whose names speak of a secret, and what is secret in addresses, whatever the variable is
    /// called.
    pub fn of_variables<N: AsRef<str>, V: AsRef<str>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> KnownSecrets {
        let mut values = Vec::new();
        for (name, value) in variables {
            found::in_variable(name.as_ref(), value.as_ref(), &mut values);
        }
        KnownSecrets::of_values(values)
    }

    /// What a payload holds: the texts under names that speak of a secret, at any depth; headers; variables; options of commands;
    /// what is secret in addresses; and what has the shape of a secret.
    ///
    /// ```
    /// use redrive_policy::KnownSecrets;
    ///
    /// let known = KnownSecrets::of_payload(br#"{"user":"ada-lovelace","password":"Xk2-91Qz"}"#);
    /// assert_eq!(known.mask("ada-lovelace: Xk2-91Qz is wrong"), "ada-lovelace: [redacted] is wrong");
    /// ```
    pub fn of_payload(payload: &[u8]) -> KnownSecrets {
        KnownSecrets::of_payloads([payload])
    }

    /// The same of several payloads, of which any may be repeated.
    pub fn of_payloads<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> KnownSecrets {
        let mut values = Vec::new();
        for payload in payloads {
            found::in_payload(payload, &mut values);
        }
        KnownSecrets::of_values(values)
    }

    /// What a call asks with: the values of all headers but plain ones, and what is secret in the address.
    ///
    /// ```
    /// use redrive_policy::KnownSecrets;
    ///
    /// let known = KnownSecrets::of_call("https://ada:Xk2-91Qz@example.com/a", [("X-Ticket", "Yl3-82Wv")]);
    /// assert_eq!(known.mask("Yl3-82Wv Xk2-91Qz /a"), "[redacted] [redacted] /a");
    /// ```
    pub fn of_call<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> KnownSecrets {
        let mut values = Vec::new();
        found::in_address(url, &mut values);
        for (name, value) in headers {
            found::in_header(name, value, &mut values);
        }
        KnownSecrets::of_values(values)
    }

    /// An address that is a secret itself, as those of webhooks are: all of it but whom it leads to.
    ///
    /// ```
    /// use redrive_policy::KnownSecrets;
    ///
    /// let known = KnownSecrets::of_webhook("https://example.com/in/Xk2-91Qz?for=orders");
    /// assert_eq!(known.mask("example.com: no /in/Xk2-91Qz?for=orders"), "example.com: no [redacted]");
    /// ```
    pub fn of_webhook(url: &str) -> KnownSecrets {
        let mut values = Vec::new();
        found::in_webhook(url, &mut values);
        KnownSecrets::of_values(values)
    }

    /// These values, also as they stand in JSON, in an address or in base64; those too short to be recognised are left out.
    pub fn of_values<V: Into<String>>(given: impl IntoIterator<Item = V>) -> KnownSecrets {
        let mut values = Vec::new();
        for value in given {
            if values.len() >= MOST_WRITTEN {
                break;
            }
            let value = value.into();
            let whole = value.trim();
            let parts = whole.split(|c: char| c.is_whitespace() || c == ';');
            let parts = parts.filter(|part| part.len() >= SHORTEST_PART && part.len() < whole.len());
            for secret in std::iter::once(whole).chain(parts).filter(|secret| is_telling(secret)) {
                written::ways(secret, &mut values);
            }
        }
        KnownSecrets::built(values)
    }

    /// Those and the others.
    #[must_use]
    pub fn with(mut self, others: KnownSecrets) -> KnownSecrets {
        self.values.extend(others.values);
        KnownSecrets::built(self.values)
    }

    fn built(mut values: Vec<String>) -> KnownSecrets {
        values.sort_unstable();
        values.dedup();
        let found_by = (!values.is_empty())
            .then(|| AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&values).ok())
            .flatten();
        KnownSecrets { values, found_by }
    }

    /// The text with every one of them blanked.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.found_by {
            Some(found_by) if found_by.is_match(text) => {
                let blanks = vec![BLANK; self.values.len()];
                Cow::Owned(found_by.replace_all(text, &blanks))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Whether a value would not be mistaken for an innocent word.
fn is_telling(value: &str) -> bool {
    let is_word = value.bytes().all(|byte| byte.is_ascii_lowercase());
    value.len() >= if is_word { SHORTEST_WORD } else { SHORTEST }
}

/// Names of fields whose values are secrets.
static SECRET_FIELD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"(?i){SECRET_NAME}|authorization|(?:^|[_.-]){SECRET_WORD}$")).ok());

/// Blanks secrets inside a JSON value: every text goes through `redact`, and what stands under a name that speaks of a
/// secret goes altogether.
///
/// ```
/// use redrive_policy::{redact, redact_json};
///
/// let mut data = serde_json::json!({ "user": "ada", "password": "hunter2", "said": ["token=abc"], "attempts": 3 });
/// redact_json(&mut data, &redact);
/// let blanked = serde_json::json!({
///     "user": "ada", "password": "[redacted]", "said": ["token=[redacted]"], "attempts": 3
/// });
/// assert_eq!(data, blanked);
/// ```
pub fn redact_json(value: &mut Value, redact: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = redact(text),
        Value::Array(values) => values.iter_mut().for_each(|value| redact_json(value, redact)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_secret_field(name) { blank_texts(value) } else { redact_json(value, redact) }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Blanks every text, however deep. A number under such a name counts something more often than it is a secret.
fn blank_texts(value: &mut Value) {
    match value {
        Value::String(text) if !text.is_empty() => *value = BLANK.into(),
        Value::Array(values) => values.iter_mut().for_each(blank_texts),
        Value::Object(fields) => fields.values_mut().for_each(blank_texts),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether the name of a field speaks of a secret. Without the pattern every name does: a test compiles it.
pub(crate) fn is_secret_field(name: &str) -> bool {
    SECRET_FIELD.as_ref().is_none_or(|pattern| pattern.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D7: a value is found by itself, inside a line, in JSON and in an address.
    #[test]
    fn a_known_value_is_blanked_wherever_it_stands() {
        let known = KnownSecrets::of_variables([
            ("DB_PASSWORD", "p\"w d/1+2"),
            ("DATABASE_URL", "postgres://app:Hunter2Hunter2@db/x"),
            ("REDRIVE_KEY", "k1 MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
        ]);
        for text in [
            "said p\"w d/1+2!",
            r#"{"x":"p\"w d/1+2"}"#,
            "?q=p%22w%20d%2F1%2B2",
            "login as app with Hunter2Hunter2 failed",
            "key MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
            // base64 of "Hunter2Hunter2", "app:Hunter2Hunter2" and "xHunter2Hunter2y"
            "SHVudGVyMkh1bnRlcjI=",
            "Basic YXBwOkh1bnRlcjJIdW50ZXIy",
            "eEh1bnRlcjJIdW50ZXIyeQ",
            r#"{\"x\":\"p\\\"w d/1+2\"}"#,
        ] {
            let masked = known.mask(text);
            assert!(masked.contains(BLANK), "{text} -> {masked}");
            for secret in ["w d", "Hunter2", "MDEy", "w%20d", "VudGVyMkh1bnRlcj", "1bnRlcjJIdW50ZX"] {
                assert!(!masked.contains(secret), "{text} -> {masked}");
            }
        }
        assert_eq!(format!("{known:?}"), "KnownSecrets { .. }");
    }

    /// R-D7: what holds no secret, or one that is an innocent word, blanks nothing.
    #[test]
    fn innocent_values_blank_nothing() {
        let known = KnownSecrets::of_variables([
            ("PWD", "/home/ada/work"),
            ("SSH_AUTH_SOCK", "/tmp/ssh-1/agent.1"),
            ("TLS_KEY_FILE", "/etc/ssl/server.key"),
            ("XDG_SESSION_ID", "1234567890"),
            ("POSTGRES_PASSWORD", "postgres"),
            ("API_TOKEN", "short"),
            ("HOME", "/home/ada"),
            ("PROXY_URL", "http://proxy.example:8080"),
            ("EMPTY_SECRET", ""),
        ]);
        let text = "/home/ada/work /tmp/ssh-1/agent.1 /etc/ssl/server.key 1234567890 postgres short proxy.example:8080";
        assert_eq!(known.mask(text), text);
    }

    /// R-D7: the pattern of fields compiles, and knows names from words that only hold one.
    #[test]
    fn fields_are_known_by_their_names() {
        let pattern = SECRET_FIELD.as_ref().unwrap();
        for name in
            ["password", "dbPassword", "api_key", "token", "access_token", "Authorization", "client-secret"]
        {
            assert!(pattern.is_match(name), "{name}");
        }
        for name in ["key", "author", "tokens_used", "compass", "pinned", "user"] {
            assert!(!pattern.is_match(name), "{name}");
        }
    }
}
