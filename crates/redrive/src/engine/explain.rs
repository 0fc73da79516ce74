//! `explain`: why a job is where it is, as data. Every decision's event carries the whole decision, so this is a view of
//! the stream and nothing else.

use std::time::Duration;

use redrive_policy::{Cause, DecisionRecord, Lang};
use redrive_store::{
    Event, EventStatus, JobId, JobRecord, JobState, LetterReason, StoredDecision, Timestamp,
};
use serde_json::Value;

use super::{Engine, EngineError};

/// How far back an explanation looks, in events.
const REMEMBERED: u32 = 10_000;

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The job.
    pub job: JobRecord,
    /// Every attempt that ended and is still remembered, the oldest first.
    pub attempts: Vec<AttemptStory>,
    /// When it runs next.
    pub next_run: Option<Timestamp>,
    /// Why it was set aside.
    pub letter_reason: Option<LetterReason>,
    /// Everything that happened to it, the oldest first.
    pub events: Vec<Event>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AttemptStory {
    /// Its number, from 1.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// The state after it.
    pub status: EventStatus,
    /// What it was found to be, if it failed.
    pub cause: Option<Cause>,
    /// Its words.
    pub error_message: Option<String>,
    /// How long it took.
    pub latency: Option<Duration>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// What was decided, in the wanted language.
    pub decision: Option<DecisionRecord>,
    /// Which version of the policy decided.
    pub policy_version: Option<String>,
    /// The rule that recognised the failure.
    pub rule: Option<String>,
    /// The event that tells of it.
    pub event_id: String,
}

impl Engine {
    /// Why a job is where it is, with decisions in this language; nothing when there is no such job.
    pub async fn explain(&self, id: JobId, lang: Lang) -> Result<Option<Explanation>, EngineError> {
        let Some(job) = self.store().job(id).await? else { return Ok(None) };
        let events = self.store().causality(job.event, REMEMBERED).await?;
        // What led to the job is not its own story.
        let events: Vec<Event> = events.into_iter().filter(|event| event.job == Some(id)).collect();
        let mut attempts: Vec<AttemptStory> = Vec::new();
        for event in &events {
            let number = u32::try_from(attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
            attempts.extend(story_of(event, number, lang));
        }
        let (next_run, letter_reason) = match &job.state {
            JobState::Ready { run_at, .. } => (Some(*run_at), None),
            JobState::Dead(letter) => (None, Some(letter.reason)),
            JobState::Leased { .. } | JobState::Ended => (None, None),
        };
        Ok(Some(Explanation { job, attempts, next_run, letter_reason, events }))
    }
}

/// The attempt whose end an event tells of, if it tells of one.
fn story_of(event: &Event, number: u32, lang: Lang) -> Option<AttemptStory> {
    let decision: Option<StoredDecision> =
        event.data.get("decision").and_then(|decision| serde_json::from_value(decision.clone()).ok());
    let ended =
        decision.is_some() || event.status == EventStatus::Success || event.event_type == "job_cancelled";
    if !ended {
        return None;
    }
    let told = event.data.get("attempt").and_then(Value::as_u64).and_then(|told| u32::try_from(told).ok());
    let cause = event.data.get("cause").and_then(Value::as_str).and_then(|name| name.parse().ok());
    let (policy_version, rule) = match &decision {
        Some(decision) => (Some(decision.policy_version.clone()), decision.rule.clone()),
        None => (None, None),
    };
    Some(AttemptStory {
        number: told.unwrap_or(number),
        at: event.timestamp,
        status: event.status,
        cause,
        error_message: event.error_info.as_ref().map(|error| error.error_message.clone()),
        latency: event.latency_ms.map(Duration::from_millis),
        exit_code: event.exit_code,
        decision: decision.map(|decision| match lang {
            Lang::En => decision.record,
            Lang::Ja => decision.ja,
        }),
        policy_version,
        rule,
        event_id: event.event_id.clone(),
    })
}
