//! What is written into the comparable form: words, numbers, masks, ends of sentences, and notes on them.

use super::{Name, Normal, Number};

impl Normal {
    /// A word in lower case; an identifier in its parts.
    pub(super) fn word(&mut self, word: &[u8]) {
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
        self.note_mail(start);
        self.text.push(b' ');
    }

    /// Some words show that a mail server is speaking.
    #[inline]
    pub(super) fn note_mail(&mut self, start: usize) {
        // The first letter spares most words the comparison.
        let word = &self.text[start..];
        self.mail |= matches!(word.first(), Some(b's' | b'l' | b'p' | b'm' | b'g'))
            && matches!(word, b"smtp" | b"smtpd" | b"lmtp" | b"postfix" | b"mailbox" | b"greylisted");
    }

    pub(super) fn lower(&mut self, word: &[u8]) {
        self.space();
        self.text.extend(word.iter().map(u8::to_ascii_lowercase));
        self.text.push(b' ');
    }

    pub(super) fn number(&mut self, digits: &[u8]) {
        self.space();
        let start = self.text.len();
        self.text.extend_from_slice(digits);
        let value = digits.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
        self.numbers.push(Number { value, digits: digits.len(), start, end: self.text.len() });
        self.text.push(b' ');
    }

    /// Characters of scripts that put no spaces between words.
    pub(super) fn wide(&mut self, characters: &[u8]) {
        if self.text.ends_with(b" ") && self.text.len() >= 2 && self.text[self.text.len() - 2] >= 0x80 {
            self.text.pop();
        }
        self.text.extend_from_slice(characters);
        self.text.push(b' ');
    }

    #[inline]
    pub(super) fn mask(&mut self) {
        self.after_error_key = false;
        if !self.text.ends_with(b"~ ") {
            self.space();
            self.text.extend_from_slice(b"~ ");
        }
    }

    /// An address is masked too, but where a host was expected it is telling.
    pub(super) fn mask_url(&mut self) {
        self.after_error_key = false;
        self.space();
        self.text.extend_from_slice(b"~:// ");
    }

    #[inline]
    pub(super) fn space(&mut self) {
        if self.text.last() != Some(&b' ') {
            self.text.push(b' ');
        }
    }

    #[inline]
    pub(super) fn sentence_end(&mut self) {
        if !self.text.ends_with(b"| ") && self.text.len() > 1 {
            self.space();
            self.text.extend_from_slice(b"| ");
        }
    }

    pub(super) fn mark_name(&mut self, start: usize) {
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

    pub(super) fn ends_with_error_key(&self, start: usize) -> bool {
        let key = self.text[start.min(self.text.len())..].trim_ascii();
        is_error_key(key) || key.ends_with(b" code") || key.ends_with(b" type")
    }

    pub(super) fn last_word(&self) -> &[u8] {
        self.word_before(self.text.len())
    }

    /// "Caused by" and "[cause]:" open what stands behind all that was read so far.
    pub(super) fn note_cause(&mut self, start: usize, token: &[u8], follows: Option<u8>) {
        let word = self.text[start.min(self.text.len())..].trim_ascii();
        let caused_by = word == b"by" && self.word_before(start) == b"caused" && token.ends_with(b":");
        let cause_key = word == b"cause" && (follows == Some(b']') || token.ends_with(b":"));
        if caused_by || cause_key {
            self.last_cause = self.text.len();
        }
    }
}

/// Keys whose value is a word about the error, even when it stands in quotes.
fn is_error_key(key: &[u8]) -> bool {
    matches!(
        key,
        b"code"
            | b"type"
            | b"error"
            | b"reason"
            | b"status"
            | b"message"
            | b"kind"
            | b"errno"
            | b"msg"
            | b"title"
            | b"detail"
            | b"exception"
            | b"err"
            | b"name"
            | b"errmsg"
            | b"description"
            | b"fault"
            | b"result"
            | b"cause"
            | b"errorcode"
            | b"error code"
            | b"code name"
            | b"error type"
            | b"error message"
            | b"faultcode"
            | b"faultstring"
            | b"summary"
            | b"errors"
            | b"body"
    )
}
