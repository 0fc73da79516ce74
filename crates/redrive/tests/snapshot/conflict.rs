//! Files that somebody else changed are not silently undone (R-T3, reliability row 51), and what changes while we restore
//! is moved aside (row 52).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use redrive::snapshot::{ConflictKind, Fault, RestoreOptions, Scope, SnapshotError};

use crate::tree::{NOW, World, chmod, file, folder, tree};

fn worked() -> (World, redrive::snapshot::SnapshotId) {
    let world = World::new(&tree(&[
        ("ours", file("before")),
        ("removed", file("r")),
        ("theirs", file("t")),
        ("mode", file("m")),
        ("gone", file("g")),
        ("dir", folder()),
    ]));
    let id = world.take().snapshot.id;
    world.write("ours", "by the work");
    fs::remove_file(world.path("removed")).unwrap();
    world.write("dir/made", "by the work");
    let marked = world.snapshots.mark_after(&id, NOW).unwrap();
    assert_eq!(marked.state.files_created, [world.path("dir/made")]);
    assert_eq!(marked.state.files_modified, [world.path("ours"), world.path("removed")]);
    assert_eq!(world.snapshots.get(&id).unwrap(), marked);
    (world, id)
}

/// R-T3: what the work did is undone; nobody else did anything.
#[test]
fn what_the_work_did_is_undone() {
    let (world, id) = worked();
    let restored = world.restore(&id).unwrap();
    assert_eq!(restored.deleted_files, [world.path("dir/made")]);
    assert_eq!(restored.restored_files, [world.path("ours"), world.path("removed")]);
    assert_eq!(fs::read_to_string(world.path("ours")).unwrap(), "before");
    // The record is past: another attempt that crashes is undone wholly.
    world.write("anything", "by an attempt that crashed");
    world.restore(&id).unwrap();
    assert!(!world.path("anything").exists());
}

/// Reliability row 51: every such file is listed and nothing is changed; force moves them aside.
#[test]
fn what_somebody_else_did_is_refused_and_listed() {
    let (world, id) = worked();
    world.write("theirs", "by somebody else");
    world.write("ours", "by the work, then by somebody else");
    world.write("dir/new", "by somebody else");
    fs::remove_file(world.path("gone")).unwrap();
    chmod(&world.path("mode"), 0o600);
    let before = world.tree();

    let Err(SnapshotError::Conflicts { conflicts }) = world.restore(&id) else { panic!("no conflict") };
    let mut listed: Vec<_> =
        conflicts.iter().map(|conflict| (conflict.path.clone(), conflict.kind)).collect();
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("dir/new", ConflictKind::Created),
        ("gone", ConflictKind::Removed),
        ("mode", ConflictKind::Changed),
        ("ours", ConflictKind::Changed),
        ("theirs", ConflictKind::Changed),
    ];
    assert_eq!(listed, expected.map(|(path, kind)| (world.path(path), kind)));
    assert_eq!(world.tree(), before, "nothing is changed");
    let dry = RestoreOptions { dry_run: true, ..RestoreOptions::default() };
    assert_eq!(world.snapshots.restore(&id, dry, NOW).unwrap().conflicts, conflicts);

    let restored = world.force(&id).unwrap();
    assert_eq!(restored.conflicts, conflicts);
    assert!(world.snapshots.diff(&id).unwrap().is_empty());
    let aside = |path: &str| fs::read_to_string(restored.asides[0].join(path)).unwrap();
    assert_eq!(aside("theirs"), "by somebody else");
    assert_eq!(aside("dir/new"), "by somebody else");
    assert_eq!(aside("ours"), "by the work, then by somebody else");
}

/// R-T3: only the work's own changes are undone; what somebody else did elsewhere stays, what both did is refused.
#[test]
fn the_works_own_changes_are_undone_alone() {
    let (world, id) = worked();
    world.write("theirs", "by somebody else");
    world.write("new", "by somebody else");
    let own = RestoreOptions { scope: Scope::OwnChanges, ..RestoreOptions::default() };
    let restored = world.snapshots.restore(&id, own, NOW).unwrap();
    assert_eq!(restored.restored_files, [world.path("ours"), world.path("removed")]);
    assert_eq!(restored.deleted_files, [world.path("dir/made")]);
    let read = |path: &str| fs::read_to_string(world.path(path)).unwrap();
    assert_eq!(
        (read("ours"), read("theirs"), read("new")),
        ("before".into(), "by somebody else".into(), "by somebody else".into())
    );
    // Once more is no more.
    let again = world.snapshots.restore(&id, own, NOW).unwrap();
    assert!(again.restored_files.is_empty() && again.deleted_files.is_empty());

    let (world, id) = worked();
    world.write("ours", "by both");
    let before = world.tree();
    let Err(SnapshotError::Conflicts { conflicts }) = world.snapshots.restore(&id, own, NOW) else {
        panic!("no conflict")
    };
    assert_eq!(conflicts.iter().map(|conflict| &conflict.path).collect::<Vec<_>>(), [&world.path("ours")]);
    assert_eq!(world.tree(), before);
}

/// R-T3: somebody who put a file back as it was, or made what the work made, is no conflict.
#[test]
fn the_same_done_by_somebody_else_is_no_conflict() {
    let (world, id) = worked();
    world.write("removed", "r");
    fs::remove_file(world.path("ours")).unwrap();
    world.write("ours", "by the work");
    world.restore(&id).unwrap();
    assert!(world.snapshots.diff(&id).unwrap().is_empty());
}

/// Reliability row 51: a folder that has to give way and holds something ignored.
#[test]
fn a_folder_with_something_ignored_gives_way_by_force_only() {
    let world = World::new(&tree(&[(".redriveignore", file("*.log\n")), ("x", file("x"))]));
    let id = world.take().snapshot.id;
    fs::remove_file(world.path("x")).unwrap();
    fs::create_dir(world.path("x")).unwrap();
    world.write("x/a.log", "ignored");
    let Err(SnapshotError::Conflicts { conflicts }) = world.restore(&id) else { panic!("no conflict") };
    assert_eq!((conflicts.len(), conflicts[0].kind), (1, ConflictKind::HoldsIgnored));
    assert_eq!(fs::read_to_string(world.path("x/a.log")).unwrap(), "ignored");
    let restored = world.force(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("x")).unwrap(), "x");
    assert_eq!(fs::read_to_string(restored.asides[0].join("x/a.log")).unwrap(), "ignored");
}

/// Reliability row 52: a folder that became a link is put back, and what the link leads to is not touched.
#[test]
fn a_folder_that_became_a_link_is_not_followed() {
    let world = World::new(&tree(&[("dir", folder()), ("dir/a", file("a"))]));
    let outside = world.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a"), "theirs").unwrap();
    let id = world.take().snapshot.id;
    fs::remove_dir_all(world.path("dir")).unwrap();
    symlink(&outside, world.path("dir")).unwrap();
    let restored = world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("dir/a")).unwrap(), "a");
    assert!(!fs::symlink_metadata(world.path("dir")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "theirs");
    assert_eq!(fs::read_link(restored.asides[0].join("dir")).unwrap(), outside);
}

/// Reliability row 52: the folder for what is moved aside is not followed either.
#[test]
fn a_planted_folder_for_what_is_moved_aside_is_not_followed() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let outside = world.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let id = world.take().snapshot.id;
    world.write("a", "changed");
    symlink(&outside, world.path(".redrive-aside")).unwrap();
    assert!(world.restore(&id).is_err());
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "changed");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::remove_file(world.path(".redrive-aside")).unwrap();
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
}

/// R-T3: a folder that we may not change is told before anything is; as root there is none.
#[test]
fn a_folder_that_is_not_ours_is_told_before_anything_is_touched() {
    if !rustix::process::geteuid().is_root() {
        println!(
            "SKIPPED: only root gives folders away; that theirs are told was NOT proved on this machine"
        );
        return;
    }
    let world = World::new(&tree(&[("dir", folder()), ("dir/a", file("a")), ("b", file("b"))]));
    let id = world.take().snapshot.id;
    world.write("dir/a", "changed");
    world.write("b", "changed");
    // Handed to an ordinary user, but for one folder, which stays root's.
    for path in [world.home.path(), world.root.as_path(), world.snapshots.dir()] {
        hand_over(path, &world.path("dir"));
    }
    let before = world.tree();
    let told = as_nobody(&world, &id);
    assert!(told.contains("dir"), "{told}");
    assert_eq!(world.tree(), before);
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("dir/a")).unwrap(), "a");
}

fn hand_over(path: &std::path::Path, but: &std::path::Path) {
    if path == but {
        return;
    }
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            hand_over(&entry.unwrap().path(), but);
        }
    }
}

const NOBODY: u32 = 65_534;

/// What a restore by an ordinary user says, by a thread that becomes one: the kernel keeps such things for each.
fn as_nobody(world: &World, id: &redrive::snapshot::SnapshotId) -> String {
    std::thread::scope(|scope| {
        let restoring = scope.spawn(|| {
            let nobody = rustix::process::Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            world.restore(id).unwrap_err().to_string()
        });
        restoring.join().unwrap()
    })
}

/// Reliability row 52: a root that became a link, or is reached by one now, is refused, and what is in the way is named.
#[test]
fn a_root_that_became_a_link_is_refused() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let id = world.take().snapshot.id;
    let elsewhere = world.home.path().join("elsewhere");
    fs::rename(&world.root, &elsewhere).unwrap();
    fs::write(elsewhere.join("a"), "changed").unwrap();
    symlink(&elsewhere, &world.root).unwrap();
    let refused = |link: &Path, why: Fault| {
        let answer = world.restore(&id);
        let Err(SnapshotError::RootReplaced { path, what, why: told }) = answer else { panic!("{answer:?}") };
        assert_eq!((path, what.as_path(), told), (world.root.clone(), link, why));
        assert!(matches!(world.snapshots.diff(&id), Err(SnapshotError::RootReplaced { .. })));
        assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "changed");
    };
    refused(&world.root, Fault::NowALink);
    fs::remove_file(&world.root).unwrap();
    fs::write(&world.root, "a file").unwrap();
    refused(&world.root, Fault::NotAFolder);
    // Out of the way, the root is made anew.
    fs::remove_file(&world.root).unwrap();
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
}

/// R-T3: a root that has vanished is made again where its folder is still there, else that is told.
#[test]
fn a_root_that_vanished_is_made_again() {
    let world = World::new(&tree(&[("dir", folder()), ("dir/a", file("a"))]));
    let before = world.tree();
    let id = world.take().snapshot.id;
    fs::remove_dir_all(&world.root).unwrap();
    world.restore(&id).unwrap();
    assert_eq!(world.tree(), before);

    let parent = world.home.path().canonicalize().unwrap().join("parent");
    fs::create_dir_all(parent.join("root")).unwrap();
    let request = redrive::snapshot::SnapshotRequest::of([parent.join("root")]);
    let id = world.snapshots.create(&request, NOW).unwrap().snapshot.id;
    fs::remove_dir_all(&parent).unwrap();
    assert!(matches!(world.restore(&id), Err(SnapshotError::RootGone { .. })));
    assert!(!parent.exists());
}

/// R-T3: several restores keep what they moved apart, and prune removes it when its time is over.
#[test]
fn what_is_aside_stays_until_its_time_is_over() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let id = world.take().snapshot.id;
    let mut asides = Vec::new();
    for content in ["first", "second"] {
        world.write("a", content);
        asides.extend(world.restore(&id).unwrap().asides);
    }
    let read = |at: usize| fs::read_to_string(asides[at].join("a")).unwrap();
    assert_eq!((read(0), read(1)), ("first".to_owned(), "second".to_owned()));
    let day = 86_400_000;
    let pruned = world.snapshots.prune(NOW + day - 1, None).unwrap();
    assert_eq!((pruned.snapshots.len(), pruned.asides.len()), (0, 0));
    let pruned = world.snapshots.prune(NOW + day + 1, None).unwrap();
    assert_eq!((pruned.snapshots, pruned.objects, pruned.asides), (vec![id.clone()], 1, asides));
    assert!(matches!(world.restore(&id), Err(SnapshotError::NotFound { .. })));
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
}
