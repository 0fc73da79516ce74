//! Secrets do not travel: what looks like one is blanked before text becomes part of a report or a message.
//!
//! By shape, not by list: `name=value` and `name: value` pairs whose name speaks of a secret, the word after
//! an authorization scheme, credentials inside a URL, and tokens with a well-known beginning.

use std::sync::LazyLock;

use regex::Regex;

/// What stands where a secret stood.
const BLANK: &str = "[redacted]";

static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // scheme://user:password@host
        (r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@]{0,256}):[^\s/@]{1,512}@", "${1}:[redacted]@"),
        // Authorization: Bearer …, or the scheme alone
        (r"(?i)\b(authorization|proxy-authorization)(\s*[:=]\s*)[^\r\n,;}]+", "${1}${2}[redacted]"),
        (r"(?i)\b(bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{12,}", "${1} [redacted]"),
        // "api_key": "…", password=…, secret_access_key = …
        (
            r#"(?i)([\w-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|id[_-]?token|session[_-]?token|private[_-]?key|credential|cookie)[\w-]*)(["'\x60]?\s*[=:]\s*)("[^"\r\n]*"|'[^'\r\n]*'|[^\s,;&}"']+)"#,
            "${1}${2}[redacted]",
        ),
        // Tokens that say what they are.
        (
            r"\b(?:sk-[A-Za-z0-9_-]{8,}|sk_(?:live|test)_[A-Za-z0-9]{6,}|rk_live_[A-Za-z0-9]{6,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{8,}|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|secret_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9+/=]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
            BLANK,
        ),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", BLANK),
    ]
    .into_iter()
    // The patterns are constants that a test compiles; one that does not compile would fail it there.
    .filter_map(|(pattern, with)| Some((Regex::new(pattern).ok()?, with)))
    .collect()
});

/// The text with everything that looks like a secret blanked.
///
/// ```
/// use redrive_policy::redact;
/// assert_eq!(redact("postgres://app:hunter2@db/x"), "postgres://app:[redacted]@db/x");
/// ```
pub fn redact(text: &str) -> String {
    let mut out = text.to_owned();
    for (pattern, with) in PATTERNS.iter() {
        if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&out, *with) {
            out = changed;
        }
    }
    out
}

/// The first line that says something, without control characters: what a message may quote.
pub fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T8: no secret in a message.
    #[test]
    fn secrets_are_blanked_whatever_they_stand_in() {
        assert_eq!(PATTERNS.len(), 6, "a pattern does not compile");
        for (text, secret) in [
            ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
            ("curl -H 'authorization: token 0123456789abcdef'", "0123456789abcdef"),
            (r#"{"api_key":"k-123","user":"ada"}"#, "k-123"),
            ("password=hunter2 host=db", "hunter2"),
            ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
            ("DB_PASSWORD: 'p w d'", "p w d"),
            ("invalid key sk-proj-abcdefghijkl", "abcdefghijkl"),
            ("token ghp_0123456789abcdef0123", "ghp_"),
            ("https://user:pa55@example.com/x", "pa55"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJzdWIi"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ] {
            let redacted = redact(text);
            assert!(!redacted.contains(secret) && redacted.contains("[redacted]"), "{redacted}");
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "the api key is invalid",
            "token expired",
            "Basic auth is required",
            "connection refused: 10.0.0.1:80",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
