//! `dlq import FILE…`: dead letters from JSON Lines, of files or of stdin (`-`). What cannot be read is named, counted and
//! kept aside.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;

use redrive::engine::{EngineError, ImportOptions};

use super::{act, opened};
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::letters_imported::{BadLineView, LettersImportedView};
use crate::{Exit, Stage};

/// The most that stdin may hold: it is read whole, since it belongs to this thread.
const MOST_STDIN: u64 = 1 << 30;

pub(super) fn run(
    files: &[PathBuf],
    why: Option<&str>,
    stage: &mut Stage<'_>,
) -> Result<(LettersImportedView, Exit), Trouble> {
    let config = stage.settings.config()?;
    // Every file is opened before the first is read: a slip of the fingers brings in nothing.
    let mut readers: Vec<(String, PathBuf, Box<dyn BufRead + Send>)> = Vec::with_capacity(files.len());
    for file in files {
        let name = file.display().to_string();
        if file.as_os_str() == "-" {
            let mut text = Vec::new();
            stage.stdin.take(MOST_STDIN).read_to_end(&mut text).map_err(Trouble::Input)?;
            readers.push((name, file.clone(), Box::new(Cursor::new(text))));
            continue;
        }
        let unreadable = |source| Trouble::Unreadable { path: file.clone(), source };
        let opened = File::open(stage.cwd.join(file)).map_err(unreadable)?;
        if opened.metadata().is_ok_and(|found| found.is_dir()) {
            return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
        }
        readers.push((name, file.clone(), Box::new(BufReader::new(opened))));
    }
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    let names: Vec<&str> = readers.iter().map(|(name, ..)| name.as_str()).collect();
    act::record(&opened, &engine, "letter.import", names.join(" "), why, stage)?;
    let mut view = LettersImportedView {
        schema: "redrive/letters_imported.v1",
        added: 0,
        known: 0,
        as_events: 0,
        kept_aside: 0,
        bad_lines: Vec::new(),
    };
    for (name, file, mut reader) in readers {
        let options = ImportOptions { origin: name.clone(), ..ImportOptions::default() };
        let imported =
            opened.runtime.block_on(engine.import_letters(&mut *reader, &options)).map_err(|error| {
                match error {
                    EngineError::Io(source) => Trouble::Unreadable { path: file, source },
                    other => other.into(),
                }
            })?;
        view.added += imported.added;
        view.known += imported.known;
        view.as_events += imported.as_events;
        view.kept_aside += imported.bad;
        for bad in imported.bad_lines {
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("file", &name), ("line", &bad.line), ("why", &bad.why)];
            stage.talk.warning(&text(stage.settings.lang, "letters-imported.bad-line", &values));
            view.bad_lines.push(BadLineView { file: name.clone(), line: bad.line, why: bad.why });
        }
    }
    opened.wait(opened.store.close())?;
    let exit = if view.kept_aside > 0 { Exit::Partly } else { Exit::Done };
    Ok((view, exit))
}
