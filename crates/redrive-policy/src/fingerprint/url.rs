//! Places: hosts, addresses, URLs, mailboxes and files. Each function says how long the thing at the beginning of a text is.

use super::scan::Token;
use super::word::{is_telling_key, run};
use super::words::{BEFORE_A_CODE, EXTENSIONS, HOST_ENDS, MONTHS, UNITS, is_one_of};

/// The scheme, the user and the host of a URL: `https://ada:secret@api-7.example.com:8443`.
pub(super) fn scheme_and_host(text: &str) -> Option<usize> {
    let scheme = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !(2..=16).contains(&scheme) || !text[scheme..].starts_with("://") {
        return None;
    }
    let host = &text[scheme + 3..];
    Some(
        scheme
            + 3
            + run(host, |c| !c.is_whitespace() && !"/?\"'`<>(){},;|\\「」".contains(c)).min(host.len()),
    )
    .map(|end| end - trailing(&text[..end]))
}

/// What is still a part of a route.
pub(super) fn route_length(text: &str) -> usize {
    let end = run(text, |c| {
        !c.is_whitespace() && !"\"'`<>(){},;|\\「」".contains(c) && (c.is_ascii() || c.is_alphanumeric())
    });
    let end = if text.starts_with(['/', '?']) { end } else { 0 };
    end - trailing(&text[..end])
}

/// Marks that end a sentence, not a URL.
fn trailing(text: &str) -> usize {
    text.len() - text.trim_end_matches(['.', ':', '!', ']', '*']).len()
}

/// A mailbox: `ada@example.com`.
pub(super) fn mail(text: &str) -> Option<usize> {
    let local = run(text, |c| c.is_ascii_alphanumeric() || "._%+-".contains(c));
    let domain = text[local..].strip_prefix('@')?;
    let length = run(domain, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let name = domain[..length].trim_end_matches(['.', '-']);
    let hexadecimal = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!name.is_empty() && !hexadecimal && !name.starts_with(|c: char| c.is_ascii_digit()))
        .then_some(local + 1 + name.len())
}

/// A host with its port, if it has one: an address of IPv4, a name with a known end, or a word before a port.
pub(super) fn host_and_port(text: &str) -> Option<usize> {
    let length = run(text, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let name = text[..length].trim_end_matches(['.', '-']);
    let port = port(&text[name.len()..]);
    let labels = name.split('.').count();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_address = labels == 4
        && name
            .split('.')
            .all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    let lower = !name.bytes().any(|byte| byte.is_ascii_uppercase())
        || name.bytes().all(|byte| !byte.is_ascii_lowercase());
    let country = last.len() == 2
        && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !is_one_of(EXTENSIONS, last);
    let is_name = labels >= 2
        && lower
        && name.split('.').all(|label| !label.is_empty())
        && (is_one_of(HOST_ENDS, last) || (country && labels >= 2 && !matches!(last, "eg" | "ie")));
    let letters = name.bytes().any(|byte| byte.is_ascii_alphabetic());
    let before_port = port.is_some_and(|port| port >= 3) && letters && lower && !is_one_of(EXTENSIONS, last);
    // `code:17` is no place, and neither is the time in `orders-3:120 ms`.
    let after = &text[name.len() + port.unwrap_or(0)..];
    let timed = after
        .strip_prefix(' ')
        .is_some_and(|unit| is_one_of(UNITS, &unit[..run(unit, |c| c.is_ascii_alphabetic())]));
    let before_port = before_port && !timed && !is_telling_key(name) && !is_one_of(BEFORE_A_CODE, name);
    let is_host = is_address || is_name || before_port || name == "localhost";
    (is_host && !name.is_empty()).then(|| name.len() + port.unwrap_or(0))
}

/// `:5432`, and nothing more that looks like a time or a place in a file.
fn port(text: &str) -> Option<usize> {
    let digits = text.strip_prefix(':')?;
    let length = run(digits, |c| c.is_ascii_digit());
    let more = digits[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (matches!(length, 1..=5) && !more).then_some(length + 1)
}

/// An address of IPv6, in brackets or not, with its port: it has a digit, and two colons at least.
pub(super) fn ipv6(text: &str) -> Option<usize> {
    let bracketed = text.starts_with('[');
    let inner = if bracketed { &text[1..] } else { text };
    let length = run(inner, |c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    let address = inner[..length].trim_end_matches('.');
    let address = if address.ends_with("::") { address } else { address.trim_end_matches(':') };
    let groups = address.split(':');
    let sound = address.matches(':').count() >= 2
        && groups.clone().count() <= 9
        && groups.clone().all(|group| group.len() <= 4 || group.contains('.'))
        && address.bytes().any(|byte| byte.is_ascii_digit())
        && (address.contains("::") || groups.count() == 8);
    if !sound {
        return None;
    }
    let mut end = usize::from(bracketed) + address.len();
    if text[end..].starts_with('%') {
        end += 1 + run(&text[end + 1..], |c| c.is_ascii_alphanumeric());
    }
    if bracketed {
        if !text[end..].starts_with(']') {
            return None;
        }
        end += 1;
        end += port(&text[end..]).unwrap_or(0);
    } else if text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    Some(end)
}

/// The time and the host that a line of syslog begins with: `Nov 15 12:03:01 web-3 `.
pub(super) fn syslog(text: &str) -> Option<usize> {
    let month = text.get(..3).filter(|month| is_one_of(MONTHS, month))?;
    let mut fields = text[month.len()..].split_whitespace();
    let is_day = |day: &str| matches!(day.len(), 1..=2) && day.bytes().all(|byte| byte.is_ascii_digit());
    let is_clock = |clock: &str| {
        clock.matches(':').count() == 2 && clock.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    };
    fields.next().filter(|day| is_day(day))?;
    let clock = fields.next().filter(|clock| is_clock(clock))?;
    let host = fields.next()?;
    let at = text.find(clock)? + clock.len();
    Some(at + text[at..].find(host)? + host.len()).filter(|_| !host.ends_with(':'))
}

const fn in_path(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '-' | '.' | '/' | '@' | '+' | '~' | '%' | '#' | '=' | '$')
        || !c.is_ascii()
}

/// A path of Unix from its beginning, and the end of the name.
pub(super) fn path(text: &str) -> Option<(usize, Option<String>)> {
    let begin = ["/", "~/", "./", "../", "\\\\"].into_iter().find(|begin| text.starts_with(begin))?;
    let windows = begin == "\\\\";
    let inside = |c: char| {
        !c.is_whitespace() && (in_path(c) && (c.is_ascii() || c.is_alphanumeric()) || (windows && c == '\\'))
    };
    let length = run(text, inside);
    let name = text[..length].trim_end_matches(['.', '=']);
    let has_letters = name[begin.len().min(name.len())..]
        .bytes()
        .any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    has_letters.then(|| ended(text, name.len()))
}

/// `src/main.rs:10:5`: a path without a beginning is one when its name has a known end.
pub(super) fn relative_path(text: &str) -> Option<(usize, Option<String>)> {
    let length = run(text, |c| c.is_ascii() && in_path(c));
    let name = text[..length].trim_end_matches(['.', '/', '=']);
    let end = extension(name)?;
    // `tokio.rs` may be a crate and `node.js` a program, but a name before a line number is a file.
    let _ = end;
    (!name.contains("//")).then(|| ended(text, name.len()))
}

/// `C:\Users\ada\x.csv`, and what a blank in such a path has cut off.
pub(super) fn windows_path(text: &str, before: Option<&Token>) -> Option<(usize, Option<String>)> {
    let inside = |c: char| in_path(c) || c == '\\';
    let bytes = text.as_bytes();
    let drive = bytes.len() > 3
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/');
    if drive {
        let length = 2 + run(&text[2..], inside);
        return Some(ended(text, text[..length].trim_end_matches(['.', '\\']).len()));
    }
    let length = run(text, inside);
    let goes_on =
        matches!(before, Some(Token::Space)) && text[..length].trim_end_matches('\\').contains('\\');
    let shape = text[..length].split('\\').all(|part| part.len() > 1);
    (goes_on && shape && extension(&text[..length]).is_some())
        .then(|| ended(text, text[..length].trim_end_matches(['.', '\\']).len()))
}

/// The length with the line and column behind it, and the end of the name.
fn ended(text: &str, length: usize) -> (usize, Option<String>) {
    let mut end = length;
    for _ in 0..2 {
        let digits = text[end..].strip_prefix(':').map_or(0, |rest| run(rest, |c| c.is_ascii_digit()));
        if digits > 0 {
            end += 1 + digits;
        }
    }
    (end, extension(&text[..length]).map(str::to_ascii_lowercase))
}

/// The known end of a file's name.
fn extension(name: &str) -> Option<&str> {
    let (stem, end) = name.rsplit_once('.')?;
    (!stem.is_empty() && is_one_of(EXTENSIONS, end)).then_some(end)
}
