//! A whole task under SIGKILL, at one write after the other: it comes to the same end, and no step that was done is done
//! again (R-T1, R-T3, reliability 1).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redrive::engine::TaskRequest;
use redrive_policy::Format;
use redrive_policy::plan::Plan;
use redrive_store::{Origin, SubtaskState, TaskId, TaskState};

use crate::child;
use crate::support::run;

/// The longest that any child may take.
const MOST: Duration = Duration::from_mins(1);

/// Two diamonds on top of one another. Two steps fail the first time, and one of them has changed files by then. Each appends its name
/// to `done` when it is done, and that in one write.
const PLAN: &str = r#"
parallel = 2
[[subtasks]]
id = "top"
command = "echo top >> done"
[[subtasks]]
id = "left"
depends_on = "top"
command = "[ $REDRIVE_ATTEMPT -ge 2 ] || exit 75; echo left >> done"
[[subtasks]]
id = "right"
depends_on = "top"
snapshot = "work"
command = "[ \"$(cat work/state)\" = whole ] && [ ! -e work/extra ] || echo torn >> torn; echo half > work/state; echo x > work/extra; [ $REDRIVE_ATTEMPT -ge 2 ] || exit 75; echo done > work/state; echo right >> done"
[[subtasks]]
id = "middle"
depends_on = ["left", "right"]
command = "echo middle >> done"
[[subtasks]]
id = "last"
depends_on = ["middle"]
snapshot = "work"
command = "echo last >> work/state; echo last >> done"
[[subtasks]]
id = "beside"
depends_on = ["middle"]
command = "echo beside >> done"
"#;

const NAMES: [&str; 6] = ["top", "left", "right", "middle", "last", "beside"];

/// A child that is gone with the test, and everything that it has started with it.
struct Process(Child);

impl Process {
    fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < MOST, "a child hangs");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill(&self) {
        let group = format!("-{}", self.0.id());
        let sent = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        assert!(sent.is_ok(), "kill could not be run");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill();
            let _status = self.0.wait();
        }
    }
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        assert!(std::env::var("CI").is_err(), "strace is missing or may not trace: install it");
        println!("SKIPPED: strace is missing or may not trace; a killed task was NOT proved on this machine");
    }
    can
}

/// A folder with a task that nobody has moved on yet.
fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("base/work")).unwrap();
    fs::write(folder.path().join("base/work/state"), "whole\n").unwrap();
    run(async {
        let (engine, store) = child::engine(folder.path(), 0);
        let (plan, _) = Plan::parse(PLAN, Format::Toml, "plan.toml").unwrap();
        let base = folder.path().join("base");
        let id = engine
            .start_task(TaskRequest { plan, place: None, base, umask: None, origin: Origin::Local })
            .await
            .unwrap();
        assert_eq!(id, TaskId(1));
        store.close().await.unwrap();
    });
    folder
}

/// How often each step was done.
fn done(folder: &Path) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(folder.join("base/done")).unwrap_or_default();
    let mut times = BTreeMap::new();
    for line in text.lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    times
}

/// The steps that are known to have succeeded, by number.
fn succeeded(folder: &Path, nth: u32) -> Vec<u32> {
    run(async {
        let (engine, store) = child::engine(folder, nth);
        let rows = engine.store().subtasks(TaskId(1)).await.unwrap();
        // A job that is done is a step that is done, though nobody may have looked since.
        let begun = engine.store().begun(TaskId(1)).await.unwrap();
        let done = begun.iter().filter(|one| one.standing == redrive_store::JobStanding::Succeeded);
        let mut numbers: Vec<u32> = done.map(|one| one.number).collect();
        numbers.extend(rows.iter().filter(|row| row.state == SubtaskState::Succeeded).map(|row| row.number));
        store.close().await.unwrap();
        numbers
    })
}

/// The n-th process that comes to this store; `interference` is strace's.
fn spawn(folder: &Path, nth: u32, interference: &[&str]) -> Process {
    let exe = std::env::current_exe().unwrap();
    let mut command = if interference.is_empty() {
        Command::new(exe)
    } else {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null"]).args(interference).arg(exe);
        command
    };
    child::dress(&mut command, folder, nth);
    let said = fs::File::options().create(true).append(true).open(folder.join("said")).unwrap();
    command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said).process_group(0);
    Process(command.spawn().unwrap())
}

/// What must hold once a task is over that was killed after these had succeeded.
fn comes_to_its_end(folder: &Path, nth: u32, before: &BTreeMap<String, usize>, known: &[u32]) {
    let said = || fs::read_to_string(folder.join("said")).unwrap_or_default();
    let status = spawn(folder, nth, &[]).end();
    assert!(status.success(), "{status:?}: {}", said());
    let after = done(folder);
    for name in NAMES {
        assert!(after.contains_key(name), "{name} was never done: {after:?}");
    }
    for number in known {
        let name = NAMES[*number as usize];
        assert_eq!(before.get(name), after.get(name), "{name} was done again: {before:?} {after:?}");
    }
    let base = folder.join("base");
    assert!(!base.join("torn").exists(), "a step found files that were not put back");
    assert_eq!(fs::read_to_string(base.join("work/state")).unwrap(), "done\nlast\n");
    assert_eq!(fs::read_to_string(base.join("work/extra")).unwrap(), "x\n");
    run(async {
        let (engine, store) = child::engine(folder, nth + 1);
        let task = store.task(TaskId(1)).await.unwrap().unwrap();
        assert_eq!(task.state, TaskState::Succeeded, "{task:#?}");
        let rows = store.subtasks(TaskId(1)).await.unwrap();
        assert!(rows.len() == 6 && rows.iter().all(|row| row.rounds == 1), "{rows:#?}");
        let report = store.check().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
        drop(engine);
        store.close().await.unwrap();
    });
}

/// One life, killed at the n-th of these calls, and what comes after it. Answers whether it was killed at all.
fn point(calls: &str, n: usize) -> bool {
    let folder = made();
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:signal=KILL:when={n}"));
    // The commands that it runs have writes of their own: only those of the task itself are counted.
    let mut process = spawn(folder.path(), 1, &["-e", &trace, "-e", &inject]);
    let status = process.end();
    // What it has started goes with it, as when a machine goes down.
    process.kill();
    if !was_killed(status) {
        assert!(status.success(), "{status:?}");
        return false;
    }
    let known = succeeded(folder.path(), 2);
    let before = done(folder.path());
    comes_to_its_end(folder.path(), 3, &before, &known);
    true
}

/// R-T1, R-T3, reliability 1: killed at any write to its store, or at any change of a file that it puts back, a task comes to
/// the same end; no step that succeeded is done again, and none finds half of what another attempt has done.
#[test]
fn a_task_that_is_killed_anywhere_comes_to_the_same_end() {
    if !can_trace() {
        return;
    }
    // Each call, from which one on, and how much further the next kill is.
    let series =
        [("pwrite64", 1, 9), ("fdatasync", 1, 3), ("renameat,renameat2,linkat,mkdirat,unlinkat", 1, 1)];
    let (next, killed) = (AtomicUsize::new(0), Mutex::new([0; 3]));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some((calls, from, stride)) = series.get(at).copied() else { break };
                    let mut n = from;
                    while point(calls, n) {
                        killed.lock().unwrap()[at] += 1;
                        n += stride;
                    }
                }
            });
        }
    });
    let killed = killed.into_inner().unwrap();
    println!("killed {killed:?} times");
    assert!(killed.iter().all(|times| *times > 3), "{killed:?}");
}
