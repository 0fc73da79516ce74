//! The folder where snapshots are kept: its parts, its locks, and how a small file is written so that it is there after a
//! power cut, whole or not at all. The folder is open to its owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::error::{SnapshotError, at, io_at};
use super::id::random_name;

const TEMPORARY: &str = ".new-";

/// The folder of the snapshots.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
}

/// A lock that is held; given back when it is dropped, or by the kernel when its process dies.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

/// The parts of the folder.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// Contents by their hash.
    Objects,
    /// Contents that are not yet known to be on the disk.
    Incoming,
    /// A manifest per snapshot.
    Manifests,
    /// How the work left the tree, per snapshot.
    After,
    /// Restores under way.
    Restores,
    /// What was moved aside, and until when it stays.
    Asides,
    /// The latest snapshot of each root.
    Latest,
}

const PARTS: [Part; 7] =
    [Part::Objects, Part::Incoming, Part::Manifests, Part::After, Part::Restores, Part::Asides, Part::Latest];

impl Place {
    /// Opens the folder, and makes it if it is not there.
    pub(crate) fn open(dir: &Path) -> Result<Place, SnapshotError> {
        let make = |path: &Path| {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(io_at("make the folder", path))
        };
        make(dir)?;
        let dir = dir.canonicalize().map_err(io_at("find", dir))?;
        let place = Place { dir };
        for part in PARTS {
            make(&place.part(part))?;
        }
        Ok(place)
    }

    pub(crate) fn part(&self, part: Part) -> PathBuf {
        self.dir.join(match part {
            Part::Objects => "objects",
            Part::Incoming => "incoming",
            Part::Manifests => "manifests",
            Part::After => "after",
            Part::Restores => "restores",
            Part::Asides => "asides",
            Part::Latest => "latest",
        })
    }

    pub(crate) fn file(&self, part: Part, name: &str) -> PathBuf {
        self.part(part).join(name)
    }

    /// Held by everybody who reads or adds objects.
    pub(crate) fn lock_shared(&self) -> Result<Lock, SnapshotError> {
        self.lock("lock", FlockOperation::LockShared)
    }

    /// Held by whoever removes objects.
    pub(crate) fn lock_alone(&self) -> Result<Lock, SnapshotError> {
        self.lock("lock", FlockOperation::LockExclusive)
    }

    /// The same, if nobody else is here.
    pub(crate) fn try_lock_alone(&self) -> Result<Option<Lock>, SnapshotError> {
        self.try_lock("lock")
    }

    /// Held by whoever restores. Taken before the other lock.
    pub(crate) fn lock_restores(&self) -> Result<Lock, SnapshotError> {
        self.lock("restoring", FlockOperation::LockExclusive)
    }

    /// The same, if nobody restores at this moment.
    pub(crate) fn try_lock_restores(&self) -> Result<Option<Lock>, SnapshotError> {
        self.try_lock("restoring")
    }

    fn lock(&self, name: &str, operation: FlockOperation) -> Result<Lock, SnapshotError> {
        let path = self.dir.join(name);
        let file = lock_file(&path)?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Err(Errno::INTR) => {}
                done => return done.map(|()| Lock(file)).map_err(at("lock", &path)),
            }
        }
    }

    fn try_lock(&self, name: &str) -> Result<Option<Lock>, SnapshotError> {
        let path = self.dir.join(name);
        let file = lock_file(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(at("lock", &path)(errno)),
        }
    }

    /// Writes a file that is whole or not there, and stays. Answers whether it is this one: an older one of that name is
    /// kept unless `over` it.
    pub(crate) fn write(
        &self,
        part: Part,
        name: &str,
        bytes: &[u8],
        over: bool,
    ) -> Result<bool, SnapshotError> {
        let folder = self.part(part);
        let (path, temporary) = (folder.join(name), folder.join(format!("{TEMPORARY}{}", random_name()?)));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            let flags = if over { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            match rustix::fs::renameat_with(CWD, &temporary, CWD, &path, flags) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
            File::open(&folder)?.sync_all()?;
            Ok(true)
        })();
        if !matches!(written, Ok(true)) {
            // What could not be removed is swept by the next that is alone here.
            let _swept_later = fs::remove_file(&temporary);
        }
        written.map_err(io_at("write", &path))
    }

    /// The file's content; none if there is no such file.
    pub(crate) fn read(&self, part: Part, name: &str) -> Result<Option<Vec<u8>>, SnapshotError> {
        let path = self.file(part, name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_at("read", &path)(error)),
        }
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, part: Part, name: &str) -> Result<(), SnapshotError> {
        let path = self.file(part, name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_at("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Makes removals and renames in a part stay.
    pub(crate) fn sync(&self, part: Part) -> Result<(), SnapshotError> {
        let path = self.part(part);
        File::open(&path).and_then(|folder| folder.sync_all()).map_err(io_at("sync", &path))
    }

    /// The names in a part, sorted, without files that are still being written.
    pub(crate) fn names(&self, part: Part) -> Result<Vec<String>, SnapshotError> {
        let path = self.part(part);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(io_at("list", &path))? {
            let entry = entry.map_err(io_at("list", &path))?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with(TEMPORARY)
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether there is nothing in a part, not even a file that is being written.
    pub(crate) fn is_empty(&self, part: Part) -> Result<bool, SnapshotError> {
        let path = self.part(part);
        let mut entries = fs::read_dir(&path).map_err(io_at("list", &path))?;
        Ok(entries.next().is_none())
    }

    /// Removes what killed processes left half-written. Only for who is alone here.
    pub(crate) fn sweep(&self, _alone: &Lock) -> Result<(), SnapshotError> {
        for part in [Part::Manifests, Part::After, Part::Asides, Part::Latest, Part::Incoming] {
            let folder = self.part(part);
            for entry in fs::read_dir(&folder).map_err(io_at("list", &folder))? {
                let path = entry.map_err(io_at("list", &folder))?.path();
                let unfinished = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(TEMPORARY));
                let removed = match part {
                    Part::Incoming => fs::remove_dir_all(&path),
                    _ if unfinished => fs::remove_file(&path),
                    _ => Ok(()),
                };
                removed.map_err(io_at("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes records of restores that were never finished writing. Only for who may restore.
    pub(crate) fn sweep_restores(&self, _restoring: &Lock) -> Result<(), SnapshotError> {
        let folder = self.part(Part::Restores);
        for entry in fs::read_dir(&folder).map_err(io_at("list", &folder))? {
            let path = entry.map_err(io_at("list", &folder))?.path();
            if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(TEMPORARY))
            {
                fs::remove_file(&path).map_err(io_at("remove", &path))?;
            }
        }
        Ok(())
    }
}

fn lock_file(path: &Path) -> Result<File, SnapshotError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map_err(io_at("open the lock", path))
}
