//! Trees to test with: written, read back as a value that can be compared, and looked for after a restore.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use redrive::snapshot::{
    Created, RestoreOptions, Restored, SnapshotError, SnapshotId, SnapshotRequest, Snapshots,
};

/// When everything happens.
pub(crate) const NOW: i64 = 1_763_200_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    File { content: Vec<u8>, mode: u32 },
    Folder { mode: u32 },
    Link { to: Vec<u8> },
    Other,
}

/// Everything below a folder, by its path.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

/// The tree below `root`, without what a restore moved aside.
pub(crate) fn tree_of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    collect(root, root, &mut tree);
    tree
}

fn collect(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.parent() == Some(root) && path.file_name() == Some(OsStr::new(".redrive-aside")) {
            continue;
        }
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.mode() & 0o7777;
        let node = if found.is_symlink() {
            Node::Link { to: fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec() }
        } else if found.is_dir() {
            collect(root, &path, tree);
            Node::Folder { mode }
        } else if found.is_file() {
            Node::File { content: fs::read(&path).unwrap(), mode }
        } else {
            Node::Other
        };
        tree.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), node);
    }
}

/// Makes the tree below `root`, which is there and empty.
pub(crate) fn plant(root: &Path, tree: &Tree) {
    for (path, node) in tree {
        let path = root.join(OsStr::from_bytes(path));
        match node {
            Node::File { content, .. } => fs::write(&path, content).unwrap(),
            Node::Folder { .. } => fs::create_dir(&path).unwrap(),
            Node::Link { to } => symlink(OsStr::from_bytes(to), &path).unwrap(),
            Node::Other => panic!("not planted"),
        }
    }
    for (path, node) in tree.iter().rev() {
        if let Node::File { mode, .. } | Node::Folder { mode } = node {
            chmod(&root.join(OsStr::from_bytes(path)), *mode);
        }
    }
}

/// Removes everything below `root` but what was moved aside.
pub(crate) fn clear(root: &Path) {
    open_up(root);
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name() == Some(OsStr::new(".redrive-aside")) {
            continue;
        }
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Folders that would not let an ordinary user remove what is in them.
fn open_up(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir()
            && path.file_name() != Some(OsStr::new(".redrive-aside"))
        {
            chmod(&path, 0o755);
            open_up(&path);
        }
    }
}

pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn file(content: &str) -> Node {
    Node::File { content: content.as_bytes().to_vec(), mode: 0o644 }
}

pub(crate) fn folder() -> Node {
    Node::Folder { mode: 0o755 }
}

pub(crate) fn link(to: &str) -> Node {
    Node::Link { to: to.as_bytes().to_vec() }
}

pub(crate) fn tree(nodes: &[(&str, Node)]) -> Tree {
    nodes.iter().map(|(path, node)| (path.as_bytes().to_vec(), node.clone())).collect()
}

/// A folder with a tree in it and a folder for snapshots beside it.
pub(crate) struct World {
    pub(crate) home: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) snapshots: Snapshots,
}

impl World {
    pub(crate) fn new(tree: &Tree) -> World {
        World::at(tempfile::tempdir().unwrap(), tree)
    }

    /// On the fastest disk there is, for what is done very often.
    pub(crate) fn in_memory(tree: &Tree) -> World {
        World::at(home_in_memory(), tree)
    }

    fn at(home: tempfile::TempDir, tree: &Tree) -> World {
        let root = home.path().canonicalize().unwrap().join("project");
        fs::create_dir(&root).unwrap();
        plant(&root, tree);
        let snapshots = Snapshots::open(home.path().join("snapshots")).unwrap();
        World { home, root, snapshots }
    }

    pub(crate) fn request(&self) -> SnapshotRequest {
        SnapshotRequest::of([&self.root])
    }

    pub(crate) fn take(&self) -> Created {
        self.snapshots.create(&self.request(), NOW).unwrap()
    }

    pub(crate) fn restore(&self, id: &SnapshotId) -> Result<Restored, SnapshotError> {
        self.snapshots.restore(id, RestoreOptions::default(), NOW + 1)
    }

    pub(crate) fn force(&self, id: &SnapshotId) -> Result<Restored, SnapshotError> {
        self.snapshots.restore(id, RestoreOptions { force: true, ..RestoreOptions::default() }, NOW + 1)
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    pub(crate) fn write(&self, below: &str, content: &str) {
        fs::write(self.path(below), content).unwrap();
    }

    pub(crate) fn tree(&self) -> Tree {
        tree_of(&self.root)
    }

    /// Every object that is kept.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        let mut objects = Vec::new();
        for rack in fs::read_dir(self.home.path().join("snapshots/objects")).unwrap() {
            objects.extend(fs::read_dir(rack.unwrap().path()).unwrap().map(|object| object.unwrap().path()));
        }
        objects
    }
}

/// A folder on the fastest disk there is.
pub(crate) fn home_in_memory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

/// The mode of a file that is closed to everybody. Nobody but root can take a snapshot of what may not be read.
pub(crate) fn closed_mode() -> u32 {
    if rustix::process::geteuid().is_root() { 0o000 } else { 0o400 }
}

/// A tree of every kind of thing, about thirty entries.
pub(crate) fn of_every_kind() -> Tree {
    let mut tree = tree(&[
        ("a.txt", file("first")),
        ("b.txt", file("second")),
        ("empty", file("")),
        ("same.txt", file("never changes")),
        ("twin-1", file("the same content")),
        ("twin-2", file("the same content")),
        ("run.sh", Node::File { content: b"#!/bin/sh\n".to_vec(), mode: 0o755 }),
        ("secret", Node::File { content: b"s".to_vec(), mode: 0o600 }),
        ("read-only", Node::File { content: b"r".to_vec(), mode: 0o444 }),
        ("closed", Node::File { content: b"c".to_vec(), mode: closed_mode() }),
        ("large", Node::File { content: vec![7; 2_500_000], mode: 0o644 }),
        ("dir", folder()),
        ("dir/inner.txt", file("inner")),
        ("dir/deep", Node::Folder { mode: 0o700 }),
        ("dir/deep/er", folder()),
        ("dir/deep/er/x", file("x")),
        ("hollow", folder()),
        ("locked", Node::Folder { mode: 0o555 }),
        ("locked/in", file("in")),
        ("becomes-file", folder()),
        ("becomes-file/child", file("child")),
        ("becomes-dir", file("was a file")),
        ("link", link("a.txt")),
        ("link-dir", link("dir")),
        ("link-dangling", link("nowhere/at/all")),
        ("link-absolute", link("/etc/hostname")),
        ("link-up", link("../../..")),
        ("name with spaces", file("spaces")),
        ("new\nline", file("newline")),
        ("日本語.txt", file("日本")),
        ("-rf", file("dash")),
    ]);
    tree.insert(b"not-\xff\xfe-utf8".to_vec(), file("bytes"));
    tree
}

/// Changes the tree above in every way.
pub(crate) fn change_in_every_way(root: &Path) {
    let at = |below: &str| root.join(below);
    fs::write(at("a.txt"), "changed").unwrap();
    fs::write(at("b.txt"), "SECOND").unwrap();
    fs::remove_file(at("empty")).unwrap();
    fs::write(at("twin-1"), "no twin any more").unwrap();
    chmod(&at("run.sh"), 0o644);
    fs::remove_file(at("secret")).unwrap();
    fs::write(at("large"), "small").unwrap();
    fs::remove_dir_all(at("dir/deep")).unwrap();
    fs::write(at("dir/new.txt"), "new").unwrap();
    fs::remove_dir(at("hollow")).unwrap();
    chmod(&at("locked"), 0o755);
    fs::write(at("locked/in"), "out").unwrap();
    fs::write(at("locked/more"), "more").unwrap();
    chmod(&at("locked"), 0o500);
    fs::remove_dir_all(at("becomes-file")).unwrap();
    fs::write(at("becomes-file"), "a file now").unwrap();
    fs::remove_file(at("becomes-dir")).unwrap();
    fs::create_dir(at("becomes-dir")).unwrap();
    fs::write(at("becomes-dir/inside"), "inside").unwrap();
    for (name, to) in [("link", "b.txt"), ("link-dir", "hollow")] {
        fs::remove_file(at(name)).unwrap();
        symlink(to, at(name)).unwrap();
    }
    fs::remove_file(at("link-dangling")).unwrap();
    fs::write(at("link-dangling"), "no link").unwrap();
    fs::remove_file(at("-rf")).unwrap();
    fs::create_dir_all(at("made/deep")).unwrap();
    fs::write(at("made/deep/file"), "made").unwrap();
    symlink("deep", at("made/link")).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"made-\xfd")), "made").unwrap();
    chmod(&at("dir"), 0o711);
    chmod(root, 0o750);
}
