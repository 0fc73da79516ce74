//! Files and folders that are immutable or append-only: a restore that would meet one does not begin (reliability row 54).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redrive::snapshot::{LockedBy, RestoreOptions, SnapshotError};

use crate::tree::{NOW, World, file, folder, tree, tree_of};

/// A file or folder with an attribute, which it loses at the end, whatever happens.
struct Locked {
    path: PathBuf,
    lock: LockedBy,
}

impl Locked {
    fn new(path: PathBuf, lock: LockedBy) -> Locked {
        assert!(chattr('+', lock, &path), "{} cannot be locked", path.display());
        Locked { path, lock }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if !chattr('-', self.lock, &self.path) {
            println!("{} is still {}", self.path.display(), self.lock);
        }
    }
}

fn chattr(sign: char, lock: LockedBy, path: &Path) -> bool {
    let done = Command::new("chattr").arg(format!("{sign}{}", lock.flag())).arg(path).output();
    done.is_ok_and(|done| done.status.success())
}

/// Whether files can be locked here. A machine where they cannot is told so loudly; in CI it is a failure.
fn can_lock(root: &Path) -> bool {
    let can = chattr('+', LockedBy::Immutable, root) && chattr('-', LockedBy::Immutable, root);
    if !can {
        assert!(std::env::var("CI").is_err(), "no attribute can be set here");
        println!("SKIPPED: chattr +i does not work here; what needs it was NOT proved on this machine");
    }
    can
}

/// Row 54: whatever is locked, the restore is refused before it begins, by force as well, and names it; once it is not
/// locked any more the restore does all of its work.
#[test]
fn a_restore_that_would_meet_a_locked_file_does_not_begin() {
    let as_kept = tree(&[
        ("a", file("a")),
        ("deep", folder()),
        ("deep/b", file("b")),
        ("gone", folder()),
        ("gone/c", file("c")),
        ("z", file("z")),
    ]);
    // To be replaced, to be moved aside, the folders that they are in, and the root itself.
    for locked in ["a", "z", "deep", "deep/b", "gone", "new", "new-folder", ""] {
        for lock in [LockedBy::Immutable, LockedBy::AppendOnly] {
            let world = World::new(&as_kept);
            if !can_lock(&world.root) {
                return;
            }
            let id = world.take().snapshot.id;
            for name in ["a", "deep/b", "z", "new"] {
                world.write(name, "changed");
            }
            fs::create_dir(world.path("new-folder")).unwrap();
            fs::remove_file(world.path("gone/c")).unwrap();
            let place = if locked.is_empty() { world.root.clone() } else { world.path(locked) };
            let changed = tree_of(&world.root);
            let held = Locked::new(place.clone(), lock);
            // Names may be added to a folder that is append-only: that is no reason to refuse.
            if (locked, lock) == ("gone", LockedBy::AppendOnly) {
                world.restore(&id).unwrap();
                drop(held);
                assert_eq!(tree_of(&world.root), as_kept);
                continue;
            }
            for options in [
                RestoreOptions::default(),
                RestoreOptions { force: true, ..RestoreOptions::default() },
                RestoreOptions { dry_run: true, ..RestoreOptions::default() },
            ] {
                let answer = world.snapshots.restore(&id, options, NOW);
                let Err(SnapshotError::Locked { path, lock: by }) = answer else {
                    panic!("{locked:?} {lock}: {answer:?}")
                };
                assert_eq!((path, by), (place.clone(), lock));
                assert_eq!(tree_of(&world.root), changed, "{locked:?} {lock}");
                assert!(!world.path(".redrive-aside").exists());
            }
            drop(held);
            world.restore(&id).unwrap();
            assert_eq!(tree_of(&world.root), as_kept, "{locked:?} {lock}");
        }
    }
}

/// Row 54: what is locked and as it was is nobody's business.
#[test]
fn a_locked_file_that_stays_as_it_is_is_in_nobodys_way() {
    let as_kept = tree(&[("a", file("a")), ("held", folder()), ("held/b", file("b"))]);
    let world = World::new(&as_kept);
    if !can_lock(&world.root) {
        return;
    }
    let id = world.take().snapshot.id;
    world.write("a", "changed");
    let _held = [world.path("held/b"), world.path("held")].map(|path| Locked::new(path, LockedBy::Immutable));
    world.restore(&id).unwrap();
    assert_eq!(tree_of(&world.root), as_kept);
}
