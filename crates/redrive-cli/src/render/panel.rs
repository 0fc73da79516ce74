//! Boxes around blocks, and two columns of blocks on a wide terminal.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::table::{Sheet, draw, tinted};
use crate::escape::{cut, escape, width};
use crate::view::{Block, Panel};

/// From this width on, two halves stand side by side.
const WIDE: usize = 120;

/// The panel as wide as the page.
pub(super) fn panel(panel: &Panel, sheet: Sheet) -> String {
    let Sheet { columns, colour, .. } = sheet;
    let inside = columns.saturating_sub(4);
    let line = |text: &str| tinted(text, panel.border, colour);
    let note = panel.note.as_ref().map(|note| (cut(&escape(&note.text), inside / 3), note.tone));
    let noted = note.as_ref().map_or(0, |(text, _)| width(text) + 2);
    let title = cut(&escape(&panel.title.text), inside.saturating_sub(noted + 2));
    // ╭─ title ──── note ─╮
    let rule = columns.saturating_sub(width(&title) + noted + 6);
    let mut top =
        format!("{} {} {}", line("╭─"), tinted(&title, panel.title.tone, colour), line(&"─".repeat(rule)));
    if let Some((text, tone)) = note {
        let _ = write!(top, " {} ", tinted(&text, tone, colour));
    }
    top.push_str(&line("─╮"));
    let mut lines = vec![top];
    let body = draw(&panel.body, Sheet { columns: inside, boxed: true, ..sheet });
    for text in body.trim_end_matches('\n').lines() {
        let blanks = " ".repeat(inside.saturating_sub(seen(text)));
        lines.push(format!("{} {text}{blanks} {}", line("│"), line("│")));
    }
    lines.push(line(&format!("╰{}╯", "─".repeat(columns.saturating_sub(2)))));
    lines.join("\n")
}

/// Two halves, side by side where there is room.
pub(super) fn beside(left: &[Block], right: &[Block], sheet: Sheet) -> String {
    if sheet.columns < WIDE || left.is_empty() || right.is_empty() {
        let halves = [left, right].map(|half| draw(half, sheet).trim_end_matches('\n').to_owned());
        return halves.into_iter().filter(|half| !half.is_empty()).collect::<Vec<_>>().join("\n");
    }
    let half = (sheet.columns - 2) / 2;
    let draw_half = |blocks| draw(blocks, Sheet { columns: half, ..sheet });
    let (left, right) = (draw_half(left), draw_half(right));
    let (mut left, mut right) = (left.trim_end_matches('\n').lines(), right.trim_end_matches('\n').lines());
    let mut lines = Vec::new();
    loop {
        let (one, other) = (left.next(), right.next());
        if one.is_none() && other.is_none() {
            return lines.join("\n");
        }
        let one = one.unwrap_or_default();
        let blanks = " ".repeat(half.saturating_sub(seen(one)) + 2);
        lines.push(format!("{one}{blanks}{}", other.unwrap_or_default()).trim_end().to_owned());
    }
}

/// How wide a drawn line is: our own colours take no room, and nothing else that begins with an escape is left in it.
fn seen(line: &str) -> usize {
    let mut columns = 0;
    for (i, part) in line.split('\x1b').enumerate() {
        let text = if i == 0 { part } else { part.split_once('m').map_or("", |(_, text)| text) };
        columns += text.width();
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Span, Tone};

    /// R-C2: a box is closed on every line, coloured or not, whatever stands in it.
    #[test]
    fn every_line_of_a_panel_is_as_wide_as_the_page() {
        let body = vec![
            Block::Text(vec![Span::new("接続できませんでした。もう一度お試しください", Tone::Bad)]),
            Block::Fields(vec![("queue".into(), Span::new("mail \x1b[31m\u{202e}", Tone::Strong))]),
        ];
        let boxed = Panel::new("デッドレター", body).note(Span::new("3m ago", Tone::Dim)).border(Tone::Bad);
        for columns in 40..130 {
            for colour in [false, true] {
                let drawn = panel(&boxed, Sheet { columns, colour, boxed: false });
                assert!(drawn.lines().all(|line| seen(line) == columns), "{columns}:\n{drawn}");
            }
        }
        assert_eq!(
            panel(
                &Panel::new("t", vec![Block::Text(vec![Span::plain("x")])]),
                Sheet { columns: 12, colour: false, boxed: false }
            ),
            "╭─ t ──────╮\n│ x        │\n╰──────────╯"
        );
    }

    /// R-C2: halves stand side by side only where both are wide enough.
    #[test]
    fn halves_stand_side_by_side_on_a_wide_terminal() {
        let half =
            |title: &str| vec![Block::Panel(Panel::new(title, vec![Block::Text(vec![Span::plain("x")])]))];
        let at = |columns| beside(&half("a"), &half("b"), Sheet { columns, colour: false, boxed: false });
        assert_eq!(at(80).lines().count(), 6);
        assert_eq!(at(160).lines().count(), 3);
        assert!(at(160).lines().all(|line| width(line) == 160));
    }
}
