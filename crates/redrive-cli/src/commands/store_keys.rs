//! `store keygen` and `store rotate-key`: keys of an encrypted store.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use redrive_store::{KeyRing, Resealed, Timestamp};

use super::opened;
use crate::args::KeygenArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::rotated::RotatedView;
use crate::{Exit, Stage};

/// How many rows are looked at in one transaction: a few milliseconds, for which nobody waits.
const ROUND: u32 = 500;
/// How often it is told how far it has come, where nobody watches a bar.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// A fresh key, on stdout or in a new file of its owner's alone.
pub(super) fn keygen(args: &KeygenArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let today = || Timestamp::from_system(stage.now).to_string().chars().take(10).collect();
    let id: String = args.key_id.clone().unwrap_or_else(today);
    let line = KeyRing::generate(&id).map_err(Trouble::Keys)?;
    let Some(file) = &args.out else {
        stage.stdout.write_all(line.as_bytes()).map_err(Trouble::Output)?;
        stage.stdout.write_all(b"\n").map_err(Trouble::Output)?;
        return Ok(Exit::Done);
    };
    let unwritable = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Trouble::Exists { path: file.clone() },
        _ => Trouble::Unwritable { path: file.clone(), source },
    };
    write_new(&stage.cwd.join(file), line.as_bytes()).map_err(unwritable)?;
    let note = text(stage.settings.lang, "store.key-made", &[("id", &id), ("file", &file.display())]);
    stage.talk.note(&note);
    Ok(Exit::Done)
}

fn write_new(path: &Path, line: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(line)?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// Encrypts everything that is not under the first key yet.
pub(super) fn rotate(stage: &mut Stage<'_>) -> Result<RotatedView, Trouble> {
    let opened = opened::to_encrypt(stage)?;
    let began = Instant::now();
    let mut told = began;
    let mut all = 0;
    loop {
        let round = opened.wait(opened.store.reseal(opened.now, ROUND))?;
        // The first round sees what there is to do; what comes in meanwhile is under the key already.
        all = all.max(round.left);
        if round.over {
            stage.talk.progress_ends();
            return Ok(RotatedView::new(round, opened.store.location()));
        }
        let words = how_far(&round, all, stage);
        if !stage.talk.progress(&words) && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            stage.talk.note(&words);
        }
    }
}

fn how_far(round: &Resealed, all: u64, stage: &Stage<'_>) -> String {
    const WIDTH: u64 = 20;
    let done = all.saturating_sub(round.left);
    let part = |of: u64| done.saturating_mul(of).checked_div(all).unwrap_or(of);
    let (full, percent) = (part(WIDTH), part(100));
    let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
    let lang = stage.settings.lang;
    text(
        lang,
        "store.rotating",
        &[("bar", &bar), ("percent", &percent), ("key", &round.key), ("cells", &round.cells)],
    )
}
