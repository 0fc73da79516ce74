//! Looking at a store with the real binary, on both back ends: filters, pages, beginnings of ids, ids from stdin, reports,
//! traces, purges, and readers that leave (R-C1, R-E3, R-T9).

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::HashSet;
use std::io::{BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redrive::engine::{Context, Engine, ManualClock};
use redrive::{Cause, Override, fail};
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store, Timestamp};
use serde_json::Value;

/// A store of its own that two processes see.
struct Place {
    url: String,
    folder: tempfile::TempDir,
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Place {
    fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { url: format!("sqlite:{}", folder.path().join("store.db").display()), folder }
    }

    fn postgres() -> Option<Place> {
        let Some(shared) = redrive_testing::shared() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
            eprintln!("SKIPPED: PostgreSQL is missing");
            return None;
        };
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}schema={}", shared.url(), shared.schema());
        Some(Place { url, folder: tempfile::tempdir().unwrap() })
    }

    async fn open(&self) -> Arc<dyn Store> {
        if let Some(path) = self.url.strip_prefix("sqlite:") {
            return Arc::new(Sqlite::open(path.as_ref(), SqliteOptions::default()).unwrap());
        }
        // What is written here happened before: our clock decides.
        let options = PostgresOptions { caller_clock: true, ..PostgresOptions::default() };
        Arc::new(Postgres::open(&self.url, options).await.unwrap())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("REDRIVE_STORE", &self.url)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn redrive(&self, words: &[&str]) -> Ran {
        self.reading("", words)
    }

    /// With this on its stdin.
    fn reading(&self, input: &str, words: &[&str]) -> Ran {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        // Whoever refuses early does not read to the end.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The document that a command prints.
    fn json(&self, words: &[&str]) -> Value {
        let ran = self.redrive(&[words, &["--json"]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{words:?}: {ran}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{words:?}: {error} {ran}"))
    }

    /// How many a list has.
    fn count(&self, words: &[&str]) -> usize {
        self.json(words)["items"].as_array().unwrap().len()
    }
}

fn ids(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// Two hours ago 20 mails and 10 bills failed for good, a minute ago 5 more mails; 3 imports failed without a letter.
async fn write(place: &Place) {
    let store = place.open().await;
    let now = Timestamp::from_system(SystemTime::now());
    let clock = Arc::new(ManualClock::at(now.before(Duration::from_hours(2))));
    let engine = Engine::builder(Arc::clone(&store)).clock(Arc::clone(&clock) as _).seed(7).build().unwrap();
    let once = Override { max_retries: Some(0), ..Override::default() };
    let enqueue = async |kind: &str, queue: &str, n: u32| {
        for i in 0..n {
            let job = engine.job(kind, &i).queue(queue).caller_id(format!("{queue}-{i}")).overrides(&once);
            job.enqueue().await.unwrap();
        }
    };
    let work = async || {
        let worker = engine.worker().handle("send", |n: u32, _: Context| async move {
            Err::<(), _>(fail(Cause::Network, format!("smtp timed out for user {n} (接続)")))
        });
        let worker = worker.handle("charge", |_: u32, _: Context| async move {
            Err::<(), _>(fail(Cause::AuthError, "invalid API key"))
        });
        worker.concurrency(1).wait(Duration::from_millis(5)).run_until_empty().await.unwrap();
    };
    enqueue("send", "mail", 20).await;
    enqueue("charge", "bill", 10).await;
    work().await;
    for i in 0..3 {
        engine.emit("import", "loader").exit_code(i + 1).tags(["batch"]).await.unwrap();
        clock.advance(Duration::from_mins(1));
    }
    clock.advance(Duration::from_mins(116));
    enqueue("send", "mail", 5).await;
    work().await;
    store.close().await.unwrap();
}

fn seeded(place: &Place) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(write(place));
}

/// The same questions on both back ends.
fn everything(place: &Place) {
    seeded(place);
    letters_are_found(place);
    pages_follow_each_other(place);
    failures_without_a_letter(place);
    ids_by_their_beginning(place);
    ids_from_stdin(place);
    exports(place);
    a_trace(place);
    readers_leave(place);
    purging(place);
}

fn letters_are_found(place: &Place) {
    for (filter, found) in [
        ("queue=mail", 25),
        ("queue=bill and cause=auth_error", 10),
        ("class=transient", 25),
        ("class in (transient, permanent)", 35),
        ("cause in (network, timeout) and queue!=bill", 25),
        ("error~'TIMED out.*接続'", 25),
        ("error~\"user 1\\d \"", 10),
        ("error!~smtp", 10),
        ("age>1h and queue=mail", 20),
        ("age<1h", 5),
        ("not (age>1h or queue=bill)", 5),
        ("caller_id=mail-3", 2),
        ("caller_id~^bill-[0-4]$", 5),
        ("kind=charge or error~\"user 19 \"", 11),
        ("id in (1, job_2, 9999)", 2),
        ("id<=3 and attempts=1 and retries=0 and redrives=0", 3),
        ("reason=exhausted or reason=non_retryable", 35),
        ("retryable=false", 10),
        ("queue=nobody", 0),
        ("group=zzz", 0),
    ] {
        assert_eq!(place.count(&["dlq", "list", "--limit", "1000", "--where", filter]), found, "{filter}");
    }
    let group = place.json(&["dlq", "--limit", "1"])["items"][0]["fingerprint"].as_str().unwrap().to_owned();
    let begin = format!("group={}", &group[..8]);
    assert_eq!(place.count(&["dlq", "list", "--limit", "1000", "--where", &begin]), 25, "{begin}");
    assert_eq!(place.count(&["dlq", "--queue", "mail", "--where", "age<1h"]), 5, "flags and a filter");
    assert_eq!(place.count(&["retry-candidates", "--limit", "100"]), 25);
    assert_eq!(place.count(&["retry-candidates", "--limit", "100", "--where", "error~\"user 7 \""]), 1);
}

fn pages_follow_each_other(place: &Place) {
    for filter in ["queue=mail", "error~smtp", "age>1h"] {
        let whole = ids(&place.json(&["dlq", "list", "--limit", "1000", "--where", filter]));
        let mut paged = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut words = vec!["dlq", "list", "--limit", "7", "--where", filter];
            words.extend(next.iter().flat_map(|next| ["--after", next.as_str()]));
            let page = place.json(&words);
            paged.extend(ids(&page));
            match page["next"].as_str() {
                Some(after) => next = Some(after.to_owned()),
                None => break,
            }
        }
        assert_eq!(paged, whole, "{filter}");
        assert_eq!(paged.iter().collect::<HashSet<_>>().len(), whole.len(), "{filter}");
    }
    let ran = place.redrive(&["dlq", "list", "--limit", "7", "--where", "error~'timed out'", "--plain"]);
    let page = ran.stdout.lines().find_map(|line| line.strip_prefix("Shown: 7; the next page: redrive "));
    let command = page.unwrap_or_else(|| panic!("{ran}"));
    assert!(command.starts_with("dlq list --limit 7 --where 'error~\"timed out\"' --after job_"), "{ran}");
    let ran = place.redrive(&["dlq", "--limit", "2", "--after", "job_1"]);
    assert_eq!(ran.code, 0, "by its id alone: {ran}");
}

fn failures_without_a_letter(place: &Place) {
    let failed = place.json(&["failed"]);
    assert_eq!((failed["schema"].as_str(), ids(&failed).len()), (Some("redrive/failed.v1"), 3), "{failed}");
    assert_eq!(failed["items"][0]["exit_code"], 3, "the newest first");
    assert_eq!(place.count(&["failed", "--where", "source=loader and exit_code>=2"]), 2);
    assert_eq!(place.count(&["failed", "--where", "tag!=batch"]), 0);
    let page = place.json(&["failed", "--limit", "2"]);
    let after = page["next"].as_str().unwrap();
    let rest = place.json(&["failed", "--limit", "2", "--after", after]);
    assert_eq!([ids(&page), ids(&rest)].concat(), ids(&failed));
    assert_eq!(rest["next"], Value::Null);
    let status = place.json(&["status"]);
    assert_eq!(
        (&status["failed_events"], &status["dead_letter_queue"], &status["retry_candidates"]),
        (&3.into(), &35.into(), &25.into())
    );
}

fn ids_by_their_beginning(place: &Place) {
    let failed = ids(&place.json(&["failed"]));
    // A minute apart: the minute is enough.
    let begin = &failed[0]["EVT-".len()..]["20261115-1103".len()..];
    let begin = &failed[0][..failed[0].len() - begin.len()];
    let detail = place.json(&["detail", begin]);
    assert_eq!((&detail["id"], &detail["exit_code"]), (&failed[0].as_str().into(), &3.into()), "{detail}");
    let ran = place.redrive(&["detail", "EVT-2"]);
    assert!(ran.code == 2 && ran.stderr.contains("is the beginning of several ids: EVT-2"), "{ran}");
    assert_eq!(ran.stderr.matches("EVT-").count(), 6, "{ran}");
    for unknown in ["EVT-1999", "job_9999"] {
        let ran = place.redrive(&["detail", unknown]);
        assert!(ran.code == 3 && ran.stderr.contains(unknown) && ran.stderr.contains("\nhint: "), "{ran}");
        assert_eq!(place.redrive(&["trace", unknown]).code, 3);
    }
    let letter = place.json(&["dlq", "--limit", "1"])["items"][0].clone();
    let by_event = place.json(&["explain", letter["event_id"].as_str().unwrap()]);
    assert_eq!(by_event["id"], letter["id"]);
    let job = place.json(&["detail", letter["id"].as_str().unwrap()]);
    assert_eq!((&job["id"], &job["dead_letter"]), (&letter["event_id"], &true.into()));
}

fn ids_from_stdin(place: &Place) {
    let bills = ["dlq", "list", "--where", "queue=bill"];
    for form in ["--plain", "--json"] {
        let listed = place.redrive(&[bills.as_slice(), &[form]].concat());
        let ran = place.reading(&listed.stdout, &["explain", "-", "--json"]);
        assert_eq!((ran.code, ran.stdout.lines().count()), (0, 10), "{form}: {ran}");
        assert!(ran.stdout.lines().all(|line| line.contains("\"state\":\"dead\"")), "{ran}");
    }
    let ran = place.reading("job_1\n\njob_9999\n", &["detail", "-", "--json"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (4, 1), "{ran}");
    let ran = place.reading("job_1\nnonsense\n", &["explain", "-"]);
    assert!(ran.code == 2 && ran.stderr.contains("line 2 of stdin names no id: nonsense"), "{ran}");
    let ran = place.reading("", &["explain", "-"]);
    assert_eq!(ran.code, 3, "{ran}");
}

fn exports(place: &Place) {
    let ran = place.redrive(&["export", "--where", "source=loader or queue=bill and status=dead_letter"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 13), "{ran}");
    let events =
        place.redrive(&["events", "--json", "--limit", "1000", "--where", "queue=bill and cause=auth_error"]);
    assert_eq!((events.code, events.stdout.lines().count()), (0, 10), "{events}");
    for (filter, failed, dead, candidates) in
        [(None, 3, 35, 25), (Some("age>1h"), 3, 30, 20), (Some("error~smtp"), 0, 25, 25)]
    {
        let file = place.folder.path().join("report.json");
        let mut words = vec!["export", "--report", "report.json"];
        words.extend(filter.iter().flat_map(|filter| ["--where", *filter]));
        let ran = place.redrive(&words);
        assert!(ran.code == 0 && ran.stderr.contains("report.json"), "{ran}");
        let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for (list, expected) in
            [("failed_events", failed), ("dead_letter_queue", dead), ("retry_candidates", candidates)]
        {
            assert_eq!(report[list].as_array().unwrap().len(), expected, "{filter:?} {list}");
            assert_eq!(report["summary"][list], expected, "{filter:?} {list}");
        }
        assert!(report["generated_at"].as_str().unwrap().ends_with('Z'));
        std::fs::remove_file(file).unwrap();
    }
    let ran = place.redrive(&["export", "--report", "-", "--where", "importance=5"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("there is no field \"importance\""),
        "letters have none: {ran}"
    );
}

fn a_trace(place: &Place) {
    let ran = place.redrive(&["trace", "job_1", "--raw"]);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((ran.code, events), (0, vec!["ESCALATE_DECISION", "ESCALATE_EXECUTED"]), "{ran}");
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["session_id"].is_string(), "{line}");
        assert_eq!(line["task_id"], "job_1");
    }
    assert_eq!(lines[0]["iteration_index"], 1);
    let trace = place.json(&["trace", "1", "--latest"]);
    assert_eq!(trace["summary"]["final_status"], "ESCALATE", "{trace}");
}

fn readers_leave(place: &Place) {
    for words in [
        vec!["export"],
        vec!["export", "--report", "-"],
        vec!["events", "--limit", "1000", "--json"],
        vec!["dlq", "--limit", "1000", "--json"],
        vec!["dlq", "--limit", "1000", "--plain"],
        vec!["failed", "--plain"],
        vec!["retry-candidates", "--plain", "--limit", "1000"],
        vec!["detail", "job_1"],
        vec!["trace", "job_1", "--raw"],
        vec!["explain", "job_1"],
    ] {
        let mut child = place.command(&words).spawn().unwrap();
        let mut first = [0; 1];
        BufReader::with_capacity(1, child.stdout.take().unwrap()).read_exact(&mut first).unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{words:?}");
    }
}

fn purging(place: &Place) {
    let dry = place.json(&["purge", "--older-than", "1h", "--dry-run"]);
    assert_eq!((&dry["purged"], &dry["kept"], &dry["dry_run"]), (&30.into(), &5.into(), &true.into()));
    let ran = place.redrive(&["purge", "--older-than", "1h", "--json"]);
    assert!(ran.code == 2 && ran.stderr.contains("redrive purge --older-than 1h --yes"), "{ran}");
    assert_eq!(place.count(&["dlq", "--limit", "1000"]), 35, "nothing was done");
    let purged = place.json(&["purge", "--older-than", "1h", "--yes"]);
    assert_eq!((&purged["purged"], &purged["kept"]), (&30.into(), &5.into()), "{purged}");
    assert_eq!(place.count(&["dlq", "--limit", "1000"]), 5);
    let ran = place.redrive(&["purge"]);
    assert!(ran.code == 0 && ran.stdout.contains("No dead letter is older than 30d; 5 kept."), "{ran}");
    let ran = place.redrive(&["store", "check"]);
    assert_eq!(ran.code, 0, "{ran}");
}

/// R-C1, R-E3, R-T9: on the embedded store.
#[test]
fn everything_is_found_on_sqlite() {
    everything(&Place::sqlite());
}

/// R-C1, R-E3, R-T9: on PostgreSQL.
#[test]
fn everything_is_found_on_postgres() {
    if let Some(place) = Place::postgres() {
        everything(&place);
    }
}
