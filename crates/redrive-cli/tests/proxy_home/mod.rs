//! A service in Python, the real `redrive proxy` before it, and a folder that both live in.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Nothing here takes that long unless it is stuck.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Where keys are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

pub struct Home {
    pub folder: tempfile::TempDir,
    store: String,
}

impl Home {
    /// Nothing where there is no PostgreSQL.
    pub fn on(store: Store) -> Option<Home> {
        let folder = tempfile::tempdir().unwrap();
        let store = match store {
            Store::Sqlite => format!("sqlite:{}", folder.path().join("redrive.db").display()),
            Store::Postgres => {
                let shared = redrive_testing::shared()?;
                let joint = if shared.url().contains('?') { '&' } else { '?' };
                format!("{}{joint}schema={}", shared.url(), shared.schema())
            }
        };
        Some(Home { folder, store })
    }

    pub fn new() -> Home {
        Home::on(Store::Sqlite).unwrap()
    }

    /// `redrive.toml`, which is found in the folder.
    pub fn configure(&self, toml: &str) {
        std::fs::write(self.folder.path().join("redrive.toml"), toml).unwrap();
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(words.split_whitespace())
            .env_clear()
            .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C"), ("REDRIVE_STORE", &self.store)])
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The exit code, and what was said.
    pub fn redrive(&self, words: &str) -> (Option<i32>, String, String) {
        let output = self.command(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub fn effects_file(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    /// How often something was done under each key.
    pub fn effects(&self) -> BTreeMap<String, u32> {
        let mut effects = BTreeMap::new();
        for key in std::fs::read_to_string(self.effects_file()).unwrap_or_default().lines() {
            *effects.entry(key.to_owned()).or_insert(0) += 1;
        }
        effects
    }

    /// The proxy, once it listens.
    pub fn proxy(&self, words: &str) -> Process {
        let command = self.command(&format!("proxy {words}"));
        Process::started(command, |said| {
            let at = said.split_once("note: proxy on http://127.0.0.1:")?.1;
            at.split_once(' ')?.0.parse().ok()
        })
    }
}

/// The Python service; `slowness` is the most seconds that an answer takes. Port 0 is any.
pub fn service(home: &Home, port: u16, slowness: f64) -> Process {
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxy_home/service.py"))
        .args([port.to_string(), home.effects_file().display().to_string(), slowness.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process::started_on_stdout(command)
}

/// A process that listens on a port of this machine, and ends with the test.
pub struct Process {
    pub child: Child,
    pub port: u16,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    fn started_on_stdout(mut command: Command) -> Process {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the service did not begin: {line:?}"));
        let said = Arc::default();
        Process { child, port, said }
    }

    pub fn started(mut command: Command, port: impl Fn(&str) -> Option<u16>) -> Process {
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (mut stream, hearing) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                hearing.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        let mut process = Process { child, port: 0, said };
        let began = Instant::now();
        loop {
            if let Some(port) = port(&process.said()) {
                process.port = port;
                return process;
            }
            let waits = began.elapsed() < PATIENCE && process.child.try_wait().unwrap().is_none();
            assert!(waits, "it did not begin: {}", process.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it said on stderr so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// SIGKILL, and it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its exit code, once it ends by itself.
    pub fn ends(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever has ended already is only looked after.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
