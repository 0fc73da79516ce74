//! What is no regular file, folder or link; and regular files that are not so regular (reliability row 54).

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;

use redrive::snapshot::{NoteKind, SnapshotError};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::tree::{World, chmod, file, folder, tree};

/// Reliability row 54: specials are left out, told, and left where they are.
#[test]
fn specials_are_told_and_left_where_they_are() {
    let world = World::new(&tree(&[("a", file("a")), ("dir", folder())]));
    mknodat(CWD, world.path("dir/fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(world.path("socket")).unwrap();
    let device =
        mknodat(CWD, world.path("null"), FileType::CharacterDevice, Mode::RWXU, makedev(1, 3)).is_ok();
    if !device {
        assert!(std::env::var("CI").is_err(), "a device cannot be made here");
        println!("SKIPPED: only root makes devices; that one is left alone was NOT proved on this machine");
    }
    let created = world.take();
    let told =
        |name: &str| created.snapshot.notes.iter().find(|note| note.path == world.path(name)).map(|n| n.kind);
    assert_eq!(told("dir/fifo"), Some(NoteKind::Fifo));
    assert_eq!(told("socket"), Some(NoteKind::Socket));
    assert_eq!(told("null"), device.then_some(NoteKind::Device));
    assert_eq!(created.snapshot.roots[0].files, 1);
    world.write("a", "changed");
    mknodat(CWD, world.path("later"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let restored = world.restore(&created.snapshot.id).unwrap();
    assert_eq!(restored.restored_files, [world.path("a")]);
    for name in ["dir/fifo", "socket", "later"] {
        assert!(world.path(name).exists(), "{name}");
    }
}

/// Reliability row 54: a FIFO in a file's place goes aside, and nobody waits for a writer.
#[test]
fn a_fifo_in_a_files_place_goes_aside() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let id = world.take().snapshot.id;
    fs::remove_file(world.path("a")).unwrap();
    mknodat(CWD, world.path("a"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let restored = world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
    assert!(fs::symlink_metadata(restored.asides[0].join("a")).unwrap().file_type().is_fifo());
}

/// Reliability row 54: hard links become files of their own; setuid is dropped; holes read as before; long names work.
#[test]
fn irregular_files_come_back_with_their_content() {
    let world = World::new(&tree(&[("one", file("linked")), ("tool", file("tool"))]));
    fs::hard_link(world.path("one"), world.path("two")).unwrap();
    let outside = world.home.path().join("outside");
    fs::hard_link(world.path("one"), &outside).unwrap();
    chmod(&world.path("tool"), 0o4755);
    let sparse = fs::File::create(world.path("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    let long = "n".repeat(255);
    world.write(&long, "long");
    let created = world.take();
    let told =
        |name: &str| created.snapshot.notes.iter().find(|note| note.path == world.path(name)).map(|n| n.kind);
    assert_eq!((told("one"), told("two")), (Some(NoteKind::HardLinked), Some(NoteKind::HardLinked)));
    assert_eq!(told("tool"), Some(NoteKind::BitsDropped));

    for name in ["one", "tool", "sparse", &long] {
        world.write(name, "changed");
    }
    chmod(&outside, 0o600);
    world.restore(&created.snapshot.id).unwrap();
    let read = |name: &str| fs::read(world.path(name)).unwrap();
    assert_eq!((read("one"), read("two")), (b"linked".to_vec(), b"linked".to_vec()));
    assert_eq!(read("sparse"), vec![0; 3 << 20]);
    assert_eq!((read("tool"), read(&long)), (b"tool".to_vec(), b"long".to_vec()));
    assert_eq!(fs::metadata(world.path("tool")).unwrap().mode() & 0o7777, 0o755);
    // The other name of the same file is outside: what was done to it stays.
    assert_eq!(fs::read_to_string(&outside).unwrap(), "changed");
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o600);
}

/// Reliability row 53: a path that could not be moved aside is refused when the snapshot is taken.
#[test]
fn a_path_that_is_too_long_is_refused() {
    let world = World::new(&tree(&[("a", file("a"))]));
    let home = std::fs::File::open(&world.root).unwrap();
    let mut folder: rustix::fd::OwnedFd = home.into();
    let name = "d".repeat(250);
    for _ in 0..16 {
        rustix::fs::mkdirat(&folder, &name, Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
        folder = rustix::fs::openat(&folder, &name, flags, Mode::empty()).unwrap();
    }
    let answer = world.snapshots.create(&world.request(), crate::tree::NOW);
    assert!(matches!(answer, Err(SnapshotError::BadName { .. })), "{answer:?}");
}
