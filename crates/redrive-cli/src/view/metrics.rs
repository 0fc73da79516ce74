//! The numbers of a period (R-C4). What was not measured is shown as such, never as nought.

use std::time::Duration;

use redrive::engine::{MetricsReport, Spread, TypeCount};
use serde::Serialize;

use super::block::{Panel, Share, Spark};
use super::moment::{date_time, rough};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/metrics.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct MetricsView {
    schema: &'static str,
    #[serde(flatten)]
    report: MetricsReport,
}

impl MetricsView {
    pub(crate) fn new(report: MetricsReport) -> MetricsView {
        MetricsView { schema: "redrive/metrics.v1", report }
    }

    fn heading(&self, reader: Reader) -> Block {
        let from = date_time(self.report.from);
        let line = match &self.report.queue {
            Some(queue) => text(reader.lang, "metrics.since-of", &[("from", &from), ("queue", queue)]),
            None => text(reader.lang, "metrics.since", &[("from", &from)]),
        };
        Block::Text(vec![Span::new(line, Tone::Dim)])
    }

    fn tally(&self, reader: Reader) -> Block {
        let report = &self.report;
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        let success = Span::new(percent(report.rates.success), rate_tone(report.rates.success));
        let dead = report.dead_letters.visible;
        Block::Tally(vec![
            (Span::new(report.totals.ended.to_string(), Tone::Strong), word("ended")),
            (success, word("success-rate")),
            (Span::new(percent(report.rates.error), Tone::Plain), word("error-rate")),
            (Span::new(percent(report.rates.retry), Tone::Plain), word("retry-rate")),
            (Span::new(dead.to_string(), if dead == 0 { Tone::Good } else { Tone::Bad }), word("visible")),
        ])
    }

    fn hours(&self, reader: Reader) -> Block {
        let hours = &self.report.hourly;
        let spark = |key: &str, tone: Tone, values: Vec<u64>| {
            let sum: u64 = values.iter().sum();
            let most = values.iter().max().copied().unwrap_or(0);
            Spark {
                label: say(reader.lang, &format!("metrics.{key}")),
                note: text(reader.lang, "metrics.spark", &[("sum", &sum), ("most", &most)]),
                values,
                tone,
            }
        };
        Block::Sparks(vec![
            spark("succeeded", Tone::Good, hours.iter().map(|hour| hour.succeeded).collect()),
            spark("retried", Tone::Warn, hours.iter().map(|hour| hour.retried).collect()),
            spark("dead", Tone::Bad, hours.iter().map(|hour| hour.dead).collect()),
        ])
    }

    fn jobs(&self, reader: Reader) -> Block {
        let (report, automatic) = (&self.report, &self.report.automatic_retry);
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        let number = |n: u64| Span::plain(n.to_string());
        let fields = vec![
            (word("succeeded"), number(report.totals.succeeded)),
            (word("dead"), number(report.totals.dead)),
            (word("cancelled"), number(report.totals.cancelled)),
            (word("attempts"), number(report.totals.attempts)),
            (word("retried"), number(report.totals.retried)),
            (word("retries"), Span::plain(self.retries(reader))),
            (word("automatic-success"), Span::plain(percent(automatic.success_rate))),
            (word("automatic-failure"), Span::plain(percent(automatic.failure_rate))),
            (word("manual-retries"), number(report.manual_retries)),
        ];
        Block::Panel(Panel::new(word("jobs"), vec![Block::Fields(fields)]))
    }

    fn retries(&self, reader: Reader) -> String {
        let retries = &self.report.retries;
        match retries.avg {
            None => "-".to_owned(),
            Some(avg) => {
                let values: [(&str, &dyn std::fmt::Display); 3] =
                    [("total", &retries.total), ("avg", &format!("{avg:.2}")), ("max", &retries.max)];
                text(reader.lang, "metrics.retries-value", &values)
            }
        }
    }

    fn times(&self, reader: Reader) -> Block {
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        Block::Panel(Panel::new(word("latency"), spread(self.report.latency_ms.as_ref(), reader)))
    }

    fn letters(&self, reader: Reader) -> Block {
        let letters = &self.report.dead_letters;
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        let oldest = letters.oldest_age_ms.map_or_else(|| "-".to_owned(), length);
        let fields = vec![
            (word("visible"), Span::plain(letters.visible.to_string())),
            (word("oldest"), Span::plain(oldest)),
            (word("died"), Span::plain(letters.died.to_string())),
            (word("discarded"), Span::plain(letters.discarded.to_string())),
        ];
        Block::Panel(Panel::new(word("dead-letters"), vec![Block::Fields(fields)]))
    }

    fn recovery(&self, reader: Reader) -> Block {
        let recovery = &self.report.recovery;
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        let rate = Span::new(percent(recovery.success_rate), rate_tone(recovery.success_rate));
        let mut body = vec![Block::Fields(vec![
            (word("success-rate"), rate),
            (word("redriven"), Span::plain(recovery.redriven.to_string())),
            (word("recovered"), Span::plain(recovery.recovered.to_string())),
            (word("died-again"), Span::plain(recovery.died_again.to_string())),
        ])];
        if let Some(duration) = &recovery.duration_ms {
            body.push(Block::Text(vec![Span::new(word("duration"), Tone::Dim)]));
            body.extend(spread(Some(duration), reader));
        }
        Block::Panel(Panel::new(word("recovery"), body))
    }

    /// How idempotency keys were used; no panel where none ever was.
    fn keys(&self, reader: Reader) -> Option<Block> {
        let keys = self.report.idempotency.as_ref()?;
        let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
        let number = |n: u64| Span::plain(n.to_string());
        let alarming = |n: u64| if n == 0 { number(n) } else { Span::new(n.to_string(), Tone::Warn) };
        let fields = vec![
            (word("keys-used"), Span::plain(share_of(keys.used, keys.use_rate))),
            (word("keys-duplicates"), {
                let again = keys.replayed.saturating_add(keys.in_flight);
                Span::plain(share_of(again, keys.duplicate_rate))
            }),
            (word("keys-replayed"), number(keys.replayed)),
            (word("keys-in-flight"), number(keys.in_flight)),
            (word("keys-mismatched"), alarming(keys.mismatched)),
            (word("keys-refused-unknown"), alarming(keys.refused_unknown)),
            (word("keys-released"), number(keys.released)),
            (word("keys-in-progress"), number(keys.in_progress)),
            (word("keys-unknown"), alarming(keys.unknown_outcomes)),
        ];
        Some(Block::Panel(Panel::new(word("keys"), vec![Block::Fields(fields)])))
    }

    fn shares(&self, reader: Reader) -> Vec<Block> {
        let mut blocks = Vec::new();
        let causes = &self.report.by_cause;
        if !causes.is_empty() {
            let of = causes.values().sum();
            let mut shares: Vec<Share> = causes
                .iter()
                .map(|(cause, n)| Share { label: cause.name().to_owned(), value: *n, of, tone: Tone::Warn })
                .collect();
            shares.sort_by_key(|share| std::cmp::Reverse(share.value));
            blocks.extend([
                Block::Gap,
                Block::Heading(say(reader.lang, "metrics.by-cause")),
                Block::Shares(shares),
            ]);
        }
        let types = self.report.by_type.as_deref().unwrap_or_default();
        let dead = || types.iter().filter(|one| one.letters > 0);
        if dead().next().is_some() {
            let of = types.iter().map(|one| one.letters).sum();
            let share = |one: &TypeCount| Share {
                label: one.error_type.clone().unwrap_or_else(|| say(reader.lang, "metrics.other")),
                value: one.letters,
                of,
                tone: Tone::Bad,
            };
            blocks.extend([
                Block::Gap,
                Block::Heading(say(reader.lang, "metrics.by-type")),
                Block::Shares(dead().map(share).collect()),
            ]);
        }
        blocks
    }
}

impl Page for MetricsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let mut blocks =
            vec![self.heading(reader), self.tally(reader), Block::Gap, self.hours(reader), Block::Gap];
        blocks.push(Block::Beside(vec![self.jobs(reader)], vec![self.times(reader)]));
        blocks.push(Block::Beside(vec![self.letters(reader)], vec![self.recovery(reader)]));
        blocks.extend(self.keys(reader));
        blocks.extend(self.shares(reader));
        blocks
    }
}

/// How lengths of time are spread, or that there were none.
fn spread(spread: Option<&Spread>, reader: Reader) -> Vec<Block> {
    let Some(spread) = spread else {
        return vec![Block::Text(vec![Span::new(say(reader.lang, "metrics.nothing"), Tone::Dim)])];
    };
    let word = |key: &str| say(reader.lang, &format!("metrics.{key}"));
    vec![Block::Fields(vec![
        (word("min"), Span::plain(length(spread.min))),
        (word("avg"), Span::plain(format!("{:.1}ms", spread.avg))),
        ("p50".to_owned(), Span::plain(length(spread.p50))),
        ("p95".to_owned(), Span::plain(length(spread.p95))),
        ("p99".to_owned(), Span::plain(length(spread.p99))),
        (word("max"), Span::plain(length(spread.max))),
    ])]
}

fn length(millis: u64) -> String {
    rough(Duration::from_millis(millis))
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2} %"))
}

fn share_of(n: u64, rate: Option<f64>) -> String {
    rate.map_or_else(|| n.to_string(), |rate| format!("{n} ({rate:.2} %)"))
}

/// 001 warns below 80 % of recoveries and 95 % of everything; one measure for both is kinder to the eye.
fn rate_tone(rate: Option<f64>) -> Tone {
    match rate {
        None => Tone::Dim,
        Some(rate) if rate >= 95.0 => Tone::Good,
        Some(rate) if rate >= 80.0 => Tone::Warn,
        Some(_) => Tone::Bad,
    }
}
