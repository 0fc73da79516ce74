//! A copy of the whole store into a new file: consistent while others write, for its owner's eyes only, and on the disk
//! when the answer goes out.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Durability, open};
use crate::error::{StoreError, Trouble};

pub(super) fn copy(store: &Path, to: &Path) -> Result<(), StoreError> {
    let cannot = |why: String| Trouble::Open { path: to.to_owned(), why };
    whole(to, &|partial| write(store, partial)).map_err(|error| match error.trouble() {
        Trouble::Open { why, .. } => cannot(why.clone()).into(),
        _ => error,
    })
}

/// Makes a file that is there whole or not at all: written beside its place, synced, and put there at the end.
pub(crate) fn whole(to: &Path, write: &dyn Fn(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let cannot = |why: String| StoreError::from(Trouble::Open { path: to.to_owned(), why });
    if to.symlink_metadata().is_ok() {
        return Err(cannot("there is a file already".to_owned()));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(name);
    // Made here and not by SQLite: it holds payloads, which nobody else may read.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)
        .map_err(|error| cannot(error.to_string()))?;
    let placed = write(&partial).and_then(|()| {
        // A link, not a renaming: whoever made the place meanwhile keeps it.
        std::fs::hard_link(&partial, to).map_err(|error| cannot(error.to_string()))?;
        sync(folder_of(to))
    });
    // What is left of it is in nobody's way, and half a copy is worse than none.
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = partial.as_os_str().to_owned();
        path.push(suffix);
        let _removed = std::fs::remove_file(path);
    }
    placed
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// On the disk.
pub(crate) fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| Trouble::Broken(error.to_string()).into())
}

fn write(store: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = open::connect(store, Durability::Full)?;
    let name = to
        .to_str()
        .ok_or_else(|| Trouble::Open { path: to.to_owned(), why: "its name is not UTF-8".to_owned() })?;
    connection.execute("VACUUM INTO ?1", [name])?;
    sync(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Reliability row 1: whoever is killed while a copy is written leaves nothing under its name; what was there stays.
    #[test]
    fn a_copy_has_its_name_only_when_it_is_whole() {
        let home = tempfile::tempdir().unwrap();
        let to = home.path().join("copy.db");
        let bytes =
            |path: &Path| std::fs::write(path, "whole").map_err(|error| Trouble::Broken(error.to_string()));
        whole(&to, &|partial| {
            assert!(!to.exists() && partial.exists(), "its name is free while it is written");
            Ok(bytes(partial)?)
        })
        .unwrap();
        assert_eq!((std::fs::read_to_string(&to).unwrap().as_str(), names(home.path()).len()), ("whole", 1));
        assert!(whole(&to, &|_| Ok(())).is_err(), "what is there is not replaced");

        let late = home.path().join("late.db");
        let taken = whole(&late, &|partial| {
            std::fs::write(&late, "theirs").unwrap();
            Ok(bytes(partial)?)
        });
        assert!(taken.is_err());
        assert_eq!(std::fs::read_to_string(&late).unwrap(), "theirs", "whoever was first keeps the place");

        let failed = home.path().join("failed.db");
        assert!(whole(&failed, &|_| Err(Trouble::Full.into())).is_err());
        assert!(!failed.exists() && names(home.path()).len() == 2, "{:?}", names(home.path()));
    }
}
