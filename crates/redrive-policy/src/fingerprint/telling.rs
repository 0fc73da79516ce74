//! Which part of many words says what went wrong.
//!
//! Programs print their progress first and advice last, with stack frames in between. A document (JSON, HTML, XML) is
//! taken whole.

/// A line is looked at up to here, in bytes.
const LOOKED_AT: usize = 64 * 1024;
/// What follows a line that only begins a thing, in bytes.
const FOLLOWED: usize = 4 * 1024;

/// What a line that reports an error is likely to hold.
const MARKERS: &[&str] = &[
    "error",
    "exception",
    "fatal",
    "panic",
    "fail",
    "refused",
    "denied",
    "timeout",
    "timed out",
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable",
    "invalid",
    "not found",
    "unavailable",
    "reset by",
    "exceeded",
    "caused by",
    "no such",
    "unauthorized",
    "forbidden",
    "aborted",
    "deadlock",
    "killed",
    "too many",
    "missing",
    "unknown",
    "エラー",
    "例外",
    "失敗",
    "できません",
    "できませんでした",
    "拒否",
    "タイムアウト",
    "見つかりません",
    "ありません",
    "不正",
    "無効",
];
/// How lines begin that give advice or belong to a trace.
const BESIDE_THE_POINT: &[&str] = &[
    "at ",
    "goroutine ",
    "traceback (",
    "note:",
    "hint:",
    "help:",
    "please ",
    "try ",
    "see ",
    "for more information",
    "for details",
    "run ",
    "node.js v",
    "stack trace",
    "stack backtrace",
    "... ",
    "exit status",
    "exit code",
    "stdout",
    "usage:",
    "detail:",
    "context:",
    "詳しくは",
    "詳細は",
    "しばらく",
    "ヒント",
];

/// The part that tells. It borrows a line where it can.
pub(super) fn telling(words: &str) -> String {
    let words = words.trim();
    if is_document(words) {
        return beginning(words, LOOKED_AT).to_owned();
    }
    if let Some(at) = document_at(words) {
        let line = words[..at].rfind('\n').map_or(0, |end| end + 1);
        return beginning(&words[line..], LOOKED_AT).to_owned();
    }
    let mut best: Option<(u8, usize, &str)> = None;
    let mut at = 0;
    for line in words.split_inclusive('\n') {
        let score = score(line);
        if best.is_none_or(|(found, _, _)| score >= found) {
            best = Some((score, at + line.len(), line));
        }
        at += line.len();
    }
    let Some((_, end, line)) = best else { return String::new() };
    let line = beginning(line.trim(), LOOKED_AT);
    let line = line.strip_prefix("Caused by: ").unwrap_or(line);
    let rest = &words[end..];
    let more = match line.chars().next_back() {
        // The message of a Rust panic and the first of several complaints stand on the next line.
        Some(':') => rest.trim_start().lines().next().unwrap_or_default(),
        Some('{' | '[') => rest,
        _ => "",
    };
    if more.is_empty() { line.to_owned() } else { format!("{line} {}", beginning(more.trim(), FOLLOWED)) }
}

/// 0: blank. 1: a stack frame or advice. 2: anything. 3: it speaks of an error.
fn score(line: &str) -> u8 {
    let text = line.trim();
    if !text.chars().any(char::is_alphanumeric) {
        return 0;
    }
    let start = beginning(text, 512).to_lowercase();
    let is_frame =
        line.starts_with([' ', '\t']) || BESIDE_THE_POINT.iter().any(|mark| start.starts_with(mark));
    let marked = || MARKERS.iter().any(|marker| start.contains(marker));
    match (is_frame, marked()) {
        (true, _) => 1,
        (false, false) => 2,
        (false, true) => 3,
    }
}

/// Whether the words are one document in a notation of its own.
fn is_document(words: &str) -> bool {
    match (words.chars().next(), words.chars().next_back()) {
        (Some('{'), Some('}')) | (Some('['), Some(']')) => words.contains('\n'),
        (Some('<'), Some('>')) => words.contains("</"),
        _ => false,
    }
}

/// Where a page or an XML document begins inside of other words.
pub(super) fn document_at(words: &str) -> Option<usize> {
    let is_start = |at: &usize| {
        ["<html", "<?xml", "<!doctype"].iter().any(|start| {
            words.get(*at..*at + start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
        })
    };
    words.match_indices('<').map(|(at, _)| at).find(is_start)
}

/// As much of a text as fits into so many bytes.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: &str) {
        assert_eq!(telling(words), expected);
    }

    /// R-D10: progress, frames and advice do not tell errors apart.
    #[test]
    fn the_line_that_tells_is_found() {
        check("step 1\nstep 2\nKeyError: 'id'", "KeyError: 'id'");
        check("java.io.IOException: reset\n\tat a.B.c(B.java:1)\n\t... 3 more", "java.io.IOException: reset");
        check(
            "E: a\n\tat x\nCaused by: java.net.ConnectException: refused\n\tat y",
            "java.net.ConnectException: refused",
        );
        check(
            "thread 'main' panicked at src/main.rs:3:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`",
            "thread 'main' panicked at src/main.rs:3:5: index out of bounds",
        );
        check(
            "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2",
            "panic: runtime error: index out of range",
        );
        check("ERROR: duplicate key\nDETAIL: Key (id)=(5) already exists.", "ERROR: duplicate key");
        check("接続に失敗しました\nしばらくしてからもう一度お試しください", "接続に失敗しました");
        check("only this", "only this");
        check("  at nothing else", "at nothing else");
        check("", "");
    }
}
