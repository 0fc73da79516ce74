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

/// Issue 8, demo: it ends by itself within its time, without a terminal too, in both languages and as JSON Lines.
#[test]
fn the_demo_ends_in_time() {
    for form in ["--lang=en", "--lang=ja", "--json"] {
        let started = Instant::now();
        let output = redrive().args(["demo", "--for", "2s", form]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        // It promises a second more than asked for; a busy machine gets a few.
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.lines().count() > 10, "{stdout}");
        assert!(!stdout.contains('\x1b'));
        if form == "--json" {
            assert!(stdout.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
        }
    }
}

/// Issue 8, demo: in 20 s a newcomer sees jobs succeed, fail, be parked, heal, die and be redriven, each in its act.
#[test]
fn the_demo_shows_every_act() {
    let output = redrive().args(["demo", "--for", "20s", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let acts: Vec<&str> =
        lines.iter().filter(|line| line["kind"] == "act").map(|line| line["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["calm", "rate-limited", "slow", "down", "back", "auth-broken", "redriven"]);
    let summary = lines.last().unwrap();
    let tally = |act: &str, what: &str| {
        let tally = summary["acts"].as_array().unwrap().iter().find(|tally| tally["act"] == act).unwrap();
        tally["tally"][what].as_u64().unwrap()
    };
    for (act, what) in [
        ("calm", "done"),
        ("rate-limited", "failed"),
        ("slow", "failed"),
        ("down", "parked"),
        ("back", "done"),
        ("auth-broken", "dead"),
        ("redriven", "put_back"),
        ("redriven", "done"),
    ] {
        assert!(tally(act, what) > 0, "nothing {what} in {act}: {summary}");
    }
    let causes = |cause: &str| lines.iter().any(|line| line["cause"] == cause);
    assert!(["rate_limit", "timeout", "network", "auth_error", "validation_error"].into_iter().all(causes));
    // What was parked has healed, and what died of the key came back: what is left dead is what no retry heals.
    let now = &summary["now"];
    assert_eq!((&now["parked"], &now["retrying"]), (&0.into(), &0.into()), "{summary}");
    assert_eq!(now["dead"], 12, "of 147 orders, those without a card: {summary}");
}

/// Ctrl-C ends the demo with its summary and the exit code of an interrupted program.
#[cfg(unix)]
#[test]
fn an_interrupted_demo_sums_up() {
    let mut child = redrive().args(["demo", "--for", "1h"]).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The first orders are done, so the handler is in place.
    let mut line = String::new();
    while !line.contains(" done") {
        line.clear();
        stdout.read_line(&mut line).unwrap();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.contains("orders, ") && rest.contains("All is calm"), "{rest}");
}
