//! A text with a mark under one place, for an error that points at it. Wide characters are counted as wide.

use std::ops::Range;

use crate::escape::{escape, width};

/// The text, and below it `^` under the place. What does not fit is left out on either side, marked with `…`.
pub(crate) fn point(text: &str, place: Range<usize>, columns: usize) -> [String; 2] {
    let part = |range: Range<usize>| escape(text.get(range).unwrap_or_default()).into_owned();
    // Blanks at the end of the first part count: they stand before the mark.
    let blank = |c: char| if c.is_whitespace() { ' ' } else { c };
    let before: String = text.get(..place.start).unwrap_or(text).chars().map(blank).collect();
    let before = escape(&before).into_owned();
    let (inside, after) = (part(place.clone()), part(place.end..text.len()));
    // The place itself comes first, then what leads to it, then what follows.
    let inside = from_front(&inside, columns.saturating_sub(2).max(1));
    let room = columns.saturating_sub(width(&inside));
    let before = from_back(&before, room.saturating_sub(width(&after).min(room / 3)));
    let after = from_front(&after, room.saturating_sub(width(&before)));
    let mark = "^".repeat(width(&inside).max(1));
    [format!("{before}{inside}{after}"), format!("{}{mark}", " ".repeat(width(&before)))]
}

/// The beginning of a text in so many columns.
fn from_front(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if width(&out) + width(c.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// The end of a text in so many columns.
fn from_back(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut begin = text.len();
    for (at, c) in text.char_indices().rev() {
        if width(&text[begin..]) + width(c.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        begin = at;
    }
    format!("{}{}", if columns > 0 { "…" } else { "" }, &text[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, place: &str, columns: usize, expected: [&str; 2]) {
        let at = text.find(place).unwrap();
        assert_eq!(point(text, at..at + place.len(), columns), expected, "{text}");
    }

    /// Bad input: the mark stands under the place, also behind wide characters.
    #[test]
    fn the_mark_stands_under_its_place() {
        check("cuase=network", "cuase", 80, ["cuase=network", "^^^^^"]);
        check("error~\"接続\" 原因=x", "原因", 80, ["error~\"接続\" 原因=x", "             ^^^^"]);
        assert_eq!(point("queue=", 6..6, 80), ["queue=", "      ^"]);
        assert_eq!(point("queue= ", 7..7, 80), ["queue= ", "       ^"]);
        check("a=1\tand b\u{1b}=2", "b", 80, ["a=1 and b\\x1b=2", "        ^"]);
        check("aaaaaaaaaaaaaaaaaaaabcccccccccccccccccccc", "b", 16, ["…aaaaaaaaabcccc…", "          ^"]);
    }

    proptest! {
        /// Bad input: any place of any text is shown within the terminal.
        #[test]
        fn it_fits(text in "\\PC{0,60}", from in 0_usize..60, len in 0_usize..10, columns in 8_usize..100) {
            let marks: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let from = marks[from.min(marks.len() - 1)];
            let to = marks.iter().copied().find(|at| *at >= from + len).unwrap_or(text.len());
            let [line, mark] = point(&text, from..to, columns);
            prop_assert!(width(&line) <= columns, "{line:?}");
            prop_assert!(width(&mark) <= columns + 1, "{mark:?}");
        }
    }
}
