//! `prometheus [--output FILE]`: all numbers in the text format that Prometheus reads.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use super::opened;
use crate::args::PrometheusArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

pub(super) fn run(args: &PrometheusArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let page = opened.runtime.block_on(engine.prometheus())?;
    let Some(file) = args.output.as_ref().filter(|file| file.as_os_str() != "-") else {
        stage.stdout.write_all(page.as_bytes()).map_err(Trouble::Output)?;
        return Ok(Exit::Done);
    };
    replace(&stage.cwd.join(file), page.as_bytes())
        .map_err(|source| Trouble::Unwritable { path: file.clone(), source })?;
    let note = text(stage.settings.lang, "store.prometheus-written", &[("file", &file.display())]);
    stage.talk.note(&note);
    Ok(Exit::Done)
}

/// Whoever reads the file sees the old one or the new one, never half of it.
fn replace(path: &Path, page: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .and_then(|mut new| new.write_all(page).and_then(|()| new.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // What is half written helps nobody; the first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
