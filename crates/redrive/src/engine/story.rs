//! The whole story of a job as data: each attempt, what was decided about it and why, and what comes next. The contract
//! `redrive/story.v1` of the command line and of the API.
//!
//! It is told from the job's events alone; every decision's event carries the whole decision (R-E2).

use redrive_policy::EscalationLevel;
use redrive_store::{Event, EventFilter, EventStatus, JobId, JobRecord, JobState, StoredDecision, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::{Engine, EngineError, called_by};

/// How far back a story goes, in events.
const REMEMBERED: u32 = 10_000;

/// A job's story.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobStory {
    /// `redrive/story.v1`.
    pub schema: &'static str,
    /// The job.
    pub id: JobId,
    /// Where it stands; see [`job_state`].
    pub state: &'static str,
    /// Its queue.
    pub queue: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Whom it calls, if it is an HTTP call that is not over: the method and the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    /// What its events name as their source.
    pub source: Option<String>,
    /// The name of its policy.
    pub policy: Option<String>,
    /// The caller's own id for it.
    pub caller_id: Option<String>,
    /// Attempts, those before it was put back included.
    pub attempts: u64,
    /// Retries that count against `max_retries`.
    pub retry_count: u32,
    /// How far up it has gone, if it has failed: 1 while it is retried.
    pub level: Option<EscalationLevel>,
    /// When it runs next.
    pub next_run_at: Option<Timestamp>,
    /// Every attempt that ended, the oldest first.
    pub history: Vec<StoryAttempt>,
    /// Everything that happened to it, the oldest first.
    pub events: Vec<Event>,
}

/// One attempt that ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoryAttempt {
    /// Its number, from 1; after a redrive they are counted from 1 again.
    #[serde(rename = "attempt")]
    pub number: u64,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The state after it.
    pub status: EventStatus,
    /// What it was found to be, if it failed.
    pub cause: Option<String>,
    /// The rule that recognised it.
    pub rule: Option<String>,
    /// The error's type.
    pub error_type: Option<String>,
    /// Its words.
    pub error_message: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The status of an HTTP call.
    pub http_status: Option<u64>,
    /// A code that the error had.
    pub code: Option<String>,
    /// How long it took.
    pub latency_ms: Option<u64>,
    /// What was decided, in both languages.
    pub decision: Option<StoredDecision>,
}

impl Engine {
    /// The story of a job; nothing when there is no such job.
    ///
    /// ```
    /// use redrive::engine::Engine;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let engine = Engine::open(dir.path().join("redrive.db"))?;
    /// let id = engine.job("greet", &"Ada").enqueue().await?.id;
    /// let story = engine.story(id).await?.unwrap();
    /// assert_eq!((story.state, story.events.len()), ("ready", 1));
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub async fn story(&self, id: JobId) -> Result<Option<JobStory>, EngineError> {
        let Some(record) = self.store().job(id).await? else { return Ok(None) };
        let mut events = self.store().causality(record.event, REMEMBERED).await?;
        // What led to the job belongs to other stories.
        events.retain(|event| event.job == Some(id));
        // That somebody has mended its payload stands beside the story, and explains what follows.
        let edits =
            EventFilter { job: Some(id), types: vec!["payload_edited".to_owned()], ..EventFilter::default() };
        events.extend(self.store().events(edits, REMEMBERED).await?);
        events.sort_by_key(|event| event.seq);
        events.dedup_by_key(|event| event.seq);
        Ok(Some(JobStory::new(&record, events, self.now())))
    }

    /// A job and the last event of its own story; nothing when there is no such job.
    pub async fn job_and_last(&self, id: JobId) -> Result<Option<(JobRecord, Option<Event>)>, EngineError> {
        let Some(record) = self.store().job(id).await? else { return Ok(None) };
        let chain = self.store().causality(record.event, 1).await?;
        if let Some(last) = chain.into_iter().next_back() {
            return Ok(Some((record, Some(last))));
        }
        let filter = EventFilter { job: Some(id), ..EventFilter::default() };
        let last = self.store().events(filter, 1).await?.into_iter().next();
        Ok(Some((record, last)))
    }
}

impl JobStory {
    /// The story of a job from its events, the oldest first.
    pub fn new(record: &JobRecord, events: Vec<Event>, now: Timestamp) -> JobStory {
        let job = record.job.as_ref();
        let history = StoryAttempt::all(&events);
        // A job that was put back counts from one again; its story counts them all.
        let ended = u64::try_from(history.len()).unwrap_or(u64::MAX);
        let word = |name: &str| {
            let mut data = events.iter().map(|event| &event.data);
            data.find_map(|data| data.get(name).and_then(|value| value.as_str()).map(ToOwned::to_owned))
        };
        let state = job_state(record, events.last(), now);
        JobStory {
            schema: "redrive/story.v1",
            id: record.id,
            state,
            level: match (state, &record.state) {
                ("retrying", _) => Some(EscalationLevel::AutomaticRetry),
                (_, JobState::Dead(letter)) => Some(EscalationLevel::of(letter.cause, letter.retryable)),
                _ => None,
            },
            queue: job.map(|job| job.queue.clone()).or_else(|| word("queue")),
            kind: job.map(|job| job.kind.clone()).or_else(|| word("kind")),
            calls: job.and_then(|job| called_by(&job.kind, &job.payload)),
            source: job.map(|job| job.source.clone()).or_else(|| events.first().map(|e| e.source.clone())),
            policy: job.and_then(|job| job.policy.clone()),
            caller_id: job.and_then(|job| job.caller_id.clone()),
            attempts: u64::from(record.attempts).max(ended),
            retry_count: match record.state {
                // Only its events know it.
                JobState::Ended => {
                    let mut last = events.iter().rev();
                    last.find_map(|event| Some(event.retry_info.as_ref()?.retry_count)).unwrap_or_default()
                }
                _ => record.retries,
            },
            next_run_at: match &record.state {
                JobState::Ready { run_at, .. } => Some(*run_at),
                _ => None,
            },
            history,
            events,
        }
    }
}

impl StoryAttempt {
    /// The attempts in a job's events, which come from the oldest to the newest.
    pub fn all(events: &[Event]) -> Vec<StoryAttempt> {
        let mut begun = 0;
        let mut attempts = Vec::new();
        for event in events {
            begun = StoryAttempt::number_in(event)
                .unwrap_or(begun + u64::from(event.status == EventStatus::Running));
            if StoryAttempt::ends_with(event) {
                attempts.push(StoryAttempt::of(event, begun));
            }
        }
        attempts
    }

    /// The attempt of this number that ended with this event.
    pub fn of(event: &Event, number: u64) -> StoryAttempt {
        let decision = StoryAttempt::decision_in(event);
        let word = |name: &str| event.data.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let decided = decision.as_ref();
        StoryAttempt {
            number,
            ended_at: event.timestamp,
            status: event.status,
            cause: decided
                .and_then(|decision| decision.record.cause)
                .map(|cause| cause.name().to_owned())
                .or_else(|| word("cause")),
            rule: decided.and_then(|decision| decision.rule.clone()).or_else(|| word("rule")),
            error_type: event.error_info.as_ref().map(|error| error.error_type.clone()),
            error_message: event.error_info.as_ref().map(|error| error.error_message.clone()),
            exit_code: event.exit_code,
            http_status: event.data.get("http_status").and_then(Value::as_u64),
            code: word("code"),
            latency_ms: event.latency_ms,
            decision,
        }
    }

    /// The attempt that an event is about; none before the first.
    pub fn number_in(event: &Event) -> Option<u64> {
        event.data.get("attempt").and_then(Value::as_u64).filter(|number| *number > 0)
    }

    /// The decision that an event carries.
    pub fn decision_in(event: &Event) -> Option<StoredDecision> {
        event.data.get("decision").and_then(|decision| serde_json::from_value(decision.clone()).ok())
    }

    /// Whether an attempt ended with this event.
    pub fn ends_with(event: &Event) -> bool {
        match event.status {
            // What became of a letter later is no attempt.
            EventStatus::DeadLetter => !event.event_type.starts_with("letter_"),
            EventStatus::Success | EventStatus::Retrying => event.event_type != "payload_edited",
            EventStatus::Failed => event.error_info.is_some(),
            EventStatus::Pending | EventStatus::Running => false,
        }
    }
}

/// Where a job stands, in a word that other programs may rely on: `ready`, `scheduled`, `running`, `retrying`, `dead`,
/// `succeeded`, `discarded` or `cancelled`. `last` is the latest event of its story.
pub fn job_state(record: &JobRecord, last: Option<&Event>, now: Timestamp) -> &'static str {
    match &record.state {
        JobState::Ready { run_at, .. } if record.attempts > 0 && *run_at > now => "retrying",
        JobState::Ready { run_at, .. } if *run_at > now => "scheduled",
        JobState::Ready { .. } => "ready",
        JobState::Leased { .. } => "running",
        JobState::Dead(_) => "dead",
        JobState::Ended if last.is_some_and(|event| event.status == EventStatus::Success) => "succeeded",
        JobState::Ended if last.is_some_and(|event| event.event_type.starts_with("letter_")) => "discarded",
        JobState::Ended => "cancelled",
    }
}
