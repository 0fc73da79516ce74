//! A store with a past that never changes: two letters, a job that waits for its next attempt, one for its time, one
//! that is done, and a report from elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_policy::{
    Cause, Classifier, Config, Decision, Failure, History, Lang, Override, Policy, Report, Rng, decide,
    fingerprint,
};
use redrive_store::{
    DeadLetters, Ending, ErrorInfo, Events, FailedAttempt, Housekeeping, Jobs, LeaseRequest, LeasedJob,
    Leases, LetterReason, NewEvent, NewJob, NewLetter, Output, Settlement, Sqlite, SqliteOptions,
    StoredDecision, Timestamp, WorkerId, Workers,
};
use serde_json::json;

/// Eight minutes before the clock of [`super::Line`].
pub const BEGINNING: &str = "2015-10-21T07:20:00Z";

/// A store in a folder of its own.
pub struct Seeded {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Seeded {
    /// Arguments that name it.
    pub fn flags(&self) -> String {
        format!("--store sqlite:{}", self.path.display())
    }

    /// A text in which its folder has no name.
    pub fn anonymous(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "[DIR]");
        // The number of the store, and when a redrive really began and ended.
        let text = hidden(&text, "\"session_id\":\"", "[STORE]");
        hidden(&hidden(&text, "\"created_at\":\"202", "[NOW]"), "\"ended_at\":\"202", "[NOW]")
    }
}

/// The text with another value wherever one begins like that.
fn hidden(text: &str, before: &str, instead: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    let key = before.trim_end_matches(|c: char| c.is_ascii_digit());
    for part in parts {
        out.extend([key, instead, part.find('"').map_or("", |end| &part[end..])]);
    }
    out
}

/// Makes it.
pub fn seeded() -> Seeded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(write(&path));
    Seeded { folder, path }
}

pub fn at(seconds: u64) -> Timestamp {
    BEGINNING.parse::<Timestamp>().expect("a time").after(Duration::from_secs(seconds))
}

async fn write(path: &Path) {
    let store = Sqlite::open(path, SqliteOptions::default()).expect("a store");
    let worker = store.register(at(0), "a worker".into(), Duration::from_secs(3600)).await.expect("a worker");

    // job_1: a command that used up its retries.
    let nightly = NewJob {
        source: "nightly".into(),
        policy: Some("command".into()),
        ..NewJob::new("exec", "{\"argv\":[\"./nightly.sh\"]}")
    };
    store.enqueue(at(0), vec![nightly]).await.expect("job_1");
    let wish =
        Override { max_retries: Some(2), initial: Some(Duration::from_secs(2)), ..Override::default() };
    let policy = Config::default().policy("command").expect("a preset").with_override(&wish);
    for (begun, ended) in [(1, 2), (5, 7), (12, 13)] {
        let leased = lease(&store, worker, "exec", at(begun)).await;
        let said = Said {
            exit_code: Some(75),
            words: "mirror: temporarily unavailable \u{1b}[31m(try later)",
            status: None,
        };
        settle(&store, &leased, &policy, said, at(ended)).await;
    }

    // job_2: a call whose credentials were refused.
    let call = NewJob {
        caller_id: Some("invoice-7".into()),
        queue: "billing".into(),
        ..NewJob::new("http", "{\"url\":\"https://example.com/\"}")
    };
    store.enqueue(at(60), vec![call]).await.expect("job_2");
    let leased = lease(&store, worker, "http", at(61)).await;
    let said = Said { exit_code: None, words: "401 Unauthorized: token expired", status: Some(401) };
    settle(&store, &leased, &Policy::standard(), said, at(62)).await;

    // job_3: done at once. job_4: for later. job_5: waits for its next attempt.
    store.enqueue(at(120), vec![NewJob::new("exec", "{\"argv\":[\"true\"]}")]).await.expect("job_3");
    let leased = lease(&store, worker, "exec", at(121)).await;
    let ending = Ending::Succeeded {
        latency: Duration::from_millis(1_250),
        exit_code: Some(0),
        max_retries: 3,
        output: None,
    };
    store.settle(at(122), vec![Settlement { token: leased.token, ending }]).await.expect("settled");
    let later = NewJob { queue: "images".into(), run_at: Some(at(4_000)), ..NewJob::new("thumbnail", "{}") };
    store.enqueue(at(130), vec![later]).await.expect("job_4");
    store.enqueue(at(400), vec![NewJob::new("exec", "{\"argv\":[\"false\"]}")]).await.expect("job_5");
    let leased = lease(&store, worker, "exec", at(470)).await;
    let slow = Override {
        initial: Some(Duration::from_secs(60)),
        cap: Some(Duration::from_secs(60)),
        ..Override::default()
    };
    let said = Said { exit_code: Some(1), words: "connect to db:5432: connection refused", status: None };
    settle(&store, &leased, &Policy::standard().with_override(&slow), said, at(471)).await;

    // What a program reported.
    let error = ErrorInfo {
        error_type: "ValueError".into(),
        error_message: "列が足りません\u{202e}".into(),
        error_category: Cause::ValidationError.error_category(),
        stack_trace: None,
        more: serde_json::Map::new(),
    };
    let event = NewEvent {
        event_type: "import".into(),
        source: "loader".into(),
        data: json!({"rows": 7}),
        tags: vec!["batch".into()],
        error_info: Some(error),
        ..NewEvent::default()
    };
    store.append(at(475), vec![event]).await.expect("an event");
    store.unregister(at(476), worker).await.expect("gone");
    store.close().await.expect("closed");
}

/// What a failure said.
pub struct Said {
    pub exit_code: Option<i32>,
    pub words: &'static str,
    pub status: Option<u16>,
}

pub async fn lease(store: &Sqlite, worker: WorkerId, kind: &str, now: Timestamp) -> LeasedJob {
    let request = LeaseRequest {
        worker,
        queues: Vec::new(),
        kinds: vec![kind.to_owned()],
        reserved_only: false,
        max: 1,
        lease_for: Duration::from_secs(30),
        begin: true,
        wait: Duration::ZERO,
    };
    store.lease(now, request).await.expect("a lease").pop().expect("a job")
}

pub async fn settle(store: &Sqlite, leased: &LeasedJob, policy: &Policy, said: Said, now: Timestamp) {
    let report = Report { exit_code: said.exit_code, http_status: said.status, ..Report::text(said.words) };
    let failure = Classifier::built_in().classify(&report);
    let history = History { retry_count: leased.retries, ..History::default() };
    let decision = decide(policy, &failure, &history, &mut Rng::seeded(1));
    let attempt = failed(&failure, &decision, &said, policy);
    let ending = if let Some(delay) = decision.delay() {
        Ending::Retry {
            run_at: now.after(delay),
            delay,
            held_for: None,
            hint: None,
            failure: Box::new(attempt),
        }
    } else {
        let reason = if leased.retries > 0 { LetterReason::Exhausted } else { LetterReason::NonRetryable };
        let letter = NewLetter {
            reason,
            context: json!({"queue": leased.job.queue, "attempt": leased.attempt}),
            report: json!({"recommended_actions": ["Look at the credentials."]}),
        };
        Ending::Dead { failure: Box::new(attempt), letter: Box::new(letter) }
    };
    let settled = store.settle(now, vec![Settlement { token: leased.token, ending }]).await.expect("settled");
    assert_eq!(settled.len(), 1);
}

fn failed(failure: &Failure, decision: &Decision, said: &Said, policy: &Policy) -> FailedAttempt {
    FailedAttempt {
        cause: failure.cause,
        retryable: failure.is_retryable(),
        rule: failure.rule.to_string(),
        fingerprint: fingerprint(failure, said.words),
        error_type: if said.exit_code.is_some() { "ExitStatus" } else { "HttpStatus" }.into(),
        error_message: said.words.into(),
        stack_trace: None,
        http_status: said.status,
        code: None,
        latency: Some(Duration::from_millis(1_000)),
        exit_code: said.exit_code,
        output: Output::default(),
        decision: StoredDecision {
            record: decision.record(Lang::En),
            policy_version: policy.version(),
            rule: Some(failure.rule.to_string()),
            ja: decision.record(Lang::Ja),
        },
        charged_to_crashes: false,
        decided_on: redrive_store::DecidedOn::default(),
    }
}

/// Whether everything in a store is as it must be.
pub fn is_sound(path: &Path) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store =
            Sqlite::open(path, SqliteOptions { create: false, ..SqliteOptions::default() }).expect("a store");
        let report = store.check().await.expect("a report");
        assert!(report.is_clean(), "{:?}", report.violations);
        let letters = store.letters(redrive_store::LetterFilter::default(), 10_000).await.expect("letters");
        u64::try_from(letters.len()).ok() == store.status(at(0)).await.ok().map(|status| status.dead_letters)
    })
}

/// What the handler of a job would get.
pub fn payload(path: &Path, job: i64) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Sqlite::open(path, SqliteOptions::default()).expect("a store");
        let record = store.job(redrive_store::JobId(job)).await.expect("an answer").expect("a job");
        String::from_utf8(record.job.expect("unfinished").payload).expect("text")
    })
}
