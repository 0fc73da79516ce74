//! `snapshot create|list|show|diff|restore|prune`: files as they are, kept and put back. No store is opened: the folder of
//! the snapshots is all there is to it.

use redrive::snapshot::{
    NoteKind, Recovered, RecoveredOutcome, RestoreOptions, SnapshotError, SnapshotId, SnapshotRequest,
    Snapshots,
};
use redrive_store::Timestamp;

use super::shown;
use crate::args::{SnapshotCommand, SnapshotCreateArgs, SnapshotRestoreArgs};
use crate::escape;
use crate::settings::SnapshotPlace;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::restored::RestoredView;
use crate::view::snapshot::{
    CreatedView, DifferencesView, PrunedSnapshotsView, SnapshotItem, SnapshotView, SnapshotsView,
};
use crate::{Exit, Stage};

/// So many notes are told one by one.
const TOLD_NOTES: usize = 10;

pub(super) fn run(command: Option<SnapshotCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(SnapshotCommand::List) {
        SnapshotCommand::Create(args) => create(args, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        SnapshotCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        SnapshotCommand::Show { snapshot } => {
            show(&snapshot, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        SnapshotCommand::Diff { snapshot } => {
            let view = diff(&snapshot, stage)?;
            // As `diff` does: that something differs is an answer, not a failure, and scripts ask for it.
            let exit = if view.items.is_empty() { Exit::Done } else { Exit::Failed };
            shown(&view, exit, stage)
        }
        SnapshotCommand::Restore(args) => restore(&args, stage),
        SnapshotCommand::Prune { older_than } => {
            let Some(snapshots) = if_there(stage)? else {
                return shown(
                    &PrunedSnapshotsView::new(&redrive::snapshot::Pruned::default()),
                    Exit::Done,
                    stage,
                );
            };
            let pruned = snapshots.prune(now_ms(stage), older_than)?;
            for id in &pruned.damaged {
                let note = text(stage.settings.lang, "snapshot.note.damaged", &[("id", id)]);
                stage.talk.warning(&note);
            }
            shown(&PrunedSnapshotsView::new(&pruned), Exit::Done, stage)
        }
    }
}

fn create(args: SnapshotCreateArgs, stage: &mut Stage<'_>) -> Result<CreatedView, Trouble> {
    let snapshots = open(stage)?;
    let mut request = SnapshotRequest::of(args.roots.into_iter().map(|root| stage.cwd.join(root)));
    request.ignore = args.ignore;
    if let Some(most) = args.max_size {
        request.limits.max_bytes = most;
    }
    if let Some(keep) = args.keep {
        request.keep_for = keep;
    }
    let created = snapshots.create(&request, now_ms(stage))?;
    let lang = stage.settings.lang;
    let notes = &created.snapshot.notes;
    for note in notes.iter().take(TOLD_NOTES) {
        let told = text(lang, note_key(note.kind), &[("path", &escape::path(&note.path))]);
        stage.talk.note(&told);
    }
    let more = notes.len().saturating_sub(TOLD_NOTES) as u64 + created.snapshot.notes_left_off;
    if more > 0 {
        let id = &created.snapshot.id;
        stage.talk.note(&text(lang, "snapshot.note.more", &[("n", &more), ("id", id)]));
    }
    Ok(CreatedView::new(&created))
}

fn list(stage: &mut Stage<'_>) -> Result<SnapshotsView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let Some(snapshots) = if_there(stage)? else { return Ok(SnapshotsView::new(&[], &[], now)) };
    let list = snapshots.list()?;
    for id in &list.damaged {
        stage.talk.warning(&text(stage.settings.lang, "snapshot.note.damaged", &[("id", id)]));
    }
    Ok(SnapshotsView::new(&list.snapshots, &list.damaged, now))
}

fn show(written: &str, stage: &mut Stage<'_>) -> Result<SnapshotView, Trouble> {
    let (snapshots, id) = named(written, stage)?;
    let snapshot = snapshots.get(&id)?;
    Ok(SnapshotView::new(SnapshotItem::new(&snapshot), Timestamp::from_system(stage.now)))
}

fn diff(written: &str, stage: &mut Stage<'_>) -> Result<DifferencesView, Trouble> {
    let (snapshots, id) = named(written, stage)?;
    Ok(DifferencesView::new(&id, &snapshots.diff(&id)?))
}

fn restore(args: &SnapshotRestoreArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let (snapshots, id) = named(&args.snapshot, stage)?;
    let options = RestoreOptions { force: args.force, dry_run: args.dry_run, ..RestoreOptions::default() };
    let restored = snapshots.restore(&id, options, now_ms(stage))?;
    for path in &restored.changed_meanwhile {
        let told = text(stage.settings.lang, "snapshot.note.meanwhile", &[("path", &escape::path(path))]);
        stage.talk.warning(&told);
    }
    // A dry run that found conflicts says what the real one would: that it failed.
    let refused = args.dry_run && !args.force && !restored.conflicts.is_empty();
    shown(&RestoredView::new(&restored, options), if refused { Exit::Failed } else { Exit::Done }, stage)?;
    if refused {
        stage.talk.hint(&say(stage.settings.lang, "trouble.hint.snapshot.conflicts"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

/// The snapshots, and the one that is meant: by its id, or by how that begins.
fn named(written: &str, stage: &mut Stage<'_>) -> Result<(Snapshots, SnapshotId), Trouble> {
    let whole = if written.starts_with("snap-") { written.to_owned() } else { format!("snap-{written}") };
    let bad = |_| SnapshotError::BadId { given: written.to_owned() };
    let id: SnapshotId = whole.parse().map_err(bad)?;
    let Some(snapshots) = if_there(stage)? else { return Err(SnapshotError::NotFound { id }.into()) };
    let mut ids = snapshots.ids_beginning(&whole)?;
    if ids.contains(&id) {
        return Ok((snapshots, id));
    }
    match ids.len() {
        0 => Err(SnapshotError::NotFound { id }.into()),
        1 => Ok((snapshots, ids.remove(0))),
        _ => {
            let named = ids.iter().take(10).map(ToString::to_string).collect();
            Err(Trouble::Ambiguous { written: written.to_owned(), named })
        }
    }
}

fn open(stage: &mut Stage<'_>) -> Result<Snapshots, Trouble> {
    let SnapshotPlace { dir, never } = place(stage)?;
    let snapshots = Snapshots::open(dir)?.never_touching(never);
    for recovered in snapshots.recovered() {
        tell(recovered, stage);
    }
    Ok(snapshots)
}

/// Whoever only looks does not make the folder.
fn if_there(stage: &mut Stage<'_>) -> Result<Option<Snapshots>, Trouble> {
    if place(stage)?.dir.is_dir() { open(stage).map(Some) } else { Ok(None) }
}

fn place(stage: &Stage<'_>) -> Result<SnapshotPlace, Trouble> {
    stage.settings.snapshot_place(&stage.env, &stage.cwd)?.ok_or(Trouble::NoSnapshotPlace)
}

/// A restore that was cut short, and what became of it.
fn tell(recovered: &Recovered, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let id = &recovered.snapshot_id;
    match &recovered.outcome {
        RecoveredOutcome::Finished => {
            stage.talk.note(&text(lang, "snapshot.note.finished", &[("id", id)]));
        }
        RecoveredOutcome::Undone => stage.talk.note(&text(lang, "snapshot.note.undone", &[("id", id)])),
        RecoveredOutcome::Waiting { why } => {
            stage.talk.warning(&text(lang, "snapshot.note.waiting", &[("id", id), ("why", why)]));
        }
    }
}

fn note_key(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Fifo => "snapshot.note.fifo",
        NoteKind::Socket => "snapshot.note.socket",
        NoteKind::Device => "snapshot.note.device",
        NoteKind::MountPoint => "snapshot.note.mount-point",
        NoteKind::HardLinked => "snapshot.note.hard-linked",
        NoteKind::BitsDropped => "snapshot.note.bits-dropped",
        _ => "snapshot.note.changed-while-read",
    }
}

fn now_ms(stage: &Stage<'_>) -> i64 {
    Timestamp::from_system(stage.now).millis()
}
