//! Letters that go for good: which they would be, and how many went.

use redrive_store::{LetterHead, Timestamp};
use serde::Serialize;

use super::block::Panel;
use super::sample::{self, SampleLetter};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/discarded.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct DiscardedView {
    schema: &'static str,
    /// How many there were to go.
    matching: u64,
    /// How many went.
    discarded: u64,
    /// Ids that were no letters.
    not_found: Vec<String>,
    /// Whether nothing was done, only counted.
    dry_run: bool,
    /// The oldest of them.
    sample: Vec<SampleLetter>,
    #[serde(skip)]
    now: Timestamp,
}

impl DiscardedView {
    /// What would go.
    pub(crate) fn would(
        matching: u64,
        sample: Vec<LetterHead>,
        not_found: Vec<String>,
        now: Timestamp,
    ) -> Self {
        DiscardedView {
            schema: "redrive/discarded.v1",
            matching,
            discarded: 0,
            not_found,
            dry_run: true,
            sample: sample.into_iter().map(SampleLetter::from).collect(),
            now,
        }
    }

    /// What went.
    pub(crate) fn done(self, discarded: u64) -> DiscardedView {
        DiscardedView { discarded, dry_run: false, ..self }
    }
}

impl Page for DiscardedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks: Vec<Block> = self
            .not_found
            .iter()
            .map(|id| {
                Block::Text(vec![Span::new(text(lang, "discarded.not-found", &[("id", id)]), Tone::Bad)])
            })
            .collect();
        if self.matching == 0 && blocks.is_empty() {
            return vec![Block::Text(vec![Span::new(say(lang, "discarded.none-old"), Tone::Good)])];
        }
        if !self.dry_run {
            let line = text(lang, "discarded.done", &[("n", &self.discarded)]);
            blocks.push(Block::Text(vec![Span::new(line, Tone::Strong)]));
            return blocks;
        }
        let mut body = vec![Block::Listing(sample::listing(&self.sample, self.now, reader))];
        let shown = u64::try_from(self.sample.len()).unwrap_or(u64::MAX);
        if self.matching > shown {
            let more = text(lang, "discarded.and-more", &[("n", &(self.matching - shown))]);
            body.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        let title = text(lang, "discarded.would", &[("n", &self.matching)]);
        blocks.push(Block::Panel(Panel::new(title, body).border(Tone::Bad)));
        blocks
    }
}
