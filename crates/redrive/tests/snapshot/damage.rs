//! Damaged and tampered snapshots are found before anything is touched (reliability rows 53 and 55).

use std::fs;
use std::path::PathBuf;

use redrive::snapshot::{SnapshotError, SnapshotId};

use crate::tree::{NOW, World, change_in_every_way, file, folder, of_every_kind, tree};

fn manifest_of(world: &World, id: &SnapshotId) -> PathBuf {
    world.snapshots.dir().join("manifests").join(id.as_str())
}

/// Writes a manifest whose checksum is right, whatever it says.
fn tamper(world: &World, id: &SnapshotId, change: impl Fn(String) -> String) {
    let path = manifest_of(world, id);
    let written = fs::read_to_string(&path).unwrap();
    let body = &written[..written.rfind("#blake3 ").unwrap()];
    let changed = change(body.to_owned());
    assert_ne!(changed, body, "nothing was tampered with");
    let sum = blake3::hash(changed.as_bytes()).to_hex();
    fs::write(&path, format!("{changed}#blake3 {sum}\n")).unwrap();
}

/// Reliability row 55: a flipped bit in any content is told with the file's name, and the tree is as it was.
#[test]
fn a_flipped_bit_in_a_content_is_found_before_anything_is_touched() {
    let world = World::new(&of_every_kind());
    let id = world.take().snapshot.id;
    change_in_every_way(&world.root);
    let changed = world.tree();
    let mut found = 0;
    for object in world.objects() {
        let good = fs::read(&object).unwrap();
        let mut bad = good.clone();
        match bad.first_mut() {
            Some(byte) => *byte ^= 1,
            None => bad.push(0),
        }
        fs::write(&object, bad).unwrap();
        match world.restore(&id) {
            Err(SnapshotError::Damaged { what, .. }) => {
                assert!(what.starts_with(&world.root), "{what:?}");
                assert_eq!(world.tree(), changed);
                found += 1;
            }
            // Of a file that is the same in the tree nothing is needed.
            Ok(_) => {
                change_in_every_way_again(&world);
            }
            Err(error) => panic!("{error}"),
        }
        fs::write(&object, good).unwrap();
    }
    assert!(found >= 8, "only {found} were needed");
    world.restore(&id).unwrap();
    assert_eq!(world.tree(), of_every_kind());
}

fn change_in_every_way_again(world: &World) {
    crate::tree::clear(&world.root);
    crate::tree::plant(&world.root, &of_every_kind());
    change_in_every_way(&world.root);
}

/// Reliability row 55: so is content that is missing; the next snapshot of the same content keeps it anew.
#[test]
fn a_damaged_content_is_kept_anew_by_the_next_snapshot() {
    let world = World::new(&tree(&[("a", file("precious"))]));
    let id = world.take().snapshot.id;
    fs::write(&world.objects()[0], "Precious").unwrap();
    fs::remove_file(world.path("a")).unwrap();
    assert!(matches!(world.restore(&id), Err(SnapshotError::Damaged { .. })));
    assert!(!world.path("a").exists());
    assert!(matches!(world.restore(&id), Err(SnapshotError::Damaged { .. })));
    world.write("a", "precious");
    assert_eq!(world.take().objects_added, 1);
    world.write("a", "lost");
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "precious");
}

/// Reliability row 55: a flipped bit anywhere in a manifest.
#[test]
fn a_flipped_bit_in_a_manifest_is_found() {
    let world = World::new(&tree(&[("a", file("a")), ("b", file("b"))]));
    let id = world.take().snapshot.id;
    world.write("a", "changed");
    let path = manifest_of(&world, &id);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        assert!(matches!(world.restore(&id), Err(SnapshotError::Damaged { .. })), "byte {at}");
    }
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert!(matches!(world.restore(&id), Err(SnapshotError::Damaged { .. })));
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "changed");
    assert_eq!(world.snapshots.list().unwrap().damaged, std::slice::from_ref(&id));
    // It may name contents that nobody else does: none is removed while it is there.
    let pruned = world.snapshots.prune(NOW, None).unwrap();
    assert_eq!((pruned.damaged, pruned.objects), (vec![id.clone()], 0));
    fs::write(&path, &good).unwrap();
    world.restore(&id).unwrap();
    assert_eq!(fs::read_to_string(world.path("a")).unwrap(), "a");
}

/// Reliability rows 53 and 55: a manifest that leads out of its root is refused although its checksum is right.
#[test]
fn a_tampered_manifest_is_refused_before_the_first_write() {
    let world = World::new(&tree(&[("dir", folder()), ("dir/inner", file("inner")), ("x", file("x"))]));
    let outside = world.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let id = world.take().snapshot.id;
    let good = fs::read(manifest_of(&world, &id)).unwrap();
    world.write("x", "changed");
    let root = world.root.to_str().unwrap().to_owned();
    let cases: [(&str, &str, String); 12] = [
        ("up", "\"x\"", "\"../outside/x\"".into()),
        ("absolute", "\"x\"", format!("\"{}/x\"", outside.display())),
        ("encoded", "\"x\"", "\"%2e%2e%2Foutside%2Fx\"".into()),
        ("empty part", "\"dir/inner\"", "\"dir//inner\"".into()),
        ("dot", "\"dir/inner\"", "\"dir/./inner\"".into()),
        ("nul", "\"x\"", "\"x\\u0000\"".into()),
        ("empty", "\"x\"", "\"\"".into()),
        ("through a link", "[\"d\",\"dir\"", "[\"l\",\"dir\"".into()),
        ("our own folder", "\"x\"", "\".redrive-aside/x\"".into()),
        ("no such parent", "\"dir/inner\"", "\"dis/inner\"".into()),
        ("other root", &root, format!("{root}/../outside")),
        ("setuid", "\"x\",420", "\"x\",2541".into()),
    ];
    for (what, from, to) in cases {
        fs::write(manifest_of(&world, &id), &good).unwrap();
        tamper(&world, &id, |body| body.replace(from, &to));
        let answer = world.restore(&id);
        assert!(matches!(answer, Err(SnapshotError::Damaged { .. })), "{what}: {answer:?}");
        assert_eq!(fs::read_to_string(world.path("x")).unwrap(), "changed", "{what}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{what}");
    }
    fs::write(manifest_of(&world, &id), &good).unwrap();
    world.restore(&id).unwrap();
}
