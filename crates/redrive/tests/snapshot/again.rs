//! A second snapshot of a tree that did not change reads no content; a change is never missed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use redrive::snapshot::{SnapshotRequest, Snapshots};

use crate::disk::{Mounted, can_mount};
use crate::tree::{NOW, World, file, tree};

/// Takes snapshots until none of the files is so young that it has to be read to be sure.
fn settle(snapshots: &Snapshots, root: &Path) {
    let began = Instant::now();
    while snapshots.create(&SnapshotRequest::of([root]), NOW).unwrap().files_read > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "files are read again and again");
    }
}

/// R-T3: proved by the times at which files were read, on a disk that keeps them.
#[test]
fn a_second_snapshot_of_the_same_tree_reads_nothing() {
    if !can_mount() {
        return;
    }
    let disk = Mounted::tmpfs("size=16m,strictatime");
    let root = disk.path().canonicalize().unwrap().join("project");
    fs::create_dir(&root).unwrap();
    for name in 0..200 {
        fs::write(root.join(name.to_string()), format!("content {name}")).unwrap();
    }
    let snapshots = Snapshots::open(disk.path().join("snapshots")).unwrap();
    settle(&snapshots, &root);
    let read_at = || -> Vec<(i64, i64)> {
        let of = |name: usize| fs::metadata(root.join(name.to_string())).unwrap();
        (0..200).map(|name| (of(name).atime(), of(name).atime_nsec())).collect()
    };
    let before = read_at();
    let second = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap();
    assert_eq!((second.files_read, second.objects_added), (0, 0));
    assert_eq!(read_at(), before, "a file was read");
    // One that was written is read, and it shows: the proof is not hollow.
    fs::write(root.join("7"), "CONTENT 7").unwrap();
    let third = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap();
    assert_eq!((third.files_read, third.objects_added), (1, 1));
    let after = read_at();
    assert_eq!(after.iter().zip(&before).filter(|(one, other)| one != other).count(), 1);
    assert_ne!(after[7], before[7]);
}

/// R-T3: a file that is changed right after it was read, to the same length, is read again.
#[test]
fn a_change_in_the_same_tick_is_not_missed() {
    let world = World::in_memory(&tree(&[("a", file("0000"))]));
    for number in 1..300 {
        let content = format!("{number:04}");
        world.write("a", &content);
        let id = world.take().snapshot.id;
        world.write("a", "xxxx");
        assert_eq!(world.snapshots.diff(&id).unwrap().len(), 1, "{number}");
        world.restore(&id).unwrap();
        assert_eq!(fs::read_to_string(world.path("a")).unwrap(), content);
    }
}
