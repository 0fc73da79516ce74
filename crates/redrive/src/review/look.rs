//! Looks a file up that an output claims or a plan expects.
//!
//! A relative path counts from where the work ran and must stay there, also through links; what leads out is not looked at.
//! Of an absolute path, or one from the home directory, it is only told whether something is there, unless it leads inside.
//! Only regular files are read: a FIFO or a device is there, and is left alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use redrive_policy::review::{FileSeen, FileState};

use super::FILE_BOUND;

/// The directory that files are looked for in.
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    pub(super) fn new(cwd: &Path) -> io::Result<Place> {
        Ok(Place { root: cwd.canonicalize()? })
    }

    /// Fills in what is there.
    pub(super) fn look_at(&self, file: &mut FileSeen) {
        let Some((path, is_bound)) = self.path_of(&file.path) else {
            file.state = FileState::Outside;
            return;
        };
        let Ok(real) = path.canonicalize() else {
            file.state = FileState::Missing;
            return;
        };
        let is_inside = real.starts_with(&self.root);
        if is_bound && !is_inside {
            file.state = FileState::Outside;
            return;
        }
        file.state = FileState::Exists;
        if is_inside && let Ok((content, total_bytes)) = read(&real) {
            file.content = Some(content);
            file.total_bytes = total_bytes;
        }
    }

    /// Where to look, and whether it must stay inside; nothing for a path that leads out by its own words.
    fn path_of(&self, path: &str) -> Option<(PathBuf, bool)> {
        if let Some(in_home) = path.strip_prefix("~/") {
            let home = std::env::var_os("HOME")?;
            return Some((Path::new(&home).join(in_home), false));
        }
        let path = Path::new(path);
        if path.is_absolute() {
            return Some((path.to_owned(), false));
        }
        let mut depth = 0_usize;
        for part in path.components() {
            match part {
                Component::Normal(_) => depth += 1,
                Component::ParentDir => depth = depth.checked_sub(1)?,
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Some((self.root.join(path), true))
    }
}

/// The beginning of a regular file, and how long it is.
fn read(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Should it have become a FIFO or a link by now, opening it neither waits nor follows.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    file.take(FILE_BOUND).read_to_end(&mut content)?;
    Ok((content, metadata.len()))
}
