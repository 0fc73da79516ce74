//! SIGKILL at every n-th call that writes: after the next start the tree is the whole snapshot or as it was before,
//! exactly, and nothing of ours is left in it (reliability row 50, invariant I6).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use redrive::snapshot::{RecoveredOutcome, RestoreOptions, SnapshotId, SnapshotRequest, Snapshots};

use crate::child::{can_trace, failed_at, killed_at};
use crate::tree::{NOW, Tree, change_in_every_way, chmod, home_in_memory, of_every_kind, plant, tree_of};

/// Every call by which a process changes what is on a disk. The counter of the tracer is one per call, so each has a
/// series of its own.
const CALLS: &[&str] = &[
    "write",
    "openat",
    "openat2",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "symlinkat",
    "linkat",
    "fchmod",
    "chmod",
    "fchown",
    "fchownat",
    "fsync",
    "syncfs",
    "ftruncate",
    "flock",
];
/// The number of points below which a sweep is not what it says.
const LEAST: usize = 250;
/// A series longer than this would never end.
const MOST: usize = 400;

/// A tree in two states: as its snapshot has it, and as the work left it.
struct Scene {
    home: tempfile::TempDir,
    root: PathBuf,
    then: State,
    now: State,
}

/// A whole tree with the mode of its root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State(Tree, u32);

impl State {
    fn of(root: &Path) -> State {
        State(tree_of(root), fs::metadata(root).unwrap().mode() & 0o7777)
    }
}

impl Scene {
    fn new() -> Scene {
        // A kill loses nothing of what was written, whatever the disk is: the fastest one will do.
        let home = home_in_memory();
        let root = home.path().canonicalize().unwrap().join("project");
        fs::create_dir(&root).unwrap();
        chmod(&root, 0o755);
        plant(&root, &of_every_kind());
        let then = State::of(&root);
        Scene { home, root, now: then.clone(), then }
    }

    fn taken_and_changed() -> Scene {
        let mut scene = Scene::new();
        let request = SnapshotRequest { id: Some(id()), ..SnapshotRequest::of([&scene.root]) };
        scene.open().create(&request, NOW).unwrap();
        change_in_every_way(&scene.root);
        scene.now = State::of(&scene.root);
        assert_ne!(scene.now, scene.then);
        scene
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("snapshots")
    }

    fn open(&self) -> Snapshots {
        Snapshots::open(self.dir()).unwrap()
    }

    fn killed(&self, call: &str, n: usize, task: &str) -> bool {
        killed_at(call, n, task, &self.dir(), &self.root)
    }

    /// No folder of ours but what was moved aside, and no record.
    fn is_clean(&self) {
        let names = |path: &Path| -> Vec<String> {
            let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        assert!(
            !names(&self.root).iter().any(|name| name.starts_with(".redrive-restore")),
            "a folder of ours is left"
        );
        assert_eq!(names(&self.dir().join("restores")), Vec::<String>::new());
    }
}

fn id() -> SnapshotId {
    "snap-sweep".parse().unwrap()
}

/// Runs the series of every call on two threads. Answers the number of points.
fn sweep(what: &str, point: impl Fn(&str, usize) -> bool + Sync) -> usize {
    let left = Mutex::new(CALLS.iter().rev().collect::<Vec<_>>());
    let points = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(call) = left.lock().unwrap().pop() else { break };
                    let killed = (1..).take_while(|n| {
                        assert!(*n < MOST, "{call} does not end");
                        println!("{what}: {call} {n}");
                        point(call, *n)
                    });
                    let killed = killed.count();
                    points.lock().unwrap().push((*call, killed));
                }
            });
        }
    });
    let points = points.into_inner().unwrap();
    let all = points.iter().map(|(_, killed)| killed).sum();
    println!("{what}: killed at {all} points: {points:?}");
    all
}

/// Reliability row 50, I6: a restore killed at any call.
#[test]
fn a_restore_killed_at_any_call_ends_whole_or_untouched() {
    if !can_trace() {
        return;
    }
    let ends = Mutex::new((0, 0));
    let points = sweep("restore", |call, n| {
        let scene = Scene::taken_and_changed();
        if !scene.killed(call, n, "restore") {
            assert_eq!(State::of(&scene.root), scene.then);
            return false;
        }
        let opened = scene.open();
        let state = State::of(&scene.root);
        let whole = state == scene.then;
        assert!(whole || state == scene.now, "neither the snapshot nor the tree before");
        let mut ends = ends.lock().unwrap();
        if whole {
            ends.0 += 1;
        } else {
            ends.1 += 1;
        }
        drop(ends);
        scene.is_clean();
        // It goes on from there as if nothing had happened.
        opened.restore(&id(), RestoreOptions::default(), NOW).unwrap();
        assert_eq!(State::of(&scene.root), scene.then);
        true
    });
    let (whole, untouched) = ends.into_inner().unwrap();
    println!("after a kill: {whole} times the whole snapshot, {untouched} times the tree before");
    assert!(
        points >= LEAST && whole > 50 && untouched > 50,
        "{points} points, {whole} whole, {untouched} untouched"
    );
}

/// Reliability row 50, I6: a committed restore whose recovery is killed, too.
#[test]
fn a_recovery_killed_at_any_call_ends_whole() {
    if !can_trace() {
        return;
    }
    let points = sweep("recovery", |call, n| {
        let scene = Scene::taken_and_changed();
        // The fourth: the journal has its name, and the first things are aside.
        assert!(scene.killed("renameat2", 4, "restore"), "the restore was to be killed");
        let killed = scene.killed(call, n, "open");
        let opened = scene.open();
        assert_eq!(State::of(&scene.root), scene.then, "after {call} {n}");
        let waits = |outcome: &RecoveredOutcome| matches!(outcome, RecoveredOutcome::Waiting { .. });
        assert!(!opened.recovered().iter().any(|recovered| waits(&recovered.outcome)));
        scene.is_clean();
        killed
    });
    assert!(points >= 150, "only {points} points");
}

/// Reliability row 50: a snapshot killed at any call is there, whole, or not at all; and the tree is never touched.
#[test]
fn a_snapshot_killed_at_any_call_is_whole_or_none() {
    if !can_trace() {
        return;
    }
    let points = sweep("create", |call, n| {
        let scene = Scene::new();
        let killed = scene.killed(call, n, "create");
        assert_eq!(State::of(&scene.root), scene.then);
        let opened = scene.open();
        let list = opened.list().unwrap();
        assert!(list.damaged.is_empty());
        assert!(fs::read_dir(scene.dir().join("incoming")).unwrap().next().is_none(), "incoming is swept");
        if list.snapshots.is_empty() {
            let request = SnapshotRequest { id: Some(id()), ..SnapshotRequest::of([&scene.root]) };
            opened.create(&request, NOW).unwrap();
        }
        change_in_every_way(&scene.root);
        opened.restore(&id(), RestoreOptions::default(), NOW).unwrap();
        assert_eq!(State::of(&scene.root), scene.then);
        killed
    });
    assert!(points >= 100, "only {points} points");
}

/// Reliability row 50: a prune killed at any call leaves every snapshot that is still listed whole.
#[test]
fn a_prune_killed_at_any_call_leaves_no_hollow_snapshot() {
    if !can_trace() {
        return;
    }
    let points = sweep("prune", |call, n| {
        let scene = Scene::taken_and_changed();
        let killed = scene.killed(call, n, "prune");
        let opened = scene.open();
        if opened.list().unwrap().snapshots.is_empty() {
            opened.prune(NOW, Some(std::time::Duration::ZERO)).unwrap();
            let racks = fs::read_dir(scene.dir().join("objects")).unwrap();
            assert!(racks.flat_map(|rack| fs::read_dir(rack.unwrap().path()).unwrap()).next().is_none());
        } else {
            opened.restore(&id(), RestoreOptions::default(), NOW).unwrap();
            assert_eq!(State::of(&scene.root), scene.then);
        }
        killed
    });
    assert!(points >= 40, "only {points} points");
}

/// Reliability row 56, I6: a call that fails in the middle of a restore, for want of room or because the disk is bad.
#[test]
fn a_restore_whose_nth_call_fails_ends_whole_or_untouched() {
    if !can_trace() {
        return;
    }
    let mut ends = (0, 0);
    for (call, error, most) in [
        ("write", "ENOSPC", 24),
        ("mkdirat", "ENOSPC", 12),
        ("symlinkat", "ENOSPC", 3),
        ("renameat2", "EIO", 33),
        ("fchmod", "EIO", 20),
        ("fsync", "EIO", 7),
        ("syncfs", "EIO", 2),
        ("rename", "EIO", 1),
    ] {
        for n in 1..=most {
            let scene = Scene::taken_and_changed();
            if !failed_at(call, error, n, "restore", &scene.dir(), &scene.root) {
                continue;
            }
            scene.open();
            let state = State::of(&scene.root);
            let whole = state == scene.then;
            assert!(whole || state == scene.now, "{call} {n}: neither the snapshot nor the tree before");
            scene.is_clean();
            if whole { ends.0 += 1 } else { ends.1 += 1 }
        }
    }
    println!("after a failure: {} times the whole snapshot, {} times the tree before", ends.0, ends.1);
    assert!(ends.0 > 20 && ends.1 > 20, "{ends:?}");
}

/// R-T3: a root that vanishes in the middle is told and waited for; when it is back, the restore goes on.
#[test]
fn a_root_that_vanishes_in_the_middle_is_waited_for() {
    if !can_trace() {
        return;
    }
    let scene = Scene::taken_and_changed();
    assert!(scene.killed("renameat2", 10, "restore"), "the restore was to be killed");
    let away = scene.home.path().join("away");
    fs::rename(&scene.root, &away).unwrap();
    let opened = scene.open();
    assert!(
        matches!(&opened.recovered()[0].outcome, RecoveredOutcome::Waiting { why } if why.contains("gone")),
        "{:?}",
        opened.recovered()
    );
    fs::rename(&away, &scene.root).unwrap();
    assert_eq!(scene.open().recovered()[0].outcome, RecoveredOutcome::Finished);
    assert_eq!(State::of(&scene.root), scene.then);
    scene.is_clean();
}
