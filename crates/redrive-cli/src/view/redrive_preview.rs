//! What a redrive would do, before it does anything.

use redrive::engine::RedrivePreview;
use redrive_policy::Cause;
use redrive_store::{LetterHead, Timestamp};
use serde::Serialize;

use super::block::{Column, Listing, Panel};
use super::{Block, Page, Reader, Span, Tone, moment};
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
struct SampleLetter {
    id: String,
    queue: String,
    kind: String,
    cause: Cause,
    died_at: Timestamp,
    error_message: String,
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
        let sample = |head: LetterHead| SampleLetter {
            id: head.id.to_string(),
            queue: head.queue,
            kind: head.kind,
            cause: head.cause,
            died_at: head.died_at,
            error_message: head.error_message,
        };
        RedrivePreviewView {
            schema: "redrive/redrive_preview.v1",
            matching: preview.matching,
            count: preview.count,
            canary,
            rate,
            sample: preview.sample.into_iter().map(sample).collect(),
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
        let columns = vec![
            Column::left(say(lang, "letter.id")),
            Column::right(say(lang, "letter.when")).rank(1),
            Column::left(say(lang, "letter.cause")),
            Column::left(say(lang, "letter.error")).cut_to(20),
        ];
        let row = |letter: &SampleLetter| {
            vec![
                Span::new(letter.id.clone(), Tone::Strong),
                Span::new(moment::when(letter.died_at, self.now, reader), Tone::Dim),
                Span::new(letter.cause.name(), Tone::Bad),
                Span::plain(letter.error_message.clone()),
            ]
        };
        let mut body = vec![Block::Listing(Listing { columns, rows: self.sample.iter().map(row).collect() })];
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
