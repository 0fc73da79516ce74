//! From tokens to words: what a run of characters without spaces is — a word, an identifier, a number, a code, a
//! path, an address — and whether it says anything about the failure or only names a thing.

use std::collections::HashSet;

use super::shape::{
    COLON, DIGIT, DOT, HYPHEN, LOWER, NEVER_A_WORD, SLASH, UPPER, VALUE, contains, enhanced, find_last,
    is_path, is_sqlstate, kinds, offset_in, trim_punctuation,
};
use super::{Enhanced, Normal};

/// Short words that hold a longer hyphenated word together.
const JOINERS: &[&[u8]] =
    &[b"of", b"to", b"in", b"out", b"not", b"on", b"too", b"many", b"and", b"up", b"by"];

/// A label in brackets is no longer than this.
const MAX_LABEL: usize = 40;

/// Longer tokens are masked as a whole.
const MAX_TOKEN: usize = 256;

impl Normal {
    /// A quotation: a name is masked; a key, a value of an error key, or a whole message is read.
    pub(super) fn quoted(
        &mut self,
        line: &[u8],
        open: usize,
        vocabulary: Option<&HashSet<Vec<u8>>>,
    ) -> usize {
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

    /// `[timeout]` is a label: the name of a target, a logger, a section.
    pub(super) fn bracketed(&mut self, line: &[u8], open: usize) -> usize {
        let inside = &line[open + 1..];
        let len = inside.iter().take(MAX_LABEL).take_while(|byte| byte.is_ascii_lowercase()).count();
        if len == 0 || inside.get(len) != Some(&b']') {
            return open + 1;
        }
        let start = self.text.len();
        self.word(&inside[..len]);
        self.mark_name(start);
        self.sentence_end();
        open + len + 2
    }

    /// A word in small letters, the most common token of all.
    pub(super) fn small_word(&mut self, word: &[u8]) {
        self.after_error_key = false;
        self.space();
        let start = self.text.len();
        if word.contains(&b'\'') {
            self.text.extend(word.iter().filter(|byte| **byte != b'\''));
        } else {
            self.text.extend_from_slice(word);
        }
        self.note_mail(start);
        self.text.push(b' ');
    }

    /// A run of characters without spaces.
    pub(super) fn token(&mut self, token: &[u8], follows: Option<u8>, vocabulary: Option<&HashSet<Vec<u8>>>) {
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

    pub(super) fn core_token(&mut self, token: &[u8], core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        // Nothing that long is a word, and reading it in parts would cost its square.
        if core.len() > MAX_TOKEN {
            return self.mask();
        }
        let kinds = kinds(core);
        let has = |kind: u16| kinds & kind != 0;
        if has(COLON) && contains(core, b"://") {
            return self.mask_url();
        }
        if is_path(token) || token.starts_with(b"--") || has(NEVER_A_WORD) {
            return self.mask();
        }
        if has(COLON)
            && let Some(at) = find_last(core, b"::")
        {
            return self.core_token(&core[at + 2..], &core[at + 2..], vocabulary);
        }
        if has(SLASH) {
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
        if has(COLON) {
            return self.with_colon(core, vocabulary);
        }
        if has(DOT) {
            return self.dotted(core, vocabulary);
        }
        if has(VALUE) {
            return self.mask();
        }
        self.plain(core, vocabulary);
    }

    /// `host:443` is a name, `status:503` is not.
    pub(super) fn with_colon(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
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
    pub(super) fn dotted(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
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
        // `socket.gaierror`, `zlib.error`: some errors are not written like classes.
        if [&b"error"[..], b"exception", b"timeout"].iter().any(|end| last.ends_with(end)) {
            return self.plain(last, vocabulary);
        }
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
    pub(super) fn plain(&mut self, core: &[u8], vocabulary: Option<&HashSet<Vec<u8>>>) {
        let core = trim_punctuation(core);
        if core.is_empty() {
            return;
        }
        let kinds = kinds(core);
        if kinds & (DIGIT | HYPHEN) == 0 {
            return self.word(core);
        }
        let letters = core.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
        let digits = core.iter().filter(|byte| byte.is_ascii_digit()).count();
        if kinds & (LOWER | UPPER) == 0 {
            if digits == core.len() && digits <= 6 {
                return self.number(core);
            }
            if core[0] == b'-' && digits == core.len() - 1 && digits <= 6 {
                return self.number(&core[1..]);
            }
            return self.mask();
        }
        if kinds & HYPHEN != 0 {
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
                let known = vocabulary.is_none_or(|words| knows(words, core));
                return if known { self.lower(core) } else { self.mask() };
            }
        }
        self.word(core);
    }

    /// `rate-limit` is two words that rules know; `api-timeout-7d9f` is the name of something.
    pub(super) fn hyphenated(&mut self, core: &[u8], digits: usize, vocabulary: Option<&HashSet<Vec<u8>>>) {
        let parts = || core.split(|byte| *byte == b'-').filter(|part| !part.is_empty());
        let count = parts().count();
        if digits > 0 {
            // ORA-00060, E-1001: a prefix of letters and a number is a code.
            let mut both = parts();
            if let (2, Some(prefix), Some(number)) = (count, both.next(), both.next())
                && prefix.len() <= 5
                && prefix.iter().all(u8::is_ascii_uppercase)
                && number.iter().all(u8::is_ascii_digit)
            {
                return self.lower(core);
            }
            return self.mask();
        }
        let Some(vocabulary) = vocabulary else {
            return parts().for_each(|part| self.word(part));
        };
        let joined = count < 3
            || parts().next().is_some_and(|part| part.len() == 1)
            || parts().skip(1).take(count - 2).any(|part| JOINERS.contains(&part));
        if joined && parts().all(|part| part.len() == 1 || knows(vocabulary, part)) {
            let start = self.text.len();
            parts().for_each(|part| self.word(part));
            return self.mark_name(start);
        }
        self.mask();
    }
}

/// Whether rules know the word, whatever its case.
fn knows(vocabulary: &HashSet<Vec<u8>>, word: &[u8]) -> bool {
    let mut lower = [0u8; 32];
    lower.get_mut(..word.len()).is_some_and(|lower| {
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        vocabulary.contains(&*lower)
    })
}
