//! How things stand: what is dead, what failed, what waits, queue by queue.

use std::collections::BTreeMap;

use redrive_policy::Cause;
use redrive_store::{LaneCounts, StoreStatus, Timestamp};
use serde::Serialize;

use super::moment::rough;
use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::text::{say, text};

/// The whole store. JSON: the contract `redrive/status.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusView {
    schema: &'static str,
    failed_events: u64,
    dead_letter_queue: u64,
    retry_candidates: u64,
    by_cause: BTreeMap<Cause, u64>,
    queues: Vec<LaneView>,
    /// Workers that are present; nobody but a person asks.
    #[serde(skip)]
    workers: u64,
}

/// The jobs of one kind in one queue.
#[derive(Debug, Serialize)]
struct LaneView {
    queue: String,
    kind: String,
    /// Due, and waiting for a worker.
    ready: u64,
    /// Waiting for their time.
    scheduled: u64,
    leased: u64,
    dead: u64,
    succeeded: u64,
    cancelled: u64,
    /// How long the oldest one has been due.
    oldest_due_age_ms: Option<u64>,
}

impl LaneView {
    fn of(lane: &LaneCounts, now: Timestamp) -> LaneView {
        let age = |at: Timestamp| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        LaneView {
            queue: lane.queue.clone(),
            kind: lane.kind.clone(),
            ready: lane.ready.saturating_sub(lane.scheduled),
            scheduled: lane.scheduled,
            leased: lane.leased,
            dead: lane.dead,
            succeeded: lane.succeeded,
            cancelled: lane.cancelled,
            oldest_due_age_ms: lane.oldest_due.map(age),
        }
    }
}

impl StatusView {
    pub(crate) fn new(status: StoreStatus, now: Timestamp) -> StatusView {
        StatusView {
            schema: "redrive/status.v1",
            failed_events: status.failed_events,
            dead_letter_queue: status.dead_letters,
            retry_candidates: status.retry_candidates,
            by_cause: status.by_cause.into_iter().filter(|(_, letters)| *letters > 0).collect(),
            queues: status.lanes.iter().map(|lane| LaneView::of(lane, now)).collect(),
            workers: status.workers,
        }
    }

    fn verdict(&self, reader: Reader) -> Span {
        match (self.dead_letter_queue, self.failed_events) {
            (0, 0) => Span::new(say(reader.lang, "status.healthy"), Tone::Good),
            (0, failed) => Span::new(text(reader.lang, "status.failures", &[("n", &failed)]), Tone::Warn),
            (dead, _) => Span::new(text(reader.lang, "status.letters", &[("n", &dead)]), Tone::Bad),
        }
    }

    fn queue_table(&self, reader: Reader) -> Table {
        let columns = ["queue", "kind", "ready", "scheduled", "leased", "dead", "succeeded", "oldest"];
        let number = |n: u64, tone: Tone| Span::new(n.to_string(), if n == 0 { Tone::Dim } else { tone });
        let row = |lane: &LaneView| {
            let oldest = lane.oldest_due_age_ms.map(|ms| rough(std::time::Duration::from_millis(ms)));
            vec![
                Span::new(lane.queue.clone(), Tone::Strong),
                Span::plain(lane.kind.clone()),
                number(lane.ready, Tone::Plain),
                number(lane.scheduled, Tone::Plain),
                number(lane.leased, Tone::Plain),
                number(lane.dead, Tone::Bad),
                number(lane.succeeded, Tone::Good),
                Span::plain(oldest.unwrap_or_else(|| "-".to_owned())),
            ]
        };
        let align = |i: usize| if i < 2 { Align::Left } else { Align::Right };
        Table {
            columns: columns
                .iter()
                .enumerate()
                .map(|(i, key)| (say(reader.lang, &format!("status.{key}")), align(i)))
                .collect(),
            rows: self.queues.iter().map(row).collect(),
        }
    }
}

impl Page for StatusView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let count = |n: u64, tone: Tone| Span::new(n.to_string(), if n == 0 { Tone::Good } else { tone });
        let mut blocks = vec![
            Block::Text(vec![self.verdict(reader)]),
            Block::Gap,
            Block::Fields(vec![
                (say(lang, "status.failed-events"), count(self.failed_events, Tone::Warn)),
                (say(lang, "status.dead-letters"), count(self.dead_letter_queue, Tone::Bad)),
                (say(lang, "status.retry-candidates"), count(self.retry_candidates, Tone::Warn)),
                (say(lang, "status.workers"), Span::plain(self.workers.to_string())),
            ]),
        ];
        if !self.by_cause.is_empty() {
            let fields = self
                .by_cause
                .iter()
                .map(|(cause, letters)| (cause.name().to_owned(), Span::plain(letters.to_string())));
            blocks.extend([
                Block::Gap,
                Block::Heading(say(lang, "status.by-cause")),
                Block::Fields(fields.collect()),
            ]);
        }
        if !self.queues.is_empty() {
            blocks.extend([
                Block::Gap,
                Block::Heading(say(lang, "status.queues")),
                Block::Table(self.queue_table(reader)),
            ]);
        }
        if self.dead_letter_queue > 0 {
            blocks.push(Block::Text(vec![Span::new(say(lang, "status.next"), Tone::Dim)]));
        }
        blocks
    }
}
