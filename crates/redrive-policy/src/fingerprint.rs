//! What failures of one kind share, so that two thousand failures are three errors (R-D10).
//!
//! A fingerprint is made from the cause, the status or code, and the words with everything taken out that differs from
//! one occurrence to the next: numbers, ids, times, quoted values, addresses. It is written with each failure, so it
//! must not depend on the machine, the language or the process.

use crate::failure::{Code, Failure};

/// Words beyond this many characters do not tell errors apart.
const COMPARED: usize = 400;

/// The fingerprint of a failure with these words: sixteen hexadecimal digits.
///
/// ```
/// use redrive_policy::{Cause, Failure, fingerprint};
///
/// let failure = Failure::of(Cause::Network);
/// let one = fingerprint(&failure, "connect to 10.0.0.7:5432 refused after 31 ms (request 8f1c2e)");
/// let two = fingerprint(&failure, "connect to 10.0.0.9:5432 refused after 7 ms (request 00ab41)");
/// assert_eq!(one, two);
/// assert_ne!(one, fingerprint(&failure, "connection reset by peer"));
/// ```
pub fn fingerprint(failure: &Failure, words: &str) -> String {
    let mut hash = Fnv::new();
    hash.text(failure.cause.name());
    hash.text(&failure.http_status.map(|status| status.to_string()).unwrap_or_default());
    hash.text(failure.code.as_ref().map(Code::as_str).unwrap_or_default());
    hash.text(&skeleton(telling_line(words)));
    hash.hex()
}

/// The line that says what went wrong: the last one that is no stack frame. Programs print their progress first.
fn telling_line(words: &str) -> &str {
    let is_frame = |line: &str| {
        line.starts_with([' ', '\t']) || line.starts_with("at ") || line.starts_with("goroutine ")
    };
    let lines = || words.lines().filter(|line| !line.trim().is_empty());
    lines().rfind(|line| !is_frame(line)).or_else(|| lines().next_back()).unwrap_or_default().trim()
}

/// The words without what differs from one occurrence to the next.
fn skeleton(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(closing) = closing_quote(first, &out)
            && let Some(end) = rest[first.len_utf8()..].find(closing)
        {
            out.push_str("<…>");
            rest = &rest[first.len_utf8() + end + closing.len_utf8()..];
        } else if first.is_alphanumeric() {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if differs(word) {
                out.push('#');
            } else {
                out.extend(word.chars().flat_map(char::to_lowercase));
            }
            rest = after;
        } else {
            // Runs of blanks count as one, and numbers glued by punctuation as one number.
            let repeats = (first.is_whitespace() && out.ends_with(' '))
                || (matches!(first, '.' | ':' | '-' | ',' | '/') && out.ends_with('#'));
            if !repeats {
                out.push(if first.is_whitespace() { ' ' } else { first });
            }
            rest = &rest[first.len_utf8()..];
        }
        while out.ends_with("##") {
            out.pop();
        }
    }
    out.chars().take(COMPARED).collect()
}

/// The mark that ends a quotation which begins here. An apostrophe inside a word begins none.
fn closing_quote(first: char, before: &str) -> Option<char> {
    match first {
        '"' | '`' => Some(first),
        '\'' if !before.ends_with(char::is_alphanumeric) => Some('\''),
        '“' => Some('”'),
        '「' => Some('」'),
        '『' => Some('』'),
        _ => None,
    }
}

/// Whether a word is likely to be another one the next time: it has a digit, or is long and hexadecimal.
fn differs(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_digit())
        || (word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// FNV-1a with 64 bits: the same on every machine and in every version.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) const fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Enters a text and its end, so that two texts are not one.
    pub(crate) fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use proptest::prelude::*;

    fn check_same(one: &str, two: &str) {
        let failure = Failure::of(Cause::ApiError);
        assert_eq!(skeleton(telling_line(one)), skeleton(telling_line(two)));
        assert_eq!(fingerprint(&failure, one), fingerprint(&failure, two));
    }

    fn check_apart(one: &str, two: &str) {
        let failure = Failure::of(Cause::ApiError);
        assert_ne!(fingerprint(&failure, one), fingerprint(&failure, two), "{one} / {two}");
    }

    /// R-D10: what differs from one occurrence to the next does not count.
    #[test]
    fn occurrences_of_one_error_are_one() {
        check_same("timeout after 30.5s", "timeout after 7.25s");
        check_same("order 1234 not found", "order 99 not found");
        check_same(
            "key 550e8400-e29b-41d4-a716-446655440000 taken",
            "key 6ba7b810-9dad-11d1-80b4-00c04fd430c8 taken",
        );
        check_same("no user \"alice\"", "no user \"bob smith\"");
        check_same("2026-11-15T11:03:32Z upstream closed", "2025-01-02T00:00:00Z upstream closed");
        check_same("ファイル「a.txt」が見つかりません", "ファイル「b.txt」が見つかりません");
        check_same("Traceback\n  File \"x.py\", line 3\nKeyError: 'id'", "step 1\nstep 2\nKeyError: 'name'");
        check_same(
            "java.io.IOException: reset\n\tat a.B.c(B.java:1)",
            "java.io.IOException: reset\n\tat d.E.f(E.java:9)",
        );
    }

    /// R-D10: errors that mean something else stay apart.
    #[test]
    fn different_errors_stay_apart() {
        check_apart("connection refused", "connection reset by peer");
        check_apart("can't open the file", "can't open the socket");
        check_apart("order 1 not found", "invoice 1 not found");
        let words = "upstream said no";
        let with_status = Failure { http_status: Some(503), ..Failure::of(Cause::ApiError) };
        assert_ne!(fingerprint(&with_status, words), fingerprint(&Failure::of(Cause::ApiError), words));
        assert_ne!(
            fingerprint(&Failure::of(Cause::Network), words),
            fingerprint(&Failure::of(Cause::Timeout), words)
        );
    }

    /// It is stored: a change would take every group apart.
    #[test]
    fn the_value_is_fixed() {
        assert_eq!(fingerprint(&Failure::of(Cause::Network), "connection refused"), FIXED);
    }
    const FIXED: &str = "9012f945108ff211";

    proptest! {
        #[test]
        fn no_words_panic(words in "(?s).{0,200}") {
            prop_assert_eq!(fingerprint(&Failure::of(Cause::Unknown), &words).len(), 16);
        }

        #[test]
        fn numbers_never_tell_apart(a in 0_u64.., b in 0_u64.., prefix in "[a-z ]{0,20}") {
            let failure = Failure::of(Cause::Unknown);
            let words = |n: u64| format!("{prefix} {n} items");
            prop_assert_eq!(fingerprint(&failure, &words(a)), fingerprint(&failure, &words(b)));
        }
    }
}
