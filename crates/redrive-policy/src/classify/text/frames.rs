//! Lines that name places or quote statements: frames of stack traces, the SQL a database shows.

/// A line of a stack trace. It names places, not troubles.
pub(super) fn is_frame(line: &str) -> bool {
    let numbered = || line.bytes().any(|byte| byte.is_ascii_digit());
    let Some(first) = line.bytes().next().filter(|first| b"af.g#~^-=".contains(first)) else { return false };
    (line.starts_with("at ")
        && (line.contains('(') || line.contains(':') || line.contains('/'))
        && !line.contains(": ")
        || line.starts_with("at ")
            && (line.contains(".java:") || line.contains(".js:") || line.contains(" in /")))
        || line.starts_with("from /") && numbered()
        || line.starts_with("... ") && line.contains(" more")
        || line.starts_with("goroutine ")
        || (line.starts_with('#')
            && line[1..].starts_with(|c: char| c.is_ascii_digit())
            && line.contains(" in "))
        || (b"~^-=".contains(&first) && line.bytes().all(|c| matches!(c, b'~' | b'^' | b' ' | b'-' | b'=')))
}

/// "LINE 1: SELECT …": a database shows the statement, which names things.
pub(super) fn is_quoted_statement(line: &str) -> bool {
    line.strip_prefix("LINE ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || line.starts_with("[SQL: ")
        || line.starts_with("STATEMENT: ")
}
