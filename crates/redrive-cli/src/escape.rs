//! Other people's text made harmless for a terminal, and how wide it is there.
//!
//! Every renderer passes every text through [`escape`], ours included, so that no view can forget it.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// So many marks are put on one letter by languages; more of them run over the lines around.
const MARKS_ON_A_LETTER: usize = 3;

/// The text with line breaks folded to one space and everything that could move a cursor, change a colour or
/// hide text written out: `\x1b`, `\u{202e}`. A heap of marks on one letter is cut short with `…`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_dangerous(c) || is_mark(c)) {
        return Cow::Borrowed(text);
    }
    let mut marks = 0;
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_mark(c) {
            marks += 1;
            match marks {
                // A mark needs something to stand on, or it ends up on the border.
                _ if out.is_empty() || out.ends_with(' ') => {
                    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
                }
                // Which of two forms a sign has is left to the terminal: nobody agrees how wide the other one is.
                _ if is_selector(c) => {}
                1..=MARKS_ON_A_LETTER => out.push(c),
                _ if marks == MARKS_ON_A_LETTER + 1 => out.push('…'),
                _ => {}
            }
            continue;
        }
        marks = 0;
        match c {
            '\n' | '\r' | '\t' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                while chars.peek().is_some_and(|next| next.is_whitespace()) {
                    chars.next();
                }
                if !out.ends_with(' ') && !out.is_empty() && chars.peek().is_some() {
                    out.push(' ');
                }
            }
            c if !is_dangerous(c) => out.push(c),
            c if u32::from(c) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

/// The name of a file with its line breaks, tabs and backslashes written out: two names that differ are never shown alike.
/// Whatever else is dangerous in it [`escape`] sees to, as everywhere.
pub(crate) fn name(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c.is_whitespace() && is_dangerous(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// The same of a path.
pub(crate) fn path(path: &Path) -> String {
    name(&path.to_string_lossy())
}

/// What takes no room of its own: it is drawn over the letter before it.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && !is_dangerous(c) && (is_selector(c) || c.width() == Some(0))
}

const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}')
}

/// Control characters, and the invisible ones that reorder or hide what stands beside them.
pub(crate) const fn is_dangerous(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
        | '\u{ffa0}' | '\u{180f}'
    )
}

/// The beginning of a text, at most so many characters, with `…` where it was cut.
pub(crate) fn beginning(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The beginning of a text, at most so many columns wide, with `…` where it was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut used = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        end = at + c.len_utf8();
    }
    // No blank before the sign: it reads as the end of a word.
    format!("{}…", text[..end].trim_end())
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text and as many spaces as bring it to that width.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// As [`pad`], with the spaces first.
pub(crate) fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// R-C2: control characters in user data are escaped in every output.
    #[test]
    fn what_could_move_a_cursor_is_written_out() {
        assert_eq!(escape("a\x1b[31mred\x07"), "a\\x1b[31mred\\x07");
        assert_eq!(escape("csi \u{9b}2J"), "csi \\x9b2J");
        assert_eq!(escape("abc\u{202e}fdp.exe"), "abc\\u{202e}fdp.exe");
        assert_eq!(escape("one\r\n  two\n"), "one two");
        assert!(matches!(escape("接続できません"), Cow::Borrowed(_)));
        assert_eq!(escape("e\u{301}te\u{301}"), "e\u{301}te\u{301}");
        assert_eq!(escape(&format!("Z{}a", "\u{335}".repeat(5_000))), "Z\u{335}\u{335}\u{335}…a");
        assert_eq!(escape("\u{301}x"), "\\u{301}x");
        assert_eq!(escape("⚠\u{fe0f} 葛\u{e0100}城"), "⚠ 葛城");
    }

    /// R-C2, row 69: names that differ are shown differently, and nothing in them begins a line of its own.
    #[test]
    fn a_line_break_in_a_name_is_written_out() {
        let names = [
            "new line",
            "new\nline",
            "new\\nline",
            "new\rline",
            "new\tline",
            "new\u{b}line",
            "new\u{2028}line",
        ];
        let shown = names.map(|one| escape(&name(one)).into_owned());
        assert_eq!(
            shown,
            [
                "new line",
                "new\\nline",
                "new\\\\nline",
                "new\\rline",
                "new\\tline",
                "new\\u{b}line",
                "new\\u{2028}line"
            ]
        );
        assert_eq!(path(Path::new("/設計/a b")), "/設計/a b");
    }

    #[test]
    fn japanese_takes_two_columns() {
        assert_eq!(pad("再試行", 8), "再試行  ");
        assert_eq!(pad_left("待ち", 3), "待ち");
        assert_eq!(beginning("あいう", 2), "あい…");
    }

    proptest! {
        #[test]
        fn nothing_dangerous_survives(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(!escaped.chars().any(is_dangerous));
            prop_assert_eq!(escape(&escaped), escaped.as_ref());
        }

        /// R-C2: a text is cut to a width, never wider, and its beginning stays.
        #[test]
        fn a_text_is_cut_to_its_width(text in any::<String>(), columns in 1_usize..40) {
            let escaped = escape(&text);
            let short = cut(&escaped, columns);
            prop_assert!(width(&short) <= columns, "{short:?}");
            prop_assert!(escaped.starts_with(short.trim_end_matches('…')));
        }
    }
}
