//! What is written when a job is set aside: why, where, and the report that a person reads (R-D5, R-T7).

mod discard;
mod edit;
mod export;
mod import;
mod outside;

use redrive_policy::{Cause, Decision, Escalation, RetryAttempt, Why};
use redrive_store::{Event, FailedAttempt, LeasedJob, LetterReason, NewLetter, Task, TaskId, Timestamp};
use serde_json::{Map, Value, json};

pub use discard::Discard;
#[cfg(all(feature = "exec", feature = "http-call"))]
pub use edit::{BadPayload, check_payload};
pub use export::{JobSettings, LetterLine, Work};
pub use import::{BadLine, LettersImported};
pub use outside::is_readable_name;

use super::{Engine, called_by};

/// How far back a report looks for earlier attempts, in events.
const REMEMBERED: u32 = 200;
/// How many attempts a report tells of: the last ones.
const TOLD: usize = 20;

/// Why a job is set aside, by what was decided.
pub(super) fn reason_of(decision: &Decision) -> LetterReason {
    match &decision.why {
        Why::Exhausted { .. } if decision.cause == Some(Cause::Crashed) => LetterReason::Crashed,
        Why::Exhausted { .. } => LetterReason::Exhausted,
        Why::RetryAfterTooLong { .. } => LetterReason::RetryAfter,
        Why::NotListed { .. }
        | Why::RuleForbids { .. }
        | Why::NeverRetried { .. }
        | Why::Succeeded
        | Why::Retried { .. } => match decision.cause {
            Some(Cause::HumanJudgment) => LetterReason::HumanJudgment,
            _ => LetterReason::NonRetryable,
        },
    }
}

/// The letter of a job whose last attempt has failed.
pub(super) async fn letter(
    engine: &Engine,
    leased: &LeasedJob,
    decision: &Decision,
    failed: &FailedAttempt,
    reason: LetterReason,
    now: Timestamp,
) -> NewLetter {
    let mut attempts = earlier_attempts(engine, leased).await;
    let escalated_at = now.to_string();
    attempts.push(RetryAttempt {
        attempt_number: leased.attempt,
        timestamp: escalated_at.clone(),
        failure_type: failed.cause.failure_type(),
        cause: failed.cause,
        error_message: failed.error_message.clone(),
        duration_ms: failed.latency.map_or(0, redrive_policy::round_to_millis),
    });
    let from = attempts.len().saturating_sub(TOLD);
    let task = task_of(engine, leased).await;
    let task_id = task.as_ref().map_or_else(|| leased.job.id.to_string(), |task| task.id.to_string());
    let called =
        called_by(&leased.job.kind, &leased.job.payload).filter(|_| leased.job.source == leased.job.kind);
    let name = called.as_ref().unwrap_or(&leased.job.source);
    let logs = [&failed.output.stderr, &failed.output.stdout].into_iter().flatten().next();
    let logs: Vec<String> = logs.map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default();
    let report = Escalation {
        task_id: &task_id,
        subtask_id: task.as_ref().map(|_| leased.job.source.as_str()),
        task_summary: task.as_ref().map_or(name, |task| &task.name),
        decision,
        attempts: &attempts[from..],
        escalated_at: &escalated_at,
        trace_file: None,
        relevant_logs: &logs,
    }
    .report(&engine.held().escalate, engine.0.lang);
    let report = serde_json::to_value(report).unwrap_or(Value::Null);
    NewLetter { reason, context: context(leased, failed, name), report }
}

/// The task that a job is a part of. When that cannot be read, the letter is the job's own: what has happened must be
/// settled all the same.
async fn task_of(engine: &Engine, leased: &LeasedJob) -> Option<Task> {
    let store = engine.store();
    // Nobody else's caller is a task, so that others pay nothing for the question.
    leased.job.caller_id.as_deref()?.parse::<TaskId>().ok()?;
    let found = async {
        match store.subtask_of(leased.job.id).await? {
            Some((task, _)) => store.task(task).await,
            None => Ok(None),
        }
    };
    found.await.unwrap_or_else(|error| {
        tracing::warn!(job = %leased.job.id, %error, "a letter is written without its task");
        None
    })
}

/// Where it failed (000's context).
fn context(leased: &LeasedJob, failed: &FailedAttempt, name: &str) -> Value {
    let mut context = Map::new();
    context.insert("action".to_owned(), json!(name));
    context.insert("queue".to_owned(), json!(leased.job.queue));
    context.insert("kind".to_owned(), json!(leased.job.kind));
    context.insert("attempt".to_owned(), json!(leased.attempt));
    let optional = [
        ("http_status", failed.http_status.map(Value::from)),
        ("code", failed.code.clone().map(Value::from)),
        ("exit_code", failed.exit_code.map(Value::from)),
        ("caller_id", leased.job.caller_id.clone().map(Value::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            context.insert(name.to_owned(), value);
        }
    }
    Value::Object(context)
}

/// What the stream tells of the attempts before this one, the oldest first. When it cannot be read, the letter does
/// without: what has happened must be settled all the same.
async fn earlier_attempts(engine: &Engine, leased: &LeasedJob) -> Vec<RetryAttempt> {
    if leased.attempt <= 1 {
        return Vec::new();
    }
    let events = engine.store().causality(leased.event, REMEMBERED).await.unwrap_or_else(|error| {
        tracing::warn!(job = %leased.job.id, %error, "a letter is written without its earlier attempts");
        Vec::new()
    });
    let mut attempts = Vec::new();
    for event in &events {
        let number = u32::try_from(attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
        attempts.extend(attempt_of(event, number));
    }
    attempts
}

/// The attempt that an event tells of, if it tells of one that failed.
pub(super) fn attempt_of(event: &Event, number: u32) -> Option<RetryAttempt> {
    let error = event.error_info.as_ref()?;
    let cause = event.data.get("cause").and_then(Value::as_str).and_then(|name| name.parse().ok());
    let cause = cause.unwrap_or(Cause::Unknown);
    let told = event.data.get("attempt").and_then(Value::as_u64).and_then(|told| u32::try_from(told).ok());
    Some(RetryAttempt {
        attempt_number: told.unwrap_or(number),
        timestamp: event.timestamp.to_string(),
        failure_type: cause.failure_type(),
        cause,
        error_message: error.error_message.clone(),
        duration_ms: event.latency_ms.unwrap_or(0),
    })
}
