//! What a rotation of keys came to.

use redrive_store::Resealed;
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::text;

/// JSON: `redrive/rotated.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct RotatedView {
    schema: &'static str,
    store: String,
    /// The key that everything is under.
    key: String,
    /// How many values were encrypted anew.
    resealed: u64,
    /// Keys that nothing is under any more.
    retired: Vec<String>,
}

impl RotatedView {
    pub(crate) fn new(resealed: Resealed, store: String) -> RotatedView {
        RotatedView {
            schema: "redrive/rotated.v1",
            store,
            key: resealed.key,
            resealed: resealed.cells,
            retired: resealed.retired,
        }
    }
}

impl Page for RotatedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let good = |words: String| Block::Text(vec![Span::new(words, Tone::Good)]);
        let mut blocks = vec![good(text(
            lang,
            "store.rotated",
            &[("store", &self.store), ("key", &self.key), ("cells", &self.resealed)],
        ))];
        for key in &self.retired {
            blocks.push(good(text(lang, "store.retired", &[("key", key)])));
        }
        blocks
    }
}
