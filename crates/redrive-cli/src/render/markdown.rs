//! The small part of Markdown that help topics use: headings, paragraphs, lists, tables, code, bold, links.

use std::fmt::Write;

use super::style::paint;
use super::table::{Sheet, draw};
use super::wrap::wrap;
use crate::escape::{escape, width};
use crate::view::{Align, Block, Span, Table, Tone};

/// Marks that carry a tone through the breaking of lines. No text brings them along: escaping writes them out.
const BOLD: char = '\u{2061}';
const CODE: char = '\u{2062}';
const OVER: char = '\u{2063}';

/// A part of the text that stands by itself.
enum Part<'a> {
    Heading(&'a str),
    Paragraph(String),
    /// What it begins with, and its text.
    Item(&'a str, String),
    Code(Vec<&'a str>),
    Table(Vec<Vec<&'a str>>),
}

/// For a terminal.
pub(super) fn rich(text: &str, sheet: Sheet) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut after_item = false;
    for part in parts(text) {
        let is_item = matches!(part, Part::Item(..));
        if !(out.is_empty() || is_item && after_item) {
            out.push(String::new());
        }
        after_item = is_item;
        match part {
            Part::Heading(text) => out.push(tinted(&escape(text), Tone::Heading, sheet)),
            Part::Paragraph(text) => out.extend(lines(&text, "", sheet)),
            Part::Item(sign, text) => out.extend(lines(&text, sign, sheet)),
            Part::Code(code) => {
                out.extend(
                    code.iter().map(|line| format!("    {}", tinted(&escape(line), Tone::Good, sheet))),
                );
            }
            Part::Table(rows) => {
                let page = draw(&[Block::Table(table(&rows))], sheet);
                out.extend(page.trim_end().lines().map(ToOwned::to_owned));
            }
        }
    }
    out.join("\n")
}

/// For a pipe: the same words, nothing wrapped.
pub(super) fn plain(text: &str, draw_table: &dyn Fn(&Table) -> String) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut after_item = false;
    for part in parts(text) {
        let is_item = matches!(part, Part::Item(..));
        if !(out.is_empty() || is_item && after_item) {
            out.push(String::new());
        }
        after_item = is_item;
        match part {
            Part::Heading(text) => out.push(text.to_owned()),
            Part::Paragraph(text) => out.push(bare(&text)),
            Part::Item(sign, text) => {
                out.push(format!("{} {}", if sign == "•" { "-" } else { sign }, bare(&text)));
            }
            Part::Code(code) => out.extend(code.iter().map(|line| format!("    {line}"))),
            Part::Table(rows) => out.push(draw_table(&table(&rows))),
        }
    }
    out.join("\n")
}

fn tinted(text: &str, tone: Tone, sheet: Sheet) -> String {
    if sheet.colour { paint(text, tone) } else { text.to_owned() }
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if trimmed.starts_with("```") {
            parts.push(Part::Code(lines.by_ref().take_while(|line| !line.starts_with("```")).collect()));
        } else if let Some(heading) = trimmed.strip_prefix('#') {
            parts.push(Part::Heading(heading.trim_start_matches('#').trim()));
        } else if trimmed.starts_with('|') {
            let mut rows = vec![cells(trimmed)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                // The line under the header draws nothing.
                if !row.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
                    rows.push(cells(row));
                }
            }
            parts.push(Part::Table(rows));
        } else if let Some((sign, item)) = item(trimmed) {
            parts.push(Part::Item(sign, item.to_owned()));
        } else {
            parts.push(Part::Paragraph(trimmed.to_owned()));
        }
    }
    parts
}

/// `- text` and `1. text`.
fn item(line: &str) -> Option<(&str, &str)> {
    if let Some(text) = line.strip_prefix("- ") {
        return Some(("•", text));
    }
    let (number, text) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (&line[..=number.len()], text))
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn table(rows: &[Vec<&str>]) -> Table {
    let span = |cell: &&str| {
        let tone = if cell.starts_with("**") { Tone::Strong } else { Tone::Plain };
        Span::new(bare(cell), tone)
    };
    let (header, body) =
        rows.split_first().map_or((&[][..], &[][..]), |(header, body)| (header.as_slice(), body));
    Table {
        columns: header.iter().map(|name| (bare(name), Align::Left)).collect(),
        rows: body.iter().map(|row| row.iter().map(span).collect()).collect(),
    }
}

/// The text without its marks; a link keeps where it leads.
fn bare(text: &str) -> String {
    marked(text).chars().filter(|c| !matches!(*c, BOLD | CODE | OVER)).collect()
}

/// The text with our marks instead of Markdown's.
fn marked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let (mut bold, mut code) = (false, false);
    while let Some(c) = rest.chars().next() {
        if c == '`' {
            code = !code;
            out.push(if code { CODE } else { OVER });
            rest = &rest[1..];
        } else if !code && rest.starts_with("**") {
            bold = !bold;
            out.push(if bold { BOLD } else { OVER });
            rest = &rest[2..];
        } else if let Some((label, to, after)) = link(rest).filter(|_| !code) {
            out.push_str(label);
            if to.contains("://") {
                let _ = write!(out, " ({to})");
            }
            rest = after;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// `[label](target)` at the beginning, and what follows.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (to, after) = rest.split_once(')')?;
    (!label.contains(']')).then_some((label, to, after))
}

/// A text in lines, its tones kept across them, behind a sign if there is one.
fn lines(text: &str, sign: &str, sheet: Sheet) -> Vec<String> {
    let indent = if sign.is_empty() { 0 } else { width(sign) + 3 };
    let mut tone = Tone::Plain;
    let mut out = Vec::new();
    for (i, line) in wrap(&marked(text), sheet.columns.saturating_sub(indent)).iter().enumerate() {
        let mut drawn = match (i, indent) {
            (_, 0) => String::new(),
            (0, _) => format!("  {sign} "),
            (_, indent) => " ".repeat(indent),
        };
        let mut word = String::new();
        for c in line.chars() {
            if !matches!(c, BOLD | CODE | OVER) {
                word.push(c);
                continue;
            }
            drawn.push_str(&tinted(&escape(&word), tone, sheet));
            word.clear();
            tone = match c {
                BOLD => Tone::Strong,
                CODE => Tone::Heading,
                _ => Tone::Plain,
            };
        }
        drawn.push_str(&tinted(&escape(&word), tone, sheet));
        out.push(drawn);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\nSome **bold words that go on** and `code`, see [docs](https://example.com/x).\n\n- one\n- two\n\n1. first\n\n```\nredrive run\n```\n\n| a | b |\n|---|---|\n| **x** | y |\n";

    /// R-C2: Markdown is drawn on a terminal and left as words in a pipe.
    #[test]
    fn markdown_is_drawn() {
        let sheet = |columns, colour| Sheet { columns, colour, boxed: false };
        let drawn = rich(TEXT, sheet(30, false));
        assert_eq!(
            drawn,
            "Title\n\nSome bold words that go on and\ncode, see docs\n(https://example.com/x).\n\n  • one\n  • two\n  1. first\n\n\
             \x20   redrive run\n\n╭───┬───╮\n│ a │ b │\n├───┼───┤\n│ x │ y │\n╰───┴───╯"
        );
        let coloured = rich(TEXT, sheet(18, true));
        // A tone goes on in the next line.
        assert!(coloured.contains("\x1b[1mbold words\x1b[0m\n\x1b[1mthat go on\x1b[0m and"), "{coloured:?}");
        assert!(!plain(TEXT, &|_| String::new()).contains(['*', '`', '#']));
    }
}
