//! A copy of the whole store into a new file, which is a store by itself: consistent while others write, for its owner's
//! eyes only, and on the disk when the answer goes out.

use std::path::Path;

use super::open::Address;
use crate::error::{StoreError, Trouble};

#[cfg(feature = "sqlite")]
pub(super) fn copy(address: Address, to: &Path) -> Result<(), StoreError> {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;

    let cannot = |why: String| Trouble::Open { path: to.to_owned(), why };
    // Made here and not by SQLite: it holds payloads, which nobody else may read.
    if let Err(error) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to) {
        let there = error.kind() == std::io::ErrorKind::AlreadyExists;
        let why = if there { "there is a file already".to_owned() } else { error.to_string() };
        return Err(cannot(why).into());
    }
    let copied = write(address, to);
    if copied.is_err() {
        // Half a copy is worse than none. If it cannot be removed, the error that is told says enough.
        for suffix in ["", "-wal", "-shm"] {
            let mut path = to.as_os_str().to_owned();
            path.push(suffix);
            let _removed = std::fs::remove_file(path);
        }
    }
    copied
}

#[cfg(feature = "sqlite")]
fn write(address: Address, to: &Path) -> Result<(), StoreError> {
    use super::copy::PostgresEnd;
    use crate::copy::{End, transfer};
    use crate::sqlite::SqliteEnd;

    let mut source = PostgresEnd::connect(address, false)?;
    let mut target = SqliteEnd::open(to, true)?;
    source.freeze(false)?;
    transfer(&mut source, &mut target, None, &mut |_| {})?;
    source.thaw()?;
    target.close()?;
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    for path in [to, folder] {
        let synced = std::fs::File::open(path).and_then(|file| file.sync_all());
        synced.map_err(|error| Trouble::Broken(error.to_string()))?;
    }
    Ok(())
}

#[cfg(not(feature = "sqlite"))]
pub(super) fn copy(_: Address, to: &Path) -> Result<(), StoreError> {
    let why = "a backup is an SQLite file, and this program was built without SQLite".to_owned();
    Err(Trouble::Open { path: to.to_owned(), why }.into())
}
