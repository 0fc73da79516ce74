//! Plans a restore: from what differs to steps, and to the list of what somebody else did. Nothing is touched here.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, accessat};

use super::beneath::Fingerprint;
use super::compare::{Compared, Differs, entry_of, shown};
use super::create::in_parallel;
use super::error::{Conflict, ConflictKind, SnapshotError};
use super::journal::{Seen, Step};
use super::manifest::{After, Entry, Hash, Kind, RootHeader};
use super::name::RelPath;
use super::restore::Scope;
use super::scan::FoundKind;

/// What is going to happen to a root.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// First: folders are opened up, and what the snapshot does not have goes aside.
    pub(crate) before: Vec<Step>,
    /// Then files and links are put into place.
    pub(crate) puts: Vec<Planned>,
    /// At last: the modes of folders, the innermost first.
    pub(crate) modes: Vec<Step>,
    pub(crate) conflicts: Vec<Conflict>,
    /// A folder that we may not change. Found out before anything is.
    pub(crate) denied: Option<PathBuf>,
    /// Of those, what must not be moved even by force.
    pub(crate) immovable: bool,
    /// Put back as the snapshot has them.
    pub(crate) restored: Vec<PathBuf>,
    /// Made since, and moved aside.
    pub(crate) moved: Vec<PathBuf>,
    /// Made since, and left because of what is in them.
    pub(crate) kept: Vec<PathBuf>,
}

/// A file or a link that is going to be put into place.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) path: RelPath,
    pub(crate) content: Content,
    pub(crate) owner: (u32, u32),
    pub(crate) replaces: Option<Seen>,
}

#[derive(Debug)]
pub(crate) enum Content {
    File { hash: Hash, size: u64, mode: u32 },
    Link(Vec<u8>),
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.puts.is_empty() && self.modes.is_empty()
    }
}

/// Plans one root. With a record of how the work left the tree, whatever differs from both is a conflict; or, where only
/// the work's own changes are put back, is left alone if the work had not touched it.
pub(crate) fn plan(
    path: &Path,
    header: &RootHeader,
    compared: &Compared,
    after: Option<(&After, usize)>,
    scope: Scope,
) -> Result<Plan, SnapshotError> {
    let mut planning = Planning {
        path,
        compared,
        plan: Plan::default(),
        left: HashSet::new(),
        whole: HashSet::new(),
        modes: HashMap::new(),
    };
    match (after, scope) {
        (Some((after, index)), _) => planning.somebody_elses(after, index, scope)?,
        (None, Scope::Everything) => {}
        // Nobody knows what the work has done.
        (None, Scope::OwnChanges) => {
            for differs in &compared.differs {
                planning.conflict(&differs.path, differs.conflict());
            }
        }
    }
    let left = std::mem::take(&mut planning.left);
    for differs in compared.differs.iter().filter(|differs| !left.contains(&differs.path)) {
        planning.step(differs);
    }
    planning.open_up();
    planning.set_modes(header);
    Ok(planning.plan)
}

struct Planning<'a> {
    path: &'a Path,
    compared: &'a Compared,
    plan: Plan,
    /// What somebody else did, and stays.
    left: HashSet<RelPath>,
    /// Folders that go aside with everything in them.
    whole: HashSet<RelPath>,
    /// The modes that folders get at the end.
    modes: HashMap<RelPath, u32>,
}

impl Planning<'_> {
    fn somebody_elses(&mut self, after: &After, index: usize, scope: Scope) -> Result<(), SnapshotError> {
        let none = (Vec::new(), Vec::new());
        let entries = after.entries.get(index).unwrap_or(&none.0);
        let entries: HashMap<&RelPath, &Entry> = entries.iter().map(|entry| (&entry.path, entry)).collect();
        let removed: HashSet<&RelPath> = after.removed.get(index).unwrap_or(&none.1).iter().collect();
        let ours = in_parallel(&self.compared.differs, |differs, buffer| {
            let (Some(now), Some(root)) = (&differs.now, &self.compared.root) else {
                return Ok(removed.contains(&differs.path));
            };
            let Some(left) = entries.get(&differs.path) else { return Ok(false) };
            let entry = entry_of(root, now, Some((left, after.began_ns)), buffer)?;
            Ok(entry.is_some_and(|entry| entry.same_as(left)))
        })?;
        let made = self.compared.differs.iter().filter(|differs| differs.then.is_none());
        let made: HashSet<&RelPath> =
            made.map(|differs| &differs.path).filter(|path| entries.contains_key(path)).collect();
        for (differs, ours) in self.compared.differs.iter().zip(ours) {
            let path = &differs.path;
            let touched = entries.contains_key(path) || removed.contains(path);
            // What stands in a folder that the work has made would go aside with it.
            let goes_along = path.ancestors().any(|folder| made.contains(&folder));
            match ours {
                true => {}
                false if scope == Scope::OwnChanges && !touched && !goes_along => {
                    self.left.insert(path.clone());
                }
                false => self.conflict(path, differs.conflict()),
            }
        }
        Ok(())
    }

    fn conflict(&mut self, path: &RelPath, kind: ConflictKind) {
        self.plan.conflicts.push(Conflict { path: shown(self.path, path), kind });
    }

    fn step(&mut self, differs: &Differs) {
        let path = &differs.path;
        // It went aside with the folder it is in.
        let gone_along = path.ancestors().any(|folder| self.whole.contains(&folder));
        let is_folder = differs.now.as_ref().is_some_and(|now| now.kind == FoundKind::Folder);
        let now = if gone_along { None } else { differs.now.as_ref() };
        let seen = now.map(|now| Seen::of(&now.seen, is_folder));
        match (&differs.then, seen) {
            (None, None) => {}
            (None, Some(seen)) => {
                if is_folder
                    && (self.compared.holds_left.contains(path) || self.compared.holds_never.contains(path))
                {
                    self.plan.kept.push(shown(self.path, path));
                    return;
                }
                self.away(path, seen, is_folder);
                self.plan.moved.push(shown(self.path, path));
            }
            (Some(_), _) if self.compared.blocked.contains(path) => {
                self.plan.immovable = true;
                self.conflict(path, ConflictKind::HoldsIgnored);
            }
            (Some(then), seen) => {
                self.plan.restored.push(shown(self.path, path));
                self.put(then, seen, is_folder);
            }
        }
    }

    fn away(&mut self, path: &RelPath, seen: Seen, is_folder: bool) {
        self.plan.before.push(Step::Away { path: path.clone(), seen });
        if is_folder {
            self.whole.insert(path.clone());
        }
    }

    fn put(&mut self, then: &Entry, seen: Option<Seen>, was_folder: bool) {
        let path = then.path.clone();
        let content = match &then.kind {
            Kind::Folder => {
                self.modes.insert(path.clone(), then.mode);
                match seen {
                    // A folder already: its mode is what differs.
                    Some(_) if was_folder => return,
                    Some(seen) => self.away(&path, seen, false),
                    None => {}
                }
                self.plan.before.push(Step::Folder { path, owner: then.owner });
                return;
            }
            Kind::File(hash) => Content::File { hash: *hash, size: then.seen.size, mode: then.mode },
            Kind::Link(text) => Content::Link(text.clone()),
        };
        if was_folder && seen.is_some() {
            if self.compared.holds_never.contains(&path) {
                self.plan.immovable = true;
            }
            if self.compared.holds_left.contains(&path) || self.compared.holds_never.contains(&path) {
                self.conflict(&path, ConflictKind::HoldsIgnored);
            }
            self.whole.insert(path.clone());
        }
        self.plan.puts.push(Planned { path, content, owner: then.owner, replaces: seen });
    }

    /// Folders that would not let us in are opened, and closed again at the end. One that is not ours to open is told
    /// before anything is touched.
    fn open_up(&mut self) {
        let changed = self.plan.before.iter().filter_map(|step| match step {
            Step::Away { path, .. } | Step::Folder { path, .. } => Some(path),
            _ => None,
        });
        let parents: HashSet<RelPath> =
            changed.chain(self.plan.puts.iter().map(|put| &put.path)).filter_map(RelPath::parent).collect();
        let mut closed: Vec<(RelPath, u32)> = Vec::new();
        for parent in &parents {
            for folder in parent.ancestors().chain([parent.clone()]) {
                let Some((mode, owner)) = self.compared.folders.get(&folder) else { continue };
                if self.whole.contains(&folder) {
                    continue;
                }
                if !is_ours(*owner) {
                    self.denied_unless_writable(&folder, folder == *parent);
                } else if mode & 0o700 != 0o700 {
                    closed.push((folder, *mode));
                }
            }
        }
        closed.sort_unstable();
        closed.dedup();
        for (folder, mode) in &closed {
            self.modes.entry(folder.clone()).or_insert(*mode);
        }
        let opened =
            closed.into_iter().map(|(path, mode)| Step::OpenUp { path: Some(path), mode: mode | 0o700 });
        self.plan.before.splice(0..0, opened);
    }

    fn denied_unless_writable(&mut self, folder: &RelPath, to_change: bool) {
        let access = if to_change { Access::WRITE_OK | Access::EXEC_OK } else { Access::EXEC_OK };
        let Some(root) = &self.compared.root else { return };
        let may =
            root.handle(Some(folder)).and_then(|folder| accessat(&folder, ".", access, AtFlags::EACCESS));
        if may.is_err() {
            self.plan.denied.get_or_insert_with(|| shown(self.path, folder));
        }
    }

    fn set_modes(&mut self, header: &RootHeader) {
        let mut modes: Vec<(RelPath, u32)> = std::mem::take(&mut self.modes).into_iter().collect();
        let foreign =
            |path: &RelPath| self.compared.folders.get(path).is_some_and(|(_, owner)| !is_ours(*owner));
        if let Some((path, _)) = modes.iter().find(|(path, _)| foreign(path)) {
            self.plan.denied.get_or_insert_with(|| shown(self.path, path));
        }
        modes.sort_unstable_by(|one, other| other.cmp(one));
        let modes = modes.into_iter().map(|(path, mode)| Step::FolderMode { path: Some(path), mode });
        self.plan.modes.extend(modes);
        // A root that we make, or that would not let us in, or whose mode was changed.
        let now = self.compared.root_mode.unwrap_or(header.mode);
        let busy = !self.plan.before.is_empty() || !self.plan.puts.is_empty() || !self.plan.modes.is_empty();
        let made = self.compared.root.is_none();
        if !made && busy && now & 0o700 != 0o700 {
            self.plan.before.insert(0, Step::OpenUp { path: None, mode: now | 0o700 });
        }
        if made || self.compared.root_mode.is_some() || (busy && now & 0o700 != 0o700) {
            self.plan.modes.push(Step::FolderMode { path: None, mode: header.mode });
        }
        if self.compared.root_mode.is_some() || made {
            self.plan.restored.push(self.path.to_owned());
        }
    }
}

/// Whether we may change the mode of what belongs to this user.
fn is_ours(owner: u32) -> bool {
    let us = rustix::process::geteuid();
    us.is_root() || us.as_raw() == owner
}

/// What would be written, in bytes of the disk.
pub(crate) fn room_for(plan: &Plan) -> u64 {
    const BLOCK: u64 = 4096;
    let of = |put: &Planned| match &put.content {
        Content::File { size, .. } => size.div_ceil(BLOCK) * BLOCK,
        Content::Link(_) => BLOCK,
    };
    plan.puts.iter().map(of).fold(0, u64::saturating_add)
}

impl Planned {
    pub(crate) fn step(&self, staged: u64, at: &Fingerprint) -> Step {
        Step::Put { path: self.path.clone(), staged, dev: at.dev, ino: at.ino, replaces: self.replaces }
    }
}
