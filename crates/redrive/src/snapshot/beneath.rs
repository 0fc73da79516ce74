//! The tree below a root, and never anything else. The root is opened once; whatever is below it is reached by
//! `openat2` from there, without following a link or leaving the file system, and changed by calls on the opened parent.
//! A parent that was swapped for a link is an error here ([`interfered`]), not a way out.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::{SnapshotError, at};
use super::fault::Fault;
use super::name::RelPath;

/// How often a call is made again that the kernel gave up on because of somebody else's rename.
const MOST_TRIES: usize = 128;

/// A root that is open.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) dev: u64,
}

/// What tells a file apart from what it was: any change to it changes one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
}

impl Fingerprint {
    // The fields differ in sign and width between machines.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::useless_conversion
    )]
    pub(crate) fn of(stat: &Stat) -> Fingerprint {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Fingerprint {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// The kind of thing that a stat is about.
pub(crate) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The permissions, without setuid, setgid and sticky.
pub(crate) fn plain_mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

impl Root {
    /// Opens the folder at this absolute path, no part of which may be a link.
    pub(crate) fn open(path: &Path) -> Result<Root, SnapshotError> {
        let slash = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(at("open", Path::new("/")))?;
        let below = path
            .strip_prefix("/")
            .map_err(|_| SnapshotError::BadRoot { path: path.to_owned(), why: Fault::NotAbsolute })?;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = insist(|| rustix::fs::openat2(&slash, below, flags, Mode::empty(), resolve));
        let fd = opened.map_err(|errno| match errno {
            Errno::NOENT => SnapshotError::RootGone { path: path.to_owned() },
            Errno::LOOP | Errno::NOTDIR => replaced(path),
            errno => at("open", path)(errno),
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(at("look at", path))?;
        Ok(Root { fd, path: path.to_owned(), dev: Fingerprint::of(&stat).dev })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn stat_self(&self) -> Result<Stat, SnapshotError> {
        rustix::fs::fstat(&self.fd).map_err(at("look at", &self.path))
    }

    /// Where a path below is, for people.
    pub(crate) fn full(&self, path: &RelPath) -> PathBuf {
        self.path.join(path.as_path())
    }

    fn reach(&self, path: Option<&RelPath>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let path = path.map_or(&b"."[..], RelPath::bytes);
        insist(|| rustix::fs::openat2(&self.fd, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve))
    }

    /// A folder, to list it or to change its mode.
    pub(crate) fn folder(&self, path: Option<&RelPath>) -> rustix::io::Result<OwnedFd> {
        self.reach(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// A folder, to do something in it.
    pub(crate) fn handle(&self, path: Option<&RelPath>) -> rustix::io::Result<OwnedFd> {
        self.reach(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// A file's content. It is not waited for: what became a FIFO meanwhile does not hold us up.
    pub(crate) fn file(&self, path: &RelPath) -> rustix::io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.reach(Some(path), flags).map(File::from)
    }

    /// What is at this path; none if nothing is.
    pub(crate) fn stat(&self, path: &RelPath) -> rustix::io::Result<Option<Stat>> {
        let parent = self.handle(path.parent().as_ref())?;
        stat_in(&parent, path.file_name())
    }

    /// The text of a link.
    pub(crate) fn link_text(&self, path: &RelPath) -> rustix::io::Result<Vec<u8>> {
        let parent = self.handle(path.parent().as_ref())?;
        rustix::fs::readlinkat(&parent, path.file_name(), Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Changes the mode of a folder, also of one that we may not even look into.
    pub(crate) fn set_folder_mode(&self, path: Option<&RelPath>, mode: u32) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self.folder(path) {
            Ok(folder) => rustix::fs::fchmod(&folder, mode),
            Err(Errno::ACCESS) => {
                // A handle is enough to be its owner: the kernel's own name of it leads nowhere else.
                use std::os::fd::AsRawFd as _;
                let handle = self.handle(path)?;
                rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Makes sure that a folder is there, with those that it is in, open to nobody but us.
    pub(crate) fn make_folders(&self, path: &RelPath) -> rustix::io::Result<()> {
        let mut parent = self.handle(None)?;
        for folder in path.ancestors().chain([path.clone()]) {
            match rustix::fs::mkdirat(&parent, folder.file_name(), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            parent = self.handle(Some(&folder))?;
        }
        Ok(())
    }

    /// Removes one of our own folders with everything in it. Never used on anything that a user made, but for what was
    /// moved aside long ago.
    pub(crate) fn remove_ours(&self, path: &RelPath) -> rustix::io::Result<()> {
        let Some(stat) = self.stat(path)? else { return Ok(()) };
        let parent = self.handle(path.parent().as_ref())?;
        if kind_of(&stat) != FileType::Directory {
            return gone_is_fine(rustix::fs::unlinkat(&parent, path.file_name(), AtFlags::empty()));
        }
        if plain_mode(&stat) & 0o700 != 0o700 {
            self.set_folder_mode(Some(path), 0o700)?;
        }
        for name in names_in(self.folder(Some(path))?)? {
            match RelPath::child(Some(path), &name) {
                Ok(child) => self.remove_ours(&child)?,
                Err(_) => return Err(Errno::NAMETOOLONG),
            }
        }
        gone_is_fine(rustix::fs::unlinkat(&parent, path.file_name(), AtFlags::REMOVEDIR))
    }

    /// Removes one of our own folders if nothing is left in it.
    pub(crate) fn remove_if_empty(&self, path: Option<&RelPath>) -> rustix::io::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let parent = self.handle(path.parent().as_ref())?;
        match rustix::fs::unlinkat(&parent, path.file_name(), AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            done => gone_is_fine(done),
        }
    }
}

/// Which part of the way to a root is no folder any more, and what it is instead.
fn replaced(path: &Path) -> SnapshotError {
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let not_a_folder = way.iter().find_map(|part| {
        let found = std::fs::symlink_metadata(part).ok()?;
        let why = if found.is_symlink() { Fault::NowALink } else { Fault::NotAFolder };
        (!found.is_dir()).then_some((*part, why))
    });
    match not_a_folder {
        Some((what, why)) => {
            SnapshotError::RootReplaced { path: path.to_owned(), what: what.to_owned(), why }
        }
        // It is a folder again.
        None => SnapshotError::Unsteady { path: path.to_owned() },
    }
}

/// What is in an opened folder under this name; none if nothing is.
pub(crate) fn stat_in(folder: impl AsFd, name: &[u8]) -> rustix::io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The names in an opened folder.
pub(crate) fn names_in(folder: OwnedFd) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// Renames, and never over something that is there.
pub(crate) fn rename_new(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8])) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)
}

/// Whether a call failed because the way to the file is not what it was when we looked.
pub(crate) fn interfered(errno: Errno) -> bool {
    matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::XDEV | Errno::AGAIN)
}

fn gone_is_fine(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    if done == Err(Errno::NOENT) { Ok(()) } else { done }
}

fn insist(mut call: impl FnMut() -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
    for _ in 1..MOST_TRIES {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    call()
}
