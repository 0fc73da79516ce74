//! Whether the file that we have open is still the one that others find under its name. What is written into a file that
//! was replaced or removed is lost with it, so nothing is acknowledged any more once that is seen.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{StoreError, Trouble};

pub(super) struct StoreFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl StoreFile {
    pub(super) fn of(path: &Path) -> Result<StoreFile, StoreError> {
        let cannot = |error: std::io::Error| Trouble::Open { path: path.to_owned(), why: error.to_string() };
        // As seen from the root: the process may go to another directory.
        let path = path.canonicalize().map_err(cannot)?;
        let found = path.metadata().map_err(cannot)?;
        Ok(StoreFile { path, identity: (found.dev(), found.ino()) })
    }

    /// One look at the directory: about a hundredth of what a commit costs.
    pub(super) fn is_still_there(&self) -> Result<(), StoreError> {
        let what = match self.path.metadata() {
            Ok(found) if (found.dev(), found.ino()) == self.identity => return Ok(()),
            Ok(_) => "replaced",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "removed",
            // That it cannot be looked at says nothing about it; the commit will.
            Err(_) => return Ok(()),
        };
        Err(Trouble::Broken(format!("{} was {what} under us", self.path.display())).into())
    }
}
