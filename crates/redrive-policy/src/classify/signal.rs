//! Signals that stand in the text: HTTP statuses, replies of mail servers, numbered database errors.
//!
//! A number is a status only where the words around it say so. "port 5000", "row 404" and "500 records"
//! are numbers of things.

use super::rules::{Hits, RuleBook};
use super::text::Normal;
use super::{BEFORE_LAST_CAUSE, STATUS_IN_TEXT, Source};
use crate::failure::Report;

/// Words after which three digits are a status.
const STATUS_BEFORE: &[&[u8]] =
    &[b"http", b"https", b"status", b"statuscode", b"httpstatus", b"errorcode", b"code"];

/// Words after which three digits are a status if no thing is counted: "got 502", but not "got 502 rows".
const STATUS_BEFORE_END: &[&[u8]] = &[
    b"code",
    b"error",
    b"err",
    b"got",
    b"returned",
    b"response",
    b"with",
    b"was",
    b"is",
    b"received",
    b"answered",
    b"by",
    b"requesting",
    b"exception",
];

/// Words that go on after a status without being counted by it.
const GOES_ON: &[&[u8]] = &[
    b"", b"|", b"~", b"~://", b"for", b"from", b"on", b"when", b"while", b"at", b"and", b"but", b"after",
    b"error", b"data", b"url", b"curl", b"message", b"body", b"request", b"client", b"server",
];

/// The beginning of the reason phrase of each status.
fn reason_phrase(status: u16) -> &'static [u8] {
    match status {
        400 => b"bad request",
        401 => b"unauthorized",
        402 => b"payment required",
        403 => b"forbidden",
        404 => b"not found",
        405 => b"method not",
        406 => b"not acceptable",
        407 => b"proxy auth",
        408 => b"request time",
        409 => b"conflict",
        410 => b"gone",
        411 => b"length required",
        412 | 428 => b"precondition",
        413 => b"request entity",
        414 => b"uri too",
        415 => b"unsupported media",
        416 => b"range not",
        422 => b"unprocessable",
        423 => b"locked",
        429 => b"too many requests",
        431 => b"request header",
        500 => b"internal",
        501 => b"not implemented",
        502 => b"bad gateway",
        503 => b"service",
        504 => b"gateway",
        507 => b"insufficient storage",
        520 | 521 => b"web server",
        522 => b"connection timed",
        523 => b"origin",
        524 => b"a timeout",
        529 => b"site",
        _ => b"~",
    }
}

/// Reads statuses out of the text. None is looked for when the caller knows the real one.
pub(super) fn statuses_in_text(normal: &Normal, report: &Report<'_>, book: &RuleBook, hits: &mut Hits) {
    let known_code = report.code.as_deref().is_some_and(|code| book.code(code).is_some());
    if report.http_status.is_some() || known_code || normal.is_mail() {
        return exit_codes_in_text(normal, report, book, hits);
    }
    for number in normal.numbers() {
        let Ok(status) = u16::try_from(number.value) else { continue };
        if number.digits != 3 || !(400..=599).contains(&status) {
            continue;
        }
        let before = normal.word_before(number.start);
        let after = normal.word_after(number.end);
        let rest = normal.text()[number.end..].trim_ascii_start();
        let alone = (before.is_empty() || before == b"|") && (after.is_empty() || after == b"|");
        let named = alone
            || (STATUS_BEFORE.contains(&before) && !after.ends_with(b"s"))
            || (STATUS_BEFORE_END.contains(&before) && GOES_ON.contains(&after))
            || (rest.starts_with(reason_phrase(status))
                && (before.is_empty()
                    || before == b"|"
                    || before == b"~"
                    || STATUS_BEFORE_END.contains(&before)
                    || before == b"~://"));
        if !named || normal.exit_is_near(number.start) {
            continue;
        }
        if let Some((rule, level)) = book.status(status) {
            let early = if number.start + 1 < normal.last_cause() { BEFORE_LAST_CAUSE } else { 0 };
            let source = Source::Text { start: number.start, end: number.end };
            hits.push(rule, level - STATUS_IN_TEXT - early, number.end, source);
        }
    }
    exit_codes_in_text(normal, report, book, hits);
}

/// "exited with code 137": an exit code that was only printed.
fn exit_codes_in_text(normal: &Normal, report: &Report<'_>, book: &RuleBook, hits: &mut Hits) {
    if report.exit_code.is_some() {
        return;
    }
    for number in normal.numbers() {
        let Ok(code) = i32::try_from(number.value) else { continue };
        if normal.exit_is_near(number.start)
            && let Some((rule, level)) = book.exit_code(code)
        {
            hits.push(rule, level - 20, number.end, Source::Text { start: number.start, end: number.end });
        }
    }
}

/// Mail servers answer with three digits and an enhanced status; neither is an HTTP status.
pub(super) fn mail_replies(normal: &Normal, report: &Report<'_>, book: &RuleBook, hits: &mut Hits) {
    let mut claim = |id: &str, level: i32, at: usize, len: usize| {
        if let Some(rule) = book.by_id(id) {
            hits.push(rule, level, at + len, Source::Text { start: at, end: at + len });
        }
    };
    if let Some(enhanced) = normal.enhanced_status() {
        let (id, level) = match (enhanced.class, enhanced.subject, enhanced.detail) {
            (4, 2, 2) => ("mail.mailbox-full-for-now", 66),
            (4, ..) => ("mail.later", 58),
            (5, 1, 1 | 2 | 10) | (5, 4, 4) => ("mail.no-such-address", 66),
            (5, 2, 2) => ("mail.mailbox-full", 66),
            (5, 2, 3) | (5, 3, 4) => ("mail.too-big", 66),
            (5, 7, ..) | (5, 2, 1) => ("mail.refused", 60),
            (5, 1 | 5 | 6, _) => ("mail.bad-request", 62),
            (5, ..) => ("mail.refused-for-good", 50),
            _ => return,
        };
        claim(id, level, enhanced.at, enhanced.len);
    }
    if !normal.is_mail() {
        return;
    }
    let typed = report.code.as_deref().and_then(|code| code.trim().parse::<u32>().ok());
    let printed =
        normal.numbers().iter().find(|number| number.digits == 3 && (400..=599).contains(&number.value));
    let reply = typed.or(printed.map(|number| number.value));
    let at = printed.map_or(0, |number| number.start);
    match reply {
        Some(421 | 450 | 451 | 454) => claim("mail.later", 56, at, 3),
        Some(452) => claim("mail.mailbox-full-for-now", 56, at, 3),
        Some(500..=504) => claim("mail.bad-request", 60, at, 3),
        Some(530 | 534 | 535 | 538) => claim("mail.refused", 60, at, 3),
        Some(550 | 551 | 553) => claim("mail.no-such-address", 48, at, 3),
        Some(552) => claim("mail.too-big", 46, at, 3),
        Some(554 | 521 | 541) => claim("mail.refused", 46, at, 3),
        _ => {}
    }
}

/// Words before which, or after which, a longer number is a database's own error number.
const NUMBER_BEFORE: &[&[u8]] =
    &[b"error", b"errno", b"code", b"msg", b"number", b"err", b"winerror", b"exception", b"wsa"];

/// A word that can only be an SQLSTATE, as it stands behind the number of an error.
fn is_state(word: &[u8]) -> bool {
    word.len() == 5 && word.iter().any(u8::is_ascii_digit)
}

/// "ERROR 1205 (HY000)", `[WinError 10061]`, "Code=-1005", SQLSTATEs in brackets.
pub(super) fn numbered_errors(normal: &Normal, report: &Report<'_>, book: &RuleBook, hits: &mut Hits) {
    if report.code.is_some() {
        return;
    }
    for number in normal.numbers() {
        if number.digits < 4
            || !NUMBER_BEFORE.contains(&normal.word_before(number.start))
            || !matches!(
                normal.word_after(number.end),
                b"" | b"|" | b"~" | b"level" | b"state" | b"hy" | b"severity"
            ) && !is_state(normal.word_after(number.end))
        {
            continue;
        }
        let digits = normal.slice(number.start, number.end);
        let negative = format!("-{}", digits.trim());
        let hit = book.code(digits.trim()).or_else(|| book.code(&negative));
        if let Some((rule, level)) = hit.filter(|_| number.digits != 5 || digits.trim() >= "10000") {
            hits.push(rule, level - 10, number.end, Source::Text { start: number.start, end: number.end });
        }
    }
    if let Some((state, at)) = normal.sqlstate()
        && let Some((rule, level)) = book.code(&state)
    {
        hits.push(rule, level - 6, at, Source::Text { start: at.saturating_sub(6), end: at });
    }
}
