//! What tests begin with: times, jobs, failures and endings in their plainest form, and how a whole store is looked at.
//!
//! Everything here goes through the traits, so it serves every back end.
// Each test binary takes what it needs.
#![allow(dead_code)]

#[path = "../history/mod.rs"]
pub(crate) mod history;

use std::time::Duration;

use redrive_policy::protection::ParkedWhy;
use redrive_policy::{Cause, Class, DecisionKind, DecisionRecord};
use redrive_store::{
    Ending, Event, EventFilter, FailedAttempt, JobId, JobRecord, LeaseRequest, LeaseToken, LeasedJob,
    LetterFilter, LetterReason, NewJob, NewLetter, Order, Output, Parked, Settled, Settlement, Store,
    StoreStatus, StoredDecision, Timestamp, WorkerId,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// So many milliseconds after the time at which most tests begin.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

pub(crate) fn job(kind: &str) -> NewJob {
    NewJob::new(kind, kind.as_bytes())
}

/// Whatever of these kinds is due, begun at once, without waiting.
pub(crate) fn wants(worker: WorkerId, kinds: &[&str], max: usize) -> LeaseRequest {
    LeaseRequest {
        worker,
        queues: Vec::new(),
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        reserved_only: false,
        max,
        lease_for: LEASE,
        begin: true,
        wait: Duration::ZERO,
    }
}

pub(crate) fn failure(cause: Cause, message: &str) -> Box<FailedAttempt> {
    let record = DecisionRecord {
        decision: DecisionKind::Retry,
        failure_type: Some(cause.failure_type()),
        cause: Some(cause),
        current_retry_count: 0,
        max_retries: 3,
        delay_ms: Some(1_000),
        modification_hint: None,
        escalate_reason: None,
        reasoning: "because".to_owned(),
        policy: "standard".to_owned(),
        strategy: None,
    };
    let decision = StoredDecision {
        record: record.clone(),
        policy_version: "v1".to_owned(),
        rule: Some("test".to_owned()),
        ja: record,
    };
    Box::new(FailedAttempt {
        cause,
        retryable: cause.class() == Class::Transient,
        rule: "test".to_owned(),
        fingerprint: format!("print of {message}"),
        error_type: "TestError".to_owned(),
        error_message: message.to_owned(),
        stack_trace: None,
        http_status: Some(503),
        code: Some("E1".to_owned()),
        latency: Some(Duration::from_millis(7)),
        exit_code: Some(75),
        output: Output { stdout: None, stderr: Some("oh".to_owned()) },
        decision,
        charged_to_crashes: cause == Cause::Crashed,
        decided_on: redrive_store::DecidedOn::default(),
    })
}

pub(crate) fn success() -> Ending {
    Ending::Succeeded { latency: Duration::from_millis(3), exit_code: Some(0), max_retries: 3, output: None }
}

pub(crate) fn retry(run_at: Timestamp) -> Ending {
    retry_after(Cause::Network, run_at, None)
}

pub(crate) fn retry_after(cause: Cause, run_at: Timestamp, held_for: Option<WorkerId>) -> Ending {
    let failure = failure(cause, "it failed");
    Ending::Retry { run_at, delay: SECOND, held_for, hint: None, failure }
}

pub(crate) fn dead(cause: Cause, message: &str) -> Ending {
    let letter = NewLetter {
        reason: LetterReason::Exhausted,
        context: serde_json::json!({ "where": "here" }),
        report: serde_json::json!({ "report": 1 }),
    };
    Ending::Dead { failure: failure(cause, message), letter: Box::new(letter) }
}

pub(crate) fn released() -> Ending {
    Ending::Released { why: "not mine".to_owned() }
}

/// A host that has failed too often.
pub(crate) fn parked(run_at: Timestamp, held_for: Option<WorkerId>) -> Ending {
    let why = ParkedWhy::Open { failed: 37, calls: 40 };
    let parked = Parked { target: "host:api.example.com".to_owned(), why };
    Ending::Parked { run_at, held_for, parked: Box::new(parked) }
}

pub(crate) fn cancelled() -> Ending {
    Ending::Cancelled { why: "no more".to_owned(), exit_code: None }
}

/// Short cuts through the traits; what goes wrong is a panic.
pub(crate) struct Hand<'a>(pub(crate) &'a dyn Store);

impl Hand<'_> {
    pub(crate) async fn worker(&self) -> WorkerId {
        self.0.register(at(0), "test".to_owned(), Duration::from_mins(1)).await.unwrap()
    }

    pub(crate) async fn add(&self, job: NewJob) -> JobId {
        self.add_at(at(0), job).await
    }

    pub(crate) async fn add_at(&self, now: Timestamp, job: NewJob) -> JobId {
        let added = self.0.enqueue(now, vec![job]).await.unwrap();
        assert!(!added[0].existing, "{} was there already", added[0].id);
        added[0].id
    }

    /// The one job of these kinds that is due.
    pub(crate) async fn take(&self, now: Timestamp, worker: WorkerId, kinds: &[&str]) -> LeasedJob {
        let mut leased = self.0.lease(now, wants(worker, kinds, 1)).await.unwrap();
        leased.pop().expect("nothing was due")
    }

    pub(crate) async fn settle(&self, now: Timestamp, token: LeaseToken, ending: Ending) -> Settled {
        self.0.settle(now, vec![Settlement { token, ending }]).await.unwrap()[0]
    }

    /// Settles, and it must hold.
    pub(crate) async fn done(&self, now: Timestamp, token: LeaseToken, ending: Ending) {
        let settled = self.settle(now, token, ending).await;
        assert!(matches!(settled, Settled::Done { .. }), "{token:?} was stale");
    }

    /// A job that was tried once and set aside.
    pub(crate) async fn letter(&self, now: Timestamp, worker: WorkerId, new: NewJob, cause: Cause) -> JobId {
        let kind = new.kind.clone();
        let id = self.add_at(now, new).await;
        let leased = self.take(now, worker, &[&kind]).await;
        assert_eq!(leased.token.job, id);
        self.done(now, leased.token, dead(cause, "it is dead")).await;
        id
    }

    pub(crate) async fn record(&self, id: JobId) -> JobRecord {
        self.0.job(id).await.unwrap().expect("no such job")
    }

    /// A job's story, the oldest first.
    pub(crate) async fn story(&self, id: JobId) -> Vec<Event> {
        let filter = EventFilter { job: Some(id), order: Order::OldestFirst, ..EventFilter::default() };
        self.0.events(filter, 10_000).await.unwrap()
    }

    /// The types of a job's events, the oldest first.
    pub(crate) async fn types(&self, id: JobId) -> Vec<String> {
        self.story(id).await.into_iter().map(|event| event.event_type).collect()
    }

    /// Everything that can be seen of the store, for comparing.
    pub(crate) async fn everything(&self) -> (StoreStatus, Vec<Event>, Vec<JobRecord>, usize) {
        let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
        let events = self.0.events(filter, 100_000).await.unwrap();
        let mut ids: Vec<_> = events.iter().filter_map(|event| event.job).collect();
        ids.sort();
        ids.dedup();
        let mut records = Vec::new();
        for id in ids {
            records.extend(self.0.job(id).await.unwrap());
        }
        let letters = self.0.letters(LetterFilter::default(), 100_000).await.unwrap().len();
        (self.0.status(at(0)).await.unwrap(), events, records, letters)
    }

    /// `store check` finds nothing, and the log tells nothing that the protocol forbids.
    pub(crate) async fn clean(&self) {
        let report = self.0.check().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
        assert!(report.checked.len() > 5, "next to nothing was checked");
        history::replay(self.0, history::Writers::Tests).await.must_hold();
    }
}
