//! Prose broken into lines of a width: between words, and between the characters of Japanese.

use crate::escape::width;

/// Characters that never begin a line.
const NOT_FIRST: &str =
    "。、．，）」』】〉》！？・ー々…:;,.!?)]}%ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ";

/// A path that is wider than a line goes on in the next one after a slash once it is that long; `1/3` does not.
const LONG_PATH: usize = 16;

/// The lines of a text. A word wider than a line is broken where the line ends.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for piece in pieces(text).into_iter().flat_map(|word| fitting(word, columns)) {
        let wide = width(piece);
        if used + width(piece.trim_end()) > columns && !line.trim().is_empty() {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        if used + width(piece.trim_end()) <= columns {
            line.push_str(piece);
            used += wide;
            continue;
        }
        for c in piece.chars() {
            let wide = width(c.encode_utf8(&mut [0; 4]));
            if used + wide > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += wide;
        }
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// A line of two columns, such as clap writes for a flag and its text, with what does not fit put under the
/// beginning of the second column.
pub(crate) fn hang(line: &str, columns: usize) -> Vec<String> {
    let body = line.len() - line.trim_start().len();
    let gap = line[body..].find("  ").map(|at| body + at);
    let second = gap.map(|gap| gap + line[gap..].len() - line[gap..].trim_start().len());
    match second {
        Some(second) if width(line) > columns && width(&line[..second]) + 20 <= columns => {
            let indent = " ".repeat(width(&line[..second]));
            let mut lines = wrap(&line[second..], columns - indent.len());
            for (i, part) in lines.iter_mut().enumerate() {
                *part = format!("{}{part}", if i == 0 { &line[..second] } else { &indent });
            }
            lines
        }
        _ => vec![line.to_owned()],
    }
}

/// How wide the widest part is that no line break may stand in: a line needs that much to leave words whole.
pub(super) fn widest_piece(text: &str) -> usize {
    pieces(text)
        .into_iter()
        .flat_map(|word| fitting(word, 0))
        .map(|piece| width(piece.trim_end()))
        .max()
        .unwrap_or(0)
}

/// The parts of a word that is wider than a line: what stands between commas, and of that, if it is still too wide, the
/// parts of a path. What fits on a line of its own stays whole, so that it can be copied.
fn fitting(word: &str, columns: usize) -> Vec<&str> {
    if width(word.trim_end()) <= columns {
        return vec![word];
    }
    let parts = word.split_inclusive(',');
    parts.flat_map(|part| if width(part.trim_end()) <= columns { vec![part] } else { path(part) }).collect()
}

fn path(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in word.match_indices('/') {
        let end = at + 1;
        if end - start >= LONG_PATH && end < word.len() {
            parts.push(&word[start..end]);
            start = end;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// The smallest parts that a line break may stand between: words with the spaces after them, and single wide
/// characters with whatever may not begin a line.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut previous: Option<char> = None;
    for (at, c) in text.char_indices() {
        let wide = |c: char| width(c.encode_utf8(&mut [0; 4])) > 1;
        let may_break = previous.is_some_and(|p| {
            (p == ' ' && c != ' ')
                || (wide(p) && c != ' ' && !NOT_FIRST.contains(c) && !matches!(p, '（' | '「' | '『'))
                || (wide(c) && p != ' ' && !wide(p) && !NOT_FIRST.contains(c) && p != '(')
        });
        if may_break {
            pieces.push(&text[start..at]);
            start = at;
        }
        previous = Some(c);
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn english_breaks_between_words_and_japanese_anywhere_but_before_a_full_stop() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("再試行します。", 12), ["再試行しま", "す。"]);
        assert_eq!(wrap("再フルジッター", 8), ["再フル", "ジッター"]);
        let path = "sqlite:/home/ada/.local/share/redrive/redrive.db";
        assert_eq!(wrap(path, 40), ["sqlite:/home/ada/.local/share/redrive/", "redrive.db"]);
        assert_eq!(wrap("retry 1/3", 8), ["retry", "1/3"]);
        let url = "https://example.com/a/long/way/to/go";
        assert_eq!(wrap(&format!("see {url} first"), 40), [&format!("see {url}"), "first"]);
        assert_eq!(wrap(&format!("have a look at {url}"), 40), ["have a look at", url]);
        let json = format!("{{\"url\":\"{url}\",\"method\":\"GET\"}}");
        assert_eq!(wrap(&json, 48), [&format!("{{\"url\":\"{url}\","), "\"method\":\"GET\"}"]);
        assert_eq!(wrap("", 10), [""]);
        let flag = "  --config <FILE>  the file that is read before all";
        assert_eq!(
            hang(flag, 40),
            ["  --config <FILE>  the file that is read", "                   before all"]
        );
        assert_eq!(hang("no second column here", 10), ["no second column here"]);
        assert_eq!(wrap("abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_nothing_is_lost(text in "[a-z 再試行。、(]{0,80}", columns in 8usize..40) {
            let lines = wrap(&text, columns);
            for line in &lines {
                prop_assert!(width(line) <= columns, "{line:?}");
            }
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
