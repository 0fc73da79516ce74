//! The log of `redrive serve`: whatever strangers and jobs say, a line is a line (reliability row 68; R-C2: a person reads it on a terminal).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod serve_home;

use std::io::{Read, Write};
use std::net::TcpStream;

use serve_home::{Home, PATIENCE, Serving};

/// Line breaks of every sort, colours, a title for the terminal, what turns text around or hides it, and the end of a JSON string.
const PARTS: [&str; 13] = [
    "\n",
    "\r\n",
    "\r",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{1b}[31m",
    "\u{1b}]0;title\u{7}",
    "\u{9b}31m",
    "\u{202e}\u{200b}",
    "\",\"level\":\"error\"}",
];

/// All of it at once.
fn hostile() -> String {
    PARTS.map(|part| format!("{part}forged")).concat()
}

/// A request as a stranger may send it, byte for byte.
fn send(serving: &Serving, request: &str) {
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    // What is refused is cut off at any place.
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Everything that comes from outside and may be logged: paths, headers, queues, kinds, what commands say, names of policies.
fn torment(home: &Home, serving: &Serving) {
    let (host, bad) = (&serving.address, &hostile());
    for request in [
        format!("GET /{bad} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/jobs HTTP/1.1\r\nHost: {bad}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/jobs HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {bad}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/jobs HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: {bad}\r\nConnection: close\r\n\r\n"),
    ] {
        send(serving, &request);
    }
    let text = |value: &str| serde_json::Value::from(value).to_string();
    for (queue, kind, policy) in [(bad.as_str(), "k", "standard"), ("q", bad, "standard"), ("q", "k", bad)] {
        let body = format!(
            "{{\"queue\": {}, \"kind\": {}, \"policy\": {}, \"payload\": {{}}}}",
            text(queue),
            text(kind),
            text(policy)
        );
        serving.ask("POST", "/v1/jobs", &body).unwrap();
    }
    // What a command says is repeated when somebody has to look at it. Each alone: what follows a line break is often left out.
    let say = "printf %s \"$0\" >&2; exit 77";
    for (n, part) in PARTS.iter().enumerate() {
        let words = format!("{n}canary{part}08:15:02Z error    forged");
        let job = ["enqueue", "--policy", "standard", "--exec", "sh", "-c", say, &words];
        assert!(home.command(&job).output().unwrap().status.success());
        serving.says(&format!("{n}canary"));
    }
}

/// Reliability row 68: nothing that a job or a stranger says makes a second line of text, or colours one.
#[test]
fn a_line_of_text_is_one_line() {
    let home = Home::new();
    let mut serving = home.serve("--log text -v");
    torment(&home, &serving);
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0));
    let said = serving.said();
    assert!(said.contains("canary"), "{said}");
    for line in said.lines() {
        let (time, rest) =
            line.split_once("Z ").unwrap_or_else(|| panic!("no line of ours: {line:?}\n{said}"));
        assert!(time.len() == 8 && time.bytes().all(|b| b.is_ascii_digit() || b == b':'), "{line:?}");
        let label = rest.split("  ").next().unwrap();
        assert!(["debug", "note", "warning", "error"].contains(&label.trim()), "{line:?}");
        assert!(!label.contains("error"), "forged: {line:?}");
    }
    let hidden = "\u{2028}\u{2029}\u{202e}\u{200b}";
    let harmless = |c: char| c == '\n' || !(c.is_control() || hidden.contains(c));
    assert!(said.chars().all(harmless), "{said:?}");
}

/// Reliability row 68: a line of JSON is one object, whose level and message are ours.
#[test]
fn a_line_of_json_is_one_object() {
    let home = Home::new();
    let mut serving = home.serve("--log json -v");
    torment(&home, &serving);
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0));
    let said = serving.said();
    assert!(said.contains("canary"), "{said}");
    for line in said.lines() {
        let read: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}\n{said}"));
        assert!(read["time"].is_string() && read["message"].is_string(), "{line}");
        assert_ne!(read["level"], "error", "forged: {line}");
    }
    assert!(said.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{2028}')), "{said:?}");
}
