//! What became of a purge.

use redrive::engine::Purged;
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// JSON: `redrive/purged.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct PurgedView {
    schema: &'static str,
    purged: u64,
    kept: u64,
    older_than: String,
    /// Whether nothing was done, only counted.
    dry_run: bool,
}

impl PurgedView {
    pub(crate) fn new(purged: Purged, older_than: String, dry_run: bool) -> PurgedView {
        let Purged { purged, kept } = purged;
        PurgedView { schema: "redrive/purged.v1", purged, kept, older_than, dry_run }
    }
}

impl Page for PurgedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (key, tone) = match (self.dry_run, self.purged) {
            (true, _) => ("purged.would", Tone::Strong),
            (false, 0) => ("purged.nothing", Tone::Good),
            (false, _) => ("purged.done", Tone::Strong),
        };
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("n", &self.purged), ("kept", &self.kept), ("length", &self.older_than)];
        vec![Block::Text(vec![Span::new(text(reader.lang, key, &values), tone)])]
    }
}
