//! Compares the tree with a snapshot. A file whose fingerprint the snapshot knows is the same without being read; any
//! other of the same length is read. Used to show a difference, to record how work left the tree, and to plan a restore.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::beneath::{Root, plain_mode};
use super::create::{in_parallel, open_regular, settled_before, wall_clock_ns};
use super::error::{ConflictKind, SnapshotError, io_at};
use super::ignore::Rules;
use super::manifest::{After, Entry, Hash, Kind, Manifest};
use super::name::RelPath;
use super::object::hash_of;
use super::place::Part;
use super::scan::{Found, FoundKind, Scan, SnapshotLimits, is_beneath_any};
use super::{SnapshotId, Snapshots};

/// How a file differs from the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The file, with its root.
    pub path: PathBuf,
    /// What is different.
    pub kind: DifferenceKind,
}

/// What is different about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// The snapshot does not have it.
    Added,
    /// Its content, the text of its link, or its kind.
    Changed,
    /// Its mode only.
    Mode,
    /// Only the snapshot has it.
    Removed,
}

impl DifferenceKind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            DifferenceKind::Added => "added",
            DifferenceKind::Changed => "changed",
            DifferenceKind::Mode => "mode",
            DifferenceKind::Removed => "removed",
        }
    }
}

/// A place where the tree is not as the snapshot has it.
#[derive(Debug, Clone)]
pub(crate) struct Differs {
    pub(crate) path: RelPath,
    /// As it is now; none if nothing is there.
    pub(crate) now: Option<Found>,
    /// As the snapshot has it; none if it does not.
    pub(crate) then: Option<Entry>,
}

impl Differs {
    /// What it is when somebody else did it.
    pub(crate) fn conflict(&self) -> ConflictKind {
        match (&self.now, &self.then) {
            (None, _) => ConflictKind::Removed,
            (Some(_), None) => ConflictKind::Created,
            (Some(_), Some(_)) => ConflictKind::Changed,
        }
    }

    pub(crate) fn kind(&self) -> DifferenceKind {
        match (&self.now, &self.then) {
            (Some(_), None) => DifferenceKind::Added,
            (None, _) => DifferenceKind::Removed,
            (Some(now), Some(then)) => match (&now.kind, &then.kind) {
                (FoundKind::Folder, Kind::Folder) => DifferenceKind::Mode,
                _ => DifferenceKind::Changed,
            },
        }
    }
}

/// A root compared with its snapshot.
pub(crate) struct Compared {
    /// None if the root is not there.
    pub(crate) root: Option<Root>,
    /// In the order of paths.
    pub(crate) differs: Vec<Differs>,
    /// Files whose content is the same and whose mode is not.
    pub(crate) mode_only: HashSet<RelPath>,
    /// Folders with something in them that must stay where it is.
    pub(crate) holds_left: HashSet<RelPath>,
    /// Folders with something in them that is never touched.
    pub(crate) holds_never: HashSet<RelPath>,
    /// The folders that are there, with their modes and owners.
    pub(crate) folders: HashMap<RelPath, (u32, u32)>,
    /// The mode of the root itself, when it is not as it was.
    pub(crate) root_mode: Option<u32>,
    /// Places of the snapshot that are taken by what must stay where it is: a mount point, say.
    pub(crate) blocked: HashSet<RelPath>,
}

impl Snapshots {
    /// What is different in the tree since that snapshot.
    pub fn diff(&self, id: &SnapshotId) -> Result<Vec<Difference>, SnapshotError> {
        let _shared = self.place.lock_shared()?;
        let manifest = self.manifest(id)?;
        let mut all = Vec::new();
        for index in 0..manifest.header.roots.len() {
            let compared = compare(&manifest, index, &self.never_touched())?;
            let root = manifest.root_path(index);
            if compared.root_mode.is_some() {
                all.push(Difference { path: root.clone(), kind: DifferenceKind::Mode });
            }
            all.extend(compared.differs.iter().map(|differs| Difference {
                path: root.join(differs.path.as_path()),
                kind: match differs.kind() {
                    DifferenceKind::Changed if compared.mode_only.contains(&differs.path) => {
                        DifferenceKind::Mode
                    }
                    kind => kind,
                },
            }));
        }
        Ok(all)
    }

    /// Records how the work that this snapshot protects left the tree. From now on a restore refuses to undo what is
    /// neither as the snapshot has it nor as recorded here: somebody else did that.
    pub fn mark_after(&self, id: &SnapshotId, now_ms: i64) -> Result<super::Snapshot, SnapshotError> {
        let manifest = self.manifest(id)?;
        self.settle_restores(&manifest.root_paths())?;
        let _shared = self.place.lock_shared()?;
        let mut after =
            After { marked_at: now_ms, began_ns: wall_clock_ns(), entries: Vec::new(), removed: Vec::new() };
        for index in 0..manifest.header.roots.len() {
            let compared = compare(&manifest, index, &self.never_touched())?;
            let removed = compared.differs.iter().filter(|differs| differs.now.is_none());
            after.removed.push(removed.map(|differs| differs.path.clone()).collect());
            let changed: Vec<&Found> =
                compared.differs.iter().filter_map(|differs| differs.now.as_ref()).collect();
            let entries = match &compared.root {
                None => Vec::new(),
                Some(root) => in_parallel(&changed, |found, buffer| entry_of(root, found, None, buffer))?,
            };
            after.entries.push(entries.into_iter().flatten().collect());
        }
        self.place.write(Part::After, id.as_str(), &after.write()?, true)?;
        Ok(super::Snapshot::of(&manifest, Some(&after)))
    }
}

/// The entry that a snapshot would have of this; none for what it would not have, and for what is gone. With `recorded`
/// by the work, a file of the same fingerprint is not read.
pub(crate) fn entry_of(
    root: &Root,
    found: &Found,
    recorded: Option<(&Entry, i64)>,
    buffer: &mut Vec<u8>,
) -> Result<Option<Entry>, SnapshotError> {
    let kind = match &found.kind {
        FoundKind::Special => return Ok(None),
        FoundKind::Folder => Kind::Folder,
        FoundKind::Link(text) => Kind::Link(text.clone()),
        FoundKind::File => {
            let known = recorded.and_then(|(entry, began_ns)| match entry.kind {
                Kind::File(hash) if entry.seen == found.seen && settled_before(&entry.seen, began_ns) => {
                    Some(hash)
                }
                _ => None,
            });
            match known {
                Some(hash) => Kind::File(hash),
                None => match content_of(root, &found.path, buffer)? {
                    Some(hash) => Kind::File(hash),
                    None => return Ok(None),
                },
            }
        }
    };
    let Found { path, mode, owner, seen, .. } = found.clone();
    Ok(Some(Entry { path, kind, mode, owner, seen }))
}

fn content_of(root: &Root, path: &RelPath, buffer: &mut Vec<u8>) -> Result<Option<Hash>, SnapshotError> {
    let Some(mut file) = open_regular(root, path)? else { return Ok(None) };
    hash_of(&mut file, buffer).map(Some).map_err(io_at("read", &root.full(path)))
}

fn is_content(root: &Root, path: &RelPath, hash: &Hash, buffer: &mut Vec<u8>) -> Result<bool, SnapshotError> {
    match content_of(root, path, buffer) {
        // We could read it when we kept it, so at least its mode is another.
        Err(SnapshotError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Ok(false)
        }
        read => Ok(read?.as_ref() == Some(hash)),
    }
}

/// Compares one root with its snapshot.
pub(crate) fn compare(
    manifest: &Manifest,
    index: usize,
    never: &[PathBuf],
) -> Result<Compared, SnapshotError> {
    let header = &manifest.header.roots[index];
    let path = header.path.to_path();
    let rules = Rules::read(&header.ignore)?;
    // What the snapshot should not have is not put back either, whoever wrote it there.
    let ours = |entry: &&Entry| {
        !is_beneath_any(&path.join(entry.path.as_path()), never)
            && !rules.ignore_anywhere(&entry.path, entry.kind == Kind::Folder)
    };
    let entries = manifest.entries[index].iter().filter(ours);
    let then: HashMap<&RelPath, &Entry> = entries.map(|entry| (&entry.path, entry)).collect();
    let root = match Root::open(&path) {
        Ok(root) => root,
        Err(SnapshotError::RootGone { .. }) => return Ok(all_gone(then)),
        Err(error) => return Err(error),
    };
    let wanted = |path: &RelPath| then.contains_key(path);
    let scan = Scan { root: &root, rules: &rules, never, limits: SnapshotLimits::NONE, wanted: &wanted };
    let scanned = scan.run()?;

    let answers = in_parallel(&scanned.found, |found, buffer| {
        let Some(then) = then.get(&found.path) else { return Ok(Same::Not) };
        is_same(&root, found, then, manifest.header.began_ns, buffer)
    })?;
    let (mut differs, mut mode_only) = (Vec::new(), HashSet::new());
    let here: HashSet<RelPath> = scanned.found.iter().map(|found| found.path.clone()).collect();
    let folders = scanned.found.iter().filter(|found| found.kind == FoundKind::Folder);
    let folders = folders.map(|found| (found.path.clone(), (found.mode, found.owner.0))).collect();
    for (found, same) in scanned.found.into_iter().zip(answers) {
        if same == Same::ButMode {
            mode_only.insert(found.path.clone());
        }
        if same != Same::Wholly {
            let then = then.get(&found.path).map(|entry| (*entry).clone());
            differs.push(Differs { path: found.path.clone(), now: Some(found), then });
        }
    }
    let gone: Vec<&&Entry> = then.values().filter(|entry| !here.contains(&entry.path)).collect();
    let stays = |path: &RelPath| scanned.left.contains(path) || scanned.never.contains(path);
    let blocked = gone.iter().map(|entry| &entry.path);
    let blocked = blocked.filter(|path| stays(path) || path.ancestors().any(|folder| stays(&folder)));
    let blocked = blocked.cloned().collect();
    differs.extend(gone.into_iter().map(|entry| Differs {
        path: entry.path.clone(),
        now: None,
        then: Some((*entry).clone()),
    }));
    differs.sort_unstable_by(|one, other| one.path.cmp(&other.path));

    let mode = plain_mode(&root.stat_self()?);
    let holders = |paths: &HashSet<RelPath>| paths.iter().flat_map(RelPath::ancestors).collect();
    Ok(Compared {
        root_mode: (mode != header.mode).then_some(mode),
        root: Some(root),
        differs,
        mode_only,
        holds_left: holders(&scanned.left),
        holds_never: holders(&scanned.never),
        folders,
        blocked,
    })
}

fn all_gone(then: HashMap<&RelPath, &Entry>) -> Compared {
    let gone = |entry: &Entry| Differs { path: entry.path.clone(), now: None, then: Some(entry.clone()) };
    let mut differs: Vec<Differs> = then.into_values().map(gone).collect();
    differs.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Compared {
        root: None,
        differs,
        mode_only: HashSet::new(),
        holds_left: HashSet::new(),
        holds_never: HashSet::new(),
        folders: HashMap::new(),
        root_mode: None,
        blocked: HashSet::new(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    Wholly,
    ButMode,
    Not,
}

fn is_same(
    root: &Root,
    now: &Found,
    then: &Entry,
    began_ns: i64,
    buffer: &mut Vec<u8>,
) -> Result<Same, SnapshotError> {
    let content = match (&now.kind, &then.kind) {
        (FoundKind::Folder, Kind::Folder) => true,
        (FoundKind::Link(text), Kind::Link(was)) => text == was,
        (FoundKind::File, Kind::File(hash)) => {
            // A mode that is changed changes the ctime, so the content has to be looked at.
            now.seen.size == then.seen.size
                && ((now.seen == then.seen && settled_before(&then.seen, began_ns))
                    || is_content(root, &now.path, hash, buffer)?)
        }
        _ => false,
    };
    Ok(match (content, now.mode == then.mode) {
        (true, true) => Same::Wholly,
        (true, false) => Same::ButMode,
        (false, _) => Same::Not,
    })
}

/// A path with its root, for people.
pub(crate) fn shown(root: &Path, path: &RelPath) -> PathBuf {
    root.join(path.as_path())
}
