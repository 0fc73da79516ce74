//! The real `redrive serve`, a folder that it lives in, and the little HTTP that tests speak with it.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Nothing here takes that long unless it is stuck.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub struct Home {
    pub folder: tempfile::TempDir,
    store: String,
}

impl Home {
    pub fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("redrive.db").display());
        Home { folder, store }
    }

    /// The same on PostgreSQL; nothing where there is none.
    pub fn on_postgres() -> Option<Home> {
        let shared = redrive_testing::shared()?;
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let store = format!("{}{joint}schema={}", shared.url(), shared.schema());
        Some(Home { folder: tempfile::tempdir().unwrap(), store })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `redrive.toml`, which is found in the folder.
    pub fn configure(&self, toml: &str) {
        std::fs::write(self.path("redrive.toml"), toml).unwrap();
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(words)
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
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = self.command(&words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub fn json(&self, words: &str) -> serde_json::Value {
        let (code, out, err) = self.redrive(&format!("{words} --json"));
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{words}: {code:?} {out}{err}"))
    }

    /// The server, once it listens.
    pub fn serve(&self, words: &str) -> Serving {
        let words = format!("serve --listen 127.0.0.1:0 {words}");
        let words: Vec<&str> = words.split_whitespace().collect();
        Serving::started(self.command(&words))
    }
}

/// A server that listens, and ends with the test.
pub struct Serving {
    pub child: Child,
    pub address: String,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Serving {
    pub fn started(mut command: Command) -> Serving {
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (mut stream, hearing) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                hearing.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        });
        let mut serving = Serving { child, address: String::new(), said };
        let began = Instant::now();
        loop {
            let said = serving.said();
            let listens = said.split_once("https://").or_else(|| said.split_once("http://"));
            let listens = listens.map(|(_, address)| address).filter(|_| said.ends_with('\n'));
            if let Some(address) = listens {
                let end = address.find(|c: char| !(c.is_ascii_digit() || ".:[]".contains(c))).unwrap();
                address[..end].clone_into(&mut serving.address);
                return serving;
            }
            let waits = began.elapsed() < PATIENCE && serving.child.try_wait().unwrap().is_none();
            assert!(waits, "it did not begin: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Waits until it has said this.
    pub fn says(&self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            assert!(began.elapsed() < PATIENCE, "it does not say {words:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Its exit code, once it ends by itself.
    pub fn ends(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, "").unwrap_or_else(|| panic!("no answer: {}", self.said()))
    }

    /// Status and body; nothing when the server is gone.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        self.ask_as(&self.address, method, path, body)
    }

    /// The same under another name of the server.
    pub fn ask_as(&self, host: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        ask(&self.address, host, method, path, &[], body)
    }
}

/// Asks whoever listens there, on a connection of its own: status and body; nothing when the answer did not come whole.
pub fn ask(
    address: &str,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers = headers.iter().map(|(name, value)| [*name, ": ", value, "\r\n"].concat());
    let headers: String = headers.collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    // A server that was killed may have sent a half of it.
    if length.is_some_and(|length: usize| length != body.len()) {
        return None;
    }
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whoever has ended already is only looked after.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
