//! Work that finally failed without a letter, one line each.

use redrive_store::{Event, Timestamp};
use serde::Serialize;

use super::moment::when;
use super::story::in_short;
use super::{Block, Column, Listing, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/failed.v1`; each item has the fields of R-E2.
#[derive(Debug, Serialize)]
pub(crate) struct FailedView {
    schema: &'static str,
    items: Vec<Item>,
    /// The id of the last one, if there are more behind it: `--after` takes it.
    next: Option<String>,
    /// The command for those behind it.
    #[serde(skip)]
    next_page: Option<String>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct Item {
    id: String,
    #[serde(flatten)]
    event: Event,
}

impl FailedView {
    /// From the newest to the oldest.
    pub(crate) fn new(
        events: Vec<Event>,
        next: Option<String>,
        next_page: Option<String>,
        now: Timestamp,
    ) -> FailedView {
        let items = events.into_iter().map(|event| Item { id: event.event_id.clone(), event }).collect();
        FailedView { schema: "redrive/failed.v1", items, next, next_page, now }
    }

    fn listing(&self, reader: Reader) -> Listing {
        let name = |key: &str| say(reader.lang, &format!("failed.{key}"));
        let row = |item: &Item| {
            vec![
                Span::new(item.id.clone(), Tone::Strong),
                Span::new(when(item.event.timestamp, self.now, reader), Tone::Dim),
                Span::plain(item.event.source.clone()),
                Span::plain(in_short(&item.event, reader.lang)),
            ]
        };
        Listing {
            columns: vec![
                Column::left(say(reader.lang, "letter.id")),
                Column::right(name("when")),
                Column::left(name("source")).rank(1),
                Column::left(name("what")).cut_to(20),
            ],
            rows: self.items.iter().map(row).collect(),
        }
    }
}

impl Page for FailedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::new(say(lang, "failed.none"), Tone::Good)])];
        }
        let mut blocks = vec![Block::Listing(self.listing(reader))];
        if let Some(command) = &self.next_page {
            let more = text(lang, "letter.more", &[("n", &self.items.len()), ("command", command)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        blocks.push(Block::Text(vec![Span::new(say(lang, "failed.next"), Tone::Dim)]));
        blocks
    }
}
