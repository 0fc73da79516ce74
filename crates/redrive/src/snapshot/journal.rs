//! The journal of a restore. It names every step before the first is taken, and is the commit point: without it the tree is
//! as it was, with it the next start goes on to the whole snapshot. Every step may be taken twice. What is in the way
//! is moved aside, never overwritten and never removed.
//!
//! A restore is known by the name of its record: `….staging` until everything is ready beside the tree, `….apply` once it
//! is committed, `….clean` when only our own folder is left to be removed.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::{Fingerprint, Root, interfered, kind_of, plain_mode, rename_new, stat_in};
use super::error::{SnapshotError, at};
use super::fault::Fault;
use super::id::SnapshotId;
use super::manifest::{push_line, seal, unseal};
use super::name::{Bytes, RelPath};

/// How often a step is tried that somebody else keeps undoing.
const MOST_TRIES: usize = 64;

/// A restore, in full.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) snapshot_id: SnapshotId,
    pub(crate) began_at: i64,
    /// Only what the work had changed is put back.
    #[serde(default)]
    pub(crate) own: bool,
    /// How long what was moved aside stays, at least.
    pub(crate) keep_ms: i64,
    pub(crate) never: Vec<Bytes>,
    pub(crate) roots: Vec<RootJournal>,
}

/// The part of one root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RootJournal {
    pub(crate) path: Bytes,
    /// Our folder in the root, with what is going to be put into place.
    pub(crate) staging: RelPath,
    /// Where what is replaced goes.
    pub(crate) aside: RelPath,
    /// The root was gone, and we made it.
    pub(crate) made: bool,
    pub(crate) steps: Vec<Step>,
}

/// One step. Taken twice it does nothing the second time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Lets us work in a folder that would keep us out. Its mode is set again at the end.
    OpenUp { path: Option<RelPath>, mode: u32 },
    /// Moves something aside.
    Away { path: RelPath, seen: Seen },
    /// Makes a folder.
    Folder { path: RelPath, owner: (u32, u32) },
    /// Puts a file or a link into place; what is there goes aside.
    Put { path: RelPath, staged: u64, dev: u64, ino: u64, replaces: Option<Seen> },
    /// Sets the mode of a folder, or of the root.
    FolderMode { path: Option<RelPath>, mode: u32 },
}

/// What we saw when we compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    dev: u64,
    ino: u64,
    /// Size, mtime and ctime; a folder's change as we work in it, so it has none.
    rest: Option<(u64, i64, i64)>,
}

impl Seen {
    pub(crate) fn of(seen: &Fingerprint, is_folder: bool) -> Seen {
        let rest = (!is_folder).then_some((seen.size, seen.mtime_ns, seen.ctime_ns));
        Seen { dev: seen.dev, ino: seen.ino, rest }
    }

    fn is(self, stat: &Stat) -> bool {
        self == Seen::of(&Fingerprint::of(stat), kind_of(stat) == FileType::Directory)
    }
}

impl Journal {
    pub(crate) fn write(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut written = Vec::new();
        push_line(&mut written, self)?;
        seal(&mut written);
        Ok(written)
    }

    pub(crate) fn read(file: &Path, written: &[u8]) -> Result<Journal, SnapshotError> {
        let read = unseal(written).and_then(|body| serde_json::from_slice(body).ok());
        read.ok_or_else(|| SnapshotError::Damaged { what: file.to_owned(), why: Fault::JournalUnreadable })
    }

    /// Takes every step that has not been taken. Answers what somebody else changed after we compared.
    pub(crate) fn apply(&self) -> Result<Vec<PathBuf>, SnapshotError> {
        let mut changed = Vec::new();
        for part in &self.roots {
            let root = Root::open(&part.path.to_path())?;
            let mut applying = Applying { root: &root, part, changed: &mut changed };
            applying.staging_is_there()?;
            for step in &part.steps {
                applying.take(step)?;
            }
            // The journal is what makes the steps certain; it may go only when they are on the disk.
            rustix::fs::syncfs(root.fd()).map_err(at("sync", &root.path))?;
        }
        Ok(changed)
    }

    /// Removes our folders from the roots. A root that is gone may come back with one, if it is on a disk that is away.
    pub(crate) fn remove_staging(&self) -> Result<(), SnapshotError> {
        for part in &self.roots {
            let root = match Root::open(&part.path.to_path()) {
                Err(SnapshotError::RootGone { .. }) if part.made => continue,
                opened => opened?,
            };
            root.remove_ours(&part.staging).map_err(at("remove", &root.full(&part.staging)))?;
        }
        Ok(())
    }

    /// Takes back roots that we made, as long as nobody has put anything into them.
    pub(crate) fn remove_made_roots(&self) -> Result<(), SnapshotError> {
        for part in self.roots.iter().filter(|part| part.made) {
            let path = part.path.to_path();
            match rustix::fs::rmdir(&path) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
                Err(errno) => return Err(at("remove", &path)(errno)),
            }
        }
        Ok(())
    }
}

struct Applying<'a> {
    root: &'a Root,
    part: &'a RootJournal,
    changed: &'a mut Vec<PathBuf>,
}

impl Applying<'_> {
    /// A way that is not what it was: the restore has to be planned again.
    fn fault(&self, doing: &'static str, path: Option<&RelPath>) -> impl FnOnce(Errno) -> SnapshotError {
        let place = path.map_or_else(|| self.root.path.clone(), |path| self.root.full(path));
        move |errno| {
            if interfered(errno) { SnapshotError::Unsteady { path: place } } else { at(doing, &place)(errno) }
        }
    }

    fn staging_is_there(&self) -> Result<(), SnapshotError> {
        let staging = &self.part.staging;
        self.root.handle(Some(staging)).map(drop).map_err(self.fault("open", Some(staging)))
    }

    fn take(&mut self, step: &Step) -> Result<(), SnapshotError> {
        match step {
            Step::OpenUp { path, mode } | Step::FolderMode { path, mode } => {
                let done = self.root.set_folder_mode(path.as_ref(), *mode);
                done.map_err(self.fault("change the mode of", path.as_ref()))
            }
            Step::Away { path, seen } => self.away(path, *seen),
            Step::Folder { path, owner } => self.folder(path, *owner),
            Step::Put { path, staged, dev, ino, replaces } => {
                self.put(path, *staged, (*dev, *ino), *replaces)
            }
        }
    }

    fn away(&mut self, path: &RelPath, seen: Seen) -> Result<(), SnapshotError> {
        let aside = self.aside_of(path)?;
        match self.root.stat(&aside) {
            // It is there: whatever is in its old place now came later.
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            Err(errno) if interfered(errno) => {}
            Err(errno) => return Err(at("look at", &self.root.full(&aside))(errno)),
        }
        let parent = match self.root.handle(path.parent().as_ref()) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened.map_err(self.fault("open the folder of", Some(path)))?,
        };
        let now = stat_in(&parent, path.file_name()).map_err(self.fault("look at", Some(path)))?;
        let Some(now) = now else { return Ok(()) };
        if !seen.is(&now) {
            self.changed.push(self.root.full(path));
        }
        self.move_aside(&parent, path, &now)
    }

    fn folder(&self, path: &RelPath, owner: (u32, u32)) -> Result<(), SnapshotError> {
        let parent =
            self.root.handle(path.parent().as_ref()).map_err(self.fault("open the folder of", Some(path)))?;
        match rustix::fs::mkdirat(&parent, path.file_name(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.fault("make the folder", Some(path))(errno)),
        }
        // Something else of that name is an error here, and planned for anew.
        let made = self.root.handle(Some(path)).map_err(self.fault("open", Some(path)))?;
        give_to(&made, owner).map_err(self.fault("give away", Some(path)))
    }

    fn put(
        &mut self,
        path: &RelPath,
        staged: u64,
        put: (u64, u64),
        replaces: Option<Seen>,
    ) -> Result<(), SnapshotError> {
        let name = staged.to_string();
        let staging = &self.part.staging;
        let staging = self.root.handle(Some(staging)).map_err(self.fault("open", Some(staging)))?;
        for _ in 0..MOST_TRIES {
            let ready = stat_in(&staging, name.as_bytes())
                .map_err(self.fault("look at", Some(&self.part.staging)))?;
            // It has been put into place; what somebody did to it since is theirs.
            let Some(ready) = ready else { return Ok(()) };
            let ready = Fingerprint::of(&ready);
            if (ready.dev, ready.ino) != put {
                return Err(SnapshotError::Unsteady { path: self.root.full(&self.part.staging) });
            }
            let parent = self
                .root
                .handle(path.parent().as_ref())
                .map_err(self.fault("open the folder of", Some(path)))?;
            let now = stat_in(&parent, path.file_name()).map_err(self.fault("look at", Some(path)))?;
            if let Some(now) = now {
                if !replaces.is_some_and(|seen| seen.is(&now)) {
                    self.changed.push(self.root.full(path));
                }
                self.move_aside(&parent, path, &now)?;
            }
            let from = (&staging, name.as_bytes());
            let done = match rename_new(from, (&parent, path.file_name())) {
                // A file system that cannot rename so: a second name, which is never over another, then the first away.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    rustix::fs::linkat(&staging, from.1, &parent, path.file_name(), AtFlags::empty())
                        .and_then(|()| rustix::fs::unlinkat(&staging, from.1, AtFlags::empty()))
                }
                done => done,
            };
            match done {
                // Somebody was quicker: that goes aside, too.
                Err(Errno::EXIST) => {}
                done => return done.map_err(self.fault("put back", Some(path))),
            }
        }
        Err(SnapshotError::Unsteady { path: self.root.full(path) })
    }

    fn aside_of(&self, path: &RelPath) -> Result<RelPath, SnapshotError> {
        RelPath::child(Some(&self.part.aside), path.bytes())
    }

    fn move_aside(
        &self,
        parent: &std::os::fd::OwnedFd,
        path: &RelPath,
        now: &Stat,
    ) -> Result<(), SnapshotError> {
        let mut aside = self.aside_of(path)?;
        for turn in 1..=MOST_TRIES {
            match self.try_aside(parent, path.file_name(), &aside, now) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // The name is taken by what was moved before: a folder of its own, then.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {
                    let again = RelPath::child(Some(&self.part.aside), format!("~again-{turn}").as_bytes())?;
                    aside = RelPath::child(Some(&again), path.file_name())?;
                }
                Err(errno) => return Err(self.fault("move aside", Some(path))(errno)),
            }
        }
        Err(SnapshotError::Unsteady { path: self.root.full(path) })
    }

    fn try_aside(
        &self,
        parent: &std::os::fd::OwnedFd,
        name: &[u8],
        aside: &RelPath,
        now: &Stat,
    ) -> rustix::io::Result<()> {
        let folder = aside.parent().unwrap_or_else(|| self.part.aside.clone());
        self.root.make_folders(&folder)?;
        let to = self.root.handle(Some(&folder))?;
        match rename_new((parent, name), (&to, aside.file_name())) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                // Nobody else has a name for anything in our folder: looking first is enough.
                if stat_in(&to, aside.file_name())?.is_some() {
                    return Err(Errno::EXIST);
                }
                rustix::fs::renameat(parent, name, &to, aside.file_name())
            }
            Err(Errno::ACCESS) if kind_of(now) == FileType::Directory => {
                // To change its parent, a folder has to be writable itself.
                let flags = rustix::fs::OFlags::RDONLY
                    | rustix::fs::OFlags::DIRECTORY
                    | rustix::fs::OFlags::NOFOLLOW
                    | rustix::fs::OFlags::CLOEXEC;
                let opened = rustix::fs::openat(parent, name, flags, Mode::empty())?;
                let mode = plain_mode(&rustix::fs::fstat(&opened)?);
                rustix::fs::fchmod(&opened, Mode::from_raw_mode(mode | 0o700))?;
                rename_new((parent, name), (&to, aside.file_name()))?;
                rustix::fs::fchmod(&opened, Mode::from_raw_mode(mode))
            }
            done => done,
        }
    }
}

/// Gives a file to whom it belonged, where we may; an ordinary user may not, and keeps it.
pub(crate) fn give_to(file: impl std::os::fd::AsFd, (uid, gid): (u32, u32)) -> rustix::io::Result<()> {
    let stat = rustix::fs::fstat(&file)?;
    if (stat.st_uid, stat.st_gid) == (uid, gid) {
        return Ok(());
    }
    let owner = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    let given = rustix::fs::chownat(&file, "", Some(owner.0), Some(owner.1), AtFlags::EMPTY_PATH);
    if given == Err(Errno::PERM) { Ok(()) } else { given }
}
