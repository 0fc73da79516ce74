//! A number and where it comes from: who, what, how many in how long, and what the disk gave right before.

use std::fmt::Write;
use std::time::Duration;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    One,
    Many,
    Bulk,
    Drain(usize),
    Mixed,
    Latency,
}

pub const ROWS: &[(&str, Row)] = &[
    ("many", Row::Many),
    ("mixed", Row::Mixed),
    ("one", Row::One),
    ("bulk", Row::Bulk),
    ("drain", Row::Drain(64)),
    ("drain-wide", Row::Drain(2_000)),
    ("latency", Row::Latency),
];

impl Row {
    pub fn label(self) -> String {
        match self {
            Row::One => "1 caller enqueues, waiting for its answer".to_owned(),
            Row::Many => "64 callers enqueue, each waiting (floor 15,000)".to_owned(),
            Row::Bulk => "bulk: 4 callers, 1,000 jobs a call".to_owned(),
            Row::Drain(slots) => format!("drain: a backlog, {slots} slots"),
            Row::Mixed => "mixed: 64 producers + 64 slots (floor 10,000)".to_owned(),
            Row::Latency => "enqueue to start at 500 jobs/s".to_owned(),
        }
    }
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Measured {
    pub jobs: u64,
    pub took: Duration,
    pub latencies: Vec<Duration>,
    /// Its time was over before everything was finished.
    pub cut: bool,
}

/// One number of the table.
#[derive(Debug)]
pub struct Cell {
    pub who: &'static str,
    pub row: Row,
    pub jobs: u64,
    pub took: Duration,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub cut: bool,
    /// 4 KiB and fdatasync per second: appended, and written over.
    pub disk: (f64, f64),
}

impl Cell {
    pub fn new(who: &'static str, row: Row, measured: Measured, disk: (f64, f64)) -> Cell {
        let Measured { jobs, took, mut latencies, cut } = measured;
        latencies.sort_unstable();
        let quantile = |share: f64| {
            let at = (latencies.len().checked_sub(1)? as f64 * share).round() as usize;
            Some(latencies[at].as_secs_f64() * 1e3)
        };
        Cell { who, row, jobs, took, p50: quantile(0.5), p99: quantile(0.99), cut, disk }
    }

    pub fn rate(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64()
    }

    /// The line of the second table.
    pub fn origin(&self) -> String {
        let Cell { who, jobs, took, cut, disk, .. } = self;
        format!(
            "| {} | {who} | {} | {jobs} in {:.2} s{} | {} | {} | {} | {} |",
            self.row.label(),
            thousands(self.rate()),
            took.as_secs_f64(),
            if *cut { ", cut short" } else { "" },
            shown(self.p50),
            shown(self.p99),
            thousands(disk.0),
            thousands(disk.1)
        )
    }

    /// What stands in the first table: the rate, or both latencies.
    fn figure(&self) -> String {
        match (self.row, self.p50, self.p99) {
            (Row::Latency, Some(p50), Some(p99)) => format!("{p50:.1} / {p99:.1} ms"),
            (Row::Latency, ..) => "no handler ran".to_owned(),
            _ => thousands(self.rate()),
        }
    }

    /// How much better than the other: above 1 is better.
    fn against(&self, other: &Cell) -> Option<f64> {
        match self.row {
            Row::Latency => Some(other.p50? / self.p50?),
            _ => Some(self.rate() / other.rate()),
        }
    }
}

pub const ORIGINS: &str = "| | who | jobs/s | from | p50 ms | p99 ms | append + sync/s | overwrite + sync/s |\n|---|---|---|---|---|---|---|---|";

/// The first table: a row for each thing measured, a column for each contestant, and how redrive stands to the best of the
/// others.
pub fn table(cells: &[Cell]) -> String {
    let mut who: Vec<&str> = Vec::new();
    for cell in cells {
        if !who.contains(&cell.who) {
            who.push(cell.who);
        }
    }
    let mut text = format!("| 100-byte payload, jobs/s | {} | redrive to the best peer |\n", who.join(" | "));
    let _written = writeln!(text, "|---|{}---|", "---|".repeat(who.len()));
    for (_, row) in ROWS {
        let of = |name: &str| cells.iter().find(|cell| cell.row == *row && cell.who == name);
        let figures: Vec<String> =
            who.iter().map(|name| of(name).map_or_else(String::new, Cell::figure)).collect();
        let best = of(crate::REDRIVE).and_then(|ours| {
            let peers = cells.iter().filter(|cell| cell.row == *row && crate::PEERS.contains(&cell.who));
            peers.filter_map(|peer| ours.against(peer)).min_by(f64::total_cmp)
        });
        let ratio = best.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _written = writeln!(text, "| {} | {} | {ratio} |", row.label(), figures.join(" | "));
    }
    text
}

fn shown(milliseconds: Option<f64>) -> String {
    milliseconds.map_or_else(String::new, |value| format!("{value:.2}"))
}

/// 12,345
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
