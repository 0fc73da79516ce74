//! What a redrive would do, before it does anything.

use redrive::engine::RedrivePreview;
use redrive_server::shape::redrive::Preview;
use redrive_store::Timestamp;
use serde::Serialize;

use super::block::Panel;
use super::sample;
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/redrive_preview.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct RedrivePreviewView {
    schema: &'static str,
    #[serde(flatten)]
    preview: Preview,
    #[serde(skip)]
    now: Timestamp,
}

impl RedrivePreviewView {
    pub(crate) fn new(preview: RedrivePreview, canary: bool, rate: Option<f64>, now: Timestamp) -> Self {
        RedrivePreviewView {
            schema: "redrive/redrive_preview.v1",
            preview: Preview::new(preview, canary, rate),
            now,
        }
    }

    /// What a person must know before it begins: nobody would run what comes back.
    pub(crate) fn warnings(&self, reader: Reader) -> Vec<String> {
        let paused = self
            .preview
            .paused
            .iter()
            .map(|queue| text(reader.lang, "redrive.queue-is-paused", &[("queue", queue)]));
        let nobody = self.preview.nobody_takes.iter().map(|lane| {
            text(reader.lang, "redrive.nobody-takes", &[("queue", &lane.queue), ("kind", &lane.kind)])
        });
        paused.chain(nobody).collect()
    }
}

impl Page for RedrivePreviewView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut body = vec![Block::Listing(sample::listing(&self.preview.sample, self.now, reader))];
        for would in &self.preview.would {
            let key = match would.max_retries {
                0 => "redrive.would-not-retry",
                1 => "redrive.would-retry-once",
                _ => "redrive.would-retry",
            };
            let values: &[(&str, &dyn std::fmt::Display)] =
                &[("cause", &would.cause.name()), ("policy", &would.policy), ("n", &would.max_retries)];
            body.push(Block::Text(vec![Span::new(text(lang, key, values), Tone::Dim)]));
        }
        if self.preview.canary {
            body.push(Block::Text(vec![Span::new(say(lang, "redrive.in-steps"), Tone::Dim)]));
        }
        let title = text(
            lang,
            "redrive.preview",
            &[("n", &self.preview.count), ("matching", &self.preview.matching)],
        );
        vec![Block::Panel(Panel::new(title, body))]
    }
}
