//! The id of a job that was added, or was there already.

use redrive_store::Enqueued;
use serde::Serialize;

use super::{Block, Page, Reader, Span};

/// JSON: the contract `redrive/enqueued.v1`. For people and scripts: the id alone on its line.
#[derive(Debug, Serialize)]
pub(crate) struct EnqueuedView {
    schema: &'static str,
    id: String,
    existing: bool,
}

impl EnqueuedView {
    pub(crate) fn new(enqueued: Enqueued) -> EnqueuedView {
        EnqueuedView {
            schema: "redrive/enqueued.v1",
            id: enqueued.id.to_string(),
            existing: enqueued.existing,
        }
    }
}

impl Page for EnqueuedView {
    fn blocks(&self, _: Reader) -> Vec<Block> {
        vec![Block::Text(vec![Span::plain(self.id.clone())])]
    }
}
