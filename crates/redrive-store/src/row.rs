//! What rows say, whichever database holds them: the columns of an event, and the fields of R-E2 put together again.
//!
//! A row keeps in columns what most events have and in `detail` (JSON) what few have. Reading puts the fields together,
//! the decision of a plain success included.

use redrive_policy::{Decision, History, Lang, Policy};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{StoreError, Trouble};
use crate::event::{
    ErrorInfo, Event, EventFilter, EventId, EventStatus, NewEvent, RecoveryAction, RetryInfo,
};
use crate::id::{EventSeq, JobId};
use crate::seal::{Cell, Seals};
use crate::settle::{FailedAttempt, Output, Settlement};
use crate::time::Timestamp;
use crate::worker::Takes;

/// An event to be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventRow<'a> {
    pub(crate) event_type: &'a str,
    pub(crate) source_id: i64,
    pub(crate) status: Option<EventStatus>,
    pub(crate) job: Option<JobId>,
    pub(crate) lane_id: Option<i64>,
    pub(crate) parent: Option<i64>,
    pub(crate) attempt: Option<i64>,
    pub(crate) retries: Option<i64>,
    pub(crate) max_retries: Option<i64>,
    pub(crate) latency_ms: Option<i64>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) importance: Option<u8>,
    pub(crate) hypothesis: Option<&'a str>,
    pub(crate) caller_id: Option<&'a str>,
    pub(crate) tags: Option<String>,
    pub(crate) imported_at: Option<i64>,
    pub(crate) detail: Option<String>,
}

/// What few events have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Detail {
    #[serde(skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recovery: Vec<RecoveryAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<EventId>,
}

/// The part of a retry's state that has no column.
#[derive(Debug, Serialize, Deserialize)]
struct Retry {
    retryable: bool,
    #[serde(default)]
    next_retry_at: Option<Timestamp>,
    #[serde(default, flatten)]
    more: Map<String, Value>,
}

impl Detail {
    /// Of an event from elsewhere: the ids that it came with.
    pub(crate) fn imported(event_id: &str, parent_event_id: Option<&str>) -> Detail {
        Detail {
            event_id: Some(event_id.to_owned()),
            parent_event_id: parent_event_id.map(str::to_owned),
            ..Detail::default()
        }
    }
}

/// JSON of our own from the store; what cannot be read is shown as the text that it is.
pub(crate) fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A count for people: never below zero, never beyond its type.
pub(crate) fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}

/// Tags as their column.
pub(crate) fn tags(tags: &[impl Serialize]) -> Option<String> {
    (!tags.is_empty()).then(|| json!(tags).to_string())
}

/// Names as a column of `worker`.
pub(crate) fn names(names: &[String]) -> String {
    json!(names).to_string()
}

/// What a worker takes, from its columns; absent: it has not said.
pub(crate) fn takes(queues: Option<String>, kinds: Option<String>) -> Option<Takes> {
    let read = |text: Option<String>| serde_json::from_str(&text?).ok();
    Some(Takes { queues: read(queues)?, kinds: read(kinds)? })
}

/// An event of a person or a program as a row; what it came with is in `detail` already.
pub(crate) fn reported(
    event: &NewEvent,
    came_with: Detail,
    parent: Option<EventSeq>,
    source_id: i64,
) -> Result<EventRow<'_>, StoreError> {
    let status = event.status.unwrap_or_else(|| {
        EventStatus::automatic(event.exit_code, event.error_info.is_some(), event.retry_info.is_some())
    });
    let retry = event.retry_info.as_ref();
    let detail = Detail {
        data: event.data.clone(),
        error: event.error_info.clone(),
        retry: retry.map(|retry| Retry {
            retryable: retry.retryable,
            next_retry_at: retry.next_retry_at,
            more: retry.more.clone(),
        }),
        recovery: event.recovery_actions.clone(),
        ..came_with
    };
    let detail = serde_json::to_string(&detail).map_err(|error| Trouble::Database(error.to_string()))?;
    Ok(EventRow {
        event_type: &event.event_type,
        source_id,
        status: Some(status),
        job: event.job,
        parent: parent.map(|parent| parent.0),
        retries: retry.map(|retry| i64::from(retry.retry_count)),
        max_retries: retry.map(|retry| i64::from(retry.max_retries)),
        latency_ms: event.latency.map(crate::time::whole_millis),
        exit_code: event.exit_code,
        importance: event.importance,
        hypothesis: event.related_hypothesis_id.as_deref(),
        caller_id: event.caller_id.as_deref(),
        tags: tags(&event.tags),
        detail: (detail != "{}").then_some(detail),
        ..EventRow::default()
    })
}

/// An event as it was read.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) event_type: String,
    pub(crate) source: String,
    pub(crate) status: i64,
    pub(crate) job: Option<i64>,
    pub(crate) queue: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) parent: Option<i64>,
    pub(crate) attempt: Option<i64>,
    pub(crate) retries: Option<i64>,
    pub(crate) max_retries: Option<i64>,
    pub(crate) latency_ms: Option<i64>,
    pub(crate) exit_code: Option<i64>,
    pub(crate) importance: Option<i64>,
    pub(crate) hypothesis: Option<String>,
    pub(crate) caller_id: Option<String>,
    pub(crate) tags: Option<String>,
    pub(crate) detail: Option<String>,
    pub(crate) parent_at: Option<i64>,
}

impl Columns {
    /// The event, with its detail opened.
    pub(crate) fn into_event(self, seals: &Seals) -> Result<Event, StoreError> {
        let seq = EventSeq(self.seq);
        let timestamp = Timestamp::from_millis(self.at);
        let status = EventStatus::ALL[usize::try_from(self.status).unwrap_or(0).min(5)];
        let detail: Detail = match seals.open_some(Cell::EventDetail, self.seq, self.detail)? {
            Some(text) => serde_json::from_str(&text)
                .unwrap_or_else(|_| Detail { data: Value::String(text), ..Detail::default() }),
            None => Detail::default(),
        };
        let (retries, max_retries) = (self.retries, self.max_retries);
        let mut data = detail.data;
        if let (Some(job), Some(queue)) = (self.job, self.queue) {
            let mut of_job = Map::new();
            of_job.insert("job_id".to_owned(), json!(JobId(job)));
            of_job.insert("queue".to_owned(), json!(queue));
            of_job.insert("kind".to_owned(), json!(self.kind));
            of_job.insert("attempt".to_owned(), json!(self.attempt));
            if let Some(caller_id) = self.caller_id {
                of_job.insert("caller_id".to_owned(), json!(caller_id));
            }
            if status == EventStatus::Success {
                of_job.insert("decision".to_owned(), pass(retries.unwrap_or(0), max_retries.unwrap_or(0)));
            }
            if let Value::Object(more) = data {
                of_job.extend(more);
            }
            data = Value::Object(of_job);
        } else if let Some(caller_id) = self.caller_id
            && let Value::Object(object) = &mut data
        {
            object.entry("caller_id").or_insert(json!(caller_id));
        }
        let again = retries.is_some_and(|retries| retries > 0);
        let retry_info = match detail.retry {
            Some(Retry { retryable, next_retry_at, more }) => Some((retryable, next_retry_at, more)),
            None if again && max_retries.is_some() => Some((true, None, Map::new())),
            None => None,
        };
        let parent = self.parent.map(EventSeq);
        let parent_at = self.parent_at.map(Timestamp::from_millis);
        Ok(Event {
            seq,
            event_id: detail.event_id.unwrap_or_else(|| seq.event_id(timestamp)),
            timestamp,
            event_type: self.event_type,
            source: self.source,
            data: if data.is_null() { json!({}) } else { data },
            parent_event_id: detail
                .parent_event_id
                .or_else(|| parent.zip(parent_at).map(|(parent, at)| parent.event_id(at))),
            related_hypothesis_id: self.hypothesis,
            tags: self.tags.and_then(|tags| serde_json::from_str(&tags).ok()).unwrap_or_default(),
            latency_ms: self.latency_ms.and_then(|latency| u64::try_from(latency).ok()),
            exit_code: self.exit_code.and_then(|code| i32::try_from(code).ok()),
            importance: self.importance.and_then(|number| u8::try_from(number).ok()).unwrap_or(3),
            status,
            error_info: detail.error,
            retry_info: retry_info.map(|(retryable, next_retry_at, more)| RetryInfo {
                retry_count: count(retries.unwrap_or(0)),
                max_retries: count(max_retries.unwrap_or(0)),
                retryable,
                next_retry_at,
                more,
            }),
            recovery_actions: detail.recovery,
            job: self.job.map(JobId),
            parent,
        })
    }
}

/// The decision about an attempt that succeeded, which no row needs to keep.
fn pass(retries: i64, max_retries: i64) -> Value {
    let policy = Policy::standard();
    let decision = Decision::pass(&policy, &History::retries(count(retries)));
    json!({
        "decision": "PASS",
        "current_retry_count": retries,
        "max_retries": max_retries,
        "reasoning": decision.reasoning(Lang::En),
        "ja": { "reasoning": decision.reasoning(Lang::Ja) },
    })
}

/// Whether an event of this job's story is one that was asked for.
pub(crate) fn matches(event: &Event, job: JobId, filter: &EventFilter) -> bool {
    event.job == Some(job)
        && (filter.types.is_empty() || filter.types.contains(&event.event_type))
        && filter.source.as_ref().is_none_or(|source| *source == event.source)
        && (filter.statuses.is_empty() || filter.statuses.contains(&event.status))
        && filter.hypothesis.as_ref().is_none_or(|one| event.related_hypothesis_id.as_ref() == Some(one))
        && filter.caller_id.as_ref().is_none_or(|one| event.data["caller_id"] == **one)
        && filter.since.is_none_or(|since| event.timestamp >= since)
        && filter.until.is_none_or(|until| event.timestamp < until)
        && filter.after.is_none_or(|after| event.seq > after)
        && filter.before.is_none_or(|before| event.seq < before)
        && (filter.tags.is_empty() || filter.tags.iter().any(|tag| event.tags.contains(tag)))
}

/// What an attempt said, as an event's detail.
pub(crate) fn said(output: &Output) -> String {
    json!({ "data": { "output": output } }).to_string()
}

/// What a settlement that came too late is told with.
pub(crate) fn stale(settlement: &Settlement) -> String {
    let token = settlement.token;
    json!({ "data": { "job_id": token.job, "fence": token.fence, "ending": settlement.ending.name() } })
        .to_string()
}

/// An attempt that failed, as an event's detail.
pub(crate) fn failed(
    failure: &FailedAttempt,
    next_retry_at: Option<Timestamp>,
    context: Option<&Value>,
) -> String {
    let mut data = json!({
        "cause": failure.cause,
        "rule": failure.rule,
        "fingerprint": failure.fingerprint,
        "decision": failure.decision,
    });
    if let Some(status) = failure.http_status {
        data["http_status"] = json!(status);
    }
    if let Some(code) = &failure.code {
        data["code"] = json!(code);
    }
    if !failure.decided_on.is_empty() {
        data["decided_on"] = json!(failure.decided_on);
    }
    if let Some(context) = context {
        data["context"] = context.clone();
    }
    if !failure.output.is_empty() {
        data["output"] = json!(failure.output);
    }
    json!({
        "data": data,
        "error": {
            "error_type": failure.error_type,
            "error_message": failure.error_message,
            "error_category": failure.cause.error_category(),
            "stack_trace": failure.stack_trace,
        },
        "retry": { "retryable": failure.retryable, "next_retry_at": next_retry_at },
    })
    .to_string()
}
