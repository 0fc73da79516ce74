//! `export [FILE]`: events as JSON Lines, the oldest first; `export --report FILE`: what went wrong, as one document.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};

use redrive::engine::Engine;
use redrive_store::filter::{EventField, Filter};
use redrive_store::{EventFilter, Order};

use super::opened::{self, Opened};
use super::report::{self, Wanted};
use crate::args::{ExportArgs, events_where, letters_where};
use crate::render::json;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// How many events are held at once.
const PAGE: u32 = 1_000;

pub(super) fn run(args: &ExportArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let filter = args.filter.as_deref();
    let events = filter.map(events_where).transpose().map_err(Trouble::Filter)?;
    let letters = match (&args.report, filter) {
        (Some(_), Some(filter)) => Some(letters_where(filter).map_err(Trouble::Filter)?),
        _ => None,
    };
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let wanted = Wanted { events, letters };
    let write = |out: &mut dyn Write, trouble: &dyn Fn(io::Error) -> Trouble| match &args.report {
        Some(_) => report::write(&opened, &engine, &wanted, out, trouble),
        None => write(&opened, &engine, wanted.events.clone(), out, trouble),
    };
    // `-` is stdout, as everywhere.
    let file = args.report.as_ref().or(args.file.as_ref()).filter(|file| file.as_os_str() != "-");
    let Some(file) = file else {
        write(stage.stdout, &Trouble::Output)?;
        return Ok(Exit::Done);
    };
    let unwritable = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Trouble::Exists { path: file.to_owned() },
        _ => Trouble::Unwritable { path: file.to_owned(), source },
    };
    // Nothing that is there is overwritten.
    let new =
        OpenOptions::new().write(true).create_new(true).open(stage.cwd.join(file)).map_err(unwritable)?;
    let mut out = BufWriter::new(new);
    let written = write(&mut out, &unwritable)?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|new| new.sync_all())
        .map_err(unwritable)?;
    let line = text(
        stage.settings.lang,
        if args.report.is_some() { "report.written" } else { "store.exported" },
        &[("n", &written), ("file", &file.display())],
    );
    stage.talk.note(&line);
    Ok(Exit::Done)
}

fn write(
    opened: &Opened,
    engine: &Engine,
    which: Option<Filter<EventField>>,
    out: &mut dyn Write,
    trouble: &dyn Fn(io::Error) -> Trouble,
) -> Result<u64, Trouble> {
    let oldest_first = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    let mut search = engine.search_events(oldest_first, which);
    let mut written = 0;
    loop {
        let events = opened.runtime.block_on(search.next(PAGE))?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            json::write(event, out, false).map_err(|error| trouble(error.into()))?;
            out.write_all(b"\n").map_err(trouble)?;
            written += 1;
        }
    }
    out.flush().map_err(trouble)?;
    Ok(written)
}
