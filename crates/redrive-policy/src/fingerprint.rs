//! What failures of one kind share, so that two thousand failures are three errors (R-D10).
//!
//! A fingerprint is made from the cause, the status or code, and the words with everything taken out that differs from
//! one occurrence to the next: numbers, ids, times, hosts, quoted values, files. It is written with each failure, so it
//! must not depend on the machine, the language or the process.

mod scan;
mod telling;
mod tidy;
mod url;
mod word;
mod words;

use std::fmt::Write;

use crate::failure::{Code, Failure};
use scan::Token;

/// Words beyond this many characters do not tell errors apart.
const COMPARED: usize = 400;
/// Taking out what differs is done again until nothing changes; it is stable after two rounds.
const ROUNDS: usize = 6;

/// The fingerprint of a failure with these words: sixteen hexadecimal digits.
///
/// ```
/// use redrive_policy::{Cause, Failure, fingerprint};
///
/// let failure = Failure::of(Cause::Network);
/// let one = fingerprint(&failure, "connect to 10.0.0.7:5432 refused after 31 ms (request 8f1c2e)");
/// let two = fingerprint(&failure, "connect to db-3.example.com:5432 refused after 1.2 s (request 00ab41)");
/// assert_eq!(one, two);
/// assert_ne!(one, fingerprint(&failure, "connection reset by peer"));
/// ```
pub fn fingerprint(failure: &Failure, words: &str) -> String {
    let mut hash = Fnv::new();
    hash.text(failure.cause.name());
    hash.text(&failure.http_status.map(|status| status.to_string()).unwrap_or_default());
    hash.text(failure.code.as_ref().map(Code::as_str).unwrap_or_default());
    hash.text(&compared(&skeleton(words)));
    hash.hex()
}

/// The pattern that occurrences of one error share, as the title of their group: the line that tells what went wrong,
/// with `#`, `<host>`, `<path>`, `<url>`, `<mail>` and `<…>` for what differs.
///
/// ```
/// use redrive_policy::skeleton;
///
/// assert_eq!(
///     skeleton("GET https://api-7.example.com/orders/1812/items: 503 after 2.5s"),
///     "GET <url>/orders/#/items: 503 after #"
/// );
/// assert_eq!(skeleton("relation \"users\" does not exist"), "relation <…> does not exist");
/// ```
pub fn skeleton(words: &str) -> String {
    let mut pattern = pattern(&normal(&telling::telling(words)));
    if pattern.is_empty() {
        // Nothing but tags: they are better than nothing.
        let untagged: String =
            words.chars().take(COMPARED).map(|c| if matches!(c, '<' | '>') { ' ' } else { c }).collect();
        pattern = self::pattern(&normal(&untagged));
    }
    for _ in 0..ROUNDS {
        let again = self::pattern(&pattern);
        if again == pattern {
            break;
        }
        pattern = again;
    }
    pattern
}

/// What of a pattern is compared: neither case nor the blanks beside marks and Japanese, which programs set as they like.
fn compared(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().flat_map(char::to_lowercase).peekable();
    while let Some(c) = chars.next() {
        let is_word = |c: char| c.is_ascii_alphanumeric();
        let apart = c == ' ' && !(out.ends_with(is_word) && chars.peek().is_some_and(|next| is_word(*next)));
        if !apart {
            out.push(c);
        }
    }
    out
}

/// One round.
fn pattern(line: &str) -> String {
    let tokens = tidy::tidy(scan::scan(line));
    // A text that is one quotation says all it says inside of it.
    let is_word = |token: &Token| matches!(token, Token::Word(word) if word.len() > 1);
    if !tokens.iter().any(is_word) && line.chars().any(char::is_alphabetic) {
        let unquoted: String = line.chars().filter(|c| !"\"'`“”「」『』".contains(*c)).collect();
        if unquoted.len() < line.len() {
            return written(&tidy::tidy(scan::scan(&unquoted)));
        }
    }
    written(&tokens)
}

/// The tokens as text, cut where they no longer count.
fn written(tokens: &[Token]) -> String {
    let mut out = String::new();
    let mut chars = 0;
    for token in tokens {
        let from = out.len();
        match token {
            Token::Word(word) => out.push_str(word),
            Token::Number => out.push('#'),
            Token::Host => out.push_str("<host>"),
            Token::Path(None) => out.push_str("<path>"),
            Token::Path(Some(end)) => {
                let _ = write!(out, "<path>.{end}");
            }
            Token::Mail => out.push_str("<mail>"),
            Token::Url => out.push_str("<url>"),
            Token::Value => out.push_str("<…>"),
            Token::Mark(mark) => out.push(*mark),
            Token::Space => out.push(' '),
        }
        chars += out[from..].chars().count();
        if chars > COMPARED {
            // A word of Japanese is a whole sentence: it is cut, everything else is left out.
            if matches!(token, Token::Word(word) if !word.is_ascii()) {
                let end = out.char_indices().nth(COMPARED).map_or(out.len(), |(at, _)| at);
                out.truncate(end);
            } else {
                out.truncate(from);
            }
            break;
        }
    }
    out.trim().trim_end_matches(['.', ',', ';', ':', '!', '。', '、', '…', ' ']).to_owned()
}

/// Without colours and what cannot be seen; full-width signs as the ASCII that they stand for.
fn normal(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                    chars.next_if(|c| matches!(c, '@'..='~'));
                }
            }
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{ad}' => {}
            '\u{3000}' => out.push(' '),
            '\u{ff01}'..='\u{ff5e}' => {
                out.push(char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
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
        assert_eq!(skeleton(one), skeleton(two));
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
        for time in ["2026-11-15 10:53:00", "2026-11-15T10:53:00.123+09:00", "2025-01-02T00:00Z"] {
            check_same("failed at 2026-11-15T10:53:00Z on node", &format!("failed at {time} on node"));
        }
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
