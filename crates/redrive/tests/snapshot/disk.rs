//! Disks that are full, of bytes or of inodes: nothing half-done stays, and it works again when there is room (reliability
//! row 56).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redrive::snapshot::{RestoreOptions, SnapshotError, SnapshotRequest, Snapshots};

use crate::tree::{NOW, tree_of};

/// A small disk of our own, unmounted at the end, whatever happens.
pub(crate) struct Mounted {
    at: PathBuf,
    _home: tempfile::TempDir,
}

impl Mounted {
    pub(crate) fn tmpfs(options: &str) -> Mounted {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("disk");
        fs::create_dir(&at).unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output().unwrap();
        assert!(done.status.success(), "mount: {}", String::from_utf8_lossy(&done.stderr));
        Mounted { at, _home: home }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let quiet = |args: &[&str]| {
            let done = Command::new("umount").args(args).arg(&self.at).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        // Lazily if somebody still looks at it: what must not stay is the mount.
        if !quiet(&[]) && !quiet(&["-l"]) {
            println!("{} could not be unmounted", self.at.display());
        }
    }
}

/// Whether this machine lets us mount. One that does not is told so loudly; in CI it is a failure.
pub(crate) fn can_mount() -> bool {
    let can = std::panic::catch_unwind(|| drop(Mounted::tmpfs("size=1m"))).is_ok();
    if !can {
        assert!(std::env::var("CI").is_err(), "filesystems cannot be mounted here");
        println!("SKIPPED: no filesystem can be mounted here; what needs one was NOT proved on this machine");
    }
    can
}

fn plain_root(home: &Path) -> PathBuf {
    let root = home.canonicalize().unwrap().join("project");
    fs::create_dir(&root).unwrap();
    root
}

/// Reliability row 56: a snapshot for which there is no room is not there, not even in part.
#[test]
fn a_snapshot_without_room_leaves_nothing() {
    if !can_mount() {
        return;
    }
    for options in ["size=2m", "size=16m,nr_inodes=60"] {
        let home = tempfile::tempdir().unwrap();
        let disk = Mounted::tmpfs(options);
        let root = plain_root(home.path());
        for name in 0..100_u8 {
            fs::write(root.join(name.to_string()), vec![name; 40_000]).unwrap();
        }
        let snapshots = Snapshots::open(disk.path().join("snapshots")).unwrap();
        let answer = snapshots.create(&SnapshotRequest::of([&root]), NOW);
        assert!(matches!(answer, Err(SnapshotError::NoRoom { .. })), "{options}: {answer:?}");
        let list = snapshots.list().unwrap();
        assert!(list.snapshots.is_empty() && list.damaged.is_empty());
        assert_eq!(fs::read_dir(disk.path().join("snapshots/incoming")).unwrap().count(), 0);
        // With less to keep there is room again.
        for name in 5..100_u8 {
            fs::remove_file(root.join(name.to_string())).unwrap();
        }
        let created = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap();
        fs::write(root.join("1"), "changed").unwrap();
        snapshots.restore(&created.snapshot.id, RestoreOptions::default(), NOW).unwrap();
        assert_eq!(fs::read(root.join("1")).unwrap(), vec![1; 40_000]);
    }
}

/// Reliability row 56: a restore for which there is no room does not begin.
#[test]
fn a_restore_without_room_leaves_the_tree_untouched() {
    if !can_mount() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let disk = Mounted::tmpfs("size=4m");
    let root = plain_root(disk.path());
    for name in 0..20_u8 {
        fs::write(root.join(name.to_string()), vec![name; 100_000]).unwrap();
    }
    let snapshots = Snapshots::open(home.path().join("snapshots")).unwrap();
    let id = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap().snapshot.id;
    for name in 0..20_u8 {
        fs::write(root.join(name.to_string()), vec![name + 1; 100_000]).unwrap();
    }
    fs::write(disk.path().join("filler"), vec![0; 1_500_000]).unwrap();
    let before = tree_of(&root);
    let answer = snapshots.restore(&id, RestoreOptions::default(), NOW);
    assert!(matches!(answer, Err(SnapshotError::NoRoom { .. })), "{answer:?}");
    assert_eq!(tree_of(&root), before);
    assert!(!root.join(".redrive-aside").exists());
    fs::remove_file(disk.path().join("filler")).unwrap();
    snapshots.restore(&id, RestoreOptions::default(), NOW).unwrap();
    assert_eq!(fs::read(root.join("3")).unwrap(), vec![3; 100_000]);
}

/// Reliability row 56: room that runs out while everything is got ready; the tree is untouched, and so is the disk.
#[test]
fn a_restore_that_runs_out_of_room_leaves_the_tree_untouched() {
    if !can_mount() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let disk = Mounted::tmpfs("size=16m,nr_inodes=64");
    let root = plain_root(disk.path());
    for name in 0..20_u8 {
        fs::write(root.join(name.to_string()), [name]).unwrap();
    }
    let snapshots = Snapshots::open(home.path().join("snapshots")).unwrap();
    let id = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap().snapshot.id;
    for name in 0..20_u8 {
        fs::write(root.join(name.to_string()), [name, name]).unwrap();
    }
    // Exactly as many are free as there are files: our own folder is one too many.
    let free = || rustix::fs::statvfs(disk.path()).unwrap().f_ffree;
    for number in 0.. {
        if free() == 20 {
            break;
        }
        fs::write(disk.path().join(format!("filler-{number}")), "").unwrap();
    }
    let before = tree_of(&root);
    let answer = snapshots.restore(&id, RestoreOptions::default(), NOW);
    assert!(matches!(answer, Err(SnapshotError::NoRoom { .. })), "{answer:?}");
    assert_eq!(tree_of(&root), before);
    assert_eq!(free(), 20, "something of ours is left");
    for number in 0..8 {
        fs::remove_file(disk.path().join(format!("filler-{number}"))).unwrap();
    }
    snapshots.restore(&id, RestoreOptions::default(), NOW).unwrap();
    assert_eq!(fs::read(root.join("3")).unwrap(), [3]);
}

/// Reliability row 54: another file system in the tree is not entered, and a restore leaves it alone.
#[test]
fn a_mount_point_is_not_crossed() {
    if !can_mount() {
        return;
    }
    let disk = Mounted::tmpfs("size=1m");
    let root = disk.path().canonicalize().unwrap().parent().unwrap().to_owned();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(disk.path().join("theirs"), "theirs").unwrap();
    let home = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::open(home.path().join("snapshots")).unwrap();
    let created = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap();
    assert_eq!((created.snapshot.roots[0].files, created.snapshot.roots[0].folders), (1, 0));
    assert_eq!(created.snapshot.notes[0].kind, redrive::snapshot::NoteKind::MountPoint);
    fs::write(root.join("a"), "changed").unwrap();
    fs::write(disk.path().join("theirs"), "changed").unwrap();
    snapshots.restore(&created.snapshot.id, RestoreOptions::default(), NOW).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(disk.path().join("theirs")).unwrap(), "changed");
}
