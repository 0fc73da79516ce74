//! A job's trace, and a task's: retries, escalations and recoveries in the words of 002 §6 (R-T9).
//!
//! Nothing is stored for it. It is a view of the one event stream, told from the story of the job, or of all jobs of
//! the task.

#[cfg(feature = "tasks")]
mod task;

use std::collections::HashMap;

use redrive_policy::plan::RecoveryStrategy;
use redrive_policy::{DecisionKind, EscalateSettings, EscalationReport, FailureType, Lang, ReasonType};
use redrive_store::{Event, EventFilter, JobId, JobState, StoredDecision, TaskId, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

#[cfg(feature = "tasks")]
use super::subtask_id;
use super::{Engine, EngineError};

/// How far back a trace looks, in events.
const REMEMBERED: u32 = 10_000;

/// What a line of a trace is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TraceEvent {
    /// An attempt failed and will be tried again.
    RetryDecision,
    /// Another attempt begins.
    RetryStart,
    /// Another attempt succeeded.
    RetrySuccess,
    /// An attempt failed and a person is told.
    EscalateDecision,
    /// The person was told.
    EscalateExecuted,
    /// What had failed is put back.
    RecoveryStart,
    /// Files were put back to what they were.
    SnapshotRestore,
    /// What was put back is over.
    RecoveryComplete,
}

impl TraceEvent {
    /// Its name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            TraceEvent::RetryDecision => "RETRY_DECISION",
            TraceEvent::RetryStart => "RETRY_START",
            TraceEvent::RetrySuccess => "RETRY_SUCCESS",
            TraceEvent::EscalateDecision => "ESCALATE_DECISION",
            TraceEvent::EscalateExecuted => "ESCALATE_EXECUTED",
            TraceEvent::RecoveryStart => "RECOVERY_START",
            TraceEvent::SnapshotRestore => "SNAPSHOT_RESTORE",
            TraceEvent::RecoveryComplete => "RECOVERY_COMPLETE",
        }
    }
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceEntry {
    /// When.
    pub timestamp: Timestamp,
    /// What.
    pub event: TraceEvent,
    /// What the task belongs to: the store, by its own number.
    pub session_id: String,
    /// The task, or the job that belongs to none.
    pub task_id: String,
    /// The part of the task that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask_id: Option<String>,
    /// The attempt that it is about, from 1. After a redrive they are counted from 1 again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_index: Option<u32>,
    /// What there is to say about it.
    pub data: Value,
}

impl Engine {
    /// The trace of a job, the oldest line first, in this language; nothing when there is no such job. What is a subtask
    /// is told under the id of its task.
    pub async fn trace(&self, id: JobId, lang: Lang) -> Result<Option<Vec<TraceEntry>>, EngineError> {
        let Some(job) = self.store().job(id).await? else { return Ok(None) };
        let mut events = self.store().causality(job.event, REMEMBERED).await?;
        // What led to the job is not its own story.
        events.retain(|event| event.job == Some(id));
        // That files were put back stands beside it.
        let beside = EventFilter {
            job: Some(id),
            types: vec!["snapshot_restore".to_owned()],
            ..EventFilter::default()
        };
        events.extend(self.store().events(beside, REMEMBERED).await?);
        events.sort_by_key(|event| event.seq);
        events.dedup_by_key(|event| event.seq);
        let told = match job.state {
            JobState::Dead(letter) => report_of(letter.report, &letter.context["action"], lang),
            JobState::Ready { .. } | JobState::Leased { .. } | JobState::Ended => None,
        };
        let (task_id, subtask_id) = match self.subtask_of_job(id, &events).await? {
            Some((task, subtask)) => (task.to_string(), Some(subtask)),
            None => (id.to_string(), None),
        };
        let session_id = self.session_id();
        let mut tracer = Tracer::new(About { session_id, task_id, subtask_id }, lang, Whose::Own);
        let mut entries = Vec::new();
        let death = events.iter().rposition(|event| event.event_type == "job_dead");
        for (i, event) in events.iter().enumerate() {
            // The letter that is there tells of the last death; earlier reports went with their letters.
            tracer.tell(event, told.as_ref().filter(|_| Some(i) == death), &[], &mut entries);
        }
        Ok(Some(entries))
    }

    /// What a trace calls the store.
    pub(super) fn session_id(&self) -> String {
        format!("{:016x}", self.store().store_id())
    }

    /// Nobody here knows tasks.
    #[cfg(not(feature = "tasks"))]
    #[allow(clippy::unused_async)]
    async fn subtask_of_job(
        &self,
        _job: JobId,
        _events: &[Event],
    ) -> Result<Option<(TaskId, String)>, EngineError> {
        Ok(None)
    }

    /// The task and the subtask that a job was begun for, also when another one has taken its place since.
    #[cfg(feature = "tasks")]
    async fn subtask_of_job(
        &self,
        job: JobId,
        events: &[Event],
    ) -> Result<Option<(TaskId, String)>, EngineError> {
        if let Some((task, number)) = self.store().subtask_of(job).await?
            && let Some(found) = self.store().task(task).await?
        {
            return Ok(Some((task, subtask_id(task, &self.plan_of(&found)?, number))));
        }
        let caller = events.iter().find_map(|event| event.data.get("caller_id").and_then(Value::as_str));
        let Some(task) = caller.and_then(|caller| caller.parse().ok()) else { return Ok(None) };
        let Some(found) = self.store().task(task).await? else { return Ok(None) };
        let names = task::names(&found, &self.plan_of(&found)?);
        let own = events.first().map(|event| &event.source).filter(|source| names.contains(*source));
        Ok(own.map(|subtask| (task, subtask.clone())))
    }
}

/// What a letter or a task says of itself, in this language.
fn report_of(report: Value, name: &Value, lang: Lang) -> Option<EscalationReport> {
    let report: EscalationReport = serde_json::from_value(report).ok()?;
    Some(report.in_lang(name.as_str().unwrap_or_default(), &EscalateSettings::default(), lang))
}

/// The last iteration of a trace, and what belongs to none; of a task, the last one of each subtask.
pub fn latest(entries: Vec<TraceEntry>) -> Vec<TraceEntry> {
    let mut by_subtask: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (i, entry) in entries.iter().enumerate() {
        by_subtask.entry(entry.subtask_id.as_deref()).or_default().push(i);
    }
    let mut kept: Vec<bool> = entries.iter().map(|entry| entry.iteration_index.is_none()).collect();
    for places in by_subtask.values() {
        let last = places.iter().rev().find_map(|i| entries[*i].iteration_index);
        // From behind: the first line of another iteration, or of another life, ends the last one.
        for i in places.iter().rev() {
            match entries[*i].iteration_index {
                Some(_) if entries[*i].iteration_index != last => break,
                None if entries[*i].event == TraceEvent::RecoveryStart => break,
                _ => kept[*i] = true,
            }
        }
    }
    entries.into_iter().zip(kept).filter_map(|(entry, kept)| kept.then_some(entry)).collect()
}

/// What every line of a trace names.
#[derive(Debug, Clone)]
#[allow(clippy::struct_field_names)]
struct About {
    session_id: String,
    task_id: String,
    subtask_id: Option<String>,
}

impl About {
    fn entry(
        &self,
        event: &Event,
        what: TraceEvent,
        iteration_index: Option<u32>,
        data: Value,
    ) -> TraceEntry {
        TraceEntry {
            timestamp: event.timestamp,
            event: what,
            session_id: self.session_id.clone(),
            task_id: self.task_id.clone(),
            subtask_id: self.subtask_id.clone(),
            iteration_index,
            data,
        }
    }
}

/// Whose trace it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The job's own: it tells of its escalation and its recovery.
    Own,
    /// Its task's, which speaks for it when a person is told and when it is recovered.
    #[cfg_attr(not(feature = "tasks"), allow(dead_code))]
    OfTask,
}

/// Tells one event of a job after the other, and remembers what the next one needs.
struct Tracer {
    about: About,
    lang: Lang,
    whose: Whose,
    /// Of the attempts since it was last put back.
    failures: Vec<FailureType>,
    last: Option<StoredDecision>,
    recovering: bool,
    /// Whether an attempt runs.
    running: bool,
    /// Files that the attempt put back when it had failed: told once it is known what was decided about it.
    restored: Vec<TraceEntry>,
    /// Whether its retries do again what was undone.
    redoing: bool,
}

impl Tracer {
    fn new(about: About, lang: Lang, whose: Whose) -> Tracer {
        Tracer {
            about,
            lang,
            whose,
            failures: Vec::new(),
            last: None,
            recovering: false,
            running: false,
            restored: Vec::new(),
            redoing: false,
        }
    }

    /// Tells an event, with the report of the letter that it wrote, and the names of the subtasks that are done by then.
    fn tell(
        &mut self,
        event: &Event,
        report: Option<&EscalationReport>,
        done: &[String],
        entries: &mut Vec<TraceEntry>,
    ) {
        let attempt = event.data.get("attempt").and_then(Value::as_u64);
        let attempt = attempt.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        match event.event_type.as_str() {
            "attempt_started" => {
                self.running = true;
                entries.extend(self.started(event, attempt));
            }
            "attempt_succeeded" => self.succeeded(event, attempt, entries),
            "attempt_failed" | "job_dead" => self.failed(event, attempt, report, done, entries),
            "redrive" | "manual_retry" if self.has_died() => entries.extend(self.put_back(event)),
            "snapshot_restore" => {
                let data = fields(&event.data, SNAPSHOT_FIELDS);
                let entry = self.about.entry(event, TraceEvent::SnapshotRestore, attempt, data);
                if self.running { self.restored.push(entry) } else { entries.push(entry) }
            }
            _ => {}
        }
    }

    fn has_died(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|decision| decision.record.decision == DecisionKind::Escalate)
    }

    /// What the last decision tells the next attempt.
    fn hint(&self) -> Value {
        let record = self.last.as_ref().map(|decision| match self.lang {
            Lang::En => &decision.record,
            Lang::Ja => &decision.ja,
        });
        json!(record.and_then(|record| record.modification_hint.clone()))
    }

    fn started(&self, event: &Event, attempt: Option<u32>) -> Option<TraceEntry> {
        let attempt = attempt.filter(|attempt| *attempt > 1)?;
        let data = json!({
            "retry_count": attempt - 1,
            "previous_failure_type": self.failures.last(),
            "modification_hint": self.hint(),
        });
        Some(self.about.entry(event, TraceEvent::RetryStart, Some(attempt), data))
    }

    fn succeeded(&mut self, event: &Event, attempt: Option<u32>, entries: &mut Vec<TraceEntry>) {
        self.running = false;
        entries.append(&mut self.restored);
        let attempts = attempt.unwrap_or(1);
        if attempts > 1 {
            let data = json!({
                "retry_count": attempts - 1,
                "total_attempts": attempts,
                "final_status": "PASS",
            });
            entries.push(self.about.entry(event, TraceEvent::RetrySuccess, Some(attempts), data));
        }
        entries.extend(self.redone(event, "PASS"));
        entries.extend(self.recovered(event, "PASS"));
    }

    fn failed(
        &mut self,
        event: &Event,
        attempt: Option<u32>,
        report: Option<&EscalationReport>,
        done: &[String],
        entries: &mut Vec<TraceEntry>,
    ) {
        self.running = false;
        let decision = event.data.get("decision").cloned().unwrap_or_default();
        let Ok(decision) = serde_json::from_value::<StoredDecision>(decision) else { return };
        let failure_type = decision.record.failure_type.unwrap_or(FailureType::EscalateRequired);
        self.failures.push(failure_type);
        let record = match self.lang {
            Lang::En => &decision.record,
            Lang::Ja => &decision.ja,
        };
        if event.event_type != "job_dead" {
            let data = fields(&json!(record), DECISION_FIELDS);
            self.undone(done, entries);
            entries.push(self.about.entry(event, TraceEvent::RetryDecision, attempt, data));
            self.last = Some(decision);
            return;
        }
        entries.append(&mut self.restored);
        let summary = report.map_or_else(
            || {
                json!({
                    "total_attempts": attempt,
                    "failure_types": self.failures,
                    "last_failure": {
                        "type": failure_type,
                        "message": event.error_info.as_ref().map(|error| &error.error_message),
                        "timestamp": event.timestamp,
                    },
                })
            },
            |report| json!(report.failure_summary),
        );
        let escalation = json!({
            // The report was written in one language; the decision is kept in both.
            "reason": {
                "type": report.map_or_else(|| ReasonType::of_record(&decision.record), |report| report.reason.reason_type),
                "description": record.escalate_reason,
            },
            "failure_summary": summary,
        });
        entries.push(self.about.entry(event, TraceEvent::EscalateDecision, attempt, escalation));
        if self.whose == Whose::Own {
            let told = json!({
                "user_message": report.map_or(&record.reasoning, |report| &report.user_message),
                "recommended_actions": report.map_or(&[][..], |report| &report.recommended_actions),
            });
            let subtask_id = None;
            let about = About { subtask_id, ..self.about.clone() };
            entries.push(about.entry(event, TraceEvent::EscalateExecuted, None, told));
        }
        entries.extend(self.redone(event, "ESCALATE"));
        entries.extend(self.recovered(event, "ESCALATE"));
        self.last = Some(decision);
    }

    /// Files were put back before the next attempt: a recovery of this subtask alone, which is over when it is.
    fn undone(&mut self, done: &[String], entries: &mut Vec<TraceEntry>) {
        let Some(first) = self.restored.first() else { return };
        let timestamp = first.timestamp;
        if !std::mem::replace(&mut self.redoing, true) {
            let data = json!({
                "strategy": RecoveryStrategy::RetryFailedOnly,
                "failed_subtasks": [self.name()],
                "succeeded_subtasks": done,
            });
            let about = self.about.clone();
            entries.push(TraceEntry {
                timestamp,
                event: TraceEvent::RecoveryStart,
                session_id: about.session_id,
                task_id: about.task_id,
                subtask_id: about.subtask_id,
                iteration_index: None,
                data,
            });
        }
        entries.append(&mut self.restored);
    }

    fn redone(&mut self, event: &Event, final_status: &str) -> Option<TraceEntry> {
        std::mem::take(&mut self.redoing).then(|| self.complete(event, final_status))
    }

    /// What people call it in a list of subtasks.
    fn name(&self) -> &str {
        self.about.subtask_id.as_deref().unwrap_or(&self.about.task_id)
    }

    fn put_back(&mut self, event: &Event) -> Option<TraceEntry> {
        self.failures.clear();
        self.last = None;
        self.recovering = true;
        let data = json!({
            "strategy": RecoveryStrategy::RetryFailedOnly,
            "failed_subtasks": [self.name()],
            "succeeded_subtasks": [],
        });
        (self.whose == Whose::Own).then(|| self.about.entry(event, TraceEvent::RecoveryStart, None, data))
    }

    fn recovered(&mut self, event: &Event, final_status: &str) -> Option<TraceEntry> {
        let recovered = std::mem::take(&mut self.recovering) && self.whose == Whose::Own;
        recovered.then(|| self.complete(event, final_status))
    }

    fn complete(&self, event: &Event, final_status: &str) -> TraceEntry {
        let recovered = if final_status == "PASS" { vec![self.name()] } else { Vec::new() };
        let data = json!({
            "strategy": RecoveryStrategy::RetryFailedOnly,
            "recovered_subtasks": recovered,
            "final_status": final_status,
        });
        self.about.entry(event, TraceEvent::RecoveryComplete, None, data)
    }
}

/// The fields of 002 §6 and no others; what is not there is null.
const DECISION_FIELDS: &[&str] = &[
    "decision",
    "failure_type",
    "current_retry_count",
    "max_retries",
    "delay_ms",
    "modification_hint",
    "reasoning",
];
const SNAPSHOT_FIELDS: &[&str] = &["snapshot_id", "restored_files", "deleted_files"];

/// Only these of all that an event says.
fn fields(data: &Value, names: &[&str]) -> Value {
    let field = |name: &&str| ((*name).to_owned(), data.get(*name).cloned().unwrap_or_default());
    Value::Object(names.iter().map(field).collect())
}
