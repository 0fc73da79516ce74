//! Files and folders that nobody may move, not even root: those with the attribute immutable or append-only (`chattr +i`,
//! `+a`). A restore looks for them in everything that it is going to touch before it begins, since it could neither go
//! on nor go back once it met one.

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::beneath::{Root, interfered};
use super::error::{LockedBy, SnapshotError, at};
use super::journal::Step;
use super::name::{ASIDE, RelPath};
use super::plan::Plan;

/// What a restore does with something that is there.
#[derive(Clone, Copy)]
enum Deed {
    /// Names are added to a folder, which one that is append-only allows.
    Add,
    /// It is moved, its mode is changed, or names are taken out of it.
    Change,
}

/// Refuses a plan that would touch what is locked.
pub(crate) fn refuse_locked(root: &Root, plan: &Plan) -> Result<(), SnapshotError> {
    if plan.is_empty() {
        return Ok(());
    }
    // Our own folder is made in the root and removed from it, and what is replaced goes into another.
    refuse(root, None, Deed::Change)?;
    refuse(root, Some(&RelPath::new(ASIDE.into())?), Deed::Add)?;
    for step in plan.before.iter().chain(&plan.modes) {
        match step {
            Step::Away { path, .. } => refuse_moved(root, path)?,
            Step::Folder { path, .. } => refuse(root, path.parent().as_ref(), Deed::Add)?,
            Step::OpenUp { path, .. } | Step::FolderMode { path, .. } => {
                refuse(root, path.as_ref(), Deed::Change)?;
            }
            // Puts are planned apart.
            Step::Put { .. } => {}
        }
    }
    for put in &plan.puts {
        if put.replaces.is_some() {
            refuse_moved(root, &put.path)?;
        } else {
            refuse(root, put.path.parent().as_ref(), Deed::Add)?;
        }
    }
    Ok(())
}

fn refuse_moved(root: &Root, path: &RelPath) -> Result<(), SnapshotError> {
    refuse(root, Some(path), Deed::Change)?;
    refuse(root, path.parent().as_ref(), Deed::Change)
}

fn refuse(root: &Root, path: Option<&RelPath>, deed: Deed) -> Result<(), SnapshotError> {
    let place = || path.map_or_else(|| root.path.clone(), |path| root.full(path));
    let found = match attributes(root, path) {
        Ok(found) => found,
        // It is not there yet, or somebody is changing it: the step itself finds out.
        Err(errno) if interfered(errno) => return Ok(()),
        // In a folder that is closed to us until the restore opens it, or a sandbox without this call.
        Err(Errno::ACCESS | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(at("look at", &place())(errno)),
    };
    let lock = match deed {
        _ if found.contains(StatxAttributes::IMMUTABLE) => LockedBy::Immutable,
        Deed::Change if found.contains(StatxAttributes::APPEND) => LockedBy::AppendOnly,
        Deed::Change | Deed::Add => return Ok(()),
    };
    Err(SnapshotError::Locked { path: place(), lock })
}

fn attributes(root: &Root, path: Option<&RelPath>) -> rustix::io::Result<StatxAttributes> {
    let parent = root.handle(path.and_then(RelPath::parent).as_ref())?;
    let name = path.map_or(&b"."[..], RelPath::file_name);
    let stat = rustix::fs::statx(&parent, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())?;
    // A file system that does not know an attribute does not set it either.
    Ok(stat.stx_attributes)
}
