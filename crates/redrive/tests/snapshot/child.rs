//! This binary once more, as a child that takes a snapshot or restores one and is killed in the middle.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use redrive::snapshot::{RestoreOptions, SnapshotRequest, Snapshots};

use crate::tree::NOW;

/// Not a test of its own: what the child does.
#[test]
fn does_what_it_is_told() {
    let Ok(task) = std::env::var("REDRIVE_TEST_TASK") else { return };
    let of = |name: &str| std::path::PathBuf::from(std::env::var(name).unwrap());
    let (dir, root) = (of("REDRIVE_TEST_SNAPSHOTS"), of("REDRIVE_TEST_ROOT"));
    let snapshots = Snapshots::open(dir).unwrap();
    let id = "snap-sweep".parse().unwrap();
    match task.as_str() {
        "create" => {
            let request = SnapshotRequest { id: Some(id), ..SnapshotRequest::of([root]) };
            snapshots.create(&request, NOW).unwrap();
        }
        "restore" => drop(snapshots.restore(&id, RestoreOptions::default(), NOW).unwrap()),
        "prune" => drop(snapshots.prune(NOW, Some(std::time::Duration::ZERO)).unwrap()),
        "open" => assert!(!snapshots.recovered().is_empty()),
        task => panic!("no such task: {task}"),
    }
}

/// Runs the child under strace, which kills it as it enters the n-th such call. Answers whether it did.
pub(crate) fn killed_at(call: &str, n: usize, task: &str, dir: &Path, root: &Path) -> bool {
    let status = traced(call, &format!("inject={call}:signal=KILL:when={n}"), task, dir, root);
    assert!(was_killed(status) || status.success(), "{task} failed by itself at {call} {n}: {status:?}");
    was_killed(status)
}

/// The same with an n-th call that fails. Answers whether the child did, too.
pub(crate) fn failed_at(call: &str, error: &str, n: usize, task: &str, dir: &Path, root: &Path) -> bool {
    !traced(call, &format!("inject={call}:error={error}:when={n}"), task, dir, root).success()
}

fn traced(call: &str, interference: &str, task: &str, dir: &Path, root: &Path) -> ExitStatus {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", interference]);
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child::does_what_it_is_told", "--nocapture", "--test-threads=1", "--quiet"])
        .env("REDRIVE_TEST_TASK", task)
        .env("REDRIVE_TEST_SNAPSHOTS", dir)
        .env("REDRIVE_TEST_ROOT", root)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.status().unwrap()
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

/// Whether strace can interfere here. A machine without it is told so loudly; in CI it is a failure.
pub(crate) fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        assert!(std::env::var("CI").is_err(), "strace is missing or may not trace: install it");
        println!(
            "SKIPPED: strace is missing or may not trace; kills at exact calls were NOT proved on this machine"
        );
    }
    can
}
