//! What became of putting dead letters back, and of running a waiting job now.

use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// How one id fared.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RedrivenItem {
    pub(crate) id: String,
    pub(crate) result: RedriveResult,
}

/// What came of one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RedriveResult {
    /// It is in its queue again.
    Redriven,
    /// It waited, and is due now.
    Due,
    /// It runs already.
    Running,
    /// It is there and is no dead letter.
    NotDead,
    /// Unfinished work has its unique key.
    Duplicate,
    /// There is no such job.
    NotFound,
}

impl RedriveResult {
    const fn name(self) -> &'static str {
        match self {
            RedriveResult::Redriven => "redriven",
            RedriveResult::Due => "due",
            RedriveResult::Running => "running",
            RedriveResult::NotDead => "not-dead",
            RedriveResult::Duplicate => "duplicate",
            RedriveResult::NotFound => "not-found",
        }
    }

    pub(crate) const fn is_good(self) -> bool {
        matches!(self, RedriveResult::Redriven | RedriveResult::Due | RedriveResult::Running)
    }
}

/// JSON: `redrive/redriven.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct RedrivenView {
    pub(crate) schema: &'static str,
    pub(crate) redriven: u64,
    pub(crate) failed: u64,
    pub(crate) items: Vec<RedrivenItem>,
}

impl RedrivenView {
    pub(crate) fn new(items: Vec<RedrivenItem>) -> RedrivenView {
        let (good, bad): (Vec<&RedrivenItem>, Vec<&RedrivenItem>) =
            items.iter().partition(|item| item.result.is_good());
        let count = |items: Vec<_>| u64::try_from(items.len()).unwrap_or(u64::MAX);
        let (redriven, failed) = (count(good), count(bad));
        RedrivenView { schema: "redrive/redriven.v1", redriven, failed, items }
    }
}

impl Page for RedrivenView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let line = |item: &RedrivenItem| {
            let key = format!("redriven.{}", item.result.name());
            let tone = if item.result.is_good() { Tone::Good } else { Tone::Bad };
            Block::Text(vec![Span::new(text(lang, &key, &[("id", &item.id)]), tone)])
        };
        let mut blocks: Vec<Block> = self.items.iter().map(line).collect();
        if self.items.len() != 1 {
            let counts = text(lang, "redriven.counts", &[("n", &self.redriven), ("failed", &self.failed)]);
            blocks.push(Block::Text(vec![Span::new(counts, Tone::Strong)]));
        }
        blocks
    }
}
