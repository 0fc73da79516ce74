//! What an import brought in.

use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// JSON: `redrive/imported.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct ImportedView {
    pub(crate) schema: &'static str,
    /// Events that are new here.
    pub(crate) added: u64,
    /// Events that were here already.
    pub(crate) known: u64,
    /// Lines that could not be read, and are kept as they were.
    pub(crate) kept_aside: u64,
}

impl Page for ImportedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = text(
            reader.lang,
            "imported.counts",
            &[("added", &self.added), ("known", &self.known), ("aside", &self.kept_aside)],
        );
        let tone = if self.kept_aside == 0 { Tone::Good } else { Tone::Warn };
        vec![Block::Text(vec![Span::new(line, tone)])]
    }
}
