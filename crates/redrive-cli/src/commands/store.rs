//! `store migrate`, `store check`, `store backup`.

use std::io;
use std::path::Path;

use super::opened;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::check::CheckView;
use crate::{Exit, Stage};

/// Opening a store to write brings it to this version.
pub(super) fn migrate(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_write(stage)?;
    let line = text(stage.settings.lang, "store.migrated", &[("store", &opened.store.location())]);
    opened.wait(opened.store.close())?;
    stage.talk.note(&line);
    Ok(Exit::Done)
}

pub(super) fn check(stage: &Stage<'_>) -> Result<CheckView, Trouble> {
    let opened = opened::to_read(stage)?;
    let report = opened.wait(opened.store.check())?;
    Ok(CheckView::new(report, opened.store.location()))
}

pub(super) fn backup(file: &Path, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let path = stage.cwd.join(file);
    if path.symlink_metadata().is_ok() {
        return Err(Trouble::Exists { path: file.to_owned() });
    }
    if path.parent().is_some_and(|parent| !parent.is_dir()) {
        return Err(Trouble::Unwritable { path: file.to_owned(), source: io::ErrorKind::NotFound.into() });
    }
    opened.wait(opened.store.backup(&path))?;
    let line = text(stage.settings.lang, "store.backed-up", &[("file", &file.display())]);
    stage.talk.note(&line);
    Ok(Exit::Done)
}
