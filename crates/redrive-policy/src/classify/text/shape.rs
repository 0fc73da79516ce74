//! The shape of a token: which kinds of characters it has, whether it is a path, a code, a mail status.

/// A small letter.
pub(super) const LOWER: u16 = 1;
/// A capital letter.
pub(super) const UPPER: u16 = 2;
/// A digit.
pub(super) const DIGIT: u16 = 4;
/// `_`
pub(super) const UNDERSCORE: u16 = 8;
/// `-`
pub(super) const HYPHEN: u16 = 16;
/// `.`
pub(super) const DOT: u16 = 32;
/// `/`
pub(super) const SLASH: u16 = 64;
/// `:`
pub(super) const COLON: u16 = 128;
/// `@` and `\`: nothing that has one of them is a word.
pub(super) const NEVER_A_WORD: u16 = 256;
/// `#`, `%`, `$`, `*`: signs of a value.
pub(super) const VALUE: u16 = 512;
/// `~`, `!`, `?`, `+`
pub(super) const SIGN: u16 = 1024;

/// The kind of every character that can be part of a token; 0 for all others.
const KINDS: [u16; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0u8;
    loop {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            b'-' => HYPHEN,
            b'.' => DOT,
            b'/' => SLASH,
            b':' => COLON,
            b'@' | b'\\' => NEVER_A_WORD,
            b'#' | b'%' | b'$' | b'*' => VALUE,
            b'~' | b'!' | b'?' | b'+' => SIGN,
            _ => 0,
        };
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    kinds
};

/// The kind of a character, 0 if no token has it.
#[inline]
pub(super) fn kind(byte: u8) -> u16 {
    KINDS[usize::from(byte)]
}

/// The end of the token that starts at `from`, and all kinds of characters in it.
pub(super) fn token_end(line: &[u8], from: usize) -> (usize, u16) {
    let (mut end, mut kinds) = (from, 0);
    loop {
        for &byte in &line[end..] {
            let kind = kind(byte);
            if kind == 0 {
                break;
            }
            kinds |= kind;
            end += 1;
        }
        if end >= line.len() || !is_inner_apostrophe(line, end) {
            return (end, kinds);
        }
        end += 1;
    }
}

/// All kinds of characters in a token.
pub(super) fn kinds(token: &[u8]) -> u16 {
    token.iter().fold(0, |kinds, byte| kinds | kind(*byte))
}

/// The apostrophe of "couldn't" is part of the word.
fn is_inner_apostrophe(line: &[u8], at: usize) -> bool {
    line[at] == b'\''
        && line[at - 1].is_ascii_alphabetic()
        && line.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
        && (!line.get(at + 2).is_some_and(u8::is_ascii_alphanumeric)
            || !line.get(at + 3).is_some_and(u8::is_ascii_alphanumeric))
}

pub(super) fn trim_punctuation(token: &[u8]) -> &[u8] {
    let is_edge = |byte: &u8| !byte.is_ascii_alphanumeric();
    let start = token.iter().position(|byte| !is_edge(byte)).unwrap_or(token.len());
    let end = token.iter().rposition(|byte| !is_edge(byte)).map_or(start, |at| at + 1);
    &token[start..end]
}

pub(super) fn offset_in(outer: &[u8], inner: &[u8]) -> usize {
    outer.iter().position(u8::is_ascii_alphanumeric).filter(|_| !inner.is_empty()).unwrap_or(0)
}

pub(super) fn is_path(token: &[u8]) -> bool {
    let starts = [&b"./"[..], b"../", b"~/"].iter().any(|start| token.starts_with(start));
    let rooted = token.len() > 2 && token[0] == b'/' && token[1].is_ascii_alphanumeric();
    let drive = token.len() > 2
        && token[0].is_ascii_alphabetic()
        && token[1] == b':'
        && matches!(token[2], b'\\' | b'/');
    starts || rooted || drive
}

pub(super) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

pub(super) fn find_last(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|window| window == needle)
}

/// 4.7.1 and its like.
pub(super) fn enhanced(core: &[u8]) -> Option<(u16, u16, u16)> {
    let text = std::str::from_utf8(core).ok()?;
    let mut parts = text.split('.').map(|part| part.parse::<u16>().ok());
    let (class, subject, detail) = (parts.next()??, parts.next()??, parts.next()??);
    let short = parts.next().is_none() && core[0] != b'0' && core[1] == b'.';
    (short && matches!(class, 4 | 5) && subject < 10 && detail < 1_000).then_some((class, subject, detail))
}

/// Five characters, at least one letter among digits: 40P01, 57P03, 42S22.
pub(super) fn is_sqlstate(core: &[u8]) -> bool {
    core.len() == 5
        && core[..2].iter().all(u8::is_ascii_digit)
        && core[2..].iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        && core.iter().any(u8::is_ascii_uppercase)
}
