//! Any tree, changed into any other: a restore gives the first one exactly, and loses nothing of the second.

use std::collections::HashMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use redrive::snapshot::SnapshotRequest;

use crate::tree::{NOW, Node, Tree, World, clear, closed_mode, plant};

/// A few names, so that trees meet: files where others have folders, and links.
fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            b"a".to_vec(),
            b"b".to_vec(),
            b"c".to_vec(),
            b"a.b".to_vec(),
            b"\xff".to_vec()
        ]),
        "[ -.0-~あ-ん]{1,8}"
            .prop_map(String::into_bytes)
            .prop_filter("no dots", |name| name != b"." && name != b".."),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let content = prop::collection::vec(any::<u8>(), 0..20);
    let mode = prop::sample::select(vec![0o644, 0o600, 0o755, 0o444, closed_mode()]);
    prop_oneof![
        4 => (content, mode).prop_map(|(content, mode)| Node::File { content, mode }),
        3 => prop::sample::select(vec![0o755, 0o700, 0o555, 0o711]).prop_map(|mode| Node::Folder { mode }),
        1 => "[a-c./]{1,6}".prop_map(|to| Node::Link { to: to.into_bytes() }),
    ]
}

/// Nodes that are put into whichever folder there is.
fn any_tree() -> impl Strategy<Value = Tree> {
    prop::collection::vec((any::<prop::sample::Index>(), name(), node()), 0..24).prop_map(|nodes| {
        let mut tree = Tree::new();
        let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
        for (parent, name, node) in nodes {
            let mut path = parent.get(&folders).clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(name);
            if let Entry::Vacant(place) = tree.entry(path) {
                if matches!(node, Node::Folder { .. }) {
                    folders.push(place.key().clone());
                }
                place.insert(node);
            }
        }
        tree
    })
}

/// How often each content is somewhere below, also aside.
fn contents(folder: &Path, found: &mut HashMap<Vec<u8>, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            contents(&path, found);
        } else if stat.is_file() {
            *found.entry(fs::read(&path).unwrap()).or_default() += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// R-T3, I6, reliability row 51
    #[test]
    fn any_tree_comes_back_and_nothing_is_lost(then in any_tree(), now in any_tree(), marked in any::<bool>()) {
        let world = World::in_memory(&then);
        let request = SnapshotRequest::of([&world.root]);
        let id = world.snapshots.create(&request, NOW).unwrap().snapshot.id;
        clear(&world.root);
        plant(&world.root, &now);
        let mut before = HashMap::new();
        contents(&world.root, &mut before);
        if marked {
            world.snapshots.mark_after(&id, NOW).unwrap();
        }
        world.restore(&id).unwrap();
        prop_assert_eq!(world.tree(), then);
        let mut after = HashMap::new();
        contents(&world.root, &mut after);
        for (content, count) in before {
            prop_assert!(after.get(&content).copied().unwrap_or(0) >= count, "{:?} is lost", content);
        }
        prop_assert!(world.snapshots.diff(&id).unwrap().is_empty());
    }
}
