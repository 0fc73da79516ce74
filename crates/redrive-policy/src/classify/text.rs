//! From a message as it was printed to words that can be compared.
//!
//! One pass: colour codes, markup, stack frames and names of things go; identifiers fall apart into their
//! words (`SocketTimeoutException` is "socket timeout exception"); full-width and half-width forms meet.
//! Words are separated by one space, sentences by ` | `, and `~` stands where a name or a value stood.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::TEXT_BOUND;

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

/// Keys whose value is a word about the error, even when it stands in quotes.
const ERROR_KEYS: &[&[u8]] = &[
    b"code",
    b"type",
    b"error",
    b"reason",
    b"status",
    b"message",
    b"kind",
    b"errno",
    b"msg",
    b"title",
    b"detail",
    b"exception",
    b"err",
    b"name",
    b"errmsg",
    b"description",
    b"fault",
    b"result",
    b"cause",
    b"errorcode",
    b"error code",
    b"code name",
    b"error type",
    b"error message",
    b"faultcode",
    b"faultstring",
    b"summary",
    b"errors",
    b"body",
];

/// Short words that hold a longer hyphenated word together.
const JOINERS: &[&[u8]] =
    &[b"of", b"to", b"in", b"out", b"not", b"on", b"too", b"many", b"and", b"up", b"by"];

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
        let word_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii());
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
            None => !code || single_word,
            Some((name, kind)) => {
                if code {
                    name.start == start + 1 && name.end == end - 1
                } else {
                    !single_word && *kind == Name::Error
                }
            }
        }
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
        for line in plain.split(['\n', '\r']) {
            self.line(line, vocabulary);
        }
    }

    fn line(&mut self, line: &str, vocabulary: Option<&HashSet<Vec<u8>>>) {
        let trimmed = line.trim_start();
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
                b'&' => i = entity_end(line, i),
                b'"' | b'`' => i = self.quoted(line, i, vocabulary),
                b'\'' if i == 0 || !line[i - 1].is_ascii_alphanumeric() => {
                    i = self.quoted(line, i, vocabulary)
                }
                b';' | b'|' => {
                    self.sentence_end();
                    i += 1;
                }
                _ if byte >= 0x80 => {
                    let end = line[i..].iter().position(|b| *b < 0x80).map_or(line.len(), |at| i + at);
                    self.wide(&line[i..end]);
                    i = end;
                }
                _ if is_token_byte(byte) => {
                    let mut end = i + 1;
                    while end < line.len() && (is_token_byte(line[end]) || is_inner_apostrophe(line, end)) {
                        end += 1;
                    }
                    let follows = line.get(end).copied();
                    self.token(&line[i..end], follows, vocabulary);
                    i = end;
                }
                _ => i += 1,
            }
        }
    }

    /// A quotation: a name is masked; a key, a value of an error key, or a whole message is read.
    fn quoted(&mut self, line: &[u8], open: usize, vocabulary: Option<&HashSet<Vec<u8>>>) -> usize {
        let quote = line[open];
        let rest = &line[open + 1..];
        let Some(len) = rest.iter().take(300).position(|byte| *byte == quote) else { return open + 1 };
        let content = &rest[..len];
        let close = open + 1 + len + 1;
        if contains(content, b"://") && !content.iter().any(u8::is_ascii_whitespace) {
            self.mask_url();
            return close;
        }
        let path = content.iter().any(|byte| matches!(byte, b'/' | b'\\'));
        let message = content.iter().any(u8::is_ascii_whitespace) || (!content.is_ascii() && !path);
        if content.is_empty() || message {
            // Words with spaces are a message: go on reading inside.
            return open + 1;
        }
        if content.iter().any(|byte| matches!(byte, b'{' | b'<')) {
            return open + 1;
        }
        let after = line[close.min(line.len())..].trim_ascii_start();
        let is_key = after.first() == Some(&b':') && after.get(1) != Some(&b':') || after.starts_with(b"=>");
        if is_key {
            let start = self.text.len();
            self.word(content);
            self.mark_name(start);
            self.after_error_key = self.ends_with_error_key(start);
        } else if self.after_error_key || vocabulary.is_none() {
            self.token(content, None, vocabulary);
            self.after_error_key = false;
        } else {
            self.mask();
        }
        close
    }

    /// A run of characters without spaces.
    fn token(&mut self, token: &[u8], follows: Option<u8>, vocabulary: Option<&HashSet<Vec<u8>>>) {
        let core = trim_punctuation(token);
        let tail = &token[token.len().min(offset_in(token, core) + core.len())..];
        let ends_sentence = tail.iter().any(|byte| matches!(byte, b'.' | b'!' | b'?'));
        let was_after_key = std::mem::take(&mut self.after_error_key);
        self.naming_error = was_after_key || self.lone || vocabulary.is_none();
        if core.is_empty() {
            if token == b"~" && vocabulary.is_none() {
                return self.mask();
            }
            if tail == b":" || tail == b"=" {
                self.after_error_key = was_after_key;
            }
            if ends_sentence && token.len() == 1 {
                self.sentence_end();
            }
            return;
        }
        let start = self.text.len();
        self.core_token(token, core, vocabulary);
        if follows == Some(b'=') {
            // `timeout=10` names a setting; it reports nothing.
            self.mark_name(start);
        }
        if tail.first() == Some(&b':') || follows == Some(b'=') {
            self.after_error_key = self.ends_with_error_key(start);
        }
        self.note_cause(start, token, follows);
        if ends_sentence {
            self.sentence_end();
        }
    }

    fn core_token(&mut self, token: &[u8], core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        let has = |byte: u8| core.contains(&byte);
        if contains(core, b"://") {
            return self.mask_url();
        }
        if is_path(token) || token.starts_with(b"--") || has(b'@') || has(b'\\') {
            return self.mask();
        }
        if let Some(at) = find_last(core, b"::") {
            return self.core_token(&core[at + 2..], &core[at + 2..], vocabulary);
        }
        if has(b'/') {
            let mut parts = core.split(|byte| *byte == b'/');
            let (first, second, third) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next());
            if first.eq_ignore_ascii_case(b"http") {
                return self.word(b"http");
            }
            if third.is_none()
                && [first, second]
                    .iter()
                    .all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_alphabetic))
            {
                self.word(first);
                return self.word(second);
            }
            return self.mask();
        }
        if has(b':') {
            return self.with_colon(core, vocabulary);
        }
        if has(b'.') {
            return self.dotted(core, vocabulary);
        }
        if has(b'#') || has(b'%') || has(b'$') || has(b'*') {
            return self.mask();
        }
        self.plain(core, vocabulary);
    }

    /// `host:443` is a name, `status:503` is not.
    fn with_colon(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        let at = core.iter().position(|byte| *byte == b':').unwrap_or(0);
        let (left, right) = (&core[..at], &core[at + 1..]);
        let right_is_number = right.first().is_some_and(u8::is_ascii_digit);
        let speaks = [&b"status"[..], b"code", b"error", b"http", b"errno", b"statuscode"]
            .iter()
            .any(|word| left.eq_ignore_ascii_case(word));
        if right_is_number && !speaks {
            if left.iter().all(u8::is_ascii_alphabetic) && !left.is_empty() && !left.contains(&b'.') {
                // The host is masked, but a scheme in its place is telling.
                if left.eq_ignore_ascii_case(b"https") || left.eq_ignore_ascii_case(b"http") {
                    return self.word(left);
                }
            }
            return self.mask();
        }
        self.core_token(left, trim_punctuation(left), vocabulary);
        self.core_token(right, trim_punctuation(right), vocabulary);
    }

    /// A class name keeps its last part, a mail status stays, numbers and hosts are masked.
    fn dotted(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        if core.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
            if let Some((class, subject, detail)) = enhanced(core) {
                self.space();
                let at = self.text.len();
                self.text.extend_from_slice(core);
                self.text.push(b' ');
                self.enhanced.get_or_insert(Enhanced { class, subject, detail, at, len: core.len() });
                return;
            }
            return self.mask();
        }
        let at = core.iter().rposition(|byte| *byte == b'.').unwrap_or(0);
        let (first, last) = (&core[..at], &core[at + 1..]);
        let humps = last.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        if !last.first().is_some_and(u8::is_ascii_uppercase) {
            return self.mask();
        }
        // "failed.Please": a sentence without its space, and no class.
        let sentence = humps == 1
            && !first.contains(&b'.')
            && first.iter().all(u8::is_ascii_lowercase)
            && first.len() > 3
            && vocabulary.is_none_or(|words| words.contains(first));
        if sentence {
            self.plain(first, vocabulary);
            self.sentence_end();
        }
        self.plain(last, vocabulary);
    }

    /// A word, a number, a code, or a mixture that is nobody's word.
    fn plain(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        let core = trim_punctuation(core);
        if core.is_empty() {
            return;
        }
        let letters = core.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
        let digits = core.iter().filter(|byte| byte.is_ascii_digit()).count();
        if letters == 0 {
            if digits == core.len() && digits <= 6 {
                return self.number(core);
            }
            if core[0] == b'-' && digits == core.len() - 1 && digits <= 6 {
                return self.number(&core[1..]);
            }
            return self.mask();
        }
        if core.contains(&b'-') {
            return self.hyphenated(core, digits, vocabulary);
        }
        if digits > 0 {
            if self.last_word() == b"sqlstate" || is_sqlstate(core) {
                let state = String::from_utf8_lossy(core).to_ascii_uppercase();
                self.lower(core);
                self.sqlstate.get_or_insert((state, self.text.len()));
                return;
            }
            let code_like = core[0].is_ascii_uppercase() && letters <= 8 && digits >= 2;
            if code_like {
                return self.lower(core);
            }
            if letters < 4 || digits > 2 || !core[0].is_ascii_alphabetic() {
                let known = core.len() <= 16
                    && vocabulary.is_none_or(|words| words.contains(&core.to_ascii_lowercase()));
                return if known { self.lower(core) } else { self.mask() };
            }
        }
        self.word(core);
    }

    /// `rate-limit` is two words that rules know; `api-timeout-7d9f` is the name of something.
    fn hyphenated(&mut self, core: &[u8], digits: usize, vocabulary: Option<&HashSet<Vec<u8>>>) {
        let parts: Vec<&[u8]> = core.split(|byte| *byte == b'-').filter(|part| !part.is_empty()).collect();
        if digits > 0 {
            // ORA-00060, E-1001: a prefix of letters and a number is a code.
            if let [prefix, number] = parts.as_slice()
                && prefix.len() <= 5
                && prefix.iter().all(u8::is_ascii_uppercase)
                && number.iter().all(u8::is_ascii_digit)
            {
                return self.lower(core);
            }
            return self.mask();
        }
        let known = |part: &[u8]| {
            vocabulary.is_none_or(|words| {
                let lower = part.to_ascii_lowercase();
                words.contains(&lower) || part.len() == 1
            })
        };
        let joined = parts.len() < 3
            || parts[0].len() == 1
            || parts[1..parts.len() - 1].iter().any(|part| JOINERS.contains(part));
        if vocabulary.is_none() || (joined && parts.iter().all(|part| known(part))) {
            let start = self.text.len();
            for part in parts {
                self.word(part);
            }
            if vocabulary.is_some() {
                self.mark_name(start);
            }
            return;
        }
        self.mask();
    }

    /// A word in lower case; an identifier in its parts.
    fn word(&mut self, word: &[u8]) {
        self.space();
        let start = self.text.len();
        let mut parts = 0;
        let mut previous = b'_';
        for (i, &byte) in word.iter().enumerate() {
            if byte == b'\'' {
                continue;
            }
            if !byte.is_ascii_alphanumeric() {
                previous = b'_';
                continue;
            }
            let next_is_lower = word.get(i + 1).is_some_and(u8::is_ascii_lowercase);
            let hump = byte.is_ascii_uppercase()
                && (previous.is_ascii_lowercase()
                    || previous.is_ascii_digit()
                    || (previous.is_ascii_uppercase()
                        && next_is_lower
                        && word.get(i + 2).is_some_and(u8::is_ascii_lowercase)));
            if previous == b'_' || hump {
                if self.text.len() > start && self.text.last() != Some(&b' ') {
                    self.text.push(b' ');
                }
                parts += 1;
            }
            self.text.push(byte.to_ascii_lowercase());
            previous = byte;
        }
        if self.text.len() == start {
            return;
        }
        if parts > 1 {
            // snake_case is how things are named, unless a key says that this is an error.
            let thing =
                word.contains(&b'_') && !word.iter().any(u8::is_ascii_uppercase) && !self.naming_error;
            self.names.push((start..self.text.len(), if thing { Name::Thing } else { Name::Error }));
        }
        if matches!(
            &self.text[start..],
            b"smtp" | b"smtpd" | b"lmtp" | b"postfix" | b"mailbox" | b"greylisted"
        ) {
            self.mail = true;
        }
        self.text.push(b' ');
    }

    fn lower(&mut self, word: &[u8]) {
        self.space();
        self.text.extend(word.iter().map(u8::to_ascii_lowercase));
        self.text.push(b' ');
    }

    fn number(&mut self, digits: &[u8]) {
        self.space();
        let start = self.text.len();
        self.text.extend_from_slice(digits);
        let value = digits.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
        self.numbers.push(Number { value, digits: digits.len(), start, end: self.text.len() });
        self.text.push(b' ');
    }

    /// Characters of scripts that put no spaces between words.
    fn wide(&mut self, characters: &[u8]) {
        if self.text.ends_with(b" ") && self.text.len() >= 2 && self.text[self.text.len() - 2] >= 0x80 {
            self.text.pop();
        }
        self.text.extend_from_slice(characters);
        self.text.push(b' ');
    }

    fn mask(&mut self) {
        self.after_error_key = false;
        if !self.text.ends_with(b"~ ") {
            self.space();
            self.text.extend_from_slice(b"~ ");
        }
    }

    /// An address is masked too, but where a host was expected it is telling.
    fn mask_url(&mut self) {
        self.after_error_key = false;
        self.space();
        self.text.extend_from_slice(b"~:// ");
    }

    fn space(&mut self) {
        if self.text.last() != Some(&b' ') {
            self.text.push(b' ');
        }
    }

    fn sentence_end(&mut self) {
        if !self.text.ends_with(b"| ") && self.text.len() > 1 {
            self.space();
            self.text.extend_from_slice(b"| ");
        }
    }

    fn mark_name(&mut self, start: usize) {
        let end = self.text.trim_ascii_end().len();
        if end > start {
            while self.names.last().is_some_and(|(name, _)| name.start >= start) {
                self.names.pop();
            }
            // The space before the first word does not belong to the name.
            let start = start + usize::from(self.text[start] == b' ');
            self.names.push((start..end, Name::Thing));
        }
    }

    fn ends_with_error_key(&self, start: usize) -> bool {
        let key = self.text[start.min(self.text.len())..].trim_ascii();
        ERROR_KEYS.contains(&key) || key.ends_with(b" code") || key.ends_with(b" type")
    }

    fn last_word(&self) -> &[u8] {
        self.word_before(self.text.len())
    }

    /// "Caused by" and "[cause]:" open what stands behind all that was read so far.
    fn note_cause(&mut self, start: usize, token: &[u8], follows: Option<u8>) {
        let word = self.text[start.min(self.text.len())..].trim_ascii();
        let caused_by = word == b"by" && self.word_before(start) == b"caused" && token.ends_with(b":");
        let cause_key = word == b"cause" && (follows == Some(b']') || token.ends_with(b":"));
        if caused_by || cause_key {
            self.last_cause = self.text.len();
        }
    }
}

/// A line of a stack trace. It names places, not troubles.
fn is_frame(line: &str) -> bool {
    let numbered = || line.bytes().any(|byte| byte.is_ascii_digit());
    (line.starts_with("at ")
        && (line.contains('(') || line.contains(':') || line.contains('/'))
        && !line.contains(": ")
        || line.starts_with("at ")
            && (line.contains(".java:") || line.contains(".js:") || line.contains(" in /")))
        || line.starts_with("from /") && numbered()
        || line.starts_with("... ") && line.contains(" more")
        || line.starts_with("goroutine ")
        || (line.starts_with("#")
            && line[1..].starts_with(|c: char| c.is_ascii_digit())
            && line.contains(" in "))
        || line.chars().all(|c| matches!(c, '~' | '^' | ' ' | '-' | '='))
}

/// "LINE 1: SELECT …": a database shows the statement, which names things.
fn is_quoted_statement(line: &str) -> bool {
    line.strip_prefix("LINE ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || line.starts_with("[SQL: ")
        || line.starts_with("STATEMENT: ")
}

/// The end of a terminal escape that starts at `i`.
fn skip_escape(bytes: &[u8], i: usize) -> usize {
    match bytes.get(i + 1) {
        Some(b'[') => {
            let end = bytes[i + 2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map_or(bytes.len(), |at| i + 2 + at + 1)
        }
        Some(b']') => {
            let end = bytes[i + 2..].iter().position(|byte| matches!(byte, 0x07 | 0x1b));
            end.map_or(bytes.len(), |at| i + 2 + at + 1)
        }
        Some(byte) if byte.is_ascii() => i + 2,
        _ => i + 1,
    }
}

/// The end of a markup tag that starts at `i`, if it is one: `<urlopen error …>` is not.
fn tag_end(line: &[u8], i: usize) -> Option<usize> {
    let mut at = i + 1;
    match line.get(at)? {
        b'!' | b'?' => {
            let end = line[at..].iter().take(2_000).position(|byte| *byte == b'>');
            return end.map(|end| at + end + 1);
        }
        b'/' => at += 1,
        _ => {}
    }
    let name = line[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_'))
        .count();
    if name == 0 || !line[at].is_ascii_alphabetic() {
        return None;
    }
    at += name;
    let end = at + line[at..].iter().take(2_000).position(|byte| *byte == b'>')?;
    let inside = line[at..end].trim_ascii();
    // The first thing in a tag is an attribute: `<HttpError 429 when requesting /x?a=b>` has none.
    let attribute =
        inside.iter().position(|byte| matches!(byte, b'=' | b' ')).is_some_and(|at| inside[at] == b'=');
    (inside.is_empty() || inside == b"/" || attribute).then_some(end + 1)
}

/// After a `<style>` or `<script>` tag, the end of that element; else the end of the tag.
fn skip_raw_element(line: &[u8], open: usize, tag_end: usize) -> usize {
    let tag = &line[open..tag_end];
    for (name, close) in [(&b"<style"[..], &b"</style>"[..]), (b"<script", b"</script>")] {
        if tag.len() > name.len() && tag[..name.len()].eq_ignore_ascii_case(name) {
            let end =
                line[tag_end..].windows(close.len()).position(|window| window.eq_ignore_ascii_case(close));
            return end.map_or(tag_end, |at| tag_end + at + close.len());
        }
    }
    tag_end
}

/// After `&quot;` and its like; a lone ampersand is passed over.
fn entity_end(line: &[u8], i: usize) -> usize {
    let len = line[i + 1..]
        .iter()
        .take(8)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#')
        .count();
    if len > 0 && line.get(i + 1 + len) == Some(&b';') { i + len + 2 } else { i + 1 }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'-'
                | b'.'
                | b'/'
                | b':'
                | b'@'
                | b'\\'
                | b'#'
                | b'%'
                | b'$'
                | b'~'
                | b'*'
                | b'!'
                | b'?'
                | b'+'
        )
}

/// The apostrophe of "couldn't" is part of the word.
fn is_inner_apostrophe(line: &[u8], at: usize) -> bool {
    line[at] == b'\''
        && line[at - 1].is_ascii_alphabetic()
        && line.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
        && (!line.get(at + 2).is_some_and(u8::is_ascii_alphanumeric)
            || !line.get(at + 3).is_some_and(u8::is_ascii_alphanumeric))
}

fn trim_punctuation(token: &[u8]) -> &[u8] {
    let is_edge = |byte: &u8| !byte.is_ascii_alphanumeric();
    let start = token.iter().position(|byte| !is_edge(byte)).unwrap_or(token.len());
    let end = token.iter().rposition(|byte| !is_edge(byte)).map_or(start, |at| at + 1);
    &token[start..end]
}

fn offset_in(outer: &[u8], inner: &[u8]) -> usize {
    outer.iter().position(u8::is_ascii_alphanumeric).filter(|_| !inner.is_empty()).unwrap_or(0)
}

fn is_path(token: &[u8]) -> bool {
    let starts = [&b"./"[..], b"../", b"~/"].iter().any(|start| token.starts_with(start));
    let rooted = token.len() > 2 && token[0] == b'/' && token[1].is_ascii_alphanumeric();
    let drive = token.len() > 2
        && token[0].is_ascii_alphabetic()
        && token[1] == b':'
        && matches!(token[2], b'\\' | b'/');
    starts || rooted || drive
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn find_last(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|window| window == needle)
}

/// 4.7.1 and its like.
fn enhanced(core: &[u8]) -> Option<(u16, u16, u16)> {
    let text = std::str::from_utf8(core).ok()?;
    let mut parts = text.split('.').map(|part| part.parse::<u16>().ok());
    let (class, subject, detail) = (parts.next()??, parts.next()??, parts.next()??);
    let short = parts.next().is_none() && core[0] != b'0' && core[1] == b'.';
    (short && matches!(class, 4 | 5) && subject < 10 && detail < 1_000).then_some((class, subject, detail))
}

/// Five characters, at least one letter among digits: 40P01, 57P03, 42S22.
fn is_sqlstate(core: &[u8]) -> bool {
    core.len() == 5
        && core[..2].iter().all(u8::is_ascii_digit)
        && core[2..].iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        && core.iter().any(u8::is_ascii_uppercase)
}

/// Full-width letters become narrow, half-width kana become wide, the long-vowel mark goes (サーバー is
/// サーバ), and punctuation of the East becomes that of the West.
fn fold_widths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{ff01}'..='\u{ff5e}' => out.push(char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c)),
            '\u{3000}' | '\u{a0}' => out.push(' '),
            'ー' | '\u{ff70}' | '\u{200b}' | '\u{feff}' => {}
            '。' | '｡' => out.push_str(". "),
            '、' | '､' | '・' | '「' | '」' | '『' | '』' | '【' | '】' | '“' | '”' | '…' => {
                out.push(' ')
            }
            '\'' | '’' | '‘' => out.push('\''),
            '─'..='╿' | '•' => out.push(' '),
            '\u{ff9e}' | '\u{ff9f}' => voice(&mut out, c),
            '\u{ff66}'..='\u{ff9d}' => out.push(wide_kana(c)),
            _ => out.push(c),
        }
    }
    out
}

/// The wide form of a half-width katakana.
fn wide_kana(c: char) -> char {
    const WIDE: &str = "ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン";
    let at = usize::try_from(u32::from(c) - 0xff66).unwrap_or_default();
    WIDE.chars().nth(at).unwrap_or(c)
}

/// Joins a half-width voicing mark to the kana before it.
fn voice(out: &mut String, mark: char) {
    let Some(last) = out.pop() else { return };
    let step = if mark == '\u{ff9e}' { 1 } else { 2 };
    let voiced = match last {
        'カ'..='ト' | 'ハ'..='ホ' => char::from_u32(u32::from(last) + step),
        'ウ' if step == 1 => Some('ヴ'),
        _ => None,
    };
    out.push(voiced.unwrap_or(last));
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
