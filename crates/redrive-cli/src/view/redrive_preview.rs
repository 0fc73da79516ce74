//! What a redrive would do, before it does anything.

use redrive::engine::RedrivePreview;
use redrive_policy::Cause;
use redrive_store::Timestamp;
use serde::Serialize;

use super::block::Panel;
use super::sample::{self, SampleLetter};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/redrive_preview.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct RedrivePreviewView {
    schema: &'static str,
    /// How many letters match, and how many of them would be put back.
    matching: u64,
    count: u64,
    canary: bool,
    rate: Option<f64>,
    sample: Vec<SampleLetter>,
    would: Vec<WouldLine>,
    nobody_takes: Vec<Lane>,
    paused: Vec<String>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct WouldLine {
    cause: Cause,
    policy: String,
    max_retries: u32,
}

#[derive(Debug, Serialize)]
struct Lane {
    queue: String,
    kind: String,
}

impl RedrivePreviewView {
    pub(crate) fn new(preview: RedrivePreview, canary: bool, rate: Option<f64>, now: Timestamp) -> Self {
        RedrivePreviewView {
            schema: "redrive/redrive_preview.v1",
            matching: preview.matching,
            count: preview.count,
            canary,
            rate,
            sample: preview.sample.into_iter().map(SampleLetter::from).collect(),
            would: preview
                .would
                .into_iter()
                .map(|would| WouldLine {
                    cause: would.cause,
                    policy: would.policy,
                    max_retries: would.max_retries,
                })
                .collect(),
            nobody_takes: preview
                .nobody_takes
                .into_iter()
                .map(|(queue, kind)| Lane { queue, kind })
                .collect(),
            paused: preview.paused,
            now,
        }
    }

    /// What a person must know before it begins: nobody would run what comes back.
    pub(crate) fn warnings(&self, reader: Reader) -> Vec<String> {
        let paused =
            self.paused.iter().map(|queue| text(reader.lang, "redrive.queue-is-paused", &[("queue", queue)]));
        let nobody = self.nobody_takes.iter().map(|lane| {
            text(reader.lang, "redrive.nobody-takes", &[("queue", &lane.queue), ("kind", &lane.kind)])
        });
        paused.chain(nobody).collect()
    }
}

impl Page for RedrivePreviewView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut body = vec![Block::Listing(sample::listing(&self.sample, self.now, reader))];
        for would in &self.would {
            let key = match would.max_retries {
                0 => "redrive.would-not-retry",
                1 => "redrive.would-retry-once",
                _ => "redrive.would-retry",
            };
            let values: &[(&str, &dyn std::fmt::Display)] =
                &[("cause", &would.cause.name()), ("policy", &would.policy), ("n", &would.max_retries)];
            body.push(Block::Text(vec![Span::new(text(lang, key, values), Tone::Dim)]));
        }
        if self.canary {
            body.push(Block::Text(vec![Span::new(say(lang, "redrive.in-steps"), Tone::Dim)]));
        }
        let title = text(lang, "redrive.preview", &[("n", &self.count), ("matching", &self.matching)]);
        vec![Block::Panel(Panel::new(title, body))]
    }
}
