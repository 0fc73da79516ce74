//! Reliability row 62, invariant I8: a secret that is pushed through every door stands in no event, letter, message or
//! export, and in no byte of the store but a job's own payload.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use process_store::{Home, Ran};

/// What no rule would recognise: only whoever knows the value can.
const IN_ENV: &str = "Canary-7Q2x-environment";
const IN_HEADER: &str = "Canary-8R3y-header";
const IN_URL: &str = "Canary-9S4z-address";
/// What is recognised by what stands before it.
const BY_NAME: &str = "canary5shape";

fn run(home: &Home, words: &str, more: &[&str]) -> Ran {
    let output = home.command(words).args(more).env("DEPLOY_TOKEN", IN_ENV).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// Everything that can be had of the store from outside, and every byte of it but payloads.
fn everything(home: &Home) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for words in [
        "events --json --limit 1000",
        "events --verbose --plain",
        "export",
        "dlq --json",
        "dlq list -v",
        "status --json",
    ] {
        let ran = run(home, words, &[]);
        assert!(ran.code == 0 || ran.code == 3, "{words}: {ran}");
        all.push((words.to_owned(), ran.stdout + &ran.stderr));
    }
    for id in 1..=6 {
        for words in [format!("explain {id} -v"), format!("dlq show {id} --json")] {
            let ran = run(home, &words, &[]);
            all.push((words, ran.stdout + &ran.stderr));
        }
    }
    // A copy holds what is there, and nothing of what was deleted.
    let copy = home.folder.path().join("copy.db");
    let ran = run(home, "store backup copy.db", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    all.push((
        "every byte of the store".to_owned(),
        String::from_utf8_lossy(&std::fs::read(copy).unwrap()).into_owned(),
    ));
    all
}

/// R-D7, I8: what the environment holds is blanked in what a command writes, on both streams, in its failure and its
/// letter, whatever stands around it.
#[test]
fn a_secret_of_the_environment_reaches_nothing() {
    let home = Home::new();
    let script = "echo \"to stdout $DEPLOY_TOKEN\"; echo \"{\\\"x\\\":\\\"$DEPLOY_TOKEN\\\"} 403 forbidden\" >&2; exit 7";
    run(&home, "enqueue --exec sh -c", &["echo $DEPLOY_TOKEN"]);
    run(&home, "enqueue --exec sh -c", &[script]);
    run(&home, "enqueue --exec sh -c", &["echo password=canary5shape >&2; exit 3"]);
    let worked = run(&home, "work --until-empty", &[]);
    assert_eq!(worked.code, 0, "{worked}");
    let ended = run(&home, "run --max-retries 1 --initial-delay 1ms -- sh -c", &[script]);
    // What a command writes is its own and passes through; what we say about it is ours.
    let ours: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("redrive: ")).collect();
    assert!(!ours.is_empty() && !ours.concat().contains(IN_ENV), "{ended}");
    let mut all = everything(&home);
    all.push(("work".to_owned(), worked.stdout + &worked.stderr));
    let events = &all[0].1;
    assert!(events.contains("to stdout [redacted]"), "the output is not there at all: {events}");
    assert!(events.contains("403 forbidden"), "the failure is not there at all: {events}");
    for (place, text) in &all {
        assert!(!text.contains(IN_ENV), "{place}: {text}");
        // The command line of a job is its payload.
        assert!(!text.contains(BY_NAME) || place == "every byte of the store", "{place}: {text}");
    }
}

/// R-D7: the key of the store is no job's to see.
#[test]
fn a_command_does_not_see_the_key_of_the_store() {
    let home = Home::new();
    let key = run(&home, "store keygen --id k", &[]).stdout;
    let script = "echo \"key is ${REDRIVE_KEY:-hidden}\"";
    let mut command = home.command("run -- sh -c");
    let output =
        command.arg(script).env("REDRIVE_KEY", key.trim()).stderr(Stdio::inherit()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "key is hidden\n");
    // It ran on the encrypted store.
    assert_eq!(run(&home, "status", &[]).code, 1);
}

/// The next connection, waited for no longer than a minute.
fn accepted(listener: &TcpListener) -> TcpStream {
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
        assert!(began.elapsed() < Duration::from_mins(1), "nobody called");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// R-D7, I8: what a call asks with is blanked when the answer repeats it, in a failure and in a success.
#[test]
fn a_secret_of_a_call_reaches_nothing() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://ada:{IN_URL}@{}/hook?access_token={IN_URL}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let server = std::thread::spawn(move || {
        for status in ["503 Service Unavailable", "200 OK"] {
            let mut stream = accepted(&listener);
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !request.windows(4).any(|part| part == b"\r\n\r\n") {
                let read = stream.read(&mut chunk).unwrap();
                assert_ne!(read, 0, "the request ended early");
                request.extend_from_slice(&chunk[..read]);
            }
            // Everything that it was asked with, and more words around it.
            let echo = format!("you said {} {IN_HEADER} {IN_URL}", String::from_utf8_lossy(&request));
            let length = echo.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{echo}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let header = format!("X-Auth-Ticket: Ticket {IN_HEADER}");
    let added = run(&home, "enqueue --http GET", &[&url, "--header", &header]);
    assert_eq!(added.code, 0, "{added}");
    let worked = run(&home, "work --until-empty", &[]);
    assert_eq!(worked.code, 0, "{worked}");
    server.join().unwrap();
    let mut all = everything(&home);
    assert!(all[0].1.matches("you said").count() >= 2, "the answers are not there at all: {}", all[0].1);
    all.push(("work".to_owned(), worked.stdout + &worked.stderr));
    for (place, text) in &all {
        for secret in [IN_HEADER, IN_URL] {
            assert!(!text.contains(secret), "{place}: {text}");
        }
    }
}

/// R-D7, R-E4, I8: what is imported is blanked wherever it stands in an event.
#[test]
fn a_secret_in_an_imported_event_reaches_nothing() {
    let home = Home::new();
    let event = serde_json::json!({
        "event_id": "theirs-1", "timestamp": "2026-11-15T00:00:00Z", "event_type": "action", "source": "sync",
        "status": "failed", "tags": [format!("token={BY_NAME}")],
        "data": {
            "password": BY_NAME, "deep": [{ "said": format!("Authorization: Bearer {BY_NAME}99") }],
            "env": IN_ENV, "url": format!("https://u:{BY_NAME}@example.com/"),
        },
        "error_info": {
            "error_type": "E", "error_message": format!("api_key={BY_NAME}"), "error_category": "network",
            "stack_trace": format!("at login(secret={BY_NAME})"), "extra": format!("pwd={BY_NAME}"),
        },
        "retry_info": { "retry_count": 1, "max_retries": 3, "note": format!("token={BY_NAME}") },
        "recovery_actions": [
            { "timestamp": "2026-11-15T00:00:00Z", "action": format!("login with password={BY_NAME}"), "token": BY_NAME }
        ],
        "unknown": { "client_secret": BY_NAME },
    });
    std::fs::write(home.folder.path().join("in.jsonl"), format!("{event}\n")).unwrap();
    let ran = run(&home, "import in.jsonl", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let all = everything(&home);
    assert!(all[2].1.contains("theirs-1") && all[2].1.contains("[redacted]"), "{}", all[2].1);
    for (place, text) in &all {
        for secret in [BY_NAME, IN_ENV] {
            assert!(!text.contains(secret), "{place}: {text}");
        }
    }
}

/// R-T8: a password of a store is in no message, whatever is wrong with it.
#[test]
fn a_password_of_a_store_is_in_no_message() {
    let home = Home::new();
    for url in [format!("postgres://u:{BY_NAME}@h:none/db"), format!("mysql://u:{BY_NAME}@h/db")] {
        for words in ["status", "config show", "store check", "work --until-empty"] {
            let output = home.command(words).env("REDRIVE_STORE", &url).output().unwrap();
            let told = [output.stdout, output.stderr].concat();
            assert!(
                !String::from_utf8_lossy(&told).contains(BY_NAME),
                "{words}: {}",
                String::from_utf8_lossy(&told)
            );
        }
    }
}
