//! Secrets do not travel: what looks like one is blanked before text becomes part of a report or a message.
//!
//! By shape, not by list: pairs whose name speaks of a secret, the word after an authorization scheme,
//! credentials inside an address, options of commands, and tokens with a well-known beginning. When in doubt
//! it blanks: a message that lost a harmless word is better than one that kept a password.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// How far before a name its path is looked for.
const LONGEST_PATH: usize = 1_024;

/// What stands where a secret stood.
pub(crate) const BLANK: &str = "[redacted]";

/// Names that speak of a secret, wherever in a longer name they stand.
pub(crate) const SECRET_NAME: &str = r"(?:password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|account[_-]?key|shared[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|credential|cookie|session[_-]?id|client[_-]?assertion|signature|パスワード|暗証番号|秘密鍵)";

/// Names that speak of a secret only when they stand alone or at the end of a name.
pub(crate) const SECRET_WORD: &str = r"(?:pwd|pass|token|sig|auth|jwt|bearer|otp|pin)";

static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let value = r#"(?:\\?"(?:[^"\\\r\n]|\\[^"\r\n]|\\"[^,}\]\s])*(?:\\?"|$)|'[^'\r\n]*(?:'|$)|\[[^\]\r\n]*\]|[^\s,;&}"'\])]+)"#;
    let pair = format!(r#"(?i)([\w.-]*{SECRET_NAME}[\w-]*\\?["'`]?\s*(?:=>|[=:：])\s*){value}"#);
    let word_pair =
        format!(r#"(?i)((?:^|[\s"'`{{(?&;,_\\-]){SECRET_WORD}\\?["'`]?\s*(?:=>|[=:])\s*){value}"#);
    let option = format!(r"(?i)(--?[\w-]*(?:{SECRET_NAME}|{SECRET_WORD})[ =]+)\S+");
    let quoted = format!(r#"(?i)(\b{SECRET_NAME}\s+)["'][^"'\r\n]+["']"#);
    [
        // scheme://user:password@host; the password may hold slashes and at-signs, the last one ends it.
        (r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@?#]{0,256}):[^\s?#]{1,512}@", "${1}:[redacted]@"),
        // scheme://token@host: too long for a name.
        (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s:/@?#]{16,512}@", "${1}[redacted]@"),
        // Words that are a secret only in the query of an address.
        (r"(?i)([?&](?:key|code)=)[^\s&#\x22']+", "${1}[redacted]"),
        (r"(?i)\b(authorization|proxy-authorization)(\\?[\x22']?\s*[:=]\s*)[^\r\n,;}]+", "${1}${2}[redacted]"),
        (r"(?i)\b(bearer|basic|token|apikey)\s+[A-Za-z0-9._~+/=-]{12,}", "${1} [redacted]"),
        (pair.as_str(), "${1}[redacted]"),
        (word_pair.as_str(), "${1}[redacted]"),
        (option.as_str(), "${1}[redacted]"),
        (quoted.as_str(), "${1}[redacted]"),
        // curl -u user:password
        (r"(\s-u\s+[^\s:]+):\S+", "${1}:[redacted]"),
        // Addresses that are secrets themselves.
        (r"(https://hooks\.[\w.-]+/)\S+", "${1}[redacted]"),
        // Tokens that say what they are.
        (
            r"\b(?:sk-[A-Za-z0-9_-]{8,}|sk_(?:live|test)_[A-Za-z0-9]{6,}|rk_live_[A-Za-z0-9]{6,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{8,}|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|secret_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9+/=]{16,}|rdv_[a-z0-9]{4,}_[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
            BLANK,
        ),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", BLANK),
    ]
    .into_iter()
    // A pattern left out would let secrets through; a test compiles them all.
    .map(|(pattern, with)| match Regex::new(pattern) {
        Ok(regex) => (regex, with),
        Err(error) => panic!("a pattern of secrets does not compile: {error}"),
    })
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
        let blanked = |found: &Captures<'_>| {
            let mut blanked = String::new();
            match found.get(0) {
                Some(whole) if names_a_file(&out[..whole.start()], whole.as_str()) => {
                    blanked.push_str(whole.as_str());
                }
                _ => found.expand(with, &mut blanked),
            }
            blanked
        };
        if let Cow::Owned(changed) = pattern.replace_all(&out, blanked) {
            out = changed;
        }
    }
    out
}

/// What of the text would be blanked.
pub(crate) fn secrets_in_text(text: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    for (pattern, _) in PATTERNS.iter() {
        for found in pattern.captures_iter(text) {
            let Some(whole) = found.get(0) else { continue };
            if names_a_file(&text[..whole.start()], whole.as_str()) {
                continue;
            }
            // What stands before a secret is a group of the pattern, and what is a secret as a whole has none.
            let from = found.iter().skip(1).flatten().map(|group| group.end()).max().unwrap_or(whole.start());
            let secret = text[from..whole.end()].trim();
            let secret = secret.trim_start_matches(':').trim_end_matches('@');
            let secret = secret.trim_matches(['"', '\'', '[', ']', '\\']);
            // In a line of a shell a quote ends it, in a password it need not.
            secrets
                .extend(secret.split(['"', '\'']).next().filter(|first| *first != secret).map(str::to_owned));
            secrets.push(secret.to_owned());
        }
    }
    secrets
}

/// Whether what looks like a key is the end of a path, and what follows is said about that file:
/// `/etc/passwd: Permission denied`. Only a path from a beginning: `login/password: …` is a pair.
fn names_a_file(before: &str, found: &str) -> bool {
    let Some((_, said)) = found.split_once(':') else { return false };
    if !before.ends_with('/') {
        return false;
    }
    // No further back than a path is long: a text may hold very many names, and no blank.
    let near = &before[before.ceil_char_boundary(before.len().saturating_sub(LONGEST_PATH))..];
    let word = near.rsplit(char::is_whitespace).next().unwrap_or_default();
    if word.len() == near.len() && near.len() < before.len() {
        return false;
    }
    let path = word.trim_start_matches(['"', '\'', '`', '(', '[', '‘', '“']);
    word.ends_with('/')
        && ["/", "./", "../", "~/"].iter().any(|beginning| path.starts_with(beginning))
        && !path.starts_with("//")
        && said.starts_with(char::is_whitespace)
}

/// Lines of output with every secret blanked, also one that goes over several lines.
pub(crate) fn redact_lines(lines: &[String]) -> Vec<String> {
    redact(&lines.join("\n")).split('\n').map(str::to_owned).collect()
}

/// The one line that says most, without control characters: what a message may quote. Of a stack trace that
/// is the line of the last cause, never its header or a frame.
///
/// ```
/// use redrive_policy::one_line;
/// let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'";
/// assert_eq!(one_line(trace), "KeyError: 'x'");
/// ```
pub fn one_line(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_trace = text.contains("Traceback (most recent call last)");
    let caused = lines().rfind(|line| line.starts_with("Caused by: "));
    let line = match caused {
        Some(cause) => cause.trim_start_matches("Caused by: "),
        None if is_trace => lines().next_back().unwrap_or_default(),
        None => lines().next().unwrap_or_default(),
    };
    line.chars().filter(|c| !c.is_control() && !is_direction_mark(*c)).collect()
}

/// Marks that turn the direction of what follows, and with it what a reader believes to see.
pub(crate) fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D7, issue 8, limits: very many names without a blank between them are no work without end. Were each looked at with all
    /// that stands before it, this would go on for an hour.
    #[test]
    fn many_names_in_one_word_are_blanked_in_time() {
        let told = redact(&r#"{"password":"#.repeat(200_000));
        assert!(told.contains(BLANK));
        let told = redact(&"/password: x".repeat(100_000).replace(' ', "\u{a0}"));
        assert!(told.contains("password"));
        let far = format!("{}/password: hunter2", "/x".repeat(LONGEST_PATH));
        assert!(!redact(&far).contains("hunter2"), "a path that long is none");
    }

    /// R-T8: no secret in a message.
    #[test]
    fn secrets_are_blanked_whatever_they_stand_in() {
        assert_eq!(PATTERNS.len(), 13, "a pattern does not compile");
        for (text, secret) in [
            ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
            ("curl -H 'authorization: token 0123456789abcdef'", "0123456789abcdef"),
            (r#"{"api_key":"k-123","user":"ada"}"#, "k-123"),
            ("password=hunter2 host=db", "hunter2"),
            ("Pwd=hunter2;Server=x", "hunter2"),
            ("MYSQL_PWD=hunter2", "hunter2"),
            ("login/password: hunter2", "hunter2"),
            ("/etc/app/password=hunter2", "hunter2"),
            ("/run/password:hunter2", "hunter2"),
            ("GET /x?password: hunter2", "hunter2"),
            ("pass=hunter2", "hunter2"),
            (r#"{"token":"hunter2"}"#, "hunter2"),
            ("https://x.example/?token=hunter2&a=1", "hunter2"),
            ("AccountKey=hunter2==;", "hunter2"),
            ("X-Amz-Signature=hunter2&x=1", "hunter2"),
            ("?sv=2020&sig=hunter2%3D", "hunter2"),
            ("mysql --password hunter2 -h db", "hunter2"),
            ("curl -u user:hunter2 https://x.example", "hunter2"),
            (r#"body: {\"password\":\"hunter2\"}"#, "hunter2"),
            ("password: \"hunter2", "hunter2"),
            ("password \"hunter2\" rejected", "hunter2"),
            ("パスワード: hunter2", "hunter2"),
            ("https://hooks.example.com/services/T0/B0/hunter2", "hunter2"),
            ("postgres://u:pa/hunter2@h/db", "hunter2"),
            ("postgres://u:p@hunter2@h/db", "hunter2"),
            (r#"{"passwords":["hunter2","x"]}"#, "hunter2"),
            ("PASSWORD => hunter2", "hunter2"),
            ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
            ("DB_PASSWORD: 'p w d'", "p w d"),
            ("invalid key sk-proj-abcdefghijkl", "abcdefghijkl"),
            ("token ghp_0123456789abcdef0123", "ghp_"),
            ("https://user:pa55@example.com/x", "pa55"),
            ("https://hunter2hunter2hunter2@git.example.com/x.git", "hunter2"),
            ("https://maps.example.com/geo?key=hunter2&q=1", "hunter2"),
            ("https://x.example/callback?state=1&code=hunter2", "hunter2"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJzdWIi"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ] {
            let redacted = redact(text);
            assert!(!redacted.contains(secret) && redacted.contains("[redacted]"), "{text} -> {redacted}");
        }
        let key =
            ["-----BEGIN PRIVATE KEY-----", "MIIE", "-----END PRIVATE KEY-----", "after"].map(str::to_owned);
        assert_eq!(redact_lines(&key), ["[redacted]", "after"]);
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "the api key is invalid",
            "token expired",
            "Basic auth is required",
            "connection refused: 10.0.0.1:80",
            "https://example.com:8080/path?x=1",
            "password authentication failed for user \"app\"",
            "compass: north, bypass = on",
            "ssh://git@example.com/x.git: exit code=3, key=17",
            "/etc/passwd: cannot be executed: Permission denied (os error 13)",
            "cat: /run/secrets/db_password: No such file or directory",
            "open './conf/api_key': permission denied",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    /// R-T8: the line that is quoted is the cause, not the header of a trace, and it turns no reader around.
    #[test]
    fn one_line_is_the_one_that_says_most() {
        for (text, line) in [
            ("\n\n  first\nsecond", "first"),
            ("Error: wrapped\n\tat a\nCaused by: root\n\tat b", "root"),
            ("a\u{202e}b\u{1b}[31m", "ab[31m"),
            ("", ""),
        ] {
            assert_eq!(one_line(text), line);
        }
    }
}
