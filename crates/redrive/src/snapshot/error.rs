//! What can go wrong with snapshots. Each error says what to do; none is raised after the tree was changed, but for
//! [`SnapshotError::Unfinished`], which the next start puts right.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::fault::Fault;
use super::id::SnapshotId;

/// Our own trouble with a snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Not an id that we would give.
    #[error(
        "{given:?} is not the id of a snapshot: write snap- and then letters, digits, '-', '_' or '.', at most 100"
    )]
    BadId {
        /// What was given.
        given: String,
    },
    /// A folder that cannot be a root.
    #[error("{} cannot be a root: {why}", path.display())]
    BadRoot {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: Fault,
    },
    /// A name that could lead out of its root, or that we could not put back.
    #[error("the name {path:?} is refused: {why}")]
    BadName {
        /// The name, below its root.
        path: PathBuf,
        /// What is wrong with it.
        why: Fault,
    },
    /// An ignore pattern that cannot be read.
    #[error("the ignore pattern {pattern:?} cannot be read: {why}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: Fault,
    },
    /// More bytes than the limit.
    #[error("more than {limit} bytes: ignore what need not be kept, or raise the limit")]
    TooLarge {
        /// The most that was allowed.
        limit: u64,
    },
    /// More entries than the limit.
    #[error("more than {limit} files and folders: ignore what need not be kept, or raise the limit")]
    TooMany {
        /// The most that was allowed.
        limit: u64,
    },
    /// No such snapshot.
    #[error("no snapshot is called {id}: it was never made, or it has expired and was pruned")]
    NotFound {
        /// The id that was asked for.
        id: SnapshotId,
    },
    /// What we kept is not what we wrote.
    #[error("{} is damaged: {why}. Nothing was changed", what.display())]
    Damaged {
        /// The file of the tree whose content is damaged, or our own file.
        what: PathBuf,
        /// What was found.
        why: Fault,
    },
    /// Somebody else changed files since; nothing was touched.
    #[error("{} changed by somebody else since the snapshot: look at them, or restore with force, which moves them aside",
        count(conflicts.len()))]
    Conflicts {
        /// Every one of them.
        conflicts: Vec<Conflict>,
    },
    /// Something that would have to be moved or changed is immutable or append-only; nothing was touched.
    #[error("{} is {lock} (chattr +{}): nothing was touched; chattr -{} it and try again",
        path.display(), lock.flag(), lock.flag())]
    Locked {
        /// The file or folder.
        path: PathBuf,
        /// Which attribute it has.
        lock: LockedBy,
    },
    /// Not enough room; nothing was touched.
    #[error("no room on the disk of {}: {why}; free some and try again", path.display())]
    NoRoom {
        /// Where room is missing.
        path: PathBuf,
        /// What is short.
        why: Fault,
    },
    /// The root is not there any more, nor can it be made.
    #[error("the root {} is gone: put it, or the folder it was in, back and try again", path.display())]
    RootGone {
        /// The root.
        path: PathBuf,
    },
    /// The root, or a folder that it is in, is another thing than it was. Nothing was touched.
    #[error("the root {} is not the folder that was kept: look at {}, {why}. Nothing was touched; \
        move that away, put the folder back and try again", path.display(), what.display())]
    RootReplaced {
        /// The root.
        path: PathBuf,
        /// The part of its path that is no folder.
        what: PathBuf,
        /// What that is instead.
        why: Fault,
    },
    /// The tree would not hold still.
    #[error("{} changes while we look at it: try again when nothing writes to it", path.display())]
    Unsteady {
        /// Where we noticed.
        path: PathBuf,
    },
    /// A restore was committed and could not be carried to its end; it goes on at the next start.
    #[error("the restore of {id} has begun and is not finished: it goes on at the next start. {source}")]
    Unfinished {
        /// The snapshot that is being restored.
        id: SnapshotId,
        /// What stopped it.
        source: Box<SnapshotError>,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What we wanted.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// An attribute of a file or folder that keeps everybody from moving it, root included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedBy {
    /// It cannot be changed at all.
    Immutable,
    /// It can only be added to.
    AppendOnly,
}

impl LockedBy {
    /// As `chattr` calls it.
    pub fn flag(self) -> char {
        match self {
            LockedBy::Immutable => 'i',
            LockedBy::AppendOnly => 'a',
        }
    }
}

impl std::fmt::Display for LockedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LockedBy::Immutable => "immutable",
            LockedBy::AppendOnly => "append-only",
        })
    }
}

/// A file that is neither as the snapshot has it nor as the work left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The file, with its root.
    pub path: PathBuf,
    /// What somebody else did.
    pub kind: ConflictKind,
}

/// What somebody else did to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// It was made.
    Created,
    /// Its content, mode or kind was changed.
    Changed,
    /// It was removed.
    Removed,
    /// It holds something that is ignored, so that it cannot be moved away.
    HoldsIgnored,
}

impl ConflictKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            ConflictKind::Created => "created",
            ConflictKind::Changed => "changed",
            ConflictKind::Removed => "removed",
            ConflictKind::HoldsIgnored => "holds_ignored",
        }
    }
}

fn count(files: usize) -> String {
    if files == 1 { "one file was".to_owned() } else { format!("{files} files were") }
}

/// Puts the place and the deed to what the system said. A full disk is told apart.
pub(crate) fn at<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(rustix::io::Errno) -> SnapshotError + 'a {
    move |errno| from_io(doing, path, errno.into())
}

/// The same for the standard library's errors.
pub(crate) fn io_at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SnapshotError + 'a {
    move |error| from_io(doing, path, error)
}

fn from_io(doing: &'static str, path: &Path, source: io::Error) -> SnapshotError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SnapshotError::NoRoom { path: path.to_owned(), why: Fault::Full }
        }
        _ => SnapshotError::Io { doing, path: path.to_owned(), source },
    }
}
