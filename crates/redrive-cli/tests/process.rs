//! The binary itself: pipes that close, and the demo's clock.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn redrive() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// R-C2: `redrive … | head` ends quietly.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = redrive().args(["policy", "delays", "--count", "10000"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
    assert!(first.starts_with("standard"), "{first}");
}

/// Whoever waits for each answer before asking again gets it.
#[test]
fn jsonl_answers_without_waiting_for_more() {
    let mut child = redrive().args(["classify", "--jsonl"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        stdin.write_all(b"{\"http_status\":503}\n").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.contains("\"cause\""), "{answer}");
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The demo ends by itself within its time, without a terminal too, in both languages and as JSON Lines.
#[test]
fn the_demo_ends_in_time() {
    for form in ["--lang=en", "--lang=ja", "--json"] {
        let started = Instant::now();
        let output = redrive().args(["demo", "--for", "2s", form]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        // It promises a second more than asked for; a busy machine gets a few.
        assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.lines().count() > 10, "{stdout}");
        assert!(!stdout.contains('\x1b'));
        if form == "--json" {
            assert!(stdout.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
        }
    }
}

/// Ctrl-C ends the demo with its summary and the exit code of an interrupted program.
#[cfg(unix)]
#[test]
fn an_interrupted_demo_sums_up() {
    let mut child = redrive().args(["demo", "--for", "1h"]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The first event is out, so the handler is in place.
    let mut line = String::new();
    while !line.contains("#1") {
        line.clear();
        stdout.read_line(&mut line).unwrap();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.contains("cut short"), "{rest}");
}
