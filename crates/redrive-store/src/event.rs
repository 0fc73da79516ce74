//! Events: the append-only stream in which everything that happened stands (R-E1 … R-E4).
//!
//! A job's events are written by the transitions themselves. What people and programs report is appended by
//! [`Events::append`]. Reading never blocks writing.

use std::time::Duration;

use redrive_policy::ErrorCategory;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Answer;
use crate::id::{EventSeq, JobId};
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

    /// Waits until there is an event behind this place, or for so long; answers the last place there is.
    fn wait_for_events(&self, after: EventSeq, wait: Duration) -> Answer<'_, EventSeq>;

    /// Lines that were kept aside, the oldest first.
    fn asides(&self, after: i64, limit: u32) -> Answer<'_, Vec<Aside>>;
}
