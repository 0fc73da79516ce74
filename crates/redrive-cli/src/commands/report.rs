//! `export --report FILE`: the error report of 000 as one JSON document, written page by page: `generated_at`, `summary`,
//! and the three lists.

use std::io::{self, Write};

use redrive::engine::Engine;
use redrive_store::filter::{EventField, Filter, LetterField};
use redrive_store::{EventFilter, EventStatus, LetterFilter, Timestamp};
use serde::Serialize;

use super::opened::Opened;
use crate::render::json;
use crate::trouble::Trouble;
use crate::view::dead_letter::LetterView;

/// How many events and letters are held at once.
const PAGE: u32 = 1_000;
const LETTER_PAGE: u32 = 200;

/// Which events and which letters go into a report.
pub(super) struct Wanted {
    pub(super) events: Option<Filter<EventField>>,
    pub(super) letters: Option<Filter<LetterField>>,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    failed_events: u64,
    dead_letter_queue: u64,
    retry_candidates: u64,
}

/// Writes it; answers how many entries it has.
pub(super) fn write(
    opened: &Opened,
    engine: &Engine,
    wanted: &Wanted,
    out: &mut dyn Write,
    trouble: &dyn Fn(io::Error) -> Trouble,
) -> Result<u64, Trouble> {
    let now = opened.now;
    let put = |out: &mut dyn Write, text: &str| out.write_all(text.as_bytes()).map_err(trouble);
    let mut summary = Summary::default();
    put(out, "{\"generated_at\":")?;
    item(&now, out, trouble)?;
    put(out, ",\"failed_events\":[")?;
    let filter = EventFilter { statuses: vec![EventStatus::Failed], ..EventFilter::default() };
    let mut search = engine.search_events(filter, wanted.events.clone());
    loop {
        let events = opened.runtime.block_on(search.next(PAGE))?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            put(out, if summary.failed_events == 0 { "" } else { "," })?;
            item(event, out, trouble)?;
            summary.failed_events += 1;
        }
    }
    put(out, "],\"dead_letter_queue\":[")?;
    let all = wanted_letters(wanted, LetterFilter::default(), now);
    summary.dead_letter_queue = letters(opened, engine, all, out, trouble)?;
    put(out, "],\"retry_candidates\":[")?;
    let transient = LetterFilter { transient_only: true, ..LetterFilter::default() };
    let transient = wanted_letters(wanted, transient, now);
    summary.retry_candidates = letters(opened, engine, transient, out, trouble)?;
    put(out, "],\"summary\":")?;
    item(&summary, out, trouble)?;
    put(out, "}\n")?;
    out.flush().map_err(trouble)?;
    Ok(summary.failed_events + summary.dead_letter_queue)
}

fn wanted_letters(wanted: &Wanted, among: LetterFilter, now: Timestamp) -> LetterFilter {
    match &wanted.letters {
        Some(filter) => filter.letters_among(among, now),
        None => among,
    }
}

fn letters(
    opened: &Opened,
    engine: &Engine,
    mut filter: LetterFilter,
    out: &mut dyn Write,
    trouble: &dyn Fn(io::Error) -> Trouble,
) -> Result<u64, Trouble> {
    let mut written = 0;
    loop {
        let page = opened.runtime.block_on(engine.find_letters(filter.clone(), LETTER_PAGE))?;
        for letter in &page.letters {
            if written > 0 {
                out.write_all(b",").map_err(trouble)?;
            }
            item(&LetterView::new(letter, false), out, trouble)?;
            written += 1;
        }
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(written),
        }
    }
}

fn item(
    value: &impl Serialize,
    out: &mut dyn Write,
    trouble: &dyn Fn(io::Error) -> Trouble,
) -> Result<(), Trouble> {
    json::write(value, out, false).map_err(|error| trouble(error.into()))
}
