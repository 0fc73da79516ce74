//! The rich form: rounded tables, colour, bars of block characters, prose wrapped to the terminal.

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use super::style::paint;
use super::wrap::wrap;
use crate::escape::{escape, pad, pad_left, width};
use crate::view::backoff::short;
use crate::view::{Align, Bar, Bars, Block, Span, Table, Tone};

/// Invisible characters that carry a tone through the layout of a table, which knows nothing of colour. They
/// take no space, and no text can bring them along: escaping writes them out.
const MARKS: [(Tone, char); 5] = [
    (Tone::Good, '\u{2061}'),
    (Tone::Bad, '\u{2062}'),
    (Tone::Warn, '\u{2063}'),
    (Tone::Dim, '\u{2064}'),
    (Tone::Strong, '\u{2066}'),
];
/// Rounded corners, one line under the header, none between rows.
const STYLE: TableStyle = UTF8_FULL_CONDENSED
    .with_rounded_corners()
    .with_solid_inner_borders()
    .header_separator(LineStyle::new('├', '─', '┼', '┤'))
    .row_separator(LineStyle::none());
const END_MARK: char = '\u{2060}';

/// The whole page.
pub(super) fn page(blocks: &[Block], columns: usize, colour: bool) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Heading(text) => out.push_str(&tinted(&escape(text), Tone::Heading, colour)),
            Block::Text(spans) => out.push_str(&prose(spans, columns, colour)),
            Block::Fields(fields) => out.push_str(&pairs(fields, columns, colour)),
            Block::Table(table) => out.push_str(&grid(table, columns, colour)),
            Block::Bars(bars) => out.push_str(&curve(bars, columns, colour)),
            Block::Gap => {}
        }
        out.push('\n');
    }
    out
}

fn tinted(text: &str, tone: Tone, colour: bool) -> String {
    if colour { paint(text, tone) } else { text.to_owned() }
}

/// Spans on one line if they fit, else wrapped in the tone of the first.
fn prose(spans: &[Span], columns: usize, colour: bool) -> String {
    let whole: String = spans.iter().map(|span| escape(&span.text)).collect();
    if width(&whole) <= columns {
        return spans.iter().map(|span| tinted(&escape(&span.text), span.tone, colour)).collect();
    }
    let tone = spans.first().map_or(Tone::Plain, |span| span.tone);
    // What is indented stays so in every line.
    let text = whole.trim_start();
    let indent = " ".repeat((whole.len() - text.len()).min(columns / 2));
    let lines = wrap(text, columns - indent.len());
    let lines: Vec<String> =
        lines.iter().map(|line| format!("{indent}{}", tinted(line, tone, colour))).collect();
    lines.join("\n")
}

fn pairs(fields: &[(String, Span)], columns: usize, colour: bool) -> String {
    // A label may carry a name from somebody's file.
    let label_width = fields.iter().map(|(label, _)| width(&escape(label))).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (label, value) in fields {
        let room = columns.saturating_sub(label_width + 4);
        for (i, line) in wrap(&escape(&value.text), room).iter().enumerate() {
            let label = if i == 0 { escape(label) } else { "".into() };
            let label = tinted(&pad(&label, label_width), Tone::Dim, colour);
            lines.push(format!("  {label}  {}", tinted(line, value.tone, colour)));
        }
    }
    lines.join("\n")
}

fn grid(table: &Table, columns: usize, colour: bool) -> String {
    let mut grid = Grid::new();
    grid.load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(columns).unwrap_or(u16::MAX))
        .set_header(table.columns.iter().map(|(name, _)| marked(&Span::new(name.clone(), Tone::Strong))));
    for row in &table.rows {
        grid.add_row(row.iter().map(|span| Cell::new(marked(span))));
    }
    for (i, (_, align)) in table.columns.iter().enumerate() {
        if let (Align::Right, Some(column)) = (align, grid.column_mut(i)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = grid.lines().map(|line| unmarked(&line, colour)).collect();
    lines.join("\n")
}

/// A cell's text with every word between marks of its tone, so that wrapping cannot part them.
fn marked(span: &Span) -> String {
    let text = escape(&span.text);
    let Some((_, mark)) = MARKS.iter().find(|(tone, _)| *tone == span.tone) else {
        return text.into_owned();
    };
    let words: Vec<String> = text.split(' ').map(|word| format!("{mark}{word}{END_MARK}")).collect();
    words.join(" ")
}

/// A laid-out line with its marks turned into colour, or taken out.
fn unmarked(line: &str, colour: bool) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut word = String::new();
    let mut tone = Tone::Plain;
    for c in line.chars() {
        let mark = MARKS.iter().find(|(_, mark)| *mark == c);
        if mark.is_none() && c != END_MARK && c != '│' {
            word.push(c);
            continue;
        }
        // A border ends a tone too: a word longer than its column goes on in the next line without colour.
        out.push_str(&tinted(&word, tone, colour));
        word.clear();
        tone = mark.map_or(Tone::Plain, |(tone, _)| *tone);
        if c == '│' {
            out.push(c);
        }
    }
    out.push_str(&tinted(&word, tone, colour));
    out
}

/// The curve as bars. Solid up to the least that jitter can make of a delay, shaded up to the most, a dot at
/// what was drawn; a dotted line where the cap is reached.
fn curve(bars: &Bars, columns: usize, colour: bool) -> String {
    let number = |bar: &Bar| bar.number.to_string();
    let delay = |bar: &Bar| short(bar.delay);
    let total = |bar: &Bar| short(bar.total);
    let column = |label: &str, cell: &dyn Fn(&Bar) -> String| {
        bars.rows.iter().map(|bar| width(&cell(bar))).max().unwrap_or(0).max(width(label))
    };
    let widths =
        [column(&bars.labels[0], &number), column(&bars.labels[1], &delay), column(&bars.labels[2], &total)];
    let room = columns.saturating_sub(widths.iter().sum::<usize>() + 10).max(8);
    let scale = bars.rows.iter().map(|bar| bar.high.max(bar.delay)).max().unwrap_or_default();
    let capped = scale >= bars.cap && !scale.is_zero();

    let mut lines = vec![format!(
        "  {}  {}  {}",
        tinted(&pad_left(&bars.labels[0], widths[0]), Tone::Dim, colour),
        tinted(&pad_left(&bars.labels[1], widths[1]), Tone::Dim, colour),
        tinted(&pad_left(&bars.labels[2], widths[2]), Tone::Dim, colour),
    )];
    for bar in &bars.rows {
        let beyond = bars.last.is_some_and(|last| bar.number > last);
        let at_cap = bar.delay >= bars.cap;
        let tone = match (beyond, at_cap) {
            (true, _) => Tone::Dim,
            (false, true) => Tone::Warn,
            (false, false) => Tone::Good,
        };
        let edge = if capped { tinted("┊", Tone::Warn, colour) } else { String::new() };
        lines.push(format!(
            "  {}  {}  {}  {}{edge}",
            pad_left(&number(bar), widths[0]),
            tinted(&pad_left(&delay(bar), widths[1]), if beyond { Tone::Dim } else { Tone::Strong }, colour),
            tinted(&pad_left(&total(bar), widths[2]), Tone::Dim, colour),
            tinted(&drawn(bar, scale, room), tone, colour),
        ));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}

/// One bar, padded to the room it has.
fn drawn(bar: &Bar, scale: Duration, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = share(bar.low, scale, room * 8);
    let mut line = "█".repeat(eighths / 8);
    line.push_str(EIGHTHS[eighths % 8]);
    if bar.low < bar.high {
        let most = share(bar.high, scale, room).max(1);
        while width(&line) < most {
            line.push('░');
        }
        let dot = share(bar.delay, scale, room).min(room - 1);
        let mut cells: Vec<char> = pad(&line, room).chars().collect();
        if let Some(cell) = cells.get_mut(dot) {
            *cell = '●';
        }
        return cells.into_iter().collect();
    }
    pad(&line, room)
}

/// `value / scale` of so many cells, rounded down; 0 on an empty scale.
pub(super) fn share(value: Duration, scale: Duration, cells: usize) -> usize {
    let cells_wide = u128::try_from(cells).unwrap_or(u128::MAX);
    let part = value.as_nanos().saturating_mul(cells_wide).checked_div(scale.as_nanos()).unwrap_or(0);
    usize::try_from(part).unwrap_or(cells).min(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: colour never changes the layout, and Japanese columns stand in line.
    #[test]
    fn a_coloured_table_is_as_wide_as_a_plain_one() {
        let table = Table {
            columns: vec![("原因".to_owned(), Align::Left), ("n".to_owned(), Align::Right)],
            rows: vec![
                vec![Span::new("接続できません", Tone::Bad), Span::plain("7")],
                vec![Span::new("a b", Tone::Good), Span::plain("1000")],
            ],
        };
        let plain = grid(&table, 60, false);
        let widths: Vec<usize> = plain.lines().map(width).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{plain}");
        let coloured = grid(&table, 60, true);
        assert!(coloured.contains("\x1b[31m接続できません\x1b[0m"), "{coloured:?}");
        assert!(!plain.contains(END_MARK));
    }

    #[test]
    fn shares_never_leave_their_room() {
        assert_eq!(share(Duration::from_secs(5), Duration::ZERO, 10), 0);
        assert_eq!(share(Duration::MAX, Duration::from_nanos(1), 10), 10);
        assert_eq!(share(Duration::from_secs(1), Duration::from_secs(2), 10), 5);
    }
}
