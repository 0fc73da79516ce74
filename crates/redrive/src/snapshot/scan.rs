//! Looks at everything below a root: what is there, and what is left alone because it is ignored, not ours to keep, or on
//! another file system. No content is read here.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::beneath::{Fingerprint, Root, interfered, kind_of, names_in, plain_mode, stat_in};
use super::error::{SnapshotError, at};
use super::fault::Fault;
use super::ignore::Rules;
use super::name::{RelPath, is_ours};

/// So much may be in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Bytes of all files together.
    pub max_bytes: u64,
    /// Files, folders and links together.
    pub max_entries: u64,
}

impl Default for SnapshotLimits {
    fn default() -> SnapshotLimits {
        SnapshotLimits { max_bytes: 4 << 30, max_entries: 1_000_000 }
    }
}

impl SnapshotLimits {
    /// For looking at a tree that may have grown: whatever is there.
    pub(crate) const NONE: SnapshotLimits = SnapshotLimits { max_bytes: u64::MAX, max_entries: u64::MAX };
}

/// Something that a snapshot does not keep, or not as it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Note {
    /// Where, with its root.
    #[serde(with = "path_as_text")]
    pub path: PathBuf,
    /// What about it.
    pub kind: NoteKind,
}

/// What is told of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoteKind {
    /// Left out: a FIFO.
    Fifo,
    /// Left out: a socket.
    Socket,
    /// Left out: a device.
    Device,
    /// Left out: another file system begins there.
    MountPoint,
    /// Kept; a restore makes a file of its own of each name.
    HardLinked,
    /// Kept without its setuid, setgid or sticky bit.
    BitsDropped,
    /// Kept as it was read, though somebody was writing to it.
    ChangedWhileRead,
}

impl NoteKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            NoteKind::Fifo => "fifo",
            NoteKind::Socket => "socket",
            NoteKind::Device => "device",
            NoteKind::MountPoint => "mount_point",
            NoteKind::HardLinked => "hard_linked",
            NoteKind::BitsDropped => "bits_dropped",
            NoteKind::ChangedWhileRead => "changed_while_read",
        }
    }
}

mod path_as_text {
    use serde::{Deserialize as _, Serialize as _};
    use std::path::{Path, PathBuf};

    use crate::snapshot::name::Bytes;

    pub(super) fn serialize<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes::of_path(path).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Bytes::deserialize(deserializer).map(|bytes| bytes.to_path())
    }
}

/// What kind of thing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundKind {
    File,
    Folder,
    Link(Vec<u8>),
    /// Only told of a place that a snapshot has a say about: it is moved aside like anything else.
    Special,
}

/// One entry of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) path: RelPath,
    pub(crate) kind: FoundKind,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) seen: Fingerprint,
}

/// The tree below a root.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Parents before what is in them.
    pub(crate) found: Vec<Found>,
    /// Specials at places of no concern to a snapshot; ignored things; mount points.
    pub(crate) left: HashSet<RelPath>,
    /// What is never touched, whoever asks.
    pub(crate) never: HashSet<RelPath>,
    pub(crate) notes: Vec<Note>,
}

/// What to look at, and what not.
pub(crate) struct Scan<'a> {
    pub(crate) root: &'a Root,
    pub(crate) rules: &'a Rules,
    pub(crate) never: &'a [PathBuf],
    pub(crate) limits: SnapshotLimits,
    /// Places where a special counts as found.
    pub(crate) wanted: &'a dyn Fn(&RelPath) -> bool,
}

impl Scan<'_> {
    pub(crate) fn run(&self) -> Result<Scanned, SnapshotError> {
        let mut scanned =
            Scanned { found: Vec::new(), left: HashSet::new(), never: HashSet::new(), notes: Vec::new() };
        let mut bytes = 0_u64;
        let mut folders: Vec<Option<RelPath>> = vec![None];
        while let Some(folder) = folders.pop() {
            let place = folder.as_ref().map_or_else(|| self.root.path.clone(), |path| self.root.full(path));
            let opened = match self.root.folder(folder.as_ref()) {
                Ok(opened) => opened,
                Err(Errno::XDEV) => {
                    // Bind mounts look like any other folder until one enters them.
                    if let Some(path) = folder {
                        scanned.found.retain(|found| found.path != path);
                        scanned.leave(self.root, path, NoteKind::MountPoint);
                    }
                    continue;
                }
                Err(errno) if interfered(errno) => return Err(SnapshotError::Unsteady { path: place }),
                Err(errno) => return Err(at("list", &place)(errno)),
            };
            let names = names_in(opened.try_clone().map_err(super::error::io_at("list", &place))?)
                .map_err(at("list", &place))?;
            for name in names {
                let path = RelPath::child(folder.as_ref(), &name)?;
                if is_ours(&name) || self.is_never(&path) {
                    scanned.never.insert(path);
                    continue;
                }
                let looked = stat_in(&opened, &name).map_err(at("look at", &place.join(path.as_path())))?;
                // Gone since the folder was listed: then it is not there.
                let Some(stat) = looked else { continue };
                if let Some(found) = self.judge(&mut scanned, path, &stat)? {
                    if found.kind == FoundKind::Folder {
                        folders.push(Some(found.path.clone()));
                    }
                    if found.kind == FoundKind::File {
                        bytes = bytes.saturating_add(found.seen.size);
                    }
                    scanned.found.push(found);
                }
                self.check_limits(scanned.found.len() as u64, bytes)?;
            }
        }
        scanned.found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(scanned)
    }

    fn judge(
        &self,
        scanned: &mut Scanned,
        path: RelPath,
        stat: &Stat,
    ) -> Result<Option<Found>, SnapshotError> {
        let seen = Fingerprint::of(stat);
        let is_folder = kind_of(stat) == FileType::Directory;
        if self.rules.ignore(&path, is_folder) {
            scanned.left.insert(path);
            return Ok(None);
        }
        if seen.dev != self.root.dev {
            scanned.leave(self.root, path, NoteKind::MountPoint);
            return Ok(None);
        }
        if path.is_too_long_to_move() {
            let why = Fault::PathTooLong;
            return Err(SnapshotError::BadName { path: path.as_path().to_owned(), why });
        }
        let kind = match kind_of(stat) {
            FileType::RegularFile => FoundKind::File,
            FileType::Directory => FoundKind::Folder,
            FileType::Symlink => match self.root.link_text(&path) {
                Ok(text) => FoundKind::Link(text),
                Err(errno) if interfered(errno) || errno == Errno::INVAL => {
                    return Err(SnapshotError::Unsteady { path: self.root.full(&path) });
                }
                Err(errno) => return Err(at("read the link", &self.root.full(&path))(errno)),
            },
            special => {
                if (self.wanted)(&path) {
                    FoundKind::Special
                } else {
                    let kind = match special {
                        FileType::Fifo => NoteKind::Fifo,
                        FileType::Socket => NoteKind::Socket,
                        _ => NoteKind::Device,
                    };
                    scanned.leave(self.root, path, kind);
                    return Ok(None);
                }
            }
        };
        if matches!(kind, FoundKind::File) && stat.st_nlink > 1 {
            scanned.note(self.root, &path, NoteKind::HardLinked);
        }
        if matches!(kind, FoundKind::File | FoundKind::Folder) && stat.st_mode & 0o7000 != 0 {
            scanned.note(self.root, &path, NoteKind::BitsDropped);
        }
        let mode = if matches!(kind, FoundKind::Link(_)) { 0o777 } else { plain_mode(stat) };
        Ok(Some(Found { path, kind, mode, owner: (stat.st_uid, stat.st_gid), seen }))
    }

    fn check_limits(&self, entries: u64, bytes: u64) -> Result<(), SnapshotError> {
        if entries > self.limits.max_entries {
            return Err(SnapshotError::TooMany { limit: self.limits.max_entries });
        }
        if bytes > self.limits.max_bytes {
            return Err(SnapshotError::TooLarge { limit: self.limits.max_bytes });
        }
        Ok(())
    }

    fn is_never(&self, path: &RelPath) -> bool {
        is_beneath_any(&self.root.full(path), self.never)
    }
}

/// Whether a path is one of these or below one.
pub(crate) fn is_beneath_any(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

impl Scanned {
    fn note(&mut self, root: &Root, path: &RelPath, kind: NoteKind) {
        self.notes.push(Note { path: root.full(path), kind });
    }

    fn leave(&mut self, root: &Root, path: RelPath, kind: NoteKind) {
        self.note(root, &path, kind);
        self.left.insert(path);
    }
}
