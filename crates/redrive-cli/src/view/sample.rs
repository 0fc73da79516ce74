//! A few letters of many, shown before something is done to all of them: a redrive or a discard.

pub(super) use redrive_server::shape::letter::SampleLetter;
use redrive_store::Timestamp;

use super::block::{Column, Listing};
use super::{Reader, Span, Tone, moment};
use crate::text::{own, say};

/// A line for each of them.
pub(super) fn listing(sample: &[SampleLetter], now: Timestamp, reader: Reader) -> Listing {
    let name = |key: &str| say(reader.lang, &format!("letter.{key}"));
    let row = |letter: &SampleLetter| {
        vec![
            Span::new(letter.id.clone(), Tone::Strong),
            Span::new(moment::when(letter.died_at, now, reader), Tone::Dim),
            Span::new(letter.cause.name(), Tone::Bad),
            Span::plain(own(reader.lang, &letter.error_message)),
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
