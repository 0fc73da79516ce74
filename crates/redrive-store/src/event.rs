//! Events: the append-only stream in which everything that happened stands (R-E1 … R-E4).
//!
//! A job's events are written by the transitions themselves. What people and programs report is appended by
//! [`Events::append`]. Reading never blocks writing.

use std::time::Duration;

use redrive_policy::ErrorCategory;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Answer;
use crate::error::{Refusal, StoreError, Trouble};
use crate::id::{EventSeq, JobId};
use crate::job::{MAX_PAYLOAD_BYTES, is_name};
use crate::time::Timestamp;

/// What state a thing was in after the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStatus {
    /// It waits.
    Pending,
    /// It runs.
    Running,
    /// It succeeded.
    Success,
    /// It failed, and that was the end of it.
    Failed,
    /// It failed and will be tried again.
    Retrying,
    /// It was set aside.
    DeadLetter,
}

impl EventStatus {
    /// Every status, in the order of its number in the store.
    pub const ALL: [EventStatus; 6] = [
        EventStatus::Pending,
        EventStatus::Running,
        EventStatus::Success,
        EventStatus::Failed,
        EventStatus::Retrying,
        EventStatus::DeadLetter,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            EventStatus::Pending => "pending",
            EventStatus::Running => "running",
            EventStatus::Success => "success",
            EventStatus::Failed => "failed",
            EventStatus::Retrying => "retrying",
            EventStatus::DeadLetter => "dead_letter",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<EventStatus> {
        EventStatus::ALL.into_iter().find(|status| status.name() == name)
    }

    /// What an event is when nobody says: by its exit code, else by its error, else by its retry, else it waits.
    ///
    /// ```
    /// use redrive_store::EventStatus;
    /// assert_eq!(EventStatus::automatic(Some(0), true, true), EventStatus::Success);
    /// assert_eq!(EventStatus::automatic(None, true, true), EventStatus::Failed);
    /// assert_eq!(EventStatus::automatic(None, false, true), EventStatus::Retrying);
    /// assert_eq!(EventStatus::automatic(None, false, false), EventStatus::Pending);
    /// ```
    pub const fn automatic(exit_code: Option<i32>, has_error: bool, has_retry: bool) -> EventStatus {
        match exit_code {
            Some(0) => EventStatus::Success,
            Some(_) => EventStatus::Failed,
            None if has_error => EventStatus::Failed,
            None if has_retry => EventStatus::Retrying,
            None => EventStatus::Pending,
        }
    }
}

/// What went wrong (R-E2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The error's type.
    pub error_type: String,
    /// Its words.
    pub error_message: String,
    /// 000's view of its cause.
    pub error_category: ErrorCategory,
    /// Where it came from.
    #[serde(default)]
    pub stack_trace: Option<String>,
    /// What else was said about it.
    #[serde(default, flatten)]
    pub more: Map<String, Value>,
}

/// Where the retries stand (R-E2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryInfo {
    /// Retries so far.
    pub retry_count: u32,
    /// Retries allowed.
    pub max_retries: u32,
    /// Whether trying again may help.
    pub retryable: bool,
    /// When it is tried again.
    #[serde(default)]
    pub next_retry_at: Option<Timestamp>,
    /// What else was said about it.
    #[serde(default, flatten)]
    pub more: Map<String, Value>,
}

/// Something that was done to recover.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveryAction {
    /// When.
    pub timestamp: Timestamp,
    /// What.
    pub action: String,
    /// What else was said about it.
    #[serde(default, flatten)]
    pub more: Map<String, Value>,
}

/// The id that an event is known by: ours, or the one that it came with.
pub type EventId = String;

/// One event, with the fields of R-E2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its place in the stream.
    #[serde(skip)]
    pub seq: EventSeq,
    /// Its id.
    pub event_id: EventId,
    /// When.
    pub timestamp: Timestamp,
    /// What kind of event.
    pub event_type: String,
    /// Who reports it.
    pub source: String,
    /// What it reports.
    pub data: Value,
    /// The event that led to it.
    pub parent_event_id: Option<EventId>,
    /// 000's hypothesis.
    pub related_hypothesis_id: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// How long it took.
    pub latency_ms: Option<u64>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// From 1 to 5.
    pub importance: u8,
    /// The state after it.
    pub status: EventStatus,
    /// What went wrong.
    pub error_info: Option<ErrorInfo>,
    /// Where the retries stand.
    pub retry_info: Option<RetryInfo>,
    /// What was done to recover.
    pub recovery_actions: Vec<RecoveryAction>,
    /// The job that it is about.
    #[serde(skip)]
    pub job: Option<JobId>,
    /// The place of the event that led to it, if it is in this store.
    #[serde(skip)]
    pub parent: Option<EventSeq>,
}

/// An event to be appended by a person or a program.
#[derive(Debug, Clone, Default)]
pub struct NewEvent {
    /// What kind of event.
    pub event_type: String,
    /// Who reports it.
    pub source: String,
    /// What it reports; `null` when there is nothing.
    pub data: Value,
    /// The event that led to it.
    pub parent: Option<EventSeq>,
    /// 000's hypothesis.
    pub related_hypothesis_id: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// How long it took.
    pub latency: Option<Duration>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// From 1 to 5; absent: 3.
    pub importance: Option<u8>,
    /// The state after it; absent: found by itself.
    pub status: Option<EventStatus>,
    /// What went wrong.
    pub error_info: Option<ErrorInfo>,
    /// Where the retries stand.
    pub retry_info: Option<RetryInfo>,
    /// What was done to recover.
    pub recovery_actions: Vec<RecoveryAction>,
    /// The caller's own id for what it is about.
    pub caller_id: Option<String>,
    /// The job that it is about.
    pub job: Option<JobId>,
}

/// How deep the data of an event may nest.
const DEEPEST: usize = 64;
/// What an importance may be.
const IMPORTANCE: std::ops::RangeInclusive<u8> = 1..=5;

impl NewEvent {
    /// Whether it can be stored at all.
    pub fn validate(&self) -> Result<(), StoreError> {
        let optional = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        for (what, name) in [
            ("event type", &self.event_type),
            ("source", &self.source),
            ("hypothesis", &optional(&self.related_hypothesis_id)),
            ("caller id", &optional(&self.caller_id)),
        ] {
            must_be_name(what, name)?;
        }
        if let Some(importance) = self.importance.filter(|importance| !IMPORTANCE.contains(importance)) {
            return refuse(Refusal::BadImportance(importance));
        }
        let error = self.error_info.as_ref();
        let more = [error.map(|error| &error.more), self.retry_info.as_ref().map(|retry| &retry.more)];
        let more = more.into_iter().flatten().chain(self.recovery_actions.iter().map(|action| &action.more));
        let mut inside = more.flat_map(Map::values);
        if is_deeper(&self.data, DEEPEST) || inside.any(|value| is_deeper(value, DEEPEST)) {
            return refuse(Refusal::TooDeep { most: DEEPEST });
        }
        let bytes = written(&self.data)
            + written(&self.tags)
            + written(&self.error_info)
            + written(&self.retry_info)
            + written(&self.recovery_actions);
        if bytes > MAX_PAYLOAD_BYTES {
            return refuse(Refusal::PayloadTooLarge { bytes, most: MAX_PAYLOAD_BYTES });
        }
        Ok(())
    }
}

fn refuse(refusal: Refusal) -> Result<(), StoreError> {
    Err(Trouble::Refused(refusal).into())
}

pub(crate) fn must_be_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    if is_name(name) {
        return Ok(());
    }
    refuse(Refusal::BadName { what, name: name.chars().take(80).collect() })
}

/// How many bytes a thing has as JSON.
fn written(thing: &impl Serialize) -> usize {
    serde_json::to_string(thing).map_or(usize::MAX / 8, |text| text.len())
}

/// Whether a value nests deeper than so much. Looks no deeper than that itself.
fn is_deeper(value: &Value, than: usize) -> bool {
    match value {
        Value::Array(values) => than == 0 || values.iter().any(|value| is_deeper(value, than - 1)),
        Value::Object(values) => than == 0 || values.values().any(|value| is_deeper(value, than - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// An event from a file, with the id, the time and the parent that it came with.
#[derive(Debug, Clone)]
pub struct ImportedEvent {
    /// The event.
    pub event: NewEvent,
    /// The id that it came with.
    pub event_id: EventId,
    /// The id of its parent, wherever that is.
    pub parent_event_id: Option<EventId>,
    /// When it happened.
    pub at: Timestamp,
}

impl ImportedEvent {
    /// Whether it can be stored at all.
    pub fn validate(&self) -> Result<(), StoreError> {
        must_be_name("event id", &self.event_id)?;
        if let Some(parent) = &self.parent_event_id {
            must_be_name("parent's event id", parent)?;
        }
        self.event.validate()
    }
}

/// A line that an import could not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrap {
    /// Where it came from.
    pub origin: String,
    /// Its number there.
    pub line: u64,
    /// Why it could not be read.
    pub why: String,
    /// The line, as it was.
    pub text: Vec<u8>,
}

/// A line that was kept aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its number in the store.
    pub id: i64,
    /// When it was kept.
    pub at: Timestamp,
    /// The line.
    pub scrap: Scrap,
}

/// From which end the stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The newest first.
    #[default]
    NewestFirst,
    /// The oldest first.
    OldestFirst,
}

/// Which events. Everything that is said must hold.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Of these types.
    pub types: Vec<String>,
    /// From this source.
    pub source: Option<String>,
    /// In these states.
    pub statuses: Vec<EventStatus>,
    /// About this hypothesis.
    pub hypothesis: Option<String>,
    /// With at least one of these tags.
    pub tags: Vec<String>,
    /// With this caller's id.
    pub caller_id: Option<String>,
    /// About this job.
    pub job: Option<JobId>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Not at or after.
    pub until: Option<Timestamp>,
    /// Behind this place in the stream.
    pub after: Option<EventSeq>,
    /// Before this place in the stream.
    pub before: Option<EventSeq>,
    /// Which end first.
    pub order: Order,
}

/// Reading and appending to the stream.
pub trait Events: Send + Sync {
    /// Appends events; answers their places and the ids that they are known by.
    fn append(&self, now: Timestamp, events: Vec<NewEvent>) -> Answer<'_, Vec<(EventSeq, EventId)>>;

    /// Appends events from elsewhere, and keeps aside what could not be read. An event whose id is known already is not
    /// added again. Answers how many were added.
    fn import(&self, now: Timestamp, events: Vec<ImportedEvent>, scraps: Vec<Scrap>) -> Answer<'_, u64>;

    /// Events that match, at most `limit`.
    fn events(&self, filter: EventFilter, limit: u32) -> Answer<'_, Vec<Event>>;

    /// The event known by this id.
    fn event(&self, id: String) -> Answer<'_, Option<Event>>;

    /// The event and everything that led to it, the oldest first; at most `limit`, counted from the event backwards.
    fn causality(&self, seq: EventSeq, limit: u32) -> Answer<'_, Vec<Event>>;

    /// Waits until there is an event behind this place, or for so long; answers the place up to which the stream is complete.
    /// Whoever follows reads no further: behind it something may still appear.
    fn wait_for_events(&self, after: EventSeq, wait: Duration) -> Answer<'_, EventSeq>;

    /// Lines that were kept aside, the oldest first.
    fn asides(&self, after: i64, limit: u32) -> Answer<'_, Vec<Aside>>;
}
