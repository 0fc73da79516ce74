//! Runs whole command lines inside the test, with everything they see as an argument.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::expect_used, clippy::duration_suboptimal_units)]

pub mod stored;
pub mod tasks;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use redrive_cli::{Invocation, run};

/// What a command line left behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: u8,
    pub stdout: String,
    pub stderr: String,
}

impl std::fmt::Display for Ran {
    /// As snapshots show it; escape characters are visible.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let visible = |text: &str| text.replace('\x1b', "␛");
        write!(
            f,
            "exit: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.code,
            visible(&self.stdout),
            visible(&self.stderr)
        )
    }
}

/// A command line and what surrounds it. By itself: English, no terminal, no configuration.
pub struct Line {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    terminal: bool,
    cwd: PathBuf,
}

/// `redrive` with these arguments.
pub fn redrive<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Line {
    let program = std::iter::once(OsString::from("redrive"));
    Line {
        args: program.chain(args.into_iter().map(Into::into)).collect(),
        env: vec![("REDRIVE_WIDTH".into(), "80".into()), ("HOME".into(), "/home/ada".into())],
        stdin: Vec::new(),
        terminal: false,
        cwd: PathBuf::from("/nonexistent"),
    }
}

/// `redrive` with the words of a text.
pub fn line(text: &str) -> Line {
    redrive(text.split_whitespace())
}

impl Line {
    pub fn env(mut self, name: &str, value: &str) -> Line {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Line {
        self.stdin = input.into();
        self
    }

    pub fn on_a_terminal(mut self) -> Line {
        self.terminal = true;
        self
    }

    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Line {
        self.cwd = cwd.into();
        self
    }

    pub fn run(self) -> Ran {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = run(Invocation {
            args: self.args,
            env: self.env.into_iter().collect(),
            cwd: self.cwd,
            // Wed, 21 Oct 2015 07:28:00 GMT
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480),
            stdin_is_terminal: self.terminal,
            stdout_is_terminal: self.terminal,
            stderr_is_terminal: self.terminal,
            width: Some(80),
            stdin: &mut self.stdin.as_slice(),
            stdout: &mut stdout,
            stderr: &mut stderr,
        });
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Ran { code, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Times without their milliseconds: the store writes when an attempt really began.
pub fn timeless(text: &str) -> String {
    let mut out: Vec<char> = text.chars().collect();
    let shape = |window: &[char]| {
        let colons = window[0] == ':' && window[3] == ':' && window[6] == '.';
        colons && [1, 2, 4, 5, 7, 8, 9].iter().all(|i| window[*i].is_ascii_digit())
    };
    for i in 0..out.len().saturating_sub(9) {
        if shape(&out[i..i + 10]) {
            out[i + 7..i + 10].fill('0');
        }
    }
    out.into_iter().collect()
}
