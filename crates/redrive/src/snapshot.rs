//! Snapshots of files: taken before work, put back when it fails.
//!
//! A snapshot is a manifest (what was where) and contents by their BLAKE3 hash, each kept once, in a folder of its own. A
//! restore puts the tree back as it was: checked before anything is touched, journalled so that a kill at any moment ends,
//! after the next [`Snapshots::open`], in the whole snapshot or the untouched tree, and without ever deleting: what is
//! replaced, or was made since, is moved aside. Nothing here follows a link or leaves its root. Everything blocks: from
//! async code, call it where blocking is allowed. Linux only.
//!
//! Kept are regular files, folders, links as links, modes, and owners where we may give files away. Not kept: setuid, setgid
//! and sticky bits, times, extended attributes; hard links become files of their own; FIFOs, sockets, devices and what is on
//! another file system are left where they are. `notes` tell of each.

mod beneath;
mod compare;
mod create;
mod error;
mod fault;
mod id;
mod ignore;
mod journal;
mod locked;
mod manifest;
mod name;
mod object;
mod place;
mod plan;
mod prune;
mod recover;
mod restore;
mod scan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use beneath::Root;
use manifest::{After, Kind, Manifest};
use place::{Part, Place};

pub use compare::{Difference, DifferenceKind};
pub use error::{Conflict, ConflictKind, LockedBy, SnapshotError};
pub use fault::Fault;
pub use id::SnapshotId;
#[cfg(all(feature = "engine", feature = "exec"))]
pub(crate) use prune::NEEDED;
pub use prune::Pruned;
pub use recover::{Recovered, RecoveredOutcome};
pub use restore::{RestoreOptions, Restored, Scope};
pub use scan::{Note, NoteKind, SnapshotLimits};

/// How long a snapshot is kept when nobody says otherwise: `snapshot_retention_hours` of 002 §7.1.
pub const DEFAULT_KEEP: Duration = Duration::from_hours(24);

/// The folder where snapshots are kept.
#[derive(Debug, Clone)]
pub struct Snapshots {
    place: Place,
    never: Vec<PathBuf>,
    recovered: Vec<Recovered>,
}

/// What to take a snapshot of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// An id that the caller makes from its own, so that doing it twice does it once.
    pub id: Option<SnapshotId>,
    /// The folders; links in their paths are followed once, now.
    pub roots: Vec<PathBuf>,
    /// Rules in the manner of a `.gitignore`; those of a root's `.redriveignore` come after them.
    pub ignore: Vec<String>,
    /// The most there may be.
    pub limits: SnapshotLimits,
    /// How long to keep it.
    pub keep_for: Duration,
    /// The task that it is taken for.
    pub task_id: Option<String>,
    /// What of the task was done.
    pub completed_subtasks: Vec<String>,
    /// What of the task was still to do.
    pub pending_subtasks: Vec<String>,
}

impl SnapshotRequest {
    /// Of these folders, with everything else as usual.
    pub fn of<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> SnapshotRequest {
        SnapshotRequest {
            id: None,
            roots: roots.into_iter().map(Into::into).collect(),
            ignore: Vec::new(),
            limits: SnapshotLimits::default(),
            keep_for: DEFAULT_KEEP,
            task_id: None,
            completed_subtasks: Vec::new(),
            pending_subtasks: Vec::new(),
        }
    }
}

/// A snapshot, as people and programs see it: the `StateSnapshot` of 002 §5.3 and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// When it was taken, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// Until when it can be restored, at least.
    pub expires_at_ms: i64,
    /// The task that it was taken for.
    pub task_id: Option<String>,
    /// What of the task was done and was to do, and what became of the files since.
    pub state: SnapshotState,
    /// When the work that it protects ended, if that was recorded.
    pub marked_after_ms: Option<i64>,
    /// What it holds, by root.
    pub roots: Vec<SnapshotRoot>,
    /// What it does not hold, or not as it was; at most 1,000.
    pub notes: Vec<Note>,
    /// How many more there are.
    pub notes_left_off: u64,
}

/// The state of 002 §5.3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotState {
    /// What of the task was done.
    pub completed_subtasks: Vec<String>,
    /// What of the task was still to do.
    pub pending_subtasks: Vec<String>,
    /// Made since by the work, once its end is recorded.
    pub files_created: Vec<PathBuf>,
    /// Changed or removed since by the work, once its end is recorded.
    pub files_modified: Vec<PathBuf>,
}

/// What a snapshot holds of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRoot {
    /// The folder.
    pub path: PathBuf,
    /// Regular files.
    pub files: u64,
    /// Folders below it.
    pub folders: u64,
    /// Links.
    pub links: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// A snapshot that was taken, and what that took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The id was known: this is the snapshot from then.
    pub already_there: bool,
    /// Files whose content was read; all others were known by their fingerprint.
    pub files_read: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Contents that were not kept before.
    pub objects_added: u64,
    /// Their bytes.
    pub bytes_added: u64,
}

/// The snapshots of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotList {
    /// The oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Those whose manifest is damaged: they cannot be restored.
    pub damaged: Vec<SnapshotId>,
}

impl Snapshots {
    /// Opens the folder, makes it if need be (for its owner only), and finishes restores that were cut short.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Snapshots, SnapshotError> {
        let place = Place::open(&dir.into())?;
        let mut snapshots = Snapshots { place, never: Vec::new(), recovered: Vec::new() };
        snapshots.recovered = snapshots.recover_if_left()?;
        if let Some(alone) = snapshots.place.try_lock_alone()? {
            snapshots.place.sweep(&alone)?;
        }
        Ok(snapshots)
    }

    /// Leaves these files and folders out of every snapshot and every restore: those of a store, say. Our own folder is
    /// always left out.
    pub fn never_touching(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Snapshots {
        self.never.extend(paths);
        self
    }

    /// Where this is.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// The restores that were cut short and that [`Snapshots::open`] found.
    pub fn recovered(&self) -> &[Recovered] {
        &self.recovered
    }

    /// The ids that begin so, in order.
    pub fn ids_beginning(&self, beginning: &str) -> Result<Vec<SnapshotId>, SnapshotError> {
        let names = self.place.names(Part::Manifests)?;
        let mut ids: Vec<SnapshotId> = names
            .iter()
            .filter(|name| name.starts_with(beginning))
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// One snapshot.
    pub fn get(&self, id: &SnapshotId) -> Result<Snapshot, SnapshotError> {
        let manifest = self.manifest(id)?;
        Ok(Snapshot::of(&manifest, self.after(id)?.as_ref()))
    }

    /// All snapshots, the oldest first.
    pub fn list(&self) -> Result<SnapshotList, SnapshotError> {
        let mut list = SnapshotList::default();
        for id in self.ids()? {
            match self.get(&id) {
                Ok(snapshot) => list.snapshots.push(snapshot),
                Err(SnapshotError::Damaged { .. }) => list.damaged.push(id),
                // Pruned since we listed.
                Err(SnapshotError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        list.snapshots
            .sort_by(|one, other| (one.created_at_ms, &one.id).cmp(&(other.created_at_ms, &other.id)));
        Ok(list)
    }

    fn ids(&self) -> Result<Vec<SnapshotId>, SnapshotError> {
        Ok(self.place.names(Part::Manifests)?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn manifest(&self, id: &SnapshotId) -> Result<Manifest, SnapshotError> {
        let written = self.place.read(Part::Manifests, id.as_str())?;
        let written = written.ok_or_else(|| SnapshotError::NotFound { id: id.clone() })?;
        Manifest::read(&self.place.file(Part::Manifests, id.as_str()), id, &written)
    }

    fn after(&self, id: &SnapshotId) -> Result<Option<After>, SnapshotError> {
        let Some(written) = self.place.read(Part::After, id.as_str())? else { return Ok(None) };
        After::read(&self.place.file(Part::After, id.as_str()), &written).map(Some)
    }

    /// What no snapshot and no restore touches, as plain paths.
    fn never_touched(&self) -> Vec<PathBuf> {
        let plain = |path: &PathBuf| match (path.parent(), path.file_name()) {
            // A store's file may be missing now and be there later: its folder is what is looked up.
            (Some(parent), Some(name)) => {
                parent.canonicalize().map_or_else(|_| path.clone(), |parent| parent.join(name))
            }
            _ => path.clone(),
        };
        self.never.iter().map(plain).chain([self.place.dir.clone()]).collect()
    }
}

impl Snapshot {
    fn of(manifest: &Manifest, after: Option<&After>) -> Snapshot {
        let header = &manifest.header;
        let mut state = SnapshotState {
            completed_subtasks: header.completed_subtasks.clone(),
            pending_subtasks: header.pending_subtasks.clone(),
            ..SnapshotState::default()
        };
        let mut roots = Vec::new();
        for (index, entries) in manifest.entries.iter().enumerate() {
            let path = manifest.root_path(index);
            let count =
                |wanted: fn(&Kind) -> bool| entries.iter().filter(|entry| wanted(&entry.kind)).count() as u64;
            let files = entries.iter().filter(|entry| matches!(entry.kind, Kind::File(_)));
            roots.push(SnapshotRoot {
                files: count(|kind| matches!(kind, Kind::File(_))),
                folders: count(|kind| matches!(kind, Kind::Folder)),
                links: count(|kind| matches!(kind, Kind::Link(_))),
                bytes: files.map(|entry| entry.seen.size).sum(),
                path: path.clone(),
            });
            let Some(after) = after else { continue };
            let known: std::collections::HashSet<_> = entries.iter().map(|entry| &entry.path).collect();
            for entry in
                after.entries.get(index).into_iter().flatten().filter(|entry| entry.kind != Kind::Folder)
            {
                let list = if known.contains(&entry.path) {
                    &mut state.files_modified
                } else {
                    &mut state.files_created
                };
                list.push(path.join(entry.path.as_path()));
            }
            let removed = after.removed.get(index).into_iter().flatten();
            state.files_modified.extend(removed.map(|removed| path.join(removed.as_path())));
        }
        Snapshot {
            id: header.snapshot_id.clone(),
            created_at_ms: header.created_at,
            expires_at_ms: header.expires_at,
            task_id: header.task_id.clone(),
            state,
            marked_after_ms: after.map(|after| after.marked_at),
            roots,
            notes: header.notes.clone(),
            notes_left_off: header.notes_left_off,
        }
    }
}
