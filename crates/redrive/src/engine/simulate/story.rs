//! From a job's events to its record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::simulate::{
    CameTo, Decided, Did, Fact, Moment, RecordedAttempt, RecordedFailure, RecordedJob, TargetId, Targets,
};
use redrive_policy::{Cause, Class, Code, Failure, RuleId, Verdict};
use redrive_store::{DecidedOn, Event, EventStatus, JobId, Timestamp};
use serde_json::Value;

/// A job that is read, or has been.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) id: JobId,
    pub(super) job: RecordedJob,
    /// What it failed of first.
    pub(super) cause: Cause,
    /// The policy that decided first.
    pub(super) policy: Arc<str>,
    /// Every policy that decided.
    pub(super) policies: HashSet<Arc<str>>,
    /// What the job overrides, as it is stored.
    pub(super) overrides: Option<Arc<str>>,
    /// Every cause it failed of.
    pub(super) causes: HashSet<Cause>,
    /// It failed in the period that was asked for.
    pub(super) failed_in_period: bool,
    /// Its first run of attempts is here from its beginning.
    pub(super) is_whole: bool,
    /// Nothing more will come.
    pub(super) is_over: bool,
    run: u32,
    due_at: Option<Moment>,
    started_at: Option<Moment>,
}

/// Texts that many events share, each kept once.
#[derive(Debug, Default)]
pub(super) struct Shared {
    texts: HashSet<Arc<str>>,
    failures: Vec<Arc<Failure>>,
}

/// Distinct failures that are looked through before one is simply kept again.
const COMPARED: usize = 64;

impl Shared {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = Arc::from(text);
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn failure(&mut self, failure: Failure) -> Arc<Failure> {
        if let Some(known) = self.failures.iter().find(|known| ***known == failure) {
            return Arc::clone(known);
        }
        let failure = Arc::new(failure);
        if self.failures.len() < COMPARED {
            self.failures.push(Arc::clone(&failure));
        }
        failure
    }
}

pub(super) fn moment(at: Timestamp) -> Moment {
    Moment(at.millis())
}

fn text<'a>(data: &'a Value, name: &str) -> Option<&'a str> {
    data.get(name)?.as_str()
}

impl Story {
    pub(super) fn new(id: JobId, target: TargetId, none: &Arc<str>) -> Story {
        Story {
            id,
            job: RecordedJob {
                number: u64::try_from(id.0).unwrap_or(0),
                target,
                deadline_at: None,
                attempts: Vec::new(),
                facts: Vec::new(),
            },
            cause: Cause::Unknown,
            policy: Arc::clone(none),
            policies: HashSet::new(),
            overrides: None,
            causes: HashSet::new(),
            failed_in_period: false,
            is_whole: false,
            is_over: false,
            run: 0,
            due_at: None,
            started_at: None,
        }
    }

    /// Whether it ever failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.causes.is_empty()
    }

    /// Adds the next event of the job.
    pub(super) fn tell(&mut self, event: &Event, shared: &mut Shared) {
        let at = moment(event.timestamp);
        let data = &event.data;
        let first = self.due_at.is_none();
        let put_back = event.status == EventStatus::Pending && data.get("redrives").is_some();
        let failed = matches!(event.status, EventStatus::Retrying | EventStatus::DeadLetter);
        match event.event_type.as_str() {
            "job_enqueued" => {
                self.is_whole |= first;
                self.due_at = Some(at);
            }
            "attempt_started" => {
                let number = data.get("attempt").and_then(Value::as_u64);
                let retries = event.retry_info.as_ref().map_or(0, |retry| retry.retry_count);
                self.is_whole |= first && number == Some(1) && retries == 0;
                self.started_at = Some(at);
                self.due_at.get_or_insert(at);
            }
            "attempt_succeeded" => {
                self.attempt(at, CameTo::Succeeded);
                self.is_over = true;
            }
            "job_snoozed" => {
                let until = text(data, "run_at").and_then(|time| time.parse().ok()).map_or(at, moment);
                self.put_back(at, until, CameTo::Snoozed { until });
            }
            "job_parked" => {
                let until = text(data, "until").and_then(|time| time.parse().ok()).map_or(at, moment);
                self.put_back(at, until, CameTo::Snoozed { until });
            }
            "job_released" => self.put_back(at, at, CameTo::Released),
            "job_cancelled" => {
                if self.started_at.is_some() {
                    self.attempt(at, CameTo::Cancelled);
                }
                self.fact(at, Did::Cancelled);
                self.is_over = true;
            }
            // What was tried before is not known here: with its fresh budget this is where the job begins.
            _ if put_back && first => {
                self.is_whole = true;
                self.due_at = Some(at);
            }
            _ if put_back => {
                self.fact(at, Did::PutBack);
                self.run += 1;
                self.due_at = Some(at);
            }
            "manual_retry" => {
                self.fact(at, Did::RanNow);
                self.due_at = Some(at);
            }
            _ if failed && data.get("decision").is_some() => self.failed(event, at, shared),
            // What became of a letter later on is no part of trying; what others report is not the job's doing.
            _ => {}
        }
    }

    fn fact(&mut self, at: Moment, what: Did) {
        self.job.facts.push(Fact { at, attempts_before: self.job.attempts.len(), what });
    }

    fn attempt(&mut self, ended_at: Moment, came_to: CameTo) {
        let started_at = self.started_at.take().unwrap_or(ended_at);
        let due_at = self.due_at.unwrap_or(started_at);
        self.job.attempts.push(RecordedAttempt { due_at, started_at, ended_at, run: self.run, came_to });
    }

    /// Nothing was counted; what had not begun leaves no attempt.
    fn put_back(&mut self, at: Moment, due_at: Moment, came_to: CameTo) {
        if self.started_at.is_some() {
            self.attempt(at, came_to);
        }
        self.due_at = Some(due_at);
    }

    fn failed(&mut self, event: &Event, at: Moment, shared: &mut Shared) {
        let data = &event.data;
        let decision = &data["decision"];
        let decided_on: DecidedOn = data
            .get("decided_on")
            .and_then(|decided_on| serde_json::from_value(decided_on.clone()).ok())
            .unwrap_or_default();
        let cause = text(data, "cause").and_then(|name| name.parse().ok()).unwrap_or(Cause::Unknown);
        let retryable = event.retry_info.as_ref().is_some_and(|retry| retry.retryable);
        let transient = cause.class() == Class::Transient;
        let failure = Failure {
            verdict: decided_on.verdict.unwrap_or(match (retryable, transient) {
                (true, false) => Verdict::Yes,
                (false, true) => Verdict::No,
                _ => Verdict::Unsaid,
            }),
            rule: RuleId::user(text(data, "rule").unwrap_or("unknown")),
            http_status: data
                .get("http_status")
                .and_then(Value::as_u64)
                .and_then(|one| u16::try_from(one).ok()),
            code: text(data, "code").and_then(Code::new),
            retry_after: decided_on.retry_after_ms.map(Duration::from_millis),
            worker_died: decided_on.worker_died,
            ..Failure::of(cause)
        };
        let next_retry_at = event.retry_info.as_ref().and_then(|retry| retry.next_retry_at).map(moment);
        let delay = decision.get("delay_ms").and_then(Value::as_u64).map(Duration::from_millis);
        let decided = match (event.status, delay) {
            (EventStatus::Retrying, Some(delay)) => {
                Decided::Retry { delay, due_at: next_retry_at.unwrap_or_else(|| at.after(delay)) }
            }
            _ => Decided::SetAside,
        };
        let policy = shared.text(text(decision, "policy").unwrap_or_default());
        if !self.has_failed() {
            self.cause = cause;
            self.policy = Arc::clone(&policy);
        }
        self.policies.insert(policy);
        self.causes.insert(cause);
        self.overrides = decided_on.overrides.as_deref().map(|text| shared.text(text));
        self.job.deadline_at = decided_on.deadline_at.map(moment);
        let came_to = CameTo::Failed(RecordedFailure {
            failure: shared.failure(failure),
            forced: decided_on.forced.is_some(),
            decided,
            policy_version: shared.text(text(decision, "policy_version").unwrap_or_default()),
        });
        self.attempt(at, came_to);
        if let Decided::Retry { due_at, .. } = decided {
            self.due_at = Some(due_at);
        }
    }

    /// The record ends here: what runs, runs.
    pub(super) fn close(&mut self, ends_at: Moment) {
        if self.started_at.is_some() {
            self.attempt(ends_at, CameTo::Running);
        }
    }

    /// Tells the targets what the attempts say about this one.
    pub(super) fn observe(&self, targets: &mut Targets) {
        for attempt in &self.job.attempts {
            let answered = match &attempt.came_to {
                CameTo::Succeeded => true,
                CameTo::Failed(failed) if failed.says_of_target() => false,
                CameTo::Failed(_)
                | CameTo::Snoozed { .. }
                | CameTo::Released
                | CameTo::Cancelled
                | CameTo::Running => continue,
            };
            let took = attempt.ended_at.since(attempt.started_at);
            targets.observe(self.job.target, attempt.started_at, took, answered);
        }
    }
}
