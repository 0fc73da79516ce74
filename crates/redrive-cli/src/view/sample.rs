//! A few letters of many, shown before something is done to all of them: a redrive or a discard.

use redrive_policy::Cause;
use redrive_store::{LetterHead, Timestamp};
use serde::Serialize;

use super::block::{Column, Listing};
use super::{Reader, Span, Tone, moment};
use crate::text::say;

/// One of the letters.
#[derive(Debug, Serialize)]
pub(super) struct SampleLetter {
    id: String,
    queue: String,
    kind: String,
    cause: Cause,
    died_at: Timestamp,
    error_message: String,
}

impl From<LetterHead> for SampleLetter {
    fn from(head: LetterHead) -> SampleLetter {
        SampleLetter {
            id: head.id.to_string(),
            queue: head.queue,
            kind: head.kind,
            cause: head.cause,
            died_at: head.died_at,
            error_message: head.error_message,
        }
    }
}

/// A line for each of them.
pub(super) fn listing(sample: &[SampleLetter], now: Timestamp, reader: Reader) -> Listing {
    let name = |key: &str| say(reader.lang, &format!("letter.{key}"));
    let row = |letter: &SampleLetter| {
        vec![
            Span::new(letter.id.clone(), Tone::Strong),
            Span::new(moment::when(letter.died_at, now, reader), Tone::Dim),
            Span::new(letter.cause.name(), Tone::Bad),
            Span::plain(letter.error_message.clone()),
        ]
    };
    Listing {
        columns: vec![
            Column::left(name("id")),
            Column::right(name("when")).rank(1),
            Column::left(name("cause")),
            Column::left(name("error")).cut_to(20),
        ],
        rows: sample.iter().map(row).collect(),
    }
}
