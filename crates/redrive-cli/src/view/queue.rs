//! Queues: what waits in each, and which are paused.

use redrive::engine::QueueReport;
use redrive_store::Timestamp;
use serde::Serialize;

use super::badge::Badge;
use super::block::{Column, Listing};
use super::moment::{rough, when};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/queues.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct QueuesView {
    schema: &'static str,
    items: Vec<QueueReport>,
    #[serde(skip)]
    now: Timestamp,
}

impl QueuesView {
    pub(crate) fn new(items: Vec<QueueReport>, now: Timestamp) -> QueuesView {
        QueuesView { schema: "redrive/queues.v1", items, now }
    }

    /// Badge and since when.
    fn paused(&self, item: &QueueReport, reader: Reader) -> Span {
        let Some(at) = item.paused_at else { return Span::plain("-") };
        let badge = Badge::Paused.span(reader.lang);
        Span::new(format!("{} {}", badge.text, when(at, self.now, reader)), badge.tone)
    }
}

impl Page for QueuesView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "queue.none"))])];
        }
        let word = |key: &str| say(lang, &format!("status.{key}"));
        let columns = vec![
            Column::left(word("queue")),
            Column::right(word("ready")),
            Column::right(word("scheduled")).rank(2),
            Column::right(word("leased")),
            Column::right(word("dead")),
            Column::right(word("succeeded")).rank(3),
            Column::right(word("oldest")).rank(1),
            Column::left(say(lang, "queue.paused")).cut_to(12),
        ];
        let number = |n: u64, tone: Tone| Span::new(n.to_string(), if n == 0 { Tone::Dim } else { tone });
        let row = |item: &QueueReport| {
            let oldest = item.oldest_due_age_ms.map(|ms| rough(std::time::Duration::from_millis(ms)));
            vec![
                Span::new(item.name.clone(), Tone::Strong),
                number(item.ready, Tone::Plain),
                number(item.scheduled, Tone::Plain),
                number(item.running, Tone::Plain),
                number(item.dead, Tone::Bad),
                number(item.succeeded, Tone::Good),
                Span::plain(oldest.unwrap_or_else(|| "-".to_owned())),
                self.paused(item, reader),
            ]
        };
        let mut blocks =
            vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })];
        // The words of whoever paused it, whole.
        for item in &self.items {
            if let Some(why) = item.paused_why.as_ref().filter(|_| item.paused_at.is_some()) {
                let line = text(lang, "queue.paused-why", &[("queue", &item.name), ("why", why)]);
                blocks.push(Block::Text(vec![Span::new(line, Tone::Warn)]));
            }
        }
        blocks
    }
}

/// What became of a queue. JSON: `redrive/queue_changed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct QueueChangedView {
    pub(crate) schema: &'static str,
    pub(crate) queue: String,
    /// How it stands now.
    pub(crate) paused: bool,
    /// Whether it stood otherwise before.
    pub(crate) changed: bool,
}

impl Page for QueueChangedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let key = match (self.paused, self.changed) {
            (true, true) => "queue.now-paused",
            (true, false) => "queue.was-paused",
            (false, true) => "queue.now-resumed",
            (false, false) => "queue.was-resumed",
        };
        let line = text(reader.lang, key, &[("queue", &self.queue)]);
        vec![Block::Text(vec![Span::new(line, if self.paused { Tone::Warn } else { Tone::Good })])]
    }
}
