//! Jobs as the API tells them.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use redrive::engine::{ParkedJob, StoryAttempt, job_state};
use redrive_policy::{Cause, EscalationLevel, Lang, round_to_millis};
use redrive_store::{Enqueued, Event, JobRecord, JobState, LetterReason, Origin, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::shape;

/// A job that was added, or was there.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Added {
    /// Its id.
    #[schemars(with = "shape::JobId")]
    id: redrive_store::JobId,
    /// Whether it was there already, under its unique key; then nothing was added.
    existing: bool,
}

impl From<Enqueued> for Added {
    fn from(added: Enqueued) -> Added {
        Added { id: added.id, existing: added.existing }
    }
}

/// Jobs that were added, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AddedMany {
    pub(super) items: Vec<Added>,
}

/// As one was asked for, or many.
pub(crate) enum AddedOneOrMany {}

impl JsonSchema for AddedOneOrMany {
    fn schema_name() -> Cow<'static, str> {
        "AddedOneOrMany".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<Added>(), generator.subschema_for::<AddedMany>()] })
    }
}

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Job {
    #[schemars(with = "shape::JobId")]
    id: redrive_store::JobId,
    /// `ready`, `scheduled`, `running`, `retrying`, `dead`, `succeeded`, `cancelled` or `discarded`.
    state: &'static str,
    queue: Option<String>,
    kind: Option<String>,
    source: Option<String>,
    priority: Option<i32>,
    policy: Option<String>,
    /// What it overrides in its policy.
    #[schemars(with = "Option<shape::Object>")]
    overrides: Option<Box<RawValue>>,
    caller_id: Option<String>,
    unique_key: Option<String>,
    /// The key that its effects carry, where one was given.
    idempotency_key: Option<String>,
    target: Option<String>,
    timeout_ms: Option<u64>,
    #[schemars(with = "Option<shape::Time>")]
    enqueued_at: Option<Timestamp>,
    #[schemars(with = "Option<shape::Time>")]
    deadline_at: Option<Timestamp>,
    /// `local`, or `api`.
    #[schemars(with = "Option<String>")]
    origin: Option<Origin>,
    /// Of a job that is over, as far as its last event tells.
    attempts: Option<u32>,
    /// Retries among them that count against `max_retries`.
    retries: Option<u32>,
    /// Attempts whose worker was never heard of again; not known of a job that is over.
    crashes: Option<u32>,
    /// When it is tried, while it waits.
    #[schemars(with = "Option<shape::Time>")]
    next_run_at: Option<Timestamp>,
    /// What it waits for, while its target cannot bear it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<Parked>,
    /// Who has it, while somebody has.
    lease: Option<Lease>,
    /// Why it was set aside, if it was.
    letter: Option<Letter>,
    /// What the worker gets; with `with_payload` and the scope `read:payload`, where it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Json>")]
    payload: Option<Box<RawValue>>,
    /// The same where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// Why a job is not tried though nothing is wrong with it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Parked")]
struct Parked {
    /// When it is looked at again.
    #[schemars(with = "shape::Time")]
    until: Timestamp,
    /// The target that cannot bear it now.
    target: String,
    /// Why, in a sentence.
    why: String,
}

impl Parked {
    fn of(last: &Event, lang: Lang) -> Option<Parked> {
        let ParkedJob { target, until, why } = Some(last)
            .filter(|last| last.event_type == "job_parked")
            .and_then(|last| ParkedJob::of(&last.data))?;
        Some(Parked { until, why: why.words(&target, lang), target })
    }
}

/// A lease on a job.
#[derive(Debug, Serialize, JsonSchema)]
struct Lease {
    worker: String,
    #[schemars(with = "shape::Time")]
    expires_at: Timestamp,
    #[schemars(with = "Option<shape::Time>")]
    begun_at: Option<Timestamp>,
    cancel_requested: bool,
}

/// Why a job was set aside.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SetAside")]
struct Letter {
    #[schemars(with = "shape::Time")]
    died_at: Timestamp,
    #[schemars(with = "String")]
    reason: LetterReason,
    #[schemars(with = "String")]
    cause: Cause,
    retryable: bool,
    error_type: String,
    error_message: String,
    fingerprint: String,
    /// How far up it has gone.
    #[schemars(with = "u8")]
    level: EscalationLevel,
}

impl Job {
    /// `last` is the latest event of its story.
    pub(super) fn new(
        record: JobRecord,
        last: Option<&Event>,
        now: Timestamp,
        lang: Lang,
        with_payload: bool,
    ) -> Job {
        let state = job_state(&record, last, now);
        let word = |name: &str| last.and_then(|last| last.data.get(name)?.as_str()).map(str::to_owned);
        let (mut next_run_at, mut parked, mut lease, mut letter) = (None, None, None, None);
        let mut dead_payload = None;
        match record.state {
            JobState::Ready { run_at, .. } => {
                next_run_at = Some(run_at);
                parked = last.filter(|_| run_at > now).and_then(|last| Parked::of(last, lang));
            }
            JobState::Leased { worker, expires_at, begun_at, cancel_requested, .. } => {
                lease = Some(Lease { worker: worker.to_string(), expires_at, begun_at, cancel_requested });
            }
            JobState::Dead(dead) => {
                letter = Some(Letter {
                    died_at: dead.died_at,
                    reason: dead.reason,
                    cause: dead.cause,
                    retryable: dead.retryable,
                    level: EscalationLevel::of(dead.cause, dead.retryable),
                    error_type: dead.error_type,
                    error_message: dead.error_message,
                    fingerprint: dead.fingerprint,
                });
                dead_payload = Some(dead.payload);
            }
            JobState::Ended => {}
        }
        let mut told = Job {
            id: record.id,
            state,
            queue: None,
            kind: None,
            source: None,
            priority: None,
            policy: None,
            overrides: None,
            caller_id: None,
            unique_key: None,
            idempotency_key: None,
            target: None,
            timeout_ms: None,
            enqueued_at: None,
            deadline_at: None,
            origin: None,
            attempts: Some(record.attempts),
            retries: Some(record.retries),
            crashes: Some(record.crashes),
            next_run_at,
            parked,
            lease,
            letter,
            payload: None,
            payload_base64: None,
        };
        let mut payload = dead_payload;
        if let Some(job) = record.job {
            told.queue = Some(job.queue);
            told.kind = Some(job.kind);
            told.source = Some(job.source);
            told.priority = Some(job.priority);
            told.policy = job.policy;
            told.overrides = job.overrides.and_then(|overrides| RawValue::from_string(overrides).ok());
            told.caller_id = job.caller_id;
            told.unique_key = job.unique_key;
            told.idempotency_key = job.idempotency_key;
            told.target = job.target;
            told.timeout_ms = job.timeout.map(round_to_millis);
            told.enqueued_at = Some(job.enqueued_at);
            told.deadline_at = job.deadline_at;
            told.origin = Some(job.origin);
            payload = Some(job.payload);
        } else {
            // Of a job that is over only its events are left.
            told.queue = word("queue");
            told.kind = word("kind");
            told.source = last.map(|last| last.source.clone());
            let attempt = last.and_then(StoryAttempt::number_in);
            told.attempts = attempt.and_then(|number| u32::try_from(number).ok());
            told.retries = last.and_then(|last| last.retry_info.as_ref()).map(|retry| retry.retry_count);
            told.crashes = None;
        }
        if let Some(payload) = payload.filter(|_| with_payload) {
            match serde_json::from_slice::<&RawValue>(&payload) {
                Ok(json) => told.payload = Some(json.to_owned()),
                Err(_) => told.payload_base64 = Some(BASE64.encode(&payload)),
            }
        }
        told
    }

    pub(super) fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }
}
