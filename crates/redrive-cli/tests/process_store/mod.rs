//! The real binary in a folder of its own, with a store of its own.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes longer than that.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

pub struct Home {
    pub folder: tempfile::TempDir,
    pub store: PathBuf,
}

impl Home {
    pub fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        Home { folder, store }
    }

    /// `redrive` with the words of a text, in the folder, on the store.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(words.split_whitespace())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("REDRIVE_STORE", format!("sqlite:{}", self.store.display()))
            .env("PRIVATE", "secret")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it to its end, with these words behind the others.
    pub fn redrive(&self, words: &str, more: &[&str]) -> Ran {
        let output = self.command(words).args(more).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The document that a command prints.
    pub fn json(&self, words: &str) -> Value {
        let ran = self.redrive(&format!("{words} --json"), &[]);
        assert_eq!(ran.code, 0, "{words}: {ran}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{words}: {error}\n{ran}"))
    }

    /// Events that match, the newest last.
    pub fn events(&self, flags: &str) -> Vec<Value> {
        let ran = self.redrive(&format!("events --json {flags}"), &[]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Starts it.
    pub fn spawn(&self, words: &str, more: &[&str]) -> Running {
        let mut child = self.command(words).args(more).spawn().unwrap();
        let stdout = Heard::of(child.stdout.take().unwrap());
        let stderr = Heard::of(child.stderr.take().unwrap());
        Running { child, stdout, stderr }
    }
}

/// What a stream has said so far.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Heard {
    fn of(mut stream: impl Read + Send + 'static) -> Heard {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                heard.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        Heard { bytes, reader }
    }

    /// Everything, once the stream has ended.
    fn all(self) -> String {
        self.reader.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

pub struct Running {
    child: Child,
    stdout: Heard,
    stderr: Heard,
}

impl Running {
    /// Until it has said this, on either stream.
    pub fn wait_for(&mut self, mark: &str) {
        let began = Instant::now();
        while !self.stdout.text().contains(mark) && !self.stderr.text().contains(mark) {
            let waited = began.elapsed() < PATIENCE && self.child.try_wait().unwrap().is_none();
            assert!(waited, "{mark:?} did not come: {} {}", self.stdout.text(), self.stderr.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Until it ends.
    pub fn finish(mut self) -> Ran {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.stderr.text());
            std::thread::sleep(Duration::from_millis(5));
        };
        Ran { code: status.code().unwrap_or(-1), stdout: self.stdout.all(), stderr: self.stderr.all() }
    }
}
