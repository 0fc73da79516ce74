//! Somebody swaps a folder for a link out of the root, as fast as possible, while restores run. What the link leads to
//! stays as it is (reliability row 52).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive::snapshot::{RestoreOptions, SnapshotError, Snapshots};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::tree::{NOW, Tree, World, file, folder, tree, tree_of};

const SWAPS: usize = 100_000;

/// A tree with a folder whose files a followed link would write to, or take away.
fn files() -> Tree {
    let mut files = tree(&[("dir", folder()), ("dir/sub", folder()), ("top", file("top"))]);
    for name in 0..10 {
        files.insert(format!("dir/{name}").into_bytes(), file("kept"));
        files.insert(format!("dir/sub/{name}").into_bytes(), file("kept, too"));
    }
    files
}

fn swap(root: &Path, canary: &Path) {
    let (dir, other) = (root.join("dir"), root.join("other"));
    if renameat_with(CWD, &dir, CWD, &other, RenameFlags::EXCHANGE).is_err() {
        // A restore took one of them away: both again, whatever is there.
        let _maybe_there = symlink(canary, &other);
        let _maybe_there = fs::create_dir(&dir);
    }
}

/// Reliability row 52
#[test]
fn links_swapped_in_during_restores_are_never_followed() {
    let world = World::in_memory(&files());
    let canary = world.home.path().canonicalize().unwrap().join("canary");
    fs::create_dir_all(canary.join("sub")).unwrap();
    for name in 0..10 {
        fs::write(canary.join(name.to_string()), "canary").unwrap();
        fs::write(canary.join("sub").join(name.to_string()), "canary").unwrap();
    }
    let (before, alive) = (world.tree(), tree_of(&canary));
    let id = world.take().snapshot.id;
    let racing = AtomicBool::new(true);
    let (mut whole, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..SWAPS).for_each(|_| swap(&world.root, &canary));
            racing.store(false, Ordering::Release);
        });
        while racing.load(Ordering::Acquire) {
            match world.snapshots.restore(&id, RestoreOptions::default(), NOW) {
                Ok(_) => whole += 1,
                Err(SnapshotError::Unsteady { .. } | SnapshotError::Unfinished { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert_eq!(tree_of(&canary), alive, "the canary was touched");
        }
    });
    println!("{SWAPS} swaps: {whole} restores came through, {refused} gave up");
    assert!(whole + refused > 10, "hardly any restore ran");
    // When nobody interferes any more, the next start goes on to the end.
    let snapshots = Snapshots::open(world.snapshots.dir()).unwrap();
    snapshots.restore(&id, RestoreOptions::default(), NOW).unwrap();
    assert_eq!(world.tree(), before);
    assert_eq!(tree_of(&canary), alive);
    let ours = fs::read_dir(&world.root).unwrap().map(|entry| entry.unwrap().file_name());
    let ours: Vec<_> = ours.filter(|name| name.to_string_lossy().starts_with(".redrive-restore")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

/// Reliability row 51: files written while restores run are in the tree or aside, never lost.
#[test]
fn what_is_written_during_a_restore_is_not_lost() {
    let world = World::in_memory(&tree(&[("a", file("a")), ("b", file("b"))]));
    let id = world.take().snapshot.id;
    let racing = AtomicBool::new(true);
    let mut written = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = Vec::new();
            for number in 0.. {
                // However slow the other one is: until some were raced.
                if number >= 200_000 || (number >= 2_000 && written.len() > 5) {
                    break;
                }
                let content = format!("version {number}");
                let ready = world.home.path().join("ready");
                fs::write(&ready, &content).unwrap();
                // Never over a version: what a rename replaces is lost by the writer, not by us.
                if renameat_with(CWD, &ready, CWD, world.path("a"), RenameFlags::EXCHANGE).is_ok() {
                    let was = fs::read_to_string(&ready).unwrap();
                    if was != "a" {
                        written.retain(|version| *version != was);
                    }
                    written.push(content);
                }
            }
            racing.store(false, Ordering::Release);
            written
        });
        while racing.load(Ordering::Acquire) {
            match world.snapshots.restore(&id, RestoreOptions::default(), NOW) {
                Ok(_) | Err(SnapshotError::Unsteady { .. } | SnapshotError::Unfinished { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        written = writer.join().unwrap();
    });
    let mut kept: Vec<String> = Vec::new();
    let mut folders = vec![world.root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { kept.push(fs::read_to_string(path).unwrap()) }
        }
    }
    let lost: Vec<_> = written.iter().filter(|version| !kept.contains(version)).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), written.len());
    assert!(written.len() > 5, "hardly anything was raced");
}
