//! `emit_with_retry`: an action that is carried out under a policy, and told as one event when it succeeds.
//!
//! The first failure opens a durable story: from there on every attempt is begun and settled, each retry is an event with
//! its next time, and what fails for good is a dead letter. The value of a success is handed back.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use redrive_policy::{Policy, round_to_millis};
use redrive_store::{EventSeq, NewEvent, RecoveryAction, RetryInfo};
use serde_json::{Map, Value, json};

use crate::attempt::RetryError;
use crate::cancel::Cancel;
use crate::engine::inline::{InlineRetry, Recorded, Traces};
use crate::engine::{Engine, EngineError};
use crate::into_failure::IntoFailure;

impl Engine {
    /// Carries out an action under a policy and reports it: one `success` event with what was done to recover, or a dead
    /// letter. The answer is what the action came to, and the id of the last event.
    ///
    /// ```no_run
    /// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
    /// # async fn fetch() -> Result<u32, std::io::Error> { Ok(42) }
    /// let (value, event_id) = engine.emit_with_retry("action", "notion_sync", fetch).await?;
    /// println!("{event_id}: {}", value.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn emit_with_retry<'a, F, Fut, T, E>(
        &self,
        event_type: impl Into<String>,
        source: impl Into<String>,
        action: F,
    ) -> EmitWithRetry<'a, F>
    where
        F: FnMut() -> Fut + 'a,
        Fut: Future<Output = Result<T, E>>,
        E: IntoFailure,
    {
        let event = NewEvent { event_type: event_type.into(), source: source.into(), ..NewEvent::default() };
        let mut retry = self.retry(event.event_type.clone(), action).source(event.source.clone());
        retry.recorded = Recorded::OnceFailed;
        EmitWithRetry { engine: self.clone(), event, retry }
    }
}

/// An action that is reported; see [`Engine::emit_with_retry`].
#[must_use = "nothing happens until it is awaited"]
pub struct EmitWithRetry<'a, F> {
    engine: Engine,
    event: NewEvent,
    retry: InlineRetry<'a, F>,
}

impl<'a, F> EmitWithRetry<'a, F> {
    /// What it reports.
    pub fn data(mut self, data: Value) -> EmitWithRetry<'a, F> {
        self.event.data = data;
        self
    }

    /// The event that led to it.
    pub fn parent(mut self, parent: EventSeq) -> EmitWithRetry<'a, F> {
        self.event.parent = Some(parent);
        self.retry.job.parent = Some(parent);
        self
    }

    /// Tags of the success.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> EmitWithRetry<'a, F> {
        self.event.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// The caller's own id for what it is about.
    pub fn caller_id(mut self, id: impl Into<String>) -> EmitWithRetry<'a, F> {
        let id = id.into();
        self.event.caller_id = Some(id.clone());
        self.retry = self.retry.caller_id(id);
        self
    }

    /// Under this policy instead of the engine's default.
    pub fn policy(mut self, policy: impl Into<Policy>) -> EmitWithRetry<'a, F> {
        self.retry = self.retry.policy(policy);
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, each: Duration) -> EmitWithRetry<'a, F> {
        self.retry = self.retry.timeout(each);
        self
    }

    /// Who may end it.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> EmitWithRetry<'a, F> {
        self.retry = self.retry.cancelled_by(cancel);
        self
    }

    async fn drive<Fut, T, E>(self) -> Result<(Result<T, RetryError<E>>, String), EngineError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: IntoFailure,
    {
        let EmitWithRetry { engine, mut event, retry } = self;
        let (ended, traces) = retry.drive().await;
        let last = match traces.job {
            Some(job) => engine.store().job(job).await?.map(|record| record.event),
            None => None,
        };
        if ended.is_err()
            && let Some(seq) = last
        {
            let told = engine.store().causality(seq, 1).await?;
            return Ok((ended, told.last().map(|event| event.event_id.clone()).unwrap_or_default()));
        }
        event.parent = last.or(event.parent);
        event.latency = Some(traces.latency);
        if ended.is_ok() {
            event.exit_code = Some(0);
        } else {
            // Cancelled before anything was written down, or the store could not be written to.
            event.status = Some(redrive_store::EventStatus::Failed);
        }
        recovered(&mut event, &traces);
        let mut places = engine.store().append(engine.now(), vec![event]).await?;
        Ok((ended, places.pop().map(|(_, id)| id).unwrap_or_default()))
    }
}

/// What was done to recover, and how often.
fn recovered(event: &mut NewEvent, traces: &Traces) {
    let retries = u32::try_from(traces.recoveries.len()).unwrap_or(u32::MAX);
    if retries > 0 {
        event.retry_info = Some(RetryInfo {
            retry_count: retries,
            max_retries: retries,
            retryable: true,
            next_retry_at: None,
            more: Map::new(),
        });
    }
    event.recovery_actions = traces
        .recoveries
        .iter()
        .map(|(at, strategy, delay)| RecoveryAction {
            timestamp: *at,
            action: strategy.clone(),
            more: Map::from_iter([("delay_ms".to_owned(), json!(round_to_millis(*delay)))]),
        })
        .collect();
}

impl<'a, F, Fut, T, E> IntoFuture for EmitWithRetry<'a, F>
where
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: IntoFailure + Send + 'a,
{
    type Output = Result<(Result<T, RetryError<E>>, String), EngineError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.drive())
    }
}

impl<F> fmt::Debug for EmitWithRetry<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmitWithRetry").field("event", &self.event).finish_non_exhaustive()
    }
}
