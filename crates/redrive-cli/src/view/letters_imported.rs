//! What an import of dead letters brought in.

use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// JSON: `redrive/letters_imported.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct LettersImportedView {
    pub(crate) schema: &'static str,
    /// Letters that are new here.
    pub(crate) added: u64,
    /// Letters and events that were here already.
    pub(crate) known: u64,
    /// Letters that nobody could run, since they have no kind or no payload: kept as events.
    pub(crate) as_events: u64,
    /// Lines that could not be read, and are kept as they were.
    pub(crate) kept_aside: u64,
    /// The first of these.
    pub(crate) bad_lines: Vec<BadLineView>,
}

/// A line that could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct BadLineView {
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) why: String,
}

impl Page for LettersImportedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let counts: [(&str, &dyn std::fmt::Display); 3] =
            [("added", &self.added), ("known", &self.known), ("aside", &self.kept_aside)];
        let tone = if self.kept_aside == 0 { Tone::Good } else { Tone::Warn };
        let mut blocks =
            vec![Block::Text(vec![Span::new(text(lang, "letters-imported.counts", &counts), tone)])];
        if self.as_events > 0 {
            let line = text(lang, "letters-imported.as-events", &[("n", &self.as_events)]);
            blocks.push(Block::Text(vec![Span::new(line, Tone::Warn)]));
        }
        blocks
    }
}
