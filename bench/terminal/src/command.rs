//! A command of redrive as a process of its own: how long it takes from its start to its end, and the most memory it had.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What one process took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    pub wall: Duration,
    pub peak_mb: f64,
    /// What it was told to end with.
    pub is_done: bool,
}

/// The binary, and the store that it is pointed at.
pub struct Redrive {
    pub binary: PathBuf,
    pub store: String,
    /// The file of the store, if it is one.
    pub file: Option<PathBuf>,
}

impl Redrive {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        // Nothing of the machine's own configuration counts.
        command.env_clear().env("HOME", "/nonexistent").env("LANG", "C.UTF-8").env("TERM", "dumb");
        command.args(args).args(["--store", &self.store]).stdin(Stdio::null());
        command
    }

    /// What it writes to stdout; a failure ends everything.
    pub fn told(&self, args: &[&str]) -> String {
        let output = self.command(args).stderr(Stdio::inherit()).output().expect("the binary");
        assert!(output.status.success(), "{args:?}: {}", output.status);
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs it with its output thrown away.
    pub fn run(&self, args: &[&str]) -> Took {
        let began = Instant::now();
        let child =
            self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
        let pid = i32::try_from(child.id()).expect("an id");
        let mut status = 0;
        // SAFETY: both out-parameters live here, and nobody else waits for this child.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
        };
        let wall = began.elapsed();
        assert_eq!(waited, pid, "{args:?}");
        Took { wall, peak_mb: usage.ru_maxrss as f64 / 1024.0, is_done: status == 0 }
    }

    /// Has the kernel forget what it remembers of the store's file; of a server's files it cannot.
    pub fn forget(&self) {
        let Some(file) = &self.file else { return };
        for suffix in ["", "-wal"] {
            let path = format!("{}{suffix}", file.display());
            let Ok(file) = File::open(Path::new(&path)) else { continue };
            file.sync_all().expect("synced");
            // SAFETY: the descriptor is open; the call only gives advice.
            let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            assert_eq!(refused, 0, "the kernel forgets nothing");
        }
    }
}
