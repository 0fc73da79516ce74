//! Lists with one line per row: which columns a terminal has room for, and how far their cells are cut.

use super::table::{AROUND_A_CELL, tinted};
use crate::escape::{cut, escape, pad, pad_left, width};
use crate::view::{Align, Listing, Span, Tone};

/// Between columns that have no border.
const BETWEEN: usize = 2;

/// The columns that are shown, by their place in the listing, and how wide each is.
type Plan = Vec<(usize, usize)>;

/// The listing with only the columns that fit, every cell cut to its width; nothing when not even those fit that may
/// never be left out.
pub(super) fn fitted(listing: &Listing, columns: usize, boxed: bool) -> Option<Listing> {
    let plan = plan(listing, columns, boxed)?;
    let cell = |span: &Span, width: usize| Span::new(cut(&escape(&span.text), width), span.tone);
    Some(Listing {
        columns: plan.iter().filter_map(|(i, _)| listing.columns.get(*i).cloned()).collect(),
        rows: listing
            .rows
            .iter()
            .map(|row| plan.iter().filter_map(|(i, width)| Some(cell(row.get(*i)?, *width))).collect())
            .collect(),
    })
}

fn plan(listing: &Listing, columns: usize, boxed: bool) -> Option<Plan> {
    let mut shown: Vec<usize> = (0..listing.columns.len()).collect();
    let natural: Vec<usize> = (0..listing.columns.len()).map(|i| natural(listing, i)).collect();
    let least = |i: &usize| {
        let column = &listing.columns[*i];
        // The name of a column is never cut.
        column.cut_to.map_or(natural[*i], |cut_to| cut_to.max(width(&column.name)).min(natural[*i]))
    };
    loop {
        let room = room_for(shown.len(), columns, boxed);
        let spare = room.checked_sub(shown.iter().map(least).sum::<usize>());
        if let Some(spare) = spare {
            return Some(shared_out(&shown, &natural, &least, spare));
        }
        // Of equal ranks, the one further to the right matters less.
        let (least_important, _) = shown
            .iter()
            .enumerate()
            .filter(|(_, i)| listing.columns[**i].rank > 0)
            .max_by_key(|(_, i)| listing.columns[**i].rank)?;
        shown.remove(least_important);
    }
}

/// What is left for text beside so many columns.
fn room_for(count: usize, columns: usize, boxed: bool) -> usize {
    let taken = if boxed { count.saturating_sub(1) * BETWEEN } else { count * AROUND_A_CELL + 1 };
    columns.saturating_sub(taken)
}

/// How wide the widest cell of a column is, its name included.
fn natural(listing: &Listing, i: usize) -> usize {
    let cells = listing.rows.iter().filter_map(|row| row.get(i)).map(|span| width(&escape(&span.text)));
    cells.chain([width(&escape(&listing.columns[i].name))]).max().unwrap_or(0)
}

/// Each column gets what it needs at least; the rest goes to those that were cut, from the left.
fn shared_out(shown: &[usize], natural: &[usize], least: &dyn Fn(&usize) -> usize, mut spare: usize) -> Plan {
    let mut plan = Plan::new();
    for i in shown {
        let more = (natural[*i] - least(i)).min(spare);
        spare -= more;
        plan.push((*i, least(i) + more));
    }
    plan
}

/// A fitted listing without borders, as it stands inside a panel.
pub(super) fn borderless(listing: &Listing, colour: bool) -> String {
    let widths: Vec<usize> = (0..listing.columns.len()).map(|i| natural(listing, i)).collect();
    let line = |cells: &mut dyn Iterator<Item = (String, Tone)>| {
        let cells: Vec<String> = cells
            .zip(&widths)
            .zip(&listing.columns)
            .map(|(((text, tone), width), column)| {
                let padded = match column.align {
                    Align::Left => pad(&text, *width),
                    Align::Right => pad_left(&text, *width),
                };
                // Blanks are not painted: a line can end without them.
                let shown = padded.trim();
                let before = padded.len() - padded.trim_start().len();
                let after = padded.len() - before - shown.len();
                format!("{}{}{}", " ".repeat(before), tinted(shown, tone, colour), " ".repeat(after))
            })
            .collect();
        cells.join(&" ".repeat(BETWEEN)).trim_end().to_owned()
    };
    let names = listing.columns.iter().map(|column| (escape(&column.name).into_owned(), Tone::Dim));
    let mut lines = vec![line(&mut names.into_iter())];
    for row in &listing.rows {
        lines.push(line(&mut row.iter().map(|span| (escape(&span.text).into_owned(), span.tone))));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::block::Column;

    fn listing() -> Listing {
        let row = |id: &str, error: &str, queue: &str, seen: &str| {
            vec![Span::plain(id), Span::plain(error), Span::plain(queue), Span::plain(seen)]
        };
        Listing {
            columns: vec![
                Column::left("id"),
                Column::left("error").cut_to(12),
                Column::left("queue").rank(2),
                Column::right("seen").rank(1),
            ],
            rows: vec![
                row("job_1", "connection refused by the far end", "mail", "3m ago"),
                row("job_22", "接続できませんでした。もう一度お試しください", "default", "12m 5s ago"),
            ],
        }
    }

    /// R-C2: text gives way first, then the column that matters least; ids never do.
    #[test]
    fn the_least_important_column_goes_first() {
        let names = |columns: usize| {
            let fitted = fitted(&listing(), columns, true)?;
            Some(fitted.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(80).as_deref(), Some("id error queue seen"));
        assert_eq!(names(41).as_deref(), Some("id error queue seen"));
        assert_eq!(names(40).as_deref(), Some("id error seen"));
        assert_eq!(names(31).as_deref(), Some("id error"));
        assert_eq!(names(19), None);
        let text = |columns| fitted(&listing(), columns, true).unwrap().rows[1][1].text.clone();
        assert_eq!(text(41), "接続できま…");
        assert_eq!(text(160), "接続できませんでした。もう一度お試しください");
    }

    /// R-C2: every row is one line, Japanese stands in line, and no line is too wide.
    #[test]
    fn rows_stay_on_their_lines() {
        for columns in 20..120 {
            let fitted = fitted(&listing(), columns, true).unwrap();
            let drawn = borderless(&fitted, false);
            assert_eq!(drawn.lines().count(), 3);
            assert!(drawn.lines().all(|line| width(line) <= columns), "{columns}:\n{drawn}");
        }
        assert_eq!(
            borderless(&fitted(&listing(), 48, true).unwrap(), false),
            "id      error                queue          seen\n\
             job_1   connection refused…  mail         3m ago\n\
             job_22  接続できませんでし…  default  12m 5s ago"
        );
    }
}
