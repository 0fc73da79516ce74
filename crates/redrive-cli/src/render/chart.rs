//! Numbers that are seen rather than read: bars, progress, spark lines, and large counts side by side.

use std::fmt::Write;

use super::table::tinted;
use crate::escape::{cut, escape, pad, pad_left, width};
use crate::view::{Progress, Share, Span, Spark, Tone};

/// Eight heights of one cell.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eight lengths within one cell.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// No bar is longer: what is wide is not more exact.
const LONGEST_BAR: usize = 60;
/// A label leaves this much to what it labels.
const LEFT_FOR_BAR: usize = 24;

/// A whole number with its thousands apart.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    // Four digits are read at a glance.
    if digits.len() <= 4 {
        return digits;
    }
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How much of a whole, in percent; a part that is there is never said to be none, nor one that lacks something all.
pub(super) fn percent(value: u64, of: u64) -> String {
    match (value, of) {
        (_, 0) => String::new(),
        (0, _) => "0%".to_owned(),
        (value, of) if value >= of => "100%".to_owned(),
        (value, of) => {
            let rounded = (u128::from(value) * 200 + u128::from(of)) / (u128::from(of) * 2);
            match rounded {
                0 => "<1%".to_owned(),
                100.. => ">99%".to_owned(),
                percent => format!("{percent}%"),
            }
        }
    }
}

/// `value / scale` of so many cells in eighths of a cell; something that is there is at least seen.
fn eighths(value: u64, scale: u64, cells: usize) -> usize {
    let all = u128::try_from(cells * 8).unwrap_or(0);
    let part = (u128::from(value) * all).checked_div(u128::from(scale)).unwrap_or(0).min(all);
    usize::try_from(part).unwrap_or(0).max(usize::from(value > 0))
}

fn bar(value: u64, scale: u64, cells: usize) -> String {
    let eighths = eighths(value, scale, cells);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Labels cut and padded to one width.
fn labels<'a>(labels: impl Iterator<Item = &'a str>, columns: usize) -> Vec<String> {
    let most = columns.saturating_sub(LEFT_FOR_BAR).max(8);
    let cut_labels: Vec<String> = labels.map(|label| cut(&escape(label), most)).collect();
    let widest = cut_labels.iter().map(|label| width(label)).max().unwrap_or(0);
    cut_labels.iter().map(|label| pad(label, widest)).collect()
}

/// Bars one below the other, the longest as long as there is room.
pub(super) fn shares(shares: &[Share], columns: usize, colour: bool) -> String {
    let labels = labels(shares.iter().map(|share| share.label.as_str()), columns);
    let counts: Vec<String> = shares.iter().map(|share| grouped(share.value)).collect();
    let percents: Vec<String> = shares.iter().map(|share| percent(share.value, share.of)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let (label, count, part) = (widest(&labels), widest(&counts), widest(&percents));
    let room = columns.saturating_sub(label + count + part + 6).clamp(4, LONGEST_BAR);
    // A part of a whole is drawn as such; numbers without a whole are compared with the largest.
    let scale = shares.iter().map(|share| share.value.max(share.of)).max().unwrap_or(0);
    let lines = shares.iter().enumerate().map(|(i, share)| {
        let line = format!(
            "{}  {}  {}  {}",
            labels[i],
            pad_left(&counts[i], count),
            tinted(&pad_left(&percents[i], part), Tone::Dim, colour),
            tinted(&bar(share.value, scale, room), share.tone, colour),
        );
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One bar that fills up.
pub(super) fn progress(progress: &Progress, columns: usize, colour: bool) -> String {
    let counts = format!("{}/{}", grouped(progress.done), grouped(progress.total));
    let part = pad_left(&percent(progress.done, progress.total), 4);
    let label_room = columns.saturating_sub(width(&counts) + width(&part) + 6 + 4);
    let label = cut(&escape(&progress.label), label_room.max(4));
    let beside = width(&label) + width(&counts) + width(&part) + 6;
    let note = escape(&progress.note);
    // What is said stands behind the bar where both have room, else below it.
    let behind = !note.is_empty() && beside + width(&note) + 2 + 10 <= columns;
    let taken = beside + if behind { width(&note) + 2 } else { 0 };
    let room = columns.saturating_sub(taken).clamp(4, LONGEST_BAR);
    let full = eighths(progress.done, progress.total, room) / 8;
    let line = format!(
        "{label}  {}{}  {counts}  {}",
        tinted(&"━".repeat(full), progress.tone, colour),
        tinted(&"─".repeat(room - full), Tone::Dim, colour),
        tinted(&part, Tone::Dim, colour),
    );
    match (note.is_empty(), behind) {
        (true, _) => line,
        (false, true) => format!("{line}  {note}"),
        (false, false) => format!("{line}\n{}", cut(&note, columns)),
    }
}

/// Heights over time. The scale is one for all lines of a block, so that they can be compared.
pub(super) fn sparks(sparks: &[Spark], columns: usize, colour: bool) -> String {
    let labels = labels(sparks.iter().map(|spark| spark.label.as_str()), columns);
    let label = labels.first().map_or(0, |label| width(label));
    let room = columns.saturating_sub(label + 2).max(4);
    let merged: Vec<Vec<u64>> = sparks.iter().map(|spark| merged(&spark.values, room)).collect();
    let scale = merged.iter().flatten().copied().max().unwrap_or(0);
    let lines = sparks.iter().zip(&labels).zip(&merged).map(|((spark, name), values)| {
        let heights: String = values.iter().map(|value| height(*value, scale)).collect();
        let used = label + 2 + values.len() + 2;
        let note =
            if used + 8 <= columns { cut(&escape(&spark.note), columns - used) } else { String::new() };
        let line = format!("{name}  {}  {note}", tinted(&heights, spark.tone, colour));
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Neighbours added up until the line fits; nothing is left out.
fn merged(values: &[u64], room: usize) -> Vec<u64> {
    let each = values.len().div_ceil(room.max(1)).max(1);
    values
        .chunks(each)
        .map(|chunk| chunk.iter().fold(0_u64, |sum, value| sum.saturating_add(*value)))
        .collect()
}

/// Nothing is the lowest; something is never as low as nothing.
fn height(value: u64, scale: u64) -> char {
    if value == 0 {
        return HEIGHTS[0];
    }
    let step = (u128::from(value) * 7).div_ceil(u128::from(scale.max(1))).min(7);
    HEIGHTS[usize::try_from(step).unwrap_or(7)]
}

/// Numbers above their names, as many side by side as there is room for.
pub(super) fn tally(counts: &[(Span, String)], columns: usize, colour: bool) -> String {
    const BETWEEN: usize = 4;
    let cell = |(value, name): &(Span, String)| width(&escape(&value.text)).max(width(&escape(name)));
    let mut out = Vec::new();
    let mut rest = counts;
    while !rest.is_empty() {
        let mut taken = 0;
        let mut used = 0;
        while let Some(count) = rest.get(taken) {
            let wide = cell(count) + if taken > 0 { BETWEEN } else { 0 };
            if taken > 0 && used + wide > columns {
                break;
            }
            used += wide;
            taken += 1;
        }
        let (row, after) = rest.split_at(taken);
        let (mut values, mut names) = (String::new(), String::new());
        for count in row {
            let wide = cell(count).min(columns);
            let value = cut(&escape(&count.0.text), wide);
            let room = wide - width(&value) + BETWEEN;
            let _ = write!(values, "{}{}", tinted(&value, count.0.tone, colour), " ".repeat(room));
            let name = cut(&escape(&count.1), wide);
            let room = wide - width(&name) + BETWEEN;
            let _ = write!(names, "{}{}", tinted(&name, Tone::Dim, colour), " ".repeat(room));
        }
        out.push(format!("{}\n{}", values.trim_end(), names.trim_end()));
        rest = after;
    }
    out.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: a part is never drawn or said as nothing when it is something.
    #[test]
    fn small_parts_are_seen() {
        assert_eq!(
            (percent(0, 7), percent(1, 1_000), percent(999, 1_000)),
            ("0%".into(), "<1%".into(), ">99%".into())
        );
        assert_eq!(
            (percent(1, 3), percent(3, 3), percent(5, 0)),
            ("33%".into(), "100%".into(), String::new())
        );
        assert_eq!(bar(1, 1_000_000, 10), "▏");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar(0, 0, 3), "");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
    }

    /// R-C2: a spark line has one scale, and a long one is merged, not cut.
    #[test]
    fn spark_lines_are_comparable() {
        let spark = |values: &[u64]| Spark {
            label: "failed".into(),
            values: values.to_vec(),
            tone: Tone::Bad,
            note: String::new(),
        };
        assert_eq!(sparks(&[spark(&[0, 1, 4, 8])], 40, false), "failed  ▁▂▅█");
        assert_eq!(sparks(&[spark(&[8, 0]), spark(&[4, 4])], 40, false), "failed  █▁\nfailed  ▅▅");
        assert_eq!(merged(&[1, 2, 3, 4, 5], 3), [3, 7, 5]);
    }

    /// R-C2: no chart is wider than its page.
    #[test]
    fn charts_keep_to_their_width() {
        let label = "接続できませんでした".to_owned();
        for columns in 36..120 {
            let share = |value| Share { label: label.clone(), value, of: 2_000_000, tone: Tone::Bad };
            let running = Progress {
                label: label.clone(),
                done: 1_200,
                total: 10_000,
                tone: Tone::Good,
                note: "3 failed, 120/s".into(),
            };
            let spark = Spark {
                label: label.clone(),
                values: (0..168).collect(),
                tone: Tone::Bad,
                note: "7 days".into(),
            };
            let count = |value: &str| (Span::plain(value), "再試行の候補".to_owned());
            let page = [
                shares(&[share(1_999_999), share(1)], columns, false),
                progress(&running, columns, false),
                sparks(&[spark], columns, false),
                tally(&[count("1"), count("2"), count("3,000,000")], columns, false),
            ]
            .join("\n");
            assert!(page.lines().all(|line| width(line) <= columns), "{columns}:\n{page}");
        }
    }
}
