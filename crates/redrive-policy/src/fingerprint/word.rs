//! One ASCII word: does it stay, is it another one the next time, or does only its beginning stay?

use super::words::{KNOWN_WITH_DIGITS, REGION_AREAS, REGION_SIDES, TELLING_KEYS, VENDORS, is_one_of};

/// What becomes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Stays,
    Differs,
    /// So many bytes of it stay, what follows differs: `order-17`, `ord_9fK2`.
    Begins(usize),
}

/// No word is longer: what is, is a token of some kind.
const LONGEST: usize = 64;

/// How many bytes of a text are of a kind.
pub(super) fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !kind(c)).unwrap_or(text.len())
}

/// Reads the word at the beginning of a text.
pub(super) fn read(text: &str) -> (usize, Word) {
    let mut end = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if text.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()) && text[end..].starts_with('+')
    {
        // A version: `1.2.3+build.7`.
        end += run(&text[end..], |c| matches!(c, '+' | '.' | '-') || c.is_ascii_alphanumeric());
    }
    let word = text[..end].trim_end_matches(['-', '.']);
    (word.len(), judge(word))
}

fn judge(word: &str) -> Word {
    if word.len() > LONGEST || is_region(word) {
        return Word::Differs;
    }
    if is_vendor_code(word) {
        return Word::Stays;
    }
    if word.contains('.') {
        return dotted(word);
    }
    let mut start = 0;
    for part in word.split_inclusive(['-', '_']) {
        let bare = part.trim_end_matches(['-', '_']);
        let tail =
            start > 0 && (is_random_tail(bare) || (part.len() == word.len() - start && is_mixed(bare)));
        if differs(bare) || tail {
            // One letter is no word: `A-1002`.
            return if start <= 2 { Word::Differs } else { Word::Begins(start) };
        }
        start += part.len();
    }
    Word::Stays
}

/// `java.io.IOException` stays, `1.2.3` does not, of `web.1` only the beginning does.
fn dotted(word: &str) -> Word {
    let last = word.rsplit('.').next().unwrap_or_default();
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return Word::Differs;
    }
    if last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.len() < 40
        && !word.split('.').any(is_long_token)
    {
        return Word::Stays;
    }
    let mut start = 0;
    for label in word.split_inclusive('.') {
        if differs(label.trim_end_matches('.')) {
            return if start == 0 { Word::Differs } else { Word::Begins(start) };
        }
        start += label.len();
    }
    Word::Stays
}

/// Whether a word without separators is likely to be another one the next time.
pub(super) fn differs(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit {
        return !is_one_of(KNOWN_WITH_DIGITS, word);
    }
    (word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())) || is_random(word)
}

/// Letters that no language puts together: mixed case, and five in a row without a vowel.
fn is_random(word: &str) -> bool {
    if word.len() < 12 || !is_mixed(word) {
        return false;
    }
    let vowel = |c: char| matches!(c.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y');
    let (mut run, mut small) = (0, 0);
    for c in word.chars() {
        if vowel(c) {
            (run, small) = (0, 0);
        } else {
            run += 1;
            small += usize::from(c.is_ascii_lowercase());
        }
        if run >= 5 && small >= 2 && small < run {
            return true;
        }
    }
    false
}

/// Whether a small letter is followed by a large one somewhere.
fn is_mixed(word: &str) -> bool {
    word.len() >= 6
        && word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// The end of a name that Kubernetes made up: no vowels.
fn is_random_tail(part: &str) -> bool {
    matches!(part.len(), 5 | 8..=10) && part.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz".contains(&byte))
}

fn is_long_token(label: &str) -> bool {
    label.len() >= 16 && label.bytes().any(|byte| byte.is_ascii_digit())
}

/// `ORA-00942`, `AADSTS50011`
fn is_vendor_code(word: &str) -> bool {
    let digits =
        VENDORS.iter().find_map(|vendor| word.strip_prefix(vendor)).map(|rest| rest.trim_start_matches('-'));
    digits.is_some_and(|digits| {
        matches!(digits.len(), 3..=8) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `eu-west-1`, `us-gov-east-1a`
fn is_region(word: &str) -> bool {
    let mut parts = word.split('-');
    parts.next().is_some_and(|area| REGION_AREAS.contains(&area))
        && parts.next().is_some_and(|side| REGION_SIDES.contains(&side))
        && word.split('-').next_back().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()))
}

/// A date and a time of day as RFC 3339 writes them, with whatever may stand behind: `2026-11-15T10:53:00.5+09:00`.
pub(super) fn moment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize, many: usize| {
        bytes.get(from..from + many).is_some_and(|some| some.iter().all(u8::is_ascii_digit))
    };
    let is = |at: usize, one: &[u8]| bytes.get(at).is_some_and(|byte| one.contains(byte));
    let date = digits(0, 4) && is(4, b"-") && digits(5, 2) && is(7, b"-") && digits(8, 2);
    let clock = is(10, b"Tt_ ") && digits(11, 2) && is(13, b":") && digits(14, 2);
    if !(date && clock) {
        return None;
    }
    let mut end = 16;
    if is(end, b":") && digits(end + 1, 2) {
        end += 3;
        if is(end, b".,") && digits(end + 1, 1) {
            end += 1 + bytes[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
    }
    if is(end, b"Zz") {
        end += 1;
    } else if is(end, b"+-") && digits(end + 1, 2) {
        end += 3;
        end += usize::from(is(end, b":") && digits(end + 1, 2));
        end += if digits(end, 2) { 2 } else { 0 };
    }
    Some(end)
}

/// A token in base64, or the like: long, with a sign of it. Gives its length.
pub(super) fn blob(text: &str) -> Option<usize> {
    let end = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '.'));
    let padding = run(&text[end..], |c| c == '=').min(2);
    let token = &text[..end];
    let has = |kind: fn(&u8) -> bool| token.bytes().any(|byte| kind(&byte));
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let padded = padding > 0
        && token.len() >= 12
        && !text[end + padding..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '"');
    let is_jwt = token.starts_with("eyJ") && token.contains('.');
    let is_long = token.len() >= 20 && token.contains('+');
    let blob = token.len() >= 12 && mixed && (padded || is_jwt || is_long) && !token.contains("//");
    blob.then_some(end + padding)
}

/// Whether this may be the number or the short code of an error.
pub(super) fn may_be_code(text: &str) -> bool {
    let code = text.trim_start_matches('-');
    let digits = code.bytes().filter(u8::is_ascii_digit).count();
    let hexadecimal = code.len() <= 10 && code.starts_with("0x");
    hexadecimal
        || (digits > 0
            && code.len() <= 8
            && digits <= 6
            && code.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()))
}

/// Whether this may be the status of an answer that went wrong.
pub(super) fn may_be_status(text: &str) -> bool {
    text.len() == 3 && text.starts_with(['4', '5']) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether this may be the name of a machine without a domain.
pub(super) fn may_be_host(text: &str) -> bool {
    text.len() > 1
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte))
        && !matches!(
            text,
            "not"
                | "is"
                | "was"
                | "by"
                | "for"
                | "has"
                | "could"
                | "cannot"
                | "failed"
                | "error"
                | "unknown"
                | "unreachable"
                | "name"
                | "no"
                | "on"
                | "in"
                | "of"
                | "to"
                | "at"
                | "timed"
                | "timeout"
                | "address"
                | "information"
        )
}

/// Whether a key could be one at all.
pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@$".contains(&byte))
}

/// Whether the value of a key is a number that says which error it is.
pub(super) fn is_code_key(key: &str) -> bool {
    let bare: String = key.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    is_one_of(
        &["status", "code", "errno", "sqlstate", "errorcode", "statuscode", "httpstatus", "exitcode"],
        &bare,
    )
}

/// Whether the values of a key tell errors apart: `error_code` and `errorCode` alike.
pub(super) fn is_telling_key(key: &str) -> bool {
    let bare: String = key.chars().filter(|c| !matches!(c, '_' | '-') || key.starts_with("__")).collect();
    is_one_of(TELLING_KEYS, &bare)
}
