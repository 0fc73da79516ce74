//! A job's trace: its retries, escalations and recoveries in the words of 002 §6 (R-T9).
//!
//! Nothing is stored for it. It is a view of the one event stream, told from the job's own story.

use redrive_policy::{DecisionKind, FailureType, Lang, ReasonType};
use redrive_store::{Event, JobId, JobState, StoredDecision, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

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
    /// The job.
    pub task_id: String,
    /// The attempt that it is about, from 1. After a redrive they are counted from 1 again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_index: Option<u32>,
    /// What there is to say about it.
    pub data: Value,
}

impl Engine {
    /// The trace of a job, the oldest line first, with decisions in this language; nothing when there is no such job.
    pub async fn trace(&self, id: JobId, lang: Lang) -> Result<Option<Vec<TraceEntry>>, EngineError> {
        let Some(job) = self.store().job(id).await? else { return Ok(None) };
        let events = self.store().causality(job.event, REMEMBERED).await?;
        let report = match job.state {
            JobState::Dead(letter) => letter.report,
            JobState::Ready { .. } | JobState::Leased { .. } | JobState::Ended => Value::Null,
        };
        let mut tracer = Tracer {
            session_id: format!("{:016x}", self.store().store_id()),
            task_id: id.to_string(),
            lang,
            failures: Vec::new(),
            last: None,
            recovering: false,
            entries: Vec::new(),
        };
        // What led to the job is not its own story.
        let own: Vec<&Event> = events.iter().filter(|event| event.job == Some(id)).collect();
        let death = own.iter().rposition(|event| event.event_type == "job_dead");
        for (i, event) in own.iter().enumerate() {
            // The letter that is there tells of the last death; earlier reports went with their letters.
            tracer.tell(event, if Some(i) == death { &report } else { &Value::Null });
        }
        Ok(Some(tracer.entries))
    }
}

/// The last iteration of a trace, and what belongs to none.
pub fn latest(entries: Vec<TraceEntry>) -> Vec<TraceEntry> {
    let last = entries.iter().rev().find_map(|entry| entry.iteration_index);
    // From behind: the first line of another iteration, or of another life, ends the last one.
    let mut begun_at = entries.len();
    for (i, entry) in entries.iter().enumerate().rev() {
        match entry.iteration_index {
            Some(_) if entry.iteration_index != last => break,
            None if entry.event == TraceEvent::RecoveryStart => break,
            _ => begun_at = i,
        }
    }
    let keep =
        |(i, entry): (usize, TraceEntry)| (i >= begun_at || entry.iteration_index.is_none()).then_some(entry);
    entries.into_iter().enumerate().filter_map(keep).collect()
}

/// Tells one event after the other, and remembers what the next one needs.
struct Tracer {
    session_id: String,
    task_id: String,
    lang: Lang,
    /// Of the attempts since it was last put back.
    failures: Vec<FailureType>,
    last: Option<StoredDecision>,
    recovering: bool,
    entries: Vec<TraceEntry>,
}

impl Tracer {
    fn tell(&mut self, event: &Event, report: &Value) {
        let attempt = event.data.get("attempt").and_then(Value::as_u64);
        let attempt = attempt.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        match event.event_type.as_str() {
            "attempt_started" => self.started(event, attempt),
            "attempt_succeeded" => self.succeeded(event, attempt),
            "attempt_failed" | "job_dead" => self.failed(event, attempt, report),
            "redrive" | "manual_retry" if self.has_died() => self.put_back(event),
            "snapshot_restore" => {
                self.add(event, TraceEvent::SnapshotRestore, attempt, event.data.clone());
            }
            _ => {}
        }
    }

    fn add(&mut self, event: &Event, what: TraceEvent, iteration_index: Option<u32>, data: Value) {
        self.entries.push(TraceEntry {
            timestamp: event.timestamp,
            event: what,
            session_id: self.session_id.clone(),
            task_id: self.task_id.clone(),
            iteration_index,
            data,
        });
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

    fn started(&mut self, event: &Event, attempt: Option<u32>) {
        let Some(attempt) = attempt.filter(|attempt| *attempt > 1) else { return };
        let data = json!({
            "retry_count": attempt - 1,
            "previous_failure_type": self.failures.last(),
            "modification_hint": self.hint(),
        });
        self.add(event, TraceEvent::RetryStart, Some(attempt), data);
    }

    fn succeeded(&mut self, event: &Event, attempt: Option<u32>) {
        let attempts = attempt.unwrap_or(1);
        if attempts > 1 {
            let data = json!({
                "retry_count": attempts - 1,
                "total_attempts": attempts,
                "final_status": "PASS",
            });
            self.add(event, TraceEvent::RetrySuccess, Some(attempts), data);
        }
        self.recovered(event, "PASS");
    }

    fn failed(&mut self, event: &Event, attempt: Option<u32>, report: &Value) {
        let decision = event.data.get("decision").cloned().unwrap_or_default();
        let Ok(decision) = serde_json::from_value::<StoredDecision>(decision) else { return };
        let failure_type = decision.record.failure_type.unwrap_or(FailureType::EscalateRequired);
        self.failures.push(failure_type);
        let data = match self.lang {
            Lang::En => json!(decision.record),
            Lang::Ja => json!(decision.ja),
        };
        let dead = event.event_type == "job_dead";
        if !dead {
            self.add(event, TraceEvent::RetryDecision, attempt, with_version(data, &decision));
            self.last = Some(decision);
            return;
        }
        let message = event.error_info.as_ref().map(|error| error.error_message.clone());
        // The report was written in one language; the decision is kept in both.
        let own_words = match self.lang {
            Lang::En => report,
            Lang::Ja => &Value::Null,
        };
        let escalation = json!({
            "reason": either(own_words, "reason", || json!({
                "type": ReasonType::of_record(&decision.record),
                "description": data.get("escalate_reason").cloned().unwrap_or_default(),
            })),
            "failure_summary": either(report, "failure_summary", || json!({
                "total_attempts": attempt,
                "failure_types": self.failures,
                "last_failure": {
                    "type": failure_type,
                    "message": message,
                    "timestamp": event.timestamp,
                },
            })),
        });
        self.add(event, TraceEvent::EscalateDecision, attempt, escalation);
        let told = json!({
            "user_message": either(own_words, "user_message", || data["reasoning"].clone()),
            "recommended_actions": report.get("recommended_actions"),
        });
        self.add(event, TraceEvent::EscalateExecuted, None, told);
        self.recovered(event, "ESCALATE");
        self.last = Some(decision);
    }

    fn put_back(&mut self, event: &Event) {
        let data = json!({
            "strategy": "RETRY_FAILED_ONLY",
            "failed_subtasks": [self.task_id],
            "succeeded_subtasks": [],
        });
        self.add(event, TraceEvent::RecoveryStart, None, data);
        self.failures.clear();
        self.last = None;
        self.recovering = true;
    }

    fn recovered(&mut self, event: &Event, final_status: &str) {
        if !std::mem::take(&mut self.recovering) {
            return;
        }
        let recovered = if final_status == "PASS" { vec![self.task_id.clone()] } else { Vec::new() };
        let data = json!({
            "strategy": "RETRY_FAILED_ONLY",
            "recovered_subtasks": recovered,
            "final_status": final_status,
        });
        self.add(event, TraceEvent::RecoveryComplete, None, data);
    }
}

/// What the report says, or else what can be told without it.
fn either(report: &Value, name: &str, otherwise: impl FnOnce() -> Value) -> Value {
    report.get(name).filter(|said| !said.is_null()).cloned().unwrap_or_else(otherwise)
}

/// A decision, with the rule and the version of the policy behind it.
fn with_version(data: Value, decision: &StoredDecision) -> Value {
    let mut fields = match data {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.insert("policy_version".to_owned(), json!(decision.policy_version));
    if let Some(rule) = &decision.rule {
        fields.insert("rule".to_owned(), json!(rule));
    }
    Value::Object(fields)
}
