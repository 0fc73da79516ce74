//! The plain form: ASCII, no colour, no wrapping, one row per line, columns two spaces apart.
//!
//! Signs that only look nicer (×, ±, ≤, –, …) are spelt in ASCII before columns are measured. Letters of other
//! scripts stay as they are.

use std::fmt::Write;

use super::chart::percent;
use super::markdown;
use super::table::{share, table_of};
use crate::escape::{escape, pad, pad_left, width};
use crate::view::backoff::short;
use crate::view::{Align, Bar, Bars, Block, Graph, Progress, Share, Span, Spark, Table};

/// How wide the longest bar is.
const BAR: usize = 40;

/// The whole page.
pub(super) fn page(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Heading(text) => out.push_str(&ascii(text)),
            Block::Text(spans) => {
                for span in spans {
                    out.push_str(&ascii(&span.text));
                }
            }
            Block::Fields(fields) => {
                let lines: Vec<String> = fields
                    .iter()
                    .map(|(label, value)| format!("{}: {}", ascii(label), ascii(&value.text)))
                    .collect();
                out.push_str(&lines.join("\n"));
            }
            Block::Table(table) => out.push_str(&rows(table)),
            Block::Listing(listing) => out.push_str(&rows(&table_of(listing))),
            Block::Panel(panel) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                let note = panel.note.as_ref().map(|note| format!(" ({})", ascii(&note.text)));
                let _ = writeln!(out, "{}{}", ascii(&panel.title.text), note.unwrap_or_default());
                out.push_str(page(&panel.body).trim_end_matches('\n'));
            }
            Block::Tally(counts) => {
                let lines: Vec<String> = counts
                    .iter()
                    .map(|(value, name)| format!("{}: {}", ascii(name), ascii(&value.text)))
                    .collect();
                out.push_str(&lines.join("\n"));
            }
            Block::Shares(shares) => out.push_str(&lines(shares, share_line)),
            Block::Progress(progress) => out.push_str(&progress_line(progress)),
            Block::Graph(graph) => out.push_str(&rows(&dependencies(graph))),
            Block::Sparks(sparks) => out.push_str(&lines(sparks, spark_line)),
            Block::Beside(left, right) => {
                let left = page(left);
                if !(out.is_empty() || left.is_empty()) {
                    out.push('\n');
                }
                out.push_str(&left);
                if !(out.is_empty() || right.is_empty()) {
                    out.push('\n');
                }
                out.push_str(page(right).trim_end_matches('\n'));
            }
            Block::Bars(bars) => out.push_str(&rows(&curve(bars))),
            Block::Markdown(text) => out.push_str(&markdown::plain(text, &rows)),
            Block::Gap => {}
        }
        out.push('\n');
    }
    out
}

fn lines<T>(parts: &[T], line: fn(&T) -> String) -> String {
    parts.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn share_line(share: &Share) -> String {
    let part = percent(share.value, share.of);
    let part = if part.is_empty() { part } else { format!(" ({part})") };
    format!("{}: {}{part}", ascii(&share.label), share.value)
}

fn progress_line(progress: &Progress) -> String {
    let part = percent(progress.done, progress.total);
    let part = if part.is_empty() { part } else { format!(" ({part})") };
    let note = if progress.note.is_empty() { String::new() } else { format!(" {}", ascii(&progress.note)) };
    format!("{}: {}/{}{part}{note}", ascii(&progress.label), progress.done, progress.total)
}

fn spark_line(spark: &Spark) -> String {
    let values: Vec<String> = spark.values.iter().map(ToString::to_string).collect();
    let note = if spark.note.is_empty() { String::new() } else { format!(" ({})", ascii(&spark.note)) };
    format!("{}: {}{note}", ascii(&spark.label), values.join(" "))
}

/// The text, harmless and without typography.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape(text).chars() {
        match c {
            '×' => out.push('x'),
            '±' => out.push_str("+/-"),
            '≤' => out.push_str("<="),
            '–' => out.push('-'),
            '·' => out.push('|'),
            '…' => out.push_str("..."),
            '→' => out.push_str("->"),
            c => out.push(c),
        }
    }
    out
}

fn rows(table: &Table) -> String {
    let header: Vec<String> = table.columns.iter().map(|(name, _)| ascii(name)).collect();
    let body = table.rows.iter().map(|row| row.iter().map(|span| ascii(&span.text)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(body).collect();
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|i| lines.iter().filter_map(|line| line.get(i)).map(|cell| width(cell)).max().unwrap_or(0))
        .collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .zip(&table.columns)
            .map(|((cell, width), (_, align))| match align {
                Align::Left => pad(cell, *width),
                Align::Right => pad_left(cell, *width),
            })
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A row for each, with what it waits for.
fn dependencies(graph: &Graph) -> Table {
    let names = |after: &[usize]| {
        let names: Vec<&str> =
            after.iter().filter_map(|after| graph.nodes.get(*after)).map(|node| node.name.as_str()).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(",") }
    };
    let row = |node: &crate::view::GraphNode| {
        vec![
            Span::plain(node.name.clone()),
            node.state.clone(),
            Span::plain(names(&node.after)),
            Span::plain(node.note.clone()),
        ]
    };
    Table {
        columns: graph.labels.iter().map(|label| (label.clone(), Align::Left)).collect(),
        rows: graph.nodes.iter().map(row).collect(),
    }
}

/// The curve as rows of `#`: `#` is certain, `.` is where jitter may reach, `*` what was drawn, `|` the cap.
fn curve(bars: &Bars) -> Table {
    let scale = bars.rows.iter().map(|bar| bar.high.max(bar.delay)).max().unwrap_or_default();
    let capped = scale >= bars.cap && !scale.is_zero();
    let [number, delay, total] = bars.labels.clone();
    let row = |bar: &Bar| {
        let mut cells = vec![' '; BAR];
        let certain = share(bar.low, scale, BAR).max(usize::from(!bar.low.is_zero()));
        cells[..certain].fill('#');
        if bar.low < bar.high {
            let (from, to) = (certain, share(bar.high, scale, BAR).max(1));
            cells[from.min(to)..to].fill('.');
            cells[share(bar.delay, scale, BAR).min(BAR - 1)] = '*';
        }
        let edge = if capped { "|" } else { "" };
        vec![
            Span::plain(bar.number.to_string()),
            Span::plain(short(bar.delay)),
            Span::plain(short(bar.total)),
            Span::plain(format!("{}{edge}", cells.into_iter().collect::<String>())),
        ]
    };
    Table {
        columns: vec![
            (number, Align::Right),
            (delay, Align::Right),
            (total, Align::Right),
            (String::new(), Align::Left),
        ],
        rows: bars.rows.iter().map(row).collect(),
    }
}
