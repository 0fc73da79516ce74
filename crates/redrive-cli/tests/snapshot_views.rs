//! `redrive snapshot …`: what people see in every form, and what scripts rely on.
//!
//! The clock stands still; ids and the folder of a test are written as something of the same length.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use std::fs;
use std::path::PathBuf;

use support::{Ran, line};

const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// A project with a few files, and where its snapshots go.
struct Project {
    home: tempfile::TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Project {
        let home = tempfile::Builder::new().prefix("redrive-").rand_bytes(6).tempdir_in("/tmp").unwrap();
        let root = home.path().canonicalize().unwrap().join("src");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a.txt"), "first").unwrap();
        fs::write(root.join("b.txt"), "second").unwrap();
        fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::create_dir(root.join("deep")).unwrap();
        fs::write(root.join("deep/c.txt"), "third").unwrap();
        std::os::unix::fs::symlink("a.txt", root.join("link")).unwrap();
        Project { home, root }
    }

    fn run(&self, command: &str) -> Ran {
        line(&format!("snapshot {command} --store {}/redrive.db", self.home.path().display()))
            .in_directory(self.home.path())
            // Wide enough that no path is cut: where it is would differ from run to run.
            .env("REDRIVE_WIDTH", "140")
            .run()
    }

    /// The id of a snapshot of the project.
    fn taken(&self) -> String {
        let ran = self.run("create src --plain");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        ran.stdout.trim().to_owned()
    }

    fn change(&self) {
        fs::write(self.root.join("a.txt"), "changed").unwrap();
        fs::remove_file(self.root.join("b.txt")).unwrap();
        fs::write(self.root.join("deep/new.txt"), "new").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(self.root.join("run.sh"), private).unwrap();
    }

    /// The page without what differs from run to run.
    fn anonymous(&self, page: &str, ids: &[&str]) -> String {
        let home = self.home.path().display().to_string();
        let mut page = page.replace(&home, &"/tmp/redrive-HOME00"[..home.len()]);
        for (number, id) in ids.iter().enumerate() {
            page = page.replace(id, &format!("snap-{number}{}", "x".repeat(id.len() - 6)));
        }
        page
    }
}

/// All forms of what these commands show one after the other, each form on a project of its own.
fn check(name: &str, prepare: impl Fn(&Project) -> Vec<String>, commands: &[&str]) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let project = Project::new();
        let ids = prepare(&project);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        for command in commands {
            let ran = project.run(&format!("{} {flags}", command.replace("ID", ids.first().unwrap_or(&"-"))));
            let ran = format!("===== {form}: redrive snapshot {command} {flags}\n{ran}\n");
            page.push_str(&project.anonymous(&ran, &ids));
        }
    }
    insta::assert_snapshot!(name, page);
}

/// R-C2, R-T3: nothing yet, one, and what it holds.
#[test]
fn listing_in_every_form() {
    check("snapshot_none", |_| Vec::new(), &["list", "prune", "show 1ka3"]);
    check(
        "snapshot_list",
        |project| {
            let fifo = project.root.join("pipe");
            let made = std::process::Command::new("mkfifo").arg(fifo).status().unwrap();
            assert!(made.success());
            let told = project.run("create src --plain");
            assert!(told.stderr.contains("FIFO"), "{told}");
            vec![told.stdout.trim().to_owned()]
        },
        &["list", "show ID", "list --absolute"],
    );
}

/// R-C2, R-T3: what differs, what would be done, and what was done.
#[test]
fn restoring_in_every_form() {
    let prepare = |project: &Project| {
        let id = project.taken();
        project.change();
        vec![id]
    };
    check(
        "snapshot_restore",
        prepare,
        &["diff ID", "restore ID --dry-run", "restore ID", "diff ID", "restore ID"],
    );
}

/// R-C2, R-T3: files that somebody else changed, listed and overridden.
#[test]
fn conflicts_in_every_form() {
    let prepare = |project: &Project| {
        let id = project.taken();
        fs::write(project.root.join("a.txt"), "by the work").unwrap();
        let dir = project.home.path().join("redrive.db-snapshots");
        let snapshots = redrive::snapshot::Snapshots::open(dir).unwrap();
        snapshots.mark_after(&id.parse().unwrap(), 1_445_412_480_000).unwrap();
        project.change();
        vec![id]
    };
    check(
        "snapshot_conflicts",
        prepare,
        &["show ID", "restore ID", "restore ID --dry-run", "restore ID --force"],
    );
}

/// R-C2: what is wrong, and what to do about it.
#[test]
fn trouble_in_every_form() {
    let prepare = |project: &Project| {
        let id = project.taken();
        let objects = project.home.path().join("redrive.db-snapshots/objects");
        for rack in fs::read_dir(objects).unwrap() {
            for object in fs::read_dir(rack.unwrap().path()).unwrap() {
                fs::write(object.unwrap().path(), "flipped").unwrap();
            }
        }
        fs::remove_file(project.root.join("a.txt")).unwrap();
        vec![id]
    };
    check(
        "snapshot_trouble",
        prepare,
        &[
            "restore ID",
            "show snap-nope",
            "show ../x",
            "create nowhere",
            "create src/../src",
            "create src --ignore [",
            "create src --max-size 3",
            "create src --max-size much",
            "create redrive.db-snapshots",
            "create src/b.txt",
        ],
    );
}

/// R-C2, row 52: a root that is a link now: what is the case, that nothing was touched, what to do.
#[test]
fn a_root_that_became_a_link_in_every_form() {
    let prepare = |project: &Project| {
        let id = project.taken();
        let moved = project.home.path().join("moved");
        fs::rename(&project.root, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &project.root).unwrap();
        vec![id]
    };
    check("snapshot_root_replaced", prepare, &["diff ID", "restore ID"]);
}

/// R-T3: scripts rely on the id on stdout, on exit codes as `diff` has them, and on the JSON fields.
#[test]
fn scripts_can_rely_on_it() {
    let project = Project::new();
    let id = project.taken();
    assert!(id.starts_with("snap-"), "{id}");
    assert_eq!(project.run(&format!("diff {id}")).code, 0);
    project.change();
    assert_eq!(project.run(&format!("diff {id}")).code, 1);
    let json = project.run(&format!("restore {} --json", &id[..12])).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "redrive/restored.v1");
    let root = project.root.display();
    assert_eq!(json["deleted_files"], serde_json::json!([format!("{root}/deep/new.txt")]));
    assert_eq!(json["restored_files"].as_array().unwrap().len(), 3);
    assert_eq!(fs::read_to_string(project.root.join("a.txt")).unwrap(), "first");
    let aside = json["asides"][0].as_str().unwrap();
    assert_eq!(fs::read_to_string(format!("{aside}/a.txt")).unwrap(), "changed");
    // Two of them begin alike: say which.
    project.taken();
    let ambiguous = project.run("show snap-");
    assert_eq!(ambiguous.code, 2, "{ambiguous}");
    // Nothing has expired; everything is older than nothing.
    let pruned = project.run("prune --json").stdout;
    assert!(pruned.contains(r#""snapshots":[]"#), "{pruned}");
    let pruned = project.run("prune --older-than 0s --json").stdout;
    let pruned: serde_json::Value = serde_json::from_str(&pruned).unwrap();
    assert_eq!(pruned["snapshots"].as_array().unwrap().len(), 2);
    assert_eq!(project.run("list --json").stdout.matches("snapshot_id").count(), 0);
    assert!(!project.root.join(".redrive-aside").exists());
}

/// R-T3: the store's own files are in no snapshot of the folder that they lie in.
#[test]
fn the_store_is_in_no_snapshot() {
    let project = Project::new();
    for name in ["redrive.db", "redrive.db-wal", "redrive.db-shm", "redrive.db-reserve"] {
        fs::write(project.home.path().join(name), "rows").unwrap();
    }
    let created = project.run("create . --json");
    let json: serde_json::Value = serde_json::from_str(&created.stdout).unwrap();
    assert_eq!((json["files"].as_u64(), json["folders"].as_u64()), (Some(4), Some(2)), "{created}");
}

/// R-C2: a name that would move the cursor does not.
#[test]
fn names_are_escaped() {
    let project = Project::new();
    let id = project.taken();
    fs::write(project.root.join("\x1b[31mred"), "x").unwrap();
    for flags in ["--plain", "--color never", "--color always"] {
        let ran = project.run(&format!("diff {id} {flags}"));
        assert!(!ran.stdout.contains("\x1b[31mred") && ran.stdout.contains("\\x1b[31mred"), "{ran}");
    }
}

/// R-C2, row 69: two names that differ only in a line break are told apart wherever paths are listed; programs get the name
/// as it is.
#[test]
fn a_line_break_in_a_name_is_shown() {
    let project = Project::new();
    let one = project.home.path().join("one");
    fs::create_dir_all(one.join("folder")).unwrap();
    let id = project.run("create one --plain").stdout.trim().to_owned();
    let shown = project.run(&format!("show {id} --plain")).stdout;
    assert!(shown.contains("0 files, 1 folder, 0 links"), "{shown}");
    for name in ["new line", "new\nline"] {
        fs::write(one.join(name), "x").unwrap();
    }
    // In JSON a line break is written just so.
    for command in ["diff", "restore --dry-run"] {
        for flags in ["--plain", "--color always", "--json"] {
            let ran = project.run(&format!("{command} {id} {flags}"));
            assert!(ran.stdout.contains("one/new\\nline") && ran.stdout.contains("one/new line"), "{ran}");
        }
    }
    assert_eq!(project.run(&format!("restore {id}")).code, 0);
    let pruned = project.run("prune --older-than 0s --plain").stdout;
    assert!(pruned.contains("Removed: 1 snapshot (") && pruned.contains("what 1 restore had"), "{pruned}");
}
