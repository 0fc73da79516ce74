//! A copy of the whole store into a new file: consistent while others write, for its owner's eyes only, and on the disk
//! when the answer goes out.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Durability, open};
use crate::error::{StoreError, Trouble};

pub(super) fn copy(store: &Path, to: &Path) -> Result<(), StoreError> {
    let cannot = |why: String| Trouble::Open { path: to.to_owned(), why };
    // Made here and not by SQLite: it holds payloads, which nobody else may read.
    if let Err(error) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to) {
        let there = error.kind() == std::io::ErrorKind::AlreadyExists;
        let why = if there { "there is a file already".to_owned() } else { error.to_string() };
        return Err(cannot(why).into());
    }
    let copied = write(store, to);
    if copied.is_err() {
        // Half a copy is worse than none. If it cannot be removed, the error that is told says enough.
        let _removed = std::fs::remove_file(to);
    }
    copied
}

fn write(store: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = open::connect(store, Durability::Full)?;
    let name = to
        .to_str()
        .ok_or_else(|| Trouble::Open { path: to.to_owned(), why: "its name is not UTF-8".to_owned() })?;
    connection.execute("VACUUM INTO ?1", [name])?;
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    for path in [to, folder] {
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(|error| Trouble::Broken(error.to_string()))?;
    }
    Ok(())
}
