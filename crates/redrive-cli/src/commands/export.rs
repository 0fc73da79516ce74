//! `export [FILE]`: all events as JSON Lines, the oldest first.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use redrive::engine::Engine;
use redrive_store::{EventFilter, Order};

use super::opened::{self, Opened};
use crate::render::json;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// How many events are held at once.
const PAGE: u32 = 1_000;

pub(super) fn run(file: Option<&Path>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let Some(file) = file else {
        write(&opened, &engine, stage.stdout, Trouble::Output)?;
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
    let written = write(&opened, &engine, &mut out, unwritable)?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|new| new.sync_all())
        .map_err(unwritable)?;
    let line = text(stage.settings.lang, "store.exported", &[("n", &written), ("file", &file.display())]);
    stage.talk.note(&line);
    Ok(Exit::Done)
}

fn write(
    opened: &Opened,
    engine: &Engine,
    out: &mut dyn Write,
    trouble: impl Fn(io::Error) -> Trouble,
) -> Result<u64, Trouble> {
    let mut filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    let mut written = 0;
    loop {
        let events = opened.runtime.block_on(engine.query(filter.clone(), PAGE))?;
        for event in &events {
            json::write(event, out, false).map_err(|error| trouble(error.into()))?;
            out.write_all(b"\n").map_err(&trouble)?;
            written += 1;
        }
        let Some(last) = events.last() else { break };
        filter.after = Some(last.seq);
    }
    out.flush().map_err(&trouble)?;
    Ok(written)
}
