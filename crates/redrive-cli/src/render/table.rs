//! The rich form: rounded tables, colour, bars of block characters, prose wrapped to the terminal.

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table as Grid, TableStyle};

use super::style::paint;
use super::wrap::{widest_piece, wrap};
use super::{chart, graph, listing, markdown, panel};
use crate::escape::{escape, pad, pad_left, width};
use crate::view::backoff::short;
use crate::view::{Align, Bar, Bars, Block, Listing, Span, Table, Tone};

/// Invisible characters that carry a tone through the layout of a table, which knows nothing of colour. They
/// take no space, and no text can bring them along: escaping writes them out.
const MARKS: [(Tone, char); 7] = [
    (Tone::Good, '\u{2061}'),
    (Tone::Bad, '\u{2062}'),
    (Tone::Warn, '\u{2063}'),
    (Tone::Dim, '\u{2064}'),
    (Tone::Strong, '\u{2066}'),
    (Tone::Heading, '\u{2067}'),
    (Tone::Alarm, '\u{2068}'),
];
/// Rounded corners, one line under the header, none between rows.
const STYLE: TableStyle = UTF8_FULL_CONDENSED
    .with_rounded_corners()
    .with_solid_inner_borders()
    .header_separator(LineStyle::new('├', '─', '┼', '┤'))
    .row_separator(LineStyle::none());
const END_MARK: char = '\u{2060}';

/// What is drawn on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sheet {
    pub(super) columns: usize,
    pub(super) colour: bool,
    /// Inside a panel: tables have no border of their own, and nothing is indented.
    pub(super) boxed: bool,
}

/// The whole page.
pub(super) fn page(blocks: &[Block], columns: usize, colour: bool) -> String {
    draw(blocks, Sheet { columns, colour, boxed: false })
}

/// Blocks one below the other.
pub(super) fn draw(blocks: &[Block], sheet: Sheet) -> String {
    let Sheet { columns, colour, boxed } = sheet;
    let mut out = String::new();
    for (i, block) in blocks.iter().enumerate() {
        let mut stack = |table: &Table| {
            out.push_str(&stacked(table, sheet));
            // Without a border, what follows needs some room.
            if blocks.get(i + 1).is_some_and(|next| !matches!(next, Block::Gap)) {
                out.push('\n');
            }
        };
        match block {
            Block::Heading(text) => {
                out.push_str(&prose(&[Span::new(text.clone(), Tone::Heading)], columns, colour));
            }
            Block::Text(spans) => out.push_str(&prose(spans, columns, colour)),
            Block::Fields(fields) => out.push_str(&pairs(fields, sheet)),
            Block::Table(table) if fits(table, columns) => out.push_str(&grid(table, columns, colour)),
            Block::Table(table) => stack(table),
            Block::Listing(whole) => match listing::fitted(whole, columns, boxed) {
                Some(fitted) if boxed => out.push_str(&listing::borderless(&fitted, colour)),
                Some(fitted) => out.push_str(&grid(&table_of(&fitted), columns, colour)),
                None => stack(&table_of(whole)),
            },
            Block::Panel(one) => out.push_str(&panel::panel(one, sheet)),
            Block::Tally(counts) => out.push_str(&chart::tally(counts, columns, colour)),
            Block::Shares(shares) => out.push_str(&chart::shares(shares, columns, colour)),
            Block::Progress(progress) => out.push_str(&chart::progress(progress, columns, colour)),
            Block::Graph(whole) => out.push_str(&graph::graph(whole, columns, colour)),
            Block::Sparks(sparks) => out.push_str(&chart::sparks(sparks, columns, colour)),
            Block::Beside(left, right) => out.push_str(&panel::beside(left, right, sheet)),
            Block::Bars(bars) => out.push_str(&curve(bars, columns, colour)),
            Block::Markdown(text) => out.push_str(&markdown::rich(text, sheet)),
            Block::Gap => {}
        }
        out.push('\n');
    }
    out
}

/// A listing as a table, which has no ranks.
pub(super) fn table_of(listing: &Listing) -> Table {
    let columns = listing.columns.iter().map(|column| (column.name.clone(), column.align));
    Table { columns: columns.collect(), rows: listing.rows.clone() }
}

pub(super) fn tinted(text: &str, tone: Tone, colour: bool) -> String {
    if colour { paint(text, tone) } else { text.to_owned() }
}

/// Spans on one line if they fit, else wrapped in the tone of the first.
fn prose(spans: &[Span], columns: usize, colour: bool) -> String {
    let whole: String = spans.iter().map(|span| escape(&span.text)).collect();
    if width(&whole) <= columns {
        return spans.iter().map(|span| tinted(&escape(&span.text), span.tone, colour)).collect();
    }
    // What ends in two blanks is a label: what follows stands beside it, in as many lines as it takes.
    // So is a mark behind it.
    if let [labels @ .., text] = spans
        && labels.first().is_some_and(|label| label.text.ends_with("  "))
        && labels.iter().map(|label| width(&label.text)).sum::<usize>() * 3 <= columns
        && (labels.len() == 1 || labels.iter().all(|label| label.text.ends_with(' ')))
    {
        let beside = labels.iter().map(|label| width(&label.text)).sum();
        let mut lines = wrap(&escape(&text.text), columns - beside).into_iter();
        let first = lines.next().map(|line| tinted(&line, text.tone, colour)).unwrap_or_default();
        let label: String =
            labels.iter().map(|label| tinted(&escape(&label.text), label.tone, colour)).collect();
        let mut out = format!("{label}{first}");
        for line in lines {
            out.extend(["\n", &" ".repeat(beside), &tinted(&line, text.tone, colour)]);
        }
        return out;
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

fn pairs(fields: &[(String, Span)], sheet: Sheet) -> String {
    let Sheet { columns, colour, boxed } = sheet;
    let indent = if boxed { "" } else { "  " };
    // A label may carry a name from somebody's file.
    let label_width = fields.iter().map(|(label, _)| width(&escape(label))).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (label, value) in fields {
        let room = columns.saturating_sub(label_width + indent.len() + 2);
        for (i, line) in wrap(&escape(&value.text), room).iter().enumerate() {
            let label = if i == 0 { escape(label) } else { "".into() };
            let label = tinted(&pad(&label, label_width), Tone::Dim, colour);
            lines.push(format!("{indent}{label}  {}", tinted(line, value.tone, colour)));
        }
    }
    lines.join("\n")
}

/// What a cell takes besides its text: a border and a space on each side.
pub(super) const AROUND_A_CELL: usize = 3;
/// A table that must be squeezed into less than this is no pleasure to read.
const NARROW: usize = 64;
/// No column is made narrower than this.
const NARROWEST_COLUMN: usize = 8;

/// Whether a table is drawn in so many columns: where there is room, else only if no row is broken.
fn fits(table: &Table, columns: usize) -> bool {
    let squeezed = if columns >= NARROW { widths(table, columns) } else { measured(table, &width) };
    squeezed.iter().sum::<usize>() <= room_in(table, columns)
}

/// What is left for text.
fn room_in(table: &Table, columns: usize) -> usize {
    columns.saturating_sub(table.columns.len() * AROUND_A_CELL + 1)
}

/// The most that any cell of each column, its name included, measures.
fn measured(table: &Table, measure: &dyn Fn(&str) -> usize) -> Vec<usize> {
    let column = |i: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(i)).map(|span| measure(&escape(&span.text)));
        cells.chain(table.columns.get(i).map(|(name, _)| measure(&escape(name)))).max().unwrap_or(0)
    };
    (0..table.columns.len()).map(column).collect()
}

/// How wide each column is: the widest gives way first, and words are broken only when nothing else is left.
fn widths(table: &Table, columns: usize) -> Vec<usize> {
    let room = room_in(table, columns);
    let words = measured(table, &widest_piece);
    let mut widths = measured(table, &width);
    while widths.iter().sum::<usize>() > room {
        let largest = |least: &dyn Fn(usize) -> usize| {
            (0..widths.len()).filter(|i| widths[*i] > least(*i)).max_by_key(|i| widths[*i])
        };
        match largest(&|i| words[i].max(NARROWEST_COLUMN)).or_else(|| largest(&|_| NARROWEST_COLUMN)) {
            Some(i) => widths[i] -= 1,
            None => break,
        }
    }
    widths
}

/// The rows one below the other, each cell on a line with the name of its column. A cell without a name is a
/// mark on what follows it.
fn stacked(table: &Table, sheet: Sheet) -> String {
    let row = |row: &Vec<Span>| {
        let mut fields = Vec::new();
        let mut mark = String::new();
        for ((name, _), cell) in table.columns.iter().zip(row) {
            if name.is_empty() {
                mark = format!("{} ", cell.text);
                continue;
            }
            let text = format!("{}{}", std::mem::take(&mut mark).trim_start(), cell.text);
            fields.push((name.clone(), Span::new(text, cell.tone)));
        }
        pairs(&fields, sheet)
    };
    table.rows.iter().map(row).collect::<Vec<_>>().join("\n\n")
}

fn grid(table: &Table, columns: usize, colour: bool) -> String {
    let widths = widths(table, columns);
    let cell = |(span, width): (&Span, &usize)| Cell::new(marked(span, *width));
    let mut grid = Grid::new();
    let names: Vec<Span> =
        table.columns.iter().map(|(name, _)| Span::new(name.clone(), Tone::Strong)).collect();
    // Every cell is broken into lines already, by rules that know Japanese; what is left is drawing.
    grid.load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(names.iter().zip(&widths).map(cell));
    for row in &table.rows {
        grid.add_row(row.iter().zip(&widths).map(cell));
    }
    for (i, (_, align)) in table.columns.iter().enumerate() {
        if let (Align::Right, Some(column)) = (align, grid.column_mut(i)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = grid.lines().map(|line| unmarked(&line, colour)).collect();
    lines.join("\n")
}

/// A cell's text in lines of that width, each between marks of its tone.
fn marked(span: &Span, columns: usize) -> String {
    let text = escape(&span.text);
    let lines = if width(&text) <= columns { vec![text.into_owned()] } else { wrap(&text, columns) };
    let Some((_, mark)) = MARKS.iter().find(|(tone, _)| *tone == span.tone) else {
        return lines.join("\n");
    };
    let lines: Vec<String> = lines.iter().map(|line| format!("{mark}{line}{END_MARK}")).collect();
    lines.join("\n")
}

/// A laid-out line with its marks turned into colour, or taken out.
fn unmarked(line: &str, colour: bool) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut word = String::new();
    let mut tone = Tone::Plain;
    for c in line.chars() {
        let mark = MARKS.iter().find(|(_, mark)| *mark == c);
        if mark.is_none() && c != END_MARK {
            word.push(c);
            continue;
        }
        out.push_str(&tinted(&word, tone, colour));
        word.clear();
        tone = mark.map_or(Tone::Plain, |(tone, _)| *tone);
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

    /// R-C2: what stands beside a label stays beside it, and only the label has its colour.
    #[test]
    fn what_stands_beside_a_label_stays_there() {
        let spans = [Span::new("ok     ", Tone::Good), Span::plain("the first line and then the second")];
        assert_eq!(prose(&spans, 25, false), "ok     the first line and\n       then the second");
        let coloured = prose(&spans, 25, true);
        assert!(coloured.ends_with("the first line and\n       then the second"), "{coloured:?}");
        let fix = [Span::plain("       "), Span::new("→ a command of its own", Tone::Strong)];
        assert_eq!(prose(&fix, 25, false), "       → a command of its\n       own");
    }

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

    /// R-C2: no word is broken, however narrow the terminal; rows that cannot stand side by side are stacked.
    #[test]
    fn words_stay_whole_at_every_width() {
        let table = Table {
            columns: vec![
                (String::new(), Align::Left),
                ("decision".to_owned(), Align::Left),
                ("wait".to_owned(), Align::Right),
            ],
            rows: vec![
                vec![Span::plain(">"), Span::new("ESCALATE", Tone::Bad), Span::plain("exponential 1s")],
                vec![
                    Span::plain(""),
                    Span::plain("RETRY at some later time that takes many words"),
                    Span::plain("-"),
                ],
            ],
        };
        let at = |columns| page(&[Block::Table(table.clone())], columns, false);
        for columns in 40..120 {
            let page = at(columns);
            assert!(page.contains("ESCALATE") && page.contains("exponential"), "{columns}:\n{page}");
            assert!(page.lines().all(|line| width(line) <= columns), "{columns}:\n{page}");
        }
        assert_eq!(
            at(44),
            "  decision  > ESCALATE\n  wait      exponential 1s\n\n\
             \x20 decision  RETRY at some later time that\n            takes many words\n  wait      -\n"
        );
        assert!(at(64).starts_with('╭') && at(118).lines().count() == 6);
    }

    #[test]
    fn shares_never_leave_their_room() {
        assert_eq!(share(Duration::from_secs(5), Duration::ZERO, 10), 0);
        assert_eq!(share(Duration::MAX, Duration::from_nanos(1), 10), 10);
        assert_eq!(share(Duration::from_secs(1), Duration::from_secs(2), 10), 5);
    }
}
