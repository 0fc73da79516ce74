//! Child processes that end with the test, whatever happens.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The longest that any child may take.
const MOST: Duration = Duration::from_mins(2);

/// A child in a process group of its own, killed with all that belongs to it when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Process {
        Process(command.process_group(0).stdin(Stdio::null()).spawn().unwrap())
    }

    /// Its end, polled for: nobody waits for ever.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < MOST, "a child hangs");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn signal(&self, name: &str) {
        let group = format!("-{}", self.0.id());
        let sent = Command::new("kill").args([name, "--", &group]).stderr(Stdio::null()).status();
        assert!(sent.is_ok(), "kill could not be run");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal("-KILL");
            // It has been killed: this does not take long.
            let _status = self.0.wait();
        }
    }
}

pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

/// This binary once more, as a child with a task.
pub(crate) fn child(task: &str, store: &Path, journal: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    dress(&mut command, task, store, journal);
    command
}

/// The same under strace, which interferes as it is told.
pub(crate) fn traced(interference: &[&str], task: &str, store: &Path, journal: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]).args(interference);
    command.arg(std::env::current_exe().unwrap());
    dress(&mut command, task, store, journal);
    command
}

pub(crate) fn dress(command: &mut Command, task: &str, store: &Path, journal: &Path) {
    command
        .args(["--exact", "child::does_what_it_is_told", "--nocapture", "--test-threads=1", "--quiet"])
        .env("REDRIVE_TEST_TASK", task)
        .env("REDRIVE_TEST_STORE", store)
        .env("REDRIVE_TEST_JOURNAL", journal)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
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
            "SKIPPED: strace is missing or may not trace; kills and failures at exact calls were NOT proved on this \
             machine, only kills at random moments"
        );
    }
    can
}
