//! Draws the pictures of the README: real command lines on a store with a made-up night, their colours turned into SVG.
//!
//! The clock of the commands and of the store's past is fixed, so the same program draws the same pictures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::format_push_string,
    clippy::duration_suboptimal_units
)]

use std::path::Path;
use std::time::{Duration, SystemTime};

use redrive_cli::{Invocation, run};
use redrive_policy::{Classifier, History, Lang, Policy, Report, Rng, decide, fingerprint};
use redrive_store::{
    Ending, FailedAttempt, Housekeeping, Jobs, LeaseRequest, Leases, LetterReason, NewJob, NewLetter, Output,
    Settlement, Sqlite, SqliteOptions, StoredDecision, Timestamp, Workers,
};
use serde_json::json;

/// 03:14 at night, 15 November 2026, UTC.
const NOW: u64 = 1_794_712_440;
const COLUMNS: usize = 100;

/// Queue, kind, count, words, status, minutes ago.
type Failures = (&'static str, &'static str, usize, &'static str, Option<u16>, u64);

/// How many jobs of a queue failed with which words and status, how long ago.
const NIGHT: &[Failures] = &[
    (
        "mail",
        "http",
        1_284,
        "POST https://mx-{n}.example.com/v1/send: 503 Service Unavailable (request {id})",
        Some(503),
        2,
    ),
    ("billing", "http", 612, "401 Unauthorized: token for merchant \"m-{n}\" expired", Some(401), 9),
    ("images", "thumbnail", 88, "decode /srv/in/{id}.png: unexpected end of file", None, 31),
    ("mail", "http", 17, "接続先 mx-{n}.example.jp:25 が応答しませんでした（30 秒）", None, 47),
];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live_through(&path));
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    for (name, command) in [
        ("status", "redrive"),
        ("status.ja", "redrive --lang ja"),
        ("explain", "redrive explain job_1300"),
        ("dlq", "redrive dlq list --limit 8"),
        ("help", "redrive help canary"),
        ("delays", "redrive policy delays --backoff exponential --count 8 --seed 7"),
    ] {
        let drawn = svg(command, &output(command, &path));
        std::fs::write(out.join(format!("{name}.svg")), drawn).unwrap();
    }
}

/// What a command line prints on a terminal.
fn output(command: &str, store: &Path) -> String {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let env = [("REDRIVE_STORE", format!("sqlite:{}", store.display())), ("HOME", "/home/ada".to_owned())];
    let code = run(Invocation {
        args: command.split_whitespace().map(Into::into).collect(),
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: "/nonexistent".into(),
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
        stdin_is_terminal: true,
        stdout_is_terminal: true,
        stderr_is_terminal: true,
        width: Some(COLUMNS),
        stdin: &mut std::io::empty(),
        stdout: &mut stdout,
        stderr: &mut stderr,
    });
    assert_eq!(code, 0, "{command}: {}", String::from_utf8_lossy(&stderr));
    let shown = format!("sqlite:{}", store.display());
    String::from_utf8(stdout).unwrap().replace(&shown, "sqlite:/var/lib/redrive/redrive.db")
}

/// A store in which all of that has happened.
async fn live_through(path: &Path) {
    let store = Sqlite::open(path, SqliteOptions::default()).unwrap();
    let at = |minutes_ago: u64| {
        Timestamp::from_system(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW - minutes_ago * 60))
    };
    let hour = Duration::from_secs(3_600);
    let worker = store.register(at(60), "worker-1".into(), hour * 2).await.unwrap();
    let lease = |kind: &str, max| LeaseRequest {
        worker,
        queues: Vec::new(),
        kinds: vec![kind.to_owned()],
        reserved_only: false,
        max,
        lease_for: hour,
        begin: true,
        wait: Duration::ZERO,
    };
    for (queue, kind, count, words, status, minutes_ago) in NIGHT {
        let (begun, ended) = (at(minutes_ago + 1), at(*minutes_ago));
        let job = NewJob { queue: (*queue).into(), ..NewJob::new(*kind, "{}") };
        store.enqueue(begun, vec![job; *count]).await.unwrap();
        let mut done = 0;
        while done < *count {
            let leased = store.lease(begun, lease(kind, 100)).await.unwrap();
            let settlements = leased.iter().enumerate().map(|(i, leased)| {
                let n = done + i;
                let words = words
                    .replace("{n}", &(n % 9).to_string())
                    .replace("{id}", &format!("{:08x}", n * 2_654_435));
                let ending = dead(&words, *status);
                Settlement { token: leased.token, ending }
            });
            let settlements: Vec<Settlement> = settlements.collect();
            store.settle(ended, settlements).await.unwrap();
            done += leased.len();
        }
    }
    // And what went well.
    store
        .enqueue(at(20), vec![NewJob { queue: "reports".into(), ..NewJob::new("exec", "{}") }; 240])
        .await
        .unwrap();
    for _ in 0..2 {
        let leased = store.lease(at(19), lease("exec", 100)).await.unwrap();
        let done = |latency| Ending::Succeeded { latency, exit_code: Some(0), max_retries: 3, output: None };
        let settlements = leased
            .iter()
            .map(|leased| Settlement { token: leased.token, ending: done(Duration::from_secs(1)) });
        store.settle(at(18), settlements.collect()).await.unwrap();
    }
    store.close().await.unwrap();
}

fn dead(words: &str, status: Option<u16>) -> Ending {
    let report = Report { http_status: status, ..Report::text(words) };
    let failure = Classifier::built_in().classify(&report);
    let history = History { retry_count: 3, ..History::default() };
    let policy = Policy::standard();
    let decision = decide(&policy, &failure, &history, &mut Rng::seeded(1));
    let attempt = FailedAttempt {
        cause: failure.cause,
        retryable: failure.is_retryable(),
        rule: failure.rule.to_string(),
        fingerprint: fingerprint(&failure, words),
        error_type: if status.is_some() { "HttpStatus" } else { "Error" }.into(),
        error_message: words.into(),
        stack_trace: None,
        http_status: status,
        code: None,
        latency: Some(Duration::from_millis(840)),
        exit_code: None,
        output: Output::default(),
        decision: StoredDecision {
            record: decision.record(Lang::En),
            policy_version: policy.version(),
            rule: Some(failure.rule.to_string()),
            ja: decision.record(Lang::Ja),
        },
        charged_to_crashes: false,
        decided_on: redrive_store::DecidedOn::default(),
    };
    let letter = NewLetter {
        reason: if failure.is_retryable() { LetterReason::Exhausted } else { LetterReason::NonRetryable },
        context: json!({}),
        report: json!({}),
    };
    Ending::Dead { failure: Box::new(attempt), letter: Box::new(letter) }
}

/// A terminal's text as a picture: each run of one colour is a text that is as wide as its cells.
fn svg(command: &str, text: &str) -> String {
    const CELL: f64 = 8.4;
    const LINE: usize = 19;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let width = CELL.mul_add(100.0, 40.0);
    let height = (lines.len() + 2) * LINE + 46;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" viewBox=\"0 0 {width:.0} {height}\" \
         font-family=\"ui-monospace,'DejaVu Sans Mono','Noto Sans Mono CJK JP','Noto Sans CJK JP',monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#16181d\"/>\n\
         <circle cx=\"22\" cy=\"20\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"42\" cy=\"20\" r=\"6\" fill=\"#febc2e\"/>\
         <circle cx=\"62\" cy=\"20\" r=\"6\" fill=\"#28c840\"/>\n<g fill=\"#d7dae0\" xml:space=\"preserve\">\n"
    );
    let prompt = format!("\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m");
    for (row, line) in std::iter::once(prompt.as_str()).chain(std::iter::once("")).chain(lines).enumerate() {
        let y = 52 + row * LINE;
        let mut column = 0;
        let mut style = String::new();
        for (i, part) in line.split('\x1b').enumerate() {
            let (codes, words) = if i == 0 { ("", part) } else { part[1..].split_once('m').unwrap() };
            if i > 0 {
                style = if codes == "0" { String::new() } else { style + look(codes) };
            }
            // A cell that is two columns wide is placed by itself: fonts disagree on how wide it is.
            for run in runs(words) {
                let wide = unicode_width::UnicodeWidthStr::width(run);
                if !run.trim().is_empty() {
                    let x = CELL.mul_add(f64::from(u32::try_from(column).unwrap()), 20.0);
                    let length = CELL * f64::from(u32::try_from(wide).unwrap());
                    let escaped = run.replace('&', "&amp;").replace('<', "&lt;");
                    out.push_str(&format!(
                        "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\"{style}>{escaped}</text>\n"
                    ));
                }
                column += wide;
            }
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Parts that are narrow, and each wide character by itself.
fn runs(text: &str) -> Vec<&str> {
    let wide = |c: char| unicode_width::UnicodeWidthChar::width(c) == Some(2);
    let mut runs = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        if before.is_some_and(|before: bool| before || wide(c)) {
            runs.push(&text[start..at]);
            start = at;
        }
        before = Some(wide(c));
    }
    runs.push(&text[start..]);
    runs
}

const fn look(codes: &str) -> &'static str {
    match codes.as_bytes() {
        b"1" => " font-weight=\"bold\"",
        b"2" => " fill=\"#7d8590\"",
        b"31" => " fill=\"#ff7b72\"",
        b"32" => " fill=\"#56d364\"",
        b"33" => " fill=\"#e3b341\"",
        b"36" => " fill=\"#56d4dd\"",
        _ => "",
    }
}
