//! What events about mending say: redrives, queues, edited payloads, letters that went or came. Said once for every store.

use serde_json::{Value, json};

use crate::dead_letter::ImportedLetter;
use crate::event::EventStatus;
use crate::id::JobId;
use crate::idempotency::KeyState;
use crate::redrive::{NewRun, Run, RunId, RunState};
use crate::row::{self, EventRow};
use crate::settle::Parked;
use crate::task::{NewTask, TaskEnd, TaskId, TaskState};
use crate::time::Timestamp;

/// What is told in the name of the store itself.
pub(crate) const SOURCE: &str = "redrive";

fn by_the_store(event_type: &'static str, source_id: i64, data: &Value) -> EventRow<'static> {
    EventRow {
        event_type,
        source_id,
        status: Some(EventStatus::Success),
        detail: Some(json!({ "data": data }).to_string()),
        ..EventRow::default()
    }
}

/// A job was parked: which target it waits for, until when, and why.
pub(crate) fn parked(run_at: Timestamp, parked: &Parked) -> String {
    let mut data = json!({ "target": parked.target, "until": run_at });
    // The reason is a table of its own fields, `why` among them.
    if let (Value::Object(data), Ok(Value::Object(why))) = (&mut data, serde_json::to_value(&parked.why)) {
        data.extend(why);
    }
    json!({ "data": data }).to_string()
}

/// A run was started.
pub(crate) fn run_started(source_id: i64, id: RunId, run: &NewRun) -> EventRow<'static> {
    let data = json!({ "redrive_id": id, "wanted_by": run.wanted_by, "plan": run.plan });
    EventRow {
        tags: row::tags(&["redrive", "recovery"]),
        ..by_the_store("redrive_started", source_id, &data)
    }
}

/// A run is over. One that stopped itself is worth a look.
pub(crate) fn run_ended(
    source_id: i64,
    run: &Run,
    state: RunState,
    why: Option<&str>,
    progress: &Value,
) -> EventRow<'static> {
    let mut data =
        json!({ "redrive_id": run.id, "wanted_by": run.wanted_by, "state": state, "progress": progress });
    if let Some(why) = why {
        data["why"] = json!(why);
    }
    EventRow {
        importance: (state == RunState::Stopped).then_some(4),
        tags: row::tags(&["redrive", "recovery"]),
        ..by_the_store("redrive_ended", source_id, &data)
    }
}

/// A task was started. Its plan is not told: inputs are in it.
pub(crate) fn task_started<'a>(source_id: i64, caller_id: &'a str, task: &NewTask) -> EventRow<'a> {
    let mut data = json!({ "task_id": caller_id, "name": task.name, "subtasks": task.subtasks });
    if let Some(place) = &task.place {
        data["place"] = json!(place);
    }
    EventRow {
        caller_id: Some(caller_id),
        tags: row::tags(&["task"]),
        ..by_the_store("task_started", source_id, &data)
    }
}

/// A task is over. One that a person is told of is worth a look.
pub(crate) fn task_ended<'a>(
    source_id: i64,
    caller_id: &'a str,
    name: &str,
    parent: i64,
    end: &TaskEnd,
) -> EventRow<'a> {
    let told = end.state == TaskState::Escalated || end.report.is_some();
    let data = json!({ "task_id": caller_id, "name": name, "state": end.state, "why": end.why });
    EventRow {
        parent: Some(parent),
        caller_id: Some(caller_id),
        status: Some(if told { EventStatus::DeadLetter } else { EventStatus::Success }),
        importance: told.then_some(4),
        tags: row::tags(&["task"]),
        ..by_the_store("task_ended", source_id, &data)
    }
}

/// A task that was over goes on.
pub(crate) fn task_resumed<'a>(
    source_id: i64,
    caller_id: &'a str,
    name: &str,
    parent: i64,
    from: TaskState,
) -> EventRow<'a> {
    let data = json!({ "task_id": caller_id, "name": name, "from": from });
    EventRow {
        parent: Some(parent),
        caller_id: Some(caller_id),
        tags: row::tags(&["task", "recovery"]),
        ..by_the_store("task_resumed", source_id, &data)
    }
}

/// What an escalation is about.
pub(crate) enum Subject {
    Task(TaskId),
    Job(JobId),
    /// Neither, as far as its words say.
    Other,
}

impl Subject {
    pub(crate) fn of(subject: &str) -> Subject {
        if let Ok(task) = subject.parse() {
            return Subject::Task(task);
        }
        // A bare number is a job's id only where nothing else can be meant.
        match subject.parse() {
            Ok(job) if subject.starts_with("job_") => Subject::Job(job),
            _ => Subject::Other,
        }
    }
}

/// Somebody has seen an escalation. Told beside the story that it is about, after what came last in it.
pub(crate) fn acknowledged<'a>(
    source_id: i64,
    subject: &'a str,
    parent: Option<i64>,
    note: Option<&str>,
) -> EventRow<'a> {
    let mut data = json!({ "subject": subject });
    if let Some(note) = note {
        data["note"] = json!(note);
    }
    let about = Subject::of(subject);
    EventRow {
        job: if let Subject::Job(job) = about { Some(job) } else { None },
        caller_id: matches!(about, Subject::Task(_)).then_some(subject),
        parent,
        tags: row::tags(&["escalation"]),
        ..by_the_store("escalation_acknowledged", source_id, &data)
    }
}

/// Whose record of a key an event is about. Bodies and headers are never told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyOf<'a> {
    pub(crate) record: i64,
    pub(crate) principal: &'a str,
    pub(crate) key: &'a str,
    pub(crate) endpoint: &'a str,
}

impl KeyOf<'_> {
    /// Under which its events are found.
    pub(crate) fn caller_id(self) -> String {
        format!("key-{}", self.record)
    }

    fn data(self, why: Option<&str>) -> Value {
        let KeyOf { record, principal, key, endpoint } = self;
        let mut data = json!({ "record": record, "endpoint": endpoint, "key": key, "principal": principal });
        if let Some(why) = why {
            data["why"] = json!(why);
        }
        data
    }
}

/// Why the outcome of a key is unknown when its holder did not say so.
pub(crate) const FELL_SILENT: &str = "the holder fell silent";

/// Nobody knows how the request of a key ended.
pub(crate) fn idempotency_unknown<'a>(
    source_id: i64,
    caller_id: &'a str,
    of: KeyOf<'_>,
    why: &str,
) -> EventRow<'a> {
    EventRow {
        caller_id: Some(caller_id),
        status: Some(EventStatus::DeadLetter),
        importance: Some(4),
        tags: row::tags(&["idempotency"]),
        ..by_the_store("idempotency_unknown", source_id, &of.data(Some(why)))
    }
}

/// A key is free again, for a reason that is worth telling.
pub(crate) fn idempotency_released<'a>(
    source_id: i64,
    caller_id: &'a str,
    of: KeyOf<'_>,
    why: &str,
) -> EventRow<'a> {
    EventRow {
        caller_id: Some(caller_id),
        tags: row::tags(&["idempotency"]),
        ..by_the_store("idempotency_released", source_id, &of.data(Some(why)))
    }
}

/// A person had a key forgotten.
pub(crate) fn idempotency_reset<'a>(
    source_id: i64,
    caller_id: &'a str,
    of: KeyOf<'_>,
    from: KeyState,
    why: Option<&str>,
) -> EventRow<'a> {
    let mut data = of.data(why);
    data["from"] = json!(from);
    EventRow {
        caller_id: Some(caller_id),
        importance: Some(4),
        tags: row::tags(&["idempotency", "recovery"]),
        ..by_the_store("idempotency_reset", source_id, &data)
    }
}

/// Which item of the outbox an event is about. What is sent is never told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemOf<'a> {
    pub(crate) item: i64,
    pub(crate) lane: &'a str,
    pub(crate) key: &'a str,
}

impl ItemOf<'_> {
    /// Under which its events are found.
    pub(crate) fn caller_id(self) -> String {
        format!("outbox-{}", self.item)
    }
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemMove {
    Added,
    /// With the status of the answer.
    Sent(Option<u16>),
    /// With the status of the answer, if there was one.
    Failed(Option<u16>),
    Retried,
    Discarded,
}

/// An item of the outbox was added, sent, given up, put back or taken out. What the last send said is not told: it may hold
/// anything.
pub(crate) fn outbox_moved<'a>(
    source_id: i64,
    caller_id: &'a str,
    of: ItemOf<'_>,
    sends: u32,
    moved: ItemMove,
) -> EventRow<'a> {
    let (event_type, state, http_status) = match moved {
        ItemMove::Added => ("outbox_added", EventStatus::Pending, None),
        ItemMove::Sent(http_status) => ("outbox_sent", EventStatus::Success, http_status),
        ItemMove::Failed(http_status) => ("outbox_failed", EventStatus::DeadLetter, http_status),
        ItemMove::Retried => ("outbox_retried", EventStatus::Pending, None),
        ItemMove::Discarded => ("outbox_discarded", EventStatus::Success, None),
    };
    let mut data = json!({ "item": of.item, "lane": of.lane, "key": of.key, "sends": sends });
    if let Some(http_status) = http_status {
        data["http_status"] = json!(http_status);
    }
    EventRow {
        caller_id: Some(caller_id),
        status: Some(state),
        importance: matches!(moved, ItemMove::Failed(_)).then_some(4),
        tags: row::tags(&["outbox"]),
        ..by_the_store(event_type, source_id, &data)
    }
}

/// The detail of a letter's redrive.
pub(crate) fn redriven(redrives: i64, run: Option<RunId>) -> String {
    match run {
        None => json!({ "data": { "redrives": redrives } }),
        Some(run) => json!({ "data": { "redrives": redrives, "redrive_id": run } }),
    }
    .to_string()
}

/// A queue was paused, or goes on.
pub(crate) fn queue_moved(
    source_id: i64,
    event_type: &'static str,
    queue: &str,
    why: Option<&str>,
) -> EventRow<'static> {
    let mut data = json!({ "queue": queue });
    if let Some(why) = why {
        data["why"] = json!(why);
    }
    by_the_store(event_type, source_id, &data)
}

/// A payload was replaced. Told beside the job's story, which goes on from the death.
pub(crate) fn payload_edited(
    source_id: i64,
    id: JobId,
    parent: i64,
    version: u32,
    edited_by: &str,
) -> EventRow<'static> {
    let data = json!({ "job_id": id, "version": version, "edited_by": edited_by });
    EventRow {
        job: Some(id),
        parent: Some(parent),
        tags: row::tags(&["recovery"]),
        ..by_the_store("payload_edited", source_id, &data)
    }
}

/// The detail of a letter that goes for good.
pub(crate) fn discarded(why: Option<&str>) -> Option<String> {
    why.map(|why| json!({ "data": { "why": why } }).to_string())
}

/// The detail of a letter from elsewhere.
pub(crate) fn letter_imported(letter: &ImportedLetter) -> String {
    json!({
        "data": {
            "cause": letter.cause,
            "rule": letter.rule,
            "fingerprint": letter.fingerprint,
            "context": letter.context,
        },
        "error": {
            "error_type": letter.error_type,
            "error_message": letter.error_message,
            "error_category": letter.cause.error_category(),
        },
        "retry": { "retryable": letter.retryable },
        "event_id": letter.event_id,
    })
    .to_string()
}

/// The id under which a letter from elsewhere is known when an event of its own id came before it.
pub(crate) fn beside(event_id: &str) -> String {
    format!("{event_id}#letter")
}
