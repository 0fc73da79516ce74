//! Events that people and programs report themselves, and the questions that are asked of the stream (R-E3).

mod export;
pub(in crate::engine) mod import;
mod with_retry;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use redrive_store::{
    DeadLetter, ErrorInfo, Event, EventFilter, EventSeq, EventStatus, JobId, LetterFilter, NewEvent, Order,
    RecoveryAction, RetryInfo,
};
use serde::Serialize;
use serde_json::Value;

use super::{Engine, EngineError};
use crate::secrets::{redact, redact_json};
pub use import::{ImportOptions, Imported};
pub use with_retry::EmitWithRetry;

/// How long a chain of causes may get.
const CHAIN: u32 = 10_000;
/// How many events a timeline shows.
const TIMELINE: u32 = 1_000;

impl Engine {
    /// Reports something, to be furnished and awaited; the answer is the event's place and id. The status is found by
    /// itself unless one is said: by the exit code, else by the error, else by the retry, else it is pending.
    ///
    /// ```no_run
    /// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
    /// let (_, id) = engine.emit("action", "notion_sync").data(&serde_json::json!({"action": "fetch_specs"})).await?;
    /// engine.emit("result", "notion_sync").parent_id(&id).await?.exit_code(0).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn emit(&self, event_type: impl Into<String>, source: impl Into<String>) -> Emit {
        let event = NewEvent { event_type: event_type.into(), source: source.into(), ..NewEvent::default() };
        Emit { engine: self.clone(), event }
    }

    /// Events that match, at most `limit`.
    pub async fn query(&self, filter: EventFilter, limit: u32) -> Result<Vec<Event>, EngineError> {
        Ok(self.store().events(filter, limit).await?)
    }

    /// Work that finally failed without a letter, the newest first.
    pub async fn get_failed_events(&self, limit: u32) -> Result<Vec<Event>, EngineError> {
        let filter = EventFilter { statuses: vec![EventStatus::Failed], ..EventFilter::default() };
        self.query(filter, limit).await
    }

    /// Dead letters, the newest first.
    pub async fn get_dead_letter_queue(&self, limit: u32) -> Result<Vec<DeadLetter>, EngineError> {
        Ok(self.store().letters(LetterFilter::default(), limit).await?)
    }

    /// Dead letters whose class is transient: what may well succeed when it is redriven.
    pub async fn get_retry_candidates(&self, limit: u32) -> Result<Vec<DeadLetter>, EngineError> {
        let filter = LetterFilter { transient_only: true, ..LetterFilter::default() };
        Ok(self.store().letters(filter, limit).await?)
    }

    /// The event known by this id and everything that led to it, the oldest first.
    pub async fn causality(&self, event_id: &str) -> Result<Vec<Event>, EngineError> {
        let event = self.store().event(event_id.to_owned()).await?;
        let event = event.ok_or_else(|| EngineError::UnknownEvent(event_id.to_owned()))?;
        Ok(self.store().causality(event.seq, CHAIN).await?)
    }

    /// What is known about a hypothesis, the oldest first.
    pub async fn timeline(&self, hypothesis: &str) -> Result<Vec<Event>, EngineError> {
        let filter = EventFilter {
            hypothesis: Some(hypothesis.to_owned()),
            order: Order::OldestFirst,
            ..EventFilter::default()
        };
        self.query(filter, TIMELINE).await
    }
}

/// An event in the making; see [`Engine::emit`].
#[must_use = "nothing is reported until it is awaited"]
pub struct Emit {
    engine: Engine,
    event: NewEvent,
}

impl Emit {
    /// What it reports.
    pub fn data<T: Serialize + ?Sized>(mut self, data: &T) -> Emit {
        self.event.data = serde_json::to_value(data).unwrap_or_else(|error| {
            tracing::warn!(%error, "the data of an event cannot be written as JSON");
            Value::Null
        });
        self
    }

    /// The event that led to it.
    pub fn parent(mut self, parent: EventSeq) -> Emit {
        self.event.parent = Some(parent);
        self
    }

    /// The event that led to it, by its id; an error when nobody knows it.
    pub async fn parent_id(self, id: &str) -> Result<Emit, EngineError> {
        let parent = self.engine.store().event(id.to_owned()).await?;
        let parent = parent.ok_or_else(|| EngineError::UnknownEvent(id.to_owned()))?;
        Ok(self.parent(parent.seq))
    }

    /// The hypothesis that it is about.
    pub fn hypothesis(mut self, id: impl Into<String>) -> Emit {
        self.event.related_hypothesis_id = Some(id.into());
        self
    }

    /// Tags.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Emit {
        self.event.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// How long it took.
    pub fn latency(mut self, latency: Duration) -> Emit {
        self.event.latency = Some(latency);
        self
    }

    /// The exit code of a command.
    pub fn exit_code(mut self, exit_code: i32) -> Emit {
        self.event.exit_code = Some(exit_code);
        self
    }

    /// From 1 to 5; 3 when nothing is said.
    pub fn importance(mut self, importance: u8) -> Emit {
        self.event.importance = Some(importance.clamp(1, 5));
        self
    }

    /// The state after it, instead of the one that is found by itself.
    pub fn status(mut self, status: EventStatus) -> Emit {
        self.event.status = Some(status);
        self
    }

    /// What went wrong.
    pub fn error_info(mut self, error: ErrorInfo) -> Emit {
        self.event.error_info = Some(error);
        self
    }

    /// Where the retries stand.
    pub fn retry_info(mut self, retry: RetryInfo) -> Emit {
        self.event.retry_info = Some(retry);
        self
    }

    /// What was done to recover.
    pub fn recovery_actions(mut self, actions: Vec<RecoveryAction>) -> Emit {
        self.event.recovery_actions = actions;
        self
    }

    /// The caller's own id for what it is about.
    pub fn caller_id(mut self, id: impl Into<String>) -> Emit {
        self.event.caller_id = Some(id.into());
        self
    }

    /// The job that it is about.
    pub fn job(mut self, id: JobId) -> Emit {
        self.event.job = Some(id);
        self
    }
}

/// Blanks secrets in everything that an event says (R-D7). What was blanked once stays as it is, so an event that was exported
/// comes back unchanged.
fn redact_event(event: &mut NewEvent) {
    let more = |fields: &mut serde_json::Map<String, Value>| {
        let mut value = Value::Object(std::mem::take(fields));
        redact_json(&mut value);
        if let Value::Object(redacted) = value {
            *fields = redacted;
        }
    };
    redact_json(&mut event.data);
    event.tags.iter_mut().for_each(|tag| *tag = redact(tag));
    if let Some(error) = &mut event.error_info {
        error.error_message = redact(&error.error_message);
        error.stack_trace = error.stack_trace.as_deref().map(redact);
        more(&mut error.more);
    }
    if let Some(retry) = &mut event.retry_info {
        more(&mut retry.more);
    }
    for action in &mut event.recovery_actions {
        action.action = redact(&action.action);
        more(&mut action.more);
    }
}

impl IntoFuture for Emit {
    type Output = Result<(EventSeq, String), EngineError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Emit { engine, mut event } = self;
            redact_event(&mut event);
            let mut places = engine.store().append(engine.now(), vec![event]).await?;
            places.pop().ok_or_else(|| {
                let trouble = "one event was appended, and none was answered".to_owned();
                EngineError::Store(redrive_store::Trouble::Database(trouble).into())
            })
        })
    }
}

impl fmt::Debug for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emit").field("event", &self.event).finish_non_exhaustive()
    }
}
