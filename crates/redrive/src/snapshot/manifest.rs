//! The manifest: what a snapshot is. A line of JSON about the whole, a line per entry, and a checksum of all that. Read
//! back, nothing in it is trusted: names are checked again, every entry's parent must be a folder of the same snapshot, and
//! what names our own folders is refused, however right the checksum is.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::beneath::Fingerprint;
use super::error::SnapshotError;
use super::fault::Fault;
use super::id::SnapshotId;
use super::name::{Bytes, RelPath, is_ours};
use super::scan::Note;

const FORMAT: &str = "redrive-snapshot-1";
const CHECKSUM: &[u8] = b"#blake3 ";

/// BLAKE3 of a file's content.
pub(crate) type Hash = [u8; 32];

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) snapshot_id: SnapshotId,
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    /// When looking began, by the clock that stamps files: what was changed since may have been changed unseen.
    pub(crate) began_ns: i64,
    pub(crate) task_id: Option<String>,
    pub(crate) completed_subtasks: Vec<String>,
    pub(crate) pending_subtasks: Vec<String>,
    pub(crate) roots: Vec<RootHeader>,
    pub(crate) notes: Vec<Note>,
    pub(crate) notes_left_off: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RootHeader {
    pub(crate) path: Bytes,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    /// The rules that held, the request's and then the root's own.
    pub(crate) ignore: Vec<String>,
    pub(crate) entries: u64,
}

/// A file, a folder or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File(Hash),
    Folder,
    Link(Vec<u8>),
}

/// One entry below a root.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: RelPath,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) seen: Fingerprint,
}

/// A line: kind, path, mode, uid, gid, hash or text, size, mtime, ctime, device, inode.
#[derive(Serialize, Deserialize)]
struct Line(char, RelPath, u32, u32, u32, Bytes, u64, i64, i64, u64, u64);

impl Entry {
    fn line(&self) -> Line {
        let (kind, content) = match &self.kind {
            Kind::File(hash) => ('f', Bytes(hex(hash).into_bytes())),
            Kind::Folder => ('d', Bytes(Vec::new())),
            Kind::Link(text) => ('l', Bytes(text.clone())),
        };
        let Fingerprint { dev, ino, size, mtime_ns, ctime_ns } = self.seen;
        let (uid, gid) = self.owner;
        Line(kind, self.path.clone(), self.mode, uid, gid, content, size, mtime_ns, ctime_ns, dev, ino)
    }

    fn of_line(line: Line) -> Result<Entry, Fault> {
        let Line(kind, path, mode, uid, gid, content, size, mtime_ns, ctime_ns, dev, ino) = line;
        let kind = match kind {
            'f' => Kind::File(unhex(&content.0).ok_or(Fault::Refused)?),
            'd' => Kind::Folder,
            'l' if content.0.is_empty() || content.0.contains(&0) => return Err(Fault::Refused),
            'l' => Kind::Link(content.0),
            _ => return Err(Fault::Refused),
        };
        if mode > 0o777 {
            return Err(Fault::Refused);
        }
        let seen = Fingerprint { dev, ino, size, mtime_ns, ctime_ns };
        Ok(Entry { path, kind, mode, owner: (uid, gid), seen })
    }

    /// Whether content, kind and mode are the same. When and by whom it was written does not matter.
    pub(crate) fn same_as(&self, other: &Entry) -> bool {
        self.kind == other.kind && self.mode == other.mode
    }
}

/// A whole snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) header: Header,
    /// By root, each in the order of its paths.
    pub(crate) entries: Vec<Vec<Entry>>,
}

impl Manifest {
    pub(crate) fn new(mut header: Header, entries: Vec<Vec<Entry>>) -> Manifest {
        FORMAT.clone_into(&mut header.format);
        for (root, entries) in header.roots.iter_mut().zip(&entries) {
            root.entries = entries.len() as u64;
        }
        Manifest { header, entries }
    }

    pub(crate) fn root_path(&self, index: usize) -> PathBuf {
        self.header.roots[index].path.to_path()
    }

    pub(crate) fn root_paths(&self) -> Vec<PathBuf> {
        self.header.roots.iter().map(|root| root.path.to_path()).collect()
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut written = Vec::with_capacity(512 + self.entries.iter().map(Vec::len).sum::<usize>() * 200);
        push_line(&mut written, &self.header)?;
        for entry in self.entries.iter().flatten() {
            push_line(&mut written, &entry.line())?;
        }
        seal(&mut written);
        Ok(written)
    }

    /// Reads a manifest that should be of this id and checks every part of it.
    pub(crate) fn read(file: &Path, id: &SnapshotId, written: &[u8]) -> Result<Manifest, SnapshotError> {
        let damaged = |why| SnapshotError::Damaged { what: file.to_owned(), why };
        let body = unseal(written).ok_or_else(|| damaged(Fault::Checksum))?;
        let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
        let header = header.ok_or_else(|| damaged(Fault::Unreadable))?;
        if header.format != FORMAT {
            return Err(damaged(Fault::OtherVersion));
        }
        if header.snapshot_id != *id {
            return Err(damaged(Fault::OtherSnapshot));
        }
        let mut entries = Vec::with_capacity(header.roots.len());
        for root in &header.roots {
            check_root(&root.path.to_path()).map_err(damaged)?;
            let mut of_root = Vec::new();
            for _ in 0..root.entries {
                let line = lines.next().ok_or_else(|| damaged(Fault::Unreadable))?;
                let line = serde_json::from_slice::<Line>(line).map_err(|_| damaged(Fault::Refused))?;
                of_root.push(Entry::of_line(line).map_err(damaged)?);
            }
            check_entries(&of_root).map_err(damaged)?;
            entries.push(of_root);
        }
        if lines.next().is_some() {
            return Err(damaged(Fault::Unreadable));
        }
        Ok(Manifest { header, entries })
    }
}

/// What is wrong with a root's path, as a manifest holds it.
fn check_root(path: &Path) -> Result<(), Fault> {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    match bytes.strip_prefix(b"/") {
        Some(below) if RelPath::new(below.to_vec()).is_ok() => Ok(()),
        _ => Err(Fault::Refused),
    }
}

/// In order, each once, each in a folder of this snapshot, none of our own.
pub(crate) fn check_entries(entries: &[Entry]) -> Result<(), Fault> {
    let mut folders = HashSet::new();
    let mut last: Option<&RelPath> = None;
    for entry in entries {
        if last.is_some_and(|last| *last >= entry.path) {
            return Err(Fault::Refused);
        }
        if entry.path.is_too_long_to_move() {
            return Err(Fault::Refused);
        }
        if entry.path.bytes().split(|byte| *byte == b'/').any(is_ours) {
            return Err(Fault::Refused);
        }
        if entry.path.parent().is_some_and(|parent| !folders.contains(&parent)) {
            return Err(Fault::Refused);
        }
        if entry.kind == Kind::Folder {
            folders.insert(entry.path.clone());
        }
        last = Some(&entry.path);
    }
    Ok(())
}

/// How the work left what differs from the snapshot: its files, and what it removed.
#[derive(Debug, Clone)]
pub(crate) struct After {
    pub(crate) marked_at: i64,
    pub(crate) began_ns: i64,
    /// By root: made or changed.
    pub(crate) entries: Vec<Vec<Entry>>,
    /// By root: removed.
    pub(crate) removed: Vec<Vec<RelPath>>,
}

#[derive(Serialize, Deserialize)]
struct AfterHeader {
    format: String,
    marked_at: i64,
    began_ns: i64,
    roots: Vec<(u64, Vec<RelPath>)>,
}

impl After {
    pub(crate) fn write(&self) -> Result<Vec<u8>, SnapshotError> {
        let roots = self.entries.iter().zip(&self.removed);
        let header = AfterHeader {
            format: FORMAT.to_owned(),
            marked_at: self.marked_at,
            began_ns: self.began_ns,
            roots: roots.map(|(entries, removed)| (entries.len() as u64, removed.clone())).collect(),
        };
        let mut written = Vec::new();
        push_line(&mut written, &header)?;
        for entry in self.entries.iter().flatten() {
            push_line(&mut written, &entry.line())?;
        }
        seal(&mut written);
        Ok(written)
    }

    pub(crate) fn read(file: &Path, written: &[u8]) -> Result<After, SnapshotError> {
        let damaged = |why| SnapshotError::Damaged { what: file.to_owned(), why };
        let body = unseal(written).ok_or_else(|| damaged(Fault::Checksum))?;
        let mut lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let header = lines.next().and_then(|line| serde_json::from_slice::<AfterHeader>(line).ok());
        let header = header.ok_or_else(|| damaged(Fault::Unreadable))?;
        let mut after = After {
            marked_at: header.marked_at,
            began_ns: header.began_ns,
            entries: Vec::new(),
            removed: Vec::new(),
        };
        for (count, removed) in header.roots {
            let mut of_root = Vec::new();
            for _ in 0..count {
                let line = lines.next().and_then(|line| serde_json::from_slice::<Line>(line).ok());
                let line = line.ok_or_else(|| damaged(Fault::Unreadable))?;
                of_root.push(Entry::of_line(line).map_err(damaged)?);
            }
            after.entries.push(of_root);
            after.removed.push(removed);
        }
        Ok(after)
    }
}

pub(crate) fn push_line<T: Serialize>(written: &mut Vec<u8>, value: &T) -> Result<(), SnapshotError> {
    serde_json::to_writer(&mut *written, value).map_err(|error| SnapshotError::Io {
        doing: "write down",
        path: "a snapshot".into(),
        source: error.into(),
    })?;
    written.push(b'\n');
    Ok(())
}

/// Ends our file with a checksum of all before.
pub(crate) fn seal(written: &mut Vec<u8>) {
    let sum = blake3::hash(written);
    written.extend_from_slice(CHECKSUM);
    written.extend_from_slice(hex(sum.as_bytes()).as_bytes());
    written.push(b'\n');
}

/// What was sealed; none if a bit of it is not as it was.
pub(crate) fn unseal(written: &[u8]) -> Option<&[u8]> {
    let length = CHECKSUM.len() + 64 + 1;
    let (body, end) = written.split_at_checked(written.len().checked_sub(length)?)?;
    let sum = end.strip_prefix(CHECKSUM)?.strip_suffix(b"\n")?;
    (unhex(sum)? == *blake3::hash(body).as_bytes()).then_some(body)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

fn unhex(written: &[u8]) -> Option<Hash> {
    let mut hash = Hash::default();
    if written.len() != 64 {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in hash.iter_mut().zip(written.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(hash)
}
