//! What goes in comes out: names, contents, modes, links, folders that became files and the other way round.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use redrive::snapshot::{DifferenceKind, RestoreOptions, SnapshotError, SnapshotRequest};

use crate::tree::{NOW, World, change_in_every_way, chmod, file, folder, of_every_kind, tree, tree_of};

/// R-T3: content, modes, links and odd names come back exactly, and what was there is aside.
#[test]
fn a_tree_changed_in_every_way_comes_back_exactly() {
    let world = World::new(&of_every_kind());
    chmod(&world.root, 0o755);
    let (before, created) = (world.tree(), world.take());
    assert_eq!(created.snapshot.roots[0].files, 21);
    change_in_every_way(&world.root);
    let changed = world.tree();
    assert_ne!(changed, before);

    let restored = world.restore(&created.snapshot.id).unwrap();

    assert_eq!(world.tree(), before);
    assert_eq!(world.root.metadata().unwrap().mode() & 0o777, 0o755);
    assert!(restored.deleted_files.contains(&world.path("made")), "{restored:?}");
    assert!(restored.restored_files.contains(&world.path("a.txt")), "{restored:?}");
    // Nothing that was there is lost.
    let aside = tree_of(&restored.asides[0]);
    for (path, node) in &changed {
        let here = before.get(path) == Some(node);
        let is_folder = matches!(node, crate::tree::Node::Folder { .. });
        assert!(here || is_folder || aside.get(path) == Some(node), "{path:?} is lost");
    }
    assert!(world.snapshots.diff(&created.snapshot.id).unwrap().is_empty());
    let again = world.restore(&created.snapshot.id).unwrap();
    assert!(again.restored_files.is_empty() && again.deleted_files.is_empty() && again.asides.is_empty());
}

/// R-T3: what is the same is not touched, not even its inode.
#[test]
fn what_is_the_same_is_not_touched() {
    let world = World::new(&tree(&[("same", file("s")), ("other", file("o"))]));
    let created = world.take();
    let inode = fs::metadata(world.path("same")).unwrap().ino();
    world.write("other", "changed");
    world.restore(&created.snapshot.id).unwrap();
    assert_eq!(fs::metadata(world.path("same")).unwrap().ino(), inode);
}

/// R-T3: nothing is read twice, and the same content is kept once.
#[test]
fn contents_are_kept_once() {
    let world = World::new(&tree(&[("a", file("same")), ("b", file("same")), ("c", file("other"))]));
    assert_eq!(world.take().objects_added, 2);
    assert_eq!(world.objects().len(), 2);
    world.write("d", "same");
    let second = world.take();
    assert_eq!((second.objects_added, second.bytes_added), (0, 0));
    for object in world.objects() {
        assert_eq!(fs::metadata(object).unwrap().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(world.snapshots.dir()).unwrap().mode() & 0o777, 0o700);
}

/// R-T3: an id that the caller made is taken once.
#[test]
fn an_id_is_taken_once() {
    let world = World::new(&tree(&[("a", file("first"))]));
    let request = SnapshotRequest { id: Some("snap-job-7".parse().unwrap()), ..world.request() };
    let first = world.snapshots.create(&request, NOW).unwrap();
    world.write("a", "second");
    let second = world.snapshots.create(&request, NOW + 5).unwrap();
    assert!(!first.already_there && second.already_there);
    assert_eq!(second.snapshot, first.snapshot);
    world.restore(&first.snapshot.id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "first");
}

/// R-T3: a diff says what is different and changes nothing; a dry run does, too.
#[test]
fn a_diff_and_a_dry_run_change_nothing() {
    let world = World::new(&tree(&[("a", file("a")), ("b", file("b")), ("c", file("c")), ("d", folder())]));
    let id = world.take().snapshot.id;
    world.write("a", "A");
    fs::remove_file(world.path("b")).unwrap();
    chmod(&world.path("c"), 0o600);
    world.write("d/new", "n");
    let before = world.tree();
    let found: Vec<_> = world.snapshots.diff(&id).unwrap().into_iter().map(|d| (d.path, d.kind)).collect();
    let expected = [
        ("a", DifferenceKind::Changed),
        ("b", DifferenceKind::Removed),
        ("c", DifferenceKind::Mode),
        ("d/new", DifferenceKind::Added),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (world.path(path), kind)));
    let options = RestoreOptions { dry_run: true, ..RestoreOptions::default() };
    let planned = world.snapshots.restore(&id, options, NOW).unwrap();
    assert_eq!(planned.restored_files, ["a", "b", "c"].map(|path| world.path(path)));
    assert_eq!(planned.deleted_files, [world.path("d/new")]);
    assert_eq!(world.tree(), before);
    assert!(!world.path(".redrive-aside").exists());
}

/// R-T3: what is ignored is neither kept nor touched, and a folder that holds some stays.
#[test]
fn what_is_ignored_is_left_alone() {
    let rules = "*.log\n/target/\n!keep.log\n";
    let world = World::new(&tree(&[
        (".redriveignore", file(rules)),
        ("a", file("a")),
        ("keep.log", file("kept")),
        ("x.log", file("x")),
        ("target", folder()),
        ("target/out", file("out")),
    ]));
    let request = SnapshotRequest { ignore: vec!["*.tmp".to_owned()], ..world.request() };
    let id = world.snapshots.create(&request, NOW).unwrap().snapshot.id;
    world.write("x.log", "x2");
    world.write("target/out", "out2");
    world.write("b.tmp", "t");
    world.write("keep.log", "lost?");
    fs::create_dir(world.path("made")).unwrap();
    world.write("made/y.log", "y");
    world.write("made/z", "z");
    let restored = world.restore(&id).unwrap();
    let read = |path: &str| fs::read_to_string(world.path(path)).unwrap();
    assert_eq!((read("x.log"), read("target/out"), read("b.tmp")), ("x2".into(), "out2".into(), "t".into()));
    assert_eq!((read("keep.log"), read("made/y.log")), ("kept".into(), "y".into()));
    assert!(!world.path("made/z").exists());
    assert_eq!(restored.kept, [world.path("made")]);
}

/// R-T3: limits are kept to before anything is.
#[test]
fn a_limit_is_told_before_anything_is_kept() {
    let world = World::new(&tree(&[("a", file("12345")), ("b", file("67890"))]));
    let mut request = world.request();
    request.limits.max_bytes = 9;
    assert!(matches!(world.snapshots.create(&request, NOW), Err(SnapshotError::TooLarge { limit: 9 })));
    let mut request = world.request();
    request.limits.max_entries = 1;
    assert!(matches!(world.snapshots.create(&request, NOW), Err(SnapshotError::TooMany { limit: 1 })));
    assert!(world.objects().is_empty() && world.snapshots.list().unwrap().snapshots.is_empty());
}

/// R-T3: several roots are one snapshot; a root by a link is the folder it leads to.
#[test]
fn several_roots_are_restored_together() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let other = world.home.path().canonicalize().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("b"), "b").unwrap();
    let by_link = world.home.path().join("by-link");
    symlink(&other, &by_link).unwrap();
    let request = SnapshotRequest::of([&world.root, &by_link]);
    let id = world.snapshots.create(&request, NOW).unwrap().snapshot.id;
    world.write("a", "A");
    fs::write(other.join("b"), "B").unwrap();
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(other.join("b")).unwrap(), "b");
}

/// Reliability row 53: roots that are none are refused.
#[test]
fn roots_that_lead_elsewhere_are_refused() {
    let world = World::new(&tree(&[("a", file("a")), ("in", folder())]));
    let dotted = world.root.join("in/..");
    for roots in [
        vec![],
        vec!["".into()],
        vec![dotted],
        vec!["/".into()],
        vec![world.root.clone(), world.path("in")],
        vec![world.snapshots.dir().to_owned()],
        vec![world.path("a")],
    ] {
        let answer = world.snapshots.create(&SnapshotRequest::of(roots.clone()), NOW);
        assert!(matches!(answer, Err(SnapshotError::BadRoot { .. })), "{roots:?}: {answer:?}");
    }
    for roots in [world.path("missing"), "nul\0".into()] {
        assert!(world.snapshots.create(&SnapshotRequest::of([roots]), NOW).is_err());
    }
}

/// R-T3: the store's own files and the snapshots' folder are in no snapshot, and no restore touches them.
#[test]
fn our_own_files_are_never_touched() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(root.join("redrive.db"), "rows").unwrap();
    let open = || redrive::snapshot::Snapshots::open(root.join("redrive.db-snapshots")).unwrap();
    let snapshots = open().never_touching([root.join("redrive.db"), root.join("redrive.db-wal")]);
    let created = snapshots.create(&SnapshotRequest::of([&root]), NOW).unwrap();
    assert_eq!(created.snapshot.roots[0].files, 1);
    fs::write(root.join("redrive.db"), "more rows").unwrap();
    fs::write(root.join("redrive.db-wal"), "wal").unwrap();
    fs::write(root.join("a"), "A").unwrap();
    snapshots.restore(&created.snapshot.id, RestoreOptions::default(), NOW).unwrap();
    assert_eq!(fs::read_to_string(root.join("redrive.db")).unwrap(), "more rows");
    assert_eq!(fs::read_to_string(root.join("redrive.db-wal")).unwrap(), "wal");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "a");
}
