//! From a message as it was printed to words that can be compared.
//!
//! One pass: colour codes, markup, stack frames and names of things go; identifiers fall apart into their
//! words (`SocketTimeoutException` is "socket timeout exception"); full-width and half-width forms meet.
//! Words are separated by one space, sentences by ` | `, and `~` stands where a name or a value stood.

mod frames;
mod markup;
mod shape;
mod token;
mod width;
mod write;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::TEXT_BOUND;
use frames::{is_frame, is_quoted_statement};
use markup::{entity_end, skip_escape, skip_raw_element, tag_end};
use shape::{LOWER, kind, token_end};
use width::fold_widths;

/// A number that stood alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) value: u32,
    pub(super) digits: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What an identifier of several words may be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Name {
    /// The name of an error: its words count.
    Error,
    /// The name of a thing, a setting or a key: its words count only as a whole.
    Thing,
}

/// An enhanced mail status such as 4.7.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Enhanced {
    pub(super) class: u16,
    pub(super) subject: u16,
    pub(super) detail: u16,
    pub(super) at: usize,
    pub(super) len: usize,
}

/// A message in comparable form. The buffers are reused from one message to the next.
// The flags are notes on the text being read, independent of each other; an enum of their mixtures would hide that.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Default)]
pub(crate) struct Normal {
    text: Vec<u8>,
    /// Where identifiers of several words stand, in order, and what they are.
    names: Vec<(Range<usize>, Name)>,
    numbers: Vec<Number>,
    enhanced: Option<Enhanced>,
    sqlstate: Option<(String, usize)>,
    code_end: usize,
    last_cause: usize,
    mail: bool,
    /// The value that follows belongs to a key that names an error, so it is a word and no name.
    after_error_key: bool,
    after_python_frame: bool,
    /// The word being read is the name of an error.
    naming_error: bool,
    /// The whole text is one word.
    lone: bool,
}

/// The part of a long text that is looked at: all of it, or both ends.
pub(super) fn both_ends(text: &str) -> (&str, &str) {
    if text.len() <= TEXT_BOUND {
        return (text, "");
    }
    let mut head = TEXT_BOUND / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - TEXT_BOUND / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    (&text[..head], &text[tail..])
}

/// The text without terminal escapes, for the regular expressions of users.
pub(super) fn without_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == 0x1b {
            i = skip_escape(bytes, i);
        } else {
            let end = bytes[i..].iter().position(|byte| *byte == 0x1b).map_or(bytes.len(), |at| i + at);
            out.push_str(&text[i..end]);
            i = end;
        }
    }
    Cow::Owned(out)
}

impl Normal {
    /// Reads a code and a text. `vocabulary` holds the words that rules know.
    pub(super) fn read(&mut self, code: &str, text: (&str, &str), vocabulary: &HashSet<Vec<u8>>) {
        self.text.clear();
        self.names.clear();
        self.numbers.clear();
        self.enhanced = None;
        self.sqlstate = None;
        self.last_cause = 0;
        self.code_end = 0;
        self.mail = false;
        self.after_error_key = false;
        self.after_python_frame = false;
        self.text.push(b' ');
        if code.bytes().any(|byte| byte.is_ascii_alphabetic()) && code.len() <= 128 {
            self.naming_error = true;
            self.word(code.as_bytes());
            self.naming_error = false;
            self.sentence_end();
            self.code_end = self.text.len();
        }
        // A text that is one word is the name of its error.
        self.lone = !text.0.trim().contains(char::is_whitespace);
        self.part(text.0, Some(vocabulary));
        self.part(text.1, Some(vocabulary));
    }

    /// The needle that finds a phrase: read like any text, with a space at each end that is a word's end.
    pub(super) fn needle(&mut self, phrase: &str) -> Vec<u8> {
        self.text.clear();
        self.text.push(b' ');
        self.part(phrase, None);
        let mut needle = std::mem::take(&mut self.text);
        while needle.ends_with(b"| ") || needle.ends_with(b"|") {
            while needle.last().is_some_and(|byte| matches!(byte, b'|' | b' ')) {
                needle.pop();
            }
            needle.push(b' ');
        }
        let word_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii);
        if !word_end(needle.get(1)) {
            needle.remove(0);
        }
        if needle.len() > 1 && !word_end(needle.get(needle.len().wrapping_sub(2))) {
            needle.pop();
        }
        if needle.iter().all(|byte| *byte == b' ') { Vec::new() } else { needle }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn numbers(&self) -> &[Number] {
        &self.numbers
    }

    pub(super) fn code_end(&self) -> usize {
        self.code_end
    }

    pub(super) fn last_cause(&self) -> usize {
        self.last_cause
    }

    pub(super) fn enhanced_status(&self) -> Option<Enhanced> {
        self.enhanced
    }

    pub(super) fn sqlstate(&self) -> Option<(String, usize)> {
        self.sqlstate.clone()
    }

    /// Whether a mail server is speaking, so that its numbers are not HTTP's.
    pub(super) fn is_mail(&self) -> bool {
        self.mail || self.enhanced.is_some()
    }

    /// Whether a hit says anything where it stands: a single word not inside an identifier, words not inside
    /// the name of a thing, and a code only as a whole identifier.
    pub(super) fn counts(&self, start: usize, end: usize, single_word: bool, code: bool) -> bool {
        match self.name_around(start, end) {
            // Words that run into the name of a thing are not a phrase: "could not read timeout_ms".
            None => (!code || single_word) && !self.touches_thing(start, end),
            Some((name, kind)) => {
                if code {
                    name.start == start + 1 && name.end == end - 1
                } else {
                    !single_word && *kind == Name::Error
                }
            }
        }
    }

    fn touches_thing(&self, start: usize, end: usize) -> bool {
        let after = self.names.partition_point(|(name, _)| name.end <= start + 1);
        self.names[after..]
            .iter()
            .take_while(|(name, _)| name.start < end - 1)
            .any(|(_, kind)| *kind == Name::Thing)
    }

    /// Whether a hit stands inside an identifier.
    pub(super) fn in_name(&self, start: usize, end: usize) -> bool {
        end > self.code_end && self.name_around(start, end).is_some()
    }

    fn name_around(&self, start: usize, end: usize) -> Option<&(Range<usize>, Name)> {
        let (start, end) = (start + 1, end - 1);
        let after = self.names.partition_point(|(name, _)| name.end <= start);
        self.names.get(after).filter(|(name, _)| name.start <= start && end <= name.end)
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(&self.text[start..end.min(self.text.len())]).trim().to_owned()
    }

    /// The word before a position, without crossing a sentence.
    pub(super) fn word_before(&self, start: usize) -> &[u8] {
        let before = self.text[..start].trim_ascii_end();
        let from = before.iter().rposition(|byte| *byte == b' ').map_or(0, |at| at + 1);
        &before[from..]
    }

    /// The word after a position.
    pub(super) fn word_after(&self, end: usize) -> &[u8] {
        let after = self.text[end.min(self.text.len())..].trim_ascii_start();
        let to = after.iter().position(|byte| *byte == b' ').unwrap_or(after.len());
        &after[..to]
    }

    /// Whether "exit" or "exited" stands within a few words before.
    pub(super) fn exit_is_near(&self, start: usize) -> bool {
        let words = self.text[..start].rsplit(|byte| *byte == b' ').filter(|word| !word.is_empty());
        words.take(4).any(|word| word.starts_with(b"exit"))
    }

    fn part(&mut self, text: &str, vocabulary: Option<&HashSet<Vec<u8>>>) {
        if text.is_empty() {
            return;
        }
        let plain: Cow<'_, str> =
            if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(fold_widths(text)) };
        for line in plain.split('\n') {
            self.line(line, vocabulary);
        }
    }

    fn line(&mut self, line: &str, vocabulary: Option<&HashSet<Vec<u8>>>) {
        let trimmed = line.trim_ascii_start();
        if trimmed.is_empty() {
            return;
        }
        let indented = trimmed.len() < line.len();
        if trimmed.starts_with("File \"") && trimmed.contains(", line ") {
            self.after_python_frame = true;
            return;
        }
        if self.after_python_frame {
            if indented {
                // The source line of a frame says nothing, except where it looks into the environment.
                if trimmed.contains("os.environ") {
                    self.text.extend_from_slice(b"environ lookup | ");
                }
                return;
            }
            self.after_python_frame = false;
            self.last_cause = self.text.len();
        }
        if is_frame(trimmed) || is_quoted_statement(trimmed) {
            return;
        }
        self.scan(trimmed.as_bytes(), vocabulary);
        self.sentence_end();
    }

    fn scan(&mut self, line: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        let mut i = 0;
        while i < line.len() {
            let byte = line[i];
            match byte {
                0x1b => i = skip_escape(line, i),
                b'<' => match tag_end(line, i) {
                    Some(end) => {
                        let text_follows = end;
                        i = skip_raw_element(line, i, text_follows);
                        self.sentence_end();
                    }
                    None => i += 1,
                },
                b'[' => i = self.bracketed(line, i),
                b'&' => i = entity_end(line, i),
                b'"' | b'`' => i = self.quoted(line, i, vocabulary),
                b'\'' if i == 0 || !line[i - 1].is_ascii_alphanumeric() => {
                    i = self.quoted(line, i, vocabulary);
                }
                b';' | b'|' | b'\r' | b']' => {
                    self.sentence_end();
                    i += 1;
                }
                _ if byte >= 0x80 => {
                    let end = line[i..].iter().position(|b| *b < 0x80).map_or(line.len(), |at| i + at);
                    self.wide(&line[i..end]);
                    i = end;
                }
                _ if kind(byte) != 0 => {
                    let (end, kinds) = token_end(line, i);
                    let follows = line.get(end).copied();
                    // Most of any text is plain words: they take the short way.
                    if kinds == LOWER && !matches!(follows, Some(b'=' | b']')) {
                        self.small_word(&line[i..end]);
                    } else {
                        self.token(&line[i..end], follows, vocabulary);
                    }
                    i = end;
                }
                _ => i += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let vocabulary: HashSet<Vec<u8>> =
            ["rate", "limit", "read", "only", "failed"].iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut normal = Normal::default();
        normal.read("", (text, ""), &vocabulary);
        assert_eq!(String::from_utf8_lossy(normal.text()).trim(), expected, "{text:?}");
    }

    /// R-P3: identifiers fall apart, names of things and numbers with units are masked.
    #[test]
    fn words_stay_and_names_go() {
        check("java.net.SocketTimeoutException: Read timed out", "socket timeout exception read timed out |");
        check(
            "dial tcp 10.0.0.5:5432: connect: connection refused",
            "dial tcp ~ connect connection refused |",
        );
        check("table \"timeouts\" is locked", "table ~ is locked |");
        check("GET https://api.timeout.io/v1: 503", "get ~:// 503 |");
        check("pod api-timeout-7d9f failed", "pod ~ failed |");
        check("rate-limit reached on read-only replica", "rate limit reached on read only replica |");
        check("rate-handler failed", "~ failed |");
        check("after 10486ms", "after ~ |");
        check("ORA-01017: invalid", "ora-01017 invalid |");
        check("couldn't open 'x.txt'", "couldn't open ~ |".replace('\'', "").as_str());
        check("\u{1b}[31mError\u{1b}[0m: no", "error no |");
        check("<html><h1>502 Bad Gateway</h1></html>", "502 bad gateway |");
        check("<urlopen error timed out>", "urlopen error timed out |");
    }

    #[test]
    fn json_keys_are_names_and_error_values_are_words() {
        check(r#"{"code":"rate_limit_exceeded","user":"timeout"}"#, "code rate limit exceeded user ~ |");
    }

    #[test]
    fn widths_meet() {
        check("サーバーがﾀｲﾑｱｳﾄしました", "サバがタイムアウトしました |");
        check("ＨＴＴＰ　５０３", "http 503 |");
        check("ﾃﾞｰﾀﾍﾞｰｽ", "デタベス |");
    }

    #[test]
    fn frames_are_dropped_and_the_last_cause_is_known() {
        let mut normal = Normal::default();
        let trace =
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nKeyError: 'x'";
        normal.read("", (trace, ""), &HashSet::new());
        assert!(normal.last_cause() > 10);
        assert!(!String::from_utf8_lossy(normal.text()).contains(" g "));
    }
}
