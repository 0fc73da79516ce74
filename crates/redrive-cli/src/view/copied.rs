//! What became of moving a store.

use std::collections::BTreeMap;

use redrive_store::{Copied, CopyOutcome};
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// JSON: `redrive/copied.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct CopiedView {
    schema: &'static str,
    from: String,
    to: String,
    /// `moved`, `possible` (a dry run), `finished` (one that was interrupted), `before`.
    outcome: &'static str,
    /// Rows by table.
    rows: BTreeMap<&'static str, u64>,
}

impl CopiedView {
    pub(crate) fn new(copied: &Copied) -> CopiedView {
        let outcome = match copied.outcome {
            CopyOutcome::Moved => "moved",
            CopyOutcome::Possible => "possible",
            CopyOutcome::Finished => "finished",
            CopyOutcome::Before => "before",
        };
        CopiedView {
            schema: "redrive/copied.v1",
            from: copied.from.clone(),
            to: copied.to.clone(),
            outcome,
            rows: copied.rows.iter().copied().collect(),
        }
    }

    fn count(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or(0)
    }
}

impl Page for CopiedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let words = text(
            reader.lang,
            &format!("store.copied.{}", self.outcome),
            &[
                ("from", &self.from),
                ("to", &self.to),
                ("jobs", &self.count("job")),
                ("letters", &self.count("dead_letter")),
                ("events", &self.count("event")),
            ],
        );
        vec![Block::Text(vec![Span::new(words, Tone::Good)])]
    }
}
