//! `import FILE…`: events from JSON Lines, of files or of stdin (`-`). What cannot be read is counted and kept aside.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use redrive::engine::{EngineError, ImportOptions};

use super::opened;
use crate::trouble::Trouble;
use crate::view::imported::ImportedView;
use crate::{Exit, Stage};

pub(super) fn run(files: &[PathBuf], stage: &mut Stage<'_>) -> Result<(ImportedView, Exit), Trouble> {
    let config = stage.settings.config()?;
    // Every file is opened before the first is read: a slip of the fingers brings in nothing.
    let mut readers = Vec::with_capacity(files.len());
    for file in files {
        if file.as_os_str() == "-" {
            readers.push((file, Box::new(BufReader::new(std::io::stdin())) as Box<dyn BufRead + Send>));
            continue;
        }
        let unreadable = |source| Trouble::Unreadable { path: file.clone(), source };
        let opened = File::open(stage.cwd.join(file)).map_err(unreadable)?;
        if opened.metadata().is_ok_and(|found| found.is_dir()) {
            return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
        }
        readers.push((file, Box::new(BufReader::new(opened))));
    }
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    let mut view = ImportedView { schema: "redrive/imported.v1", added: 0, known: 0, kept_aside: 0 };
    for (file, mut reader) in readers {
        let options = ImportOptions { origin: file.display().to_string(), ..ImportOptions::default() };
        let imported = opened.runtime.block_on(engine.import_events(&mut *reader, &options)).map_err(
            |error| match error {
                EngineError::Io(source) => Trouble::Unreadable { path: file.clone(), source },
                other => other.into(),
            },
        )?;
        view.added += imported.added;
        view.known += imported.known;
        view.kept_aside += imported.bad;
    }
    opened.wait(opened.store.close())?;
    let exit = if view.kept_aside > 0 { Exit::Partly } else { Exit::Done };
    Ok((view, exit))
}
