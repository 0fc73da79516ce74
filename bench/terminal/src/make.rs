//! A store with a month behind it, made through the store's own door: jobs are enqueued, leased and settled, in thirty lanes,
//! with what the classifier, the policy and the escalation report really say. Only the clock is ours, and acknowledged work
//! need not survive a power cut while it is made. The large store is ten times the small one, in the store's own tables: an
//! hour's work through the door becomes minutes. `redrive store check` judges it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use redrive_policy::{
    Classifier, Decision, EscalateSettings, Escalation, History, Lang, Policy, Report, RetryAttempt, Rng,
    decide, fingerprint,
};
use redrive_store::{
    DecidedOn, Durability, Ending, ErrorInfo, Events, FailedAttempt, Housekeeping, Jobs, LeaseRequest,
    LeasedJob, Leases, LetterReason, NewEvent, NewJob, NewLetter, Output, Settlement, Sqlite, SqliteOptions,
    StoredDecision, Timestamp, WorkerId, Workers,
};
use serde_json::json;

use crate::failures::{Failing, failing, some_sort};

const QUEUES: &[&str] = &["mail", "billing", "images", "search", "webhooks", "reports"];
const KINDS: &[&str] = &["send", "render", "sync", "import", "notify"];
const MONTH: Duration = Duration::from_secs(30 * 86_400);
/// Jobs that are enqueued together; they share a minute.
const CHUNK: u64 = 500;

/// How much is made.
#[derive(Clone, Copy)]
pub struct Amount {
    pub letters: u64,
    pub events: u64,
}

/// A job that will fail for good is told from one that succeeds by its source.
const FAILS: &str = "nightly-sync";
const SUCCEEDS: &str = "hourly-sync";

struct Maker {
    store: Sqlite,
    worker: WorkerId,
    rng: Rng,
    policy: Policy,
    version: String,
    classifier: &'static Classifier,
    events: u64,
    letters: u64,
}

/// A new store under another name, which it keeps until it is whole.
fn begin(path: &Path) -> (PathBuf, Sqlite) {
    let unfinished = path.with_extension("unfinished");
    for suffix in ["", "-wal", "-shm", "-reserve"] {
        let _absent = std::fs::remove_file(format!("{}{suffix}", unfinished.display()));
    }
    let options =
        SqliteOptions { durability: Durability::RelaxedMayLoseAcknowledgedWork, ..SqliteOptions::default() };
    let store = Sqlite::open(&unfinished, options).expect("a store");
    (unfinished, store)
}

fn finish(unfinished: &Path, path: &Path, began: Instant) {
    for suffix in ["-reserve", ""] {
        let from = format!("{}{suffix}", unfinished.display());
        std::fs::rename(from, format!("{}{suffix}", path.display())).expect("renamed");
    }
    eprintln!("made it in {:.0} s", began.elapsed().as_secs_f64());
}

/// Ten times the small one.
pub async fn multiply(small: &Path, path: &Path) {
    let began = Instant::now();
    let (unfinished, store) = begin(path);
    store.close().await.expect("closed");
    drop(store);
    let connection = rusqlite::Connection::open(&unfinished).expect("the file");
    // It is whole or it is made anew: nothing is journalled, and its indexes are written in memory.
    connection
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2000000;")
        .expect("set up");
    let small = format!("file:{}?mode=ro", small.display());
    connection.execute("ATTACH ? AS small", [small]).expect("the small one");
    connection
        .execute_batch(&format!("BEGIN; {} COMMIT;", include_str!("multiply.sql")))
        .expect("multiplied");
    drop(connection);
    finish(&unfinished, path, began);
}

/// Makes it through the door.
pub async fn make(path: &Path, amount: Amount) {
    let began = Instant::now();
    let (unfinished, store) = begin(path);
    let now = Timestamp::from_system(SystemTime::now());
    let start = now.before(MONTH);
    let worker = store.register(start, "bench".into(), 2 * MONTH).await.expect("a worker");
    let policy = Policy::standard();
    let mut maker = Maker {
        store,
        worker,
        rng: Rng::seeded(5),
        version: policy.version(),
        policy,
        classifier: Classifier::built_in(),
        events: 0,
        letters: 0,
    };
    let mut told = Instant::now();
    while maker.letters < amount.letters {
        let done = maker.letters as f64 / amount.letters as f64;
        let at = start.after(MONTH.mul_f64(done * 0.999));
        maker.chunk(at, amount, done).await;
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            eprintln!("made {} letters, {} events", maker.letters, maker.events);
        }
    }
    // What waits now, half of it for its time.
    let later = now.after(Duration::from_secs(3_600));
    let waiting =
        (0..2_000).map(|n| NewJob { run_at: (n % 2 == 0).then_some(later), ..maker.job(SUCCEEDS) }).collect();
    maker.store.enqueue(now, waiting).await.expect("enqueued");
    maker.store.unregister(now, maker.worker).await.expect("gone");
    maker.store.close().await.expect("closed");
    drop(maker);
    finish(&unfinished, path, began);
}

impl Maker {
    fn job(&mut self, source: &str) -> NewJob {
        let rng = &mut self.rng;
        // Squared: the first queues and kinds have the most.
        let queue = QUEUES[(rng.between(0, 35) as f64).sqrt() as usize];
        let kind = KINDS[(rng.between(0, 24) as f64).sqrt() as usize];
        let caller_id = match rng.between(0, 9) {
            0..=2 => Some(format!("order-{:010}", rng.between(0, 9_999_999_999))),
            3..=5 => Some(format!("tenant-{}", rng.between(0, 4_999))),
            _ => None,
        };
        let size = rng.between(200, 2_000) as usize;
        let mut payload = format!("{{\"order\":\"{:016x}\",\"lines\":[", rng.next_u64());
        while payload.len() < size - 40 {
            payload.push_str(&format!(
                "{{\"sku\":\"{:08x}\",\"n\":{}}},",
                rng.next_u64() >> 32,
                rng.between(1, 9)
            ));
        }
        payload.push_str("null]}");
        NewJob { queue: queue.to_owned(), caller_id, source: source.to_owned(), ..NewJob::new(kind, payload) }
    }

    /// Some jobs that die and as many that succeed as there are events left for.
    async fn chunk(&mut self, at: Timestamp, amount: Amount, done: f64) {
        let dying = CHUNK.min(amount.letters - self.letters);
        let owed = (amount.events as f64 * done - self.events as f64).max(0.0);
        let fine = ((owed / 3.0) as u64).min(4 * CHUNK);
        let mut jobs: Vec<NewJob> = (0..dying).map(|_| self.job(FAILS)).collect();
        jobs.extend((0..fine).map(|_| self.job(SUCCEEDS)));
        self.events += jobs.len() as u64;
        self.store.enqueue(at, jobs).await.expect("enqueued");
        let mut now = at;
        loop {
            now = now.after(Duration::from_millis(300));
            let request = LeaseRequest {
                worker: self.worker,
                queues: Vec::new(),
                kinds: KINDS.iter().map(|kind| (*kind).to_owned()).collect(),
                reserved_only: false,
                max: 250,
                lease_for: Duration::from_secs(30),
                begin: true,
                wait: Duration::ZERO,
            };
            let leased = self.store.lease(now, request).await.expect("leased");
            if leased.is_empty() {
                if self.letters >= dying_goal(amount, done, dying) {
                    break;
                }
                now = now.after(Duration::from_secs(5));
                continue;
            }
            now = now.after(Duration::from_millis(self.rng.between(5, 2_000)));
            self.events += 2 * leased.len() as u64;
            let settlements = leased.iter().map(|leased| self.settlement(leased, now)).collect();
            self.store.settle(now, settlements).await.expect("settled");
        }
        // What a program reported that has no job, and failed.
        let reported = (0..5).map(|_| {
            let failing = failing(some_sort(&mut self.rng), &mut self.rng);
            let report = Report { http_status: failing.http_status, ..Report::text(&failing.words) };
            let error = ErrorInfo {
                error_type: failing.error_type.to_owned(),
                error_category: self.classifier.classify(&report).cause.error_category(),
                error_message: failing.words.clone(),
                stack_trace: None,
                more: serde_json::Map::new(),
            };
            NewEvent {
                event_type: "observation".into(),
                source: "loader".into(),
                error_info: Some(error),
                ..NewEvent::default()
            }
        });
        let reported: Vec<NewEvent> = reported.collect();
        self.events += reported.len() as u64;
        self.store.append(now, reported).await.expect("appended");
    }

    fn settlement(&mut self, leased: &LeasedJob, now: Timestamp) -> Settlement {
        let latency = Duration::from_millis(self.rng.between(5, 2_000));
        if leased.job.source == SUCCEEDS {
            let ending = Ending::Succeeded { latency, exit_code: None, max_retries: 3, output: None };
            return Settlement { token: leased.token, ending };
        }
        // A job fails in the same way each time.
        let mut sort_of = Rng::seeded(leased.job.id.0.cast_unsigned());
        let told = failing(some_sort(&mut sort_of), &mut self.rng);
        let report =
            Report { http_status: told.http_status, exit_code: told.exit_code, ..Report::text(&told.words) };
        let failure = self.classifier.classify(&report);
        let history = History { retry_count: leased.retries, ..History::default() };
        let decision = decide(&self.policy, &failure, &history, &mut self.rng);
        let attempt = FailedAttempt {
            cause: failure.cause,
            retryable: failure.is_retryable(),
            rule: failure.rule.to_string(),
            fingerprint: fingerprint(&failure, &told.words),
            error_type: told.error_type.to_owned(),
            error_message: told.words.clone(),
            stack_trace: None,
            http_status: told.http_status,
            code: None,
            latency: Some(latency),
            exit_code: told.exit_code,
            output: Output::default(),
            decision: StoredDecision {
                record: decision.record(Lang::En),
                policy_version: self.version.clone(),
                rule: Some(failure.rule.to_string()),
                ja: decision.record(Lang::Ja),
            },
            charged_to_crashes: false,
            decided_on: DecidedOn::default(),
        };
        let ending = match decision.delay() {
            Some(delay) => Ending::Retry {
                run_at: now.after(delay),
                delay,
                held_for: None,
                hint: None,
                failure: Box::new(attempt),
            },
            None => {
                self.letters += 1;
                let letter = letter(leased, &decision, &attempt, &told, now);
                Ending::Dead { failure: Box::new(attempt), letter: Box::new(letter) }
            }
        };
        Settlement { token: leased.token, ending }
    }
}

/// How many letters there are when this chunk is over.
fn dying_goal(amount: Amount, done: f64, dying: u64) -> u64 {
    (done * amount.letters as f64).round() as u64 + dying
}

/// As the engine writes it.
fn letter(
    leased: &LeasedJob,
    decision: &Decision,
    failed: &FailedAttempt,
    told: &Failing,
    now: Timestamp,
) -> NewLetter {
    let attempts: Vec<RetryAttempt> = (1..=leased.attempt)
        .map(|number| RetryAttempt {
            attempt_number: number,
            timestamp: now.to_string(),
            failure_type: failed.cause.failure_type(),
            cause: failed.cause,
            error_message: told.words.clone(),
            duration_ms: 700,
        })
        .collect();
    let task_id = leased.job.id.to_string();
    let report = Escalation {
        task_id: &task_id,
        subtask_id: None,
        task_summary: &leased.job.source,
        decision,
        attempts: &attempts,
        escalated_at: &now.to_string(),
        trace_file: None,
        relevant_logs: &[],
    }
    .report(&EscalateSettings::default(), Lang::En);
    NewLetter {
        reason: if leased.retries > 0 { LetterReason::Exhausted } else { LetterReason::NonRetryable },
        context: json!({
            "action": leased.job.source, "queue": leased.job.queue, "kind": leased.job.kind,
            "attempt": leased.attempt, "http_status": told.http_status, "caller_id": leased.job.caller_id,
        }),
        report: serde_json::to_value(report).expect("JSON"),
    }
}
