//! `engine.retry(name, closure)`: a retry in process that is also durable history.
//!
//! The closure never leaves its caller's task. What is durable is a job held for this process: every attempt is begun
//! and settled under a lease, every wait is the store's, and the end is a success or a letter. When the process dies, the
//! reaper finds the job and makes the letter, since nobody else has the closure. The logic is that of every other retry
//! in process; [`desk`] brings caller and lease together.
//!
//! When the store is in trouble the work goes on without its history, loudly: a full disk is no reason not to call
//! somebody's API.

mod desk;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::time::Duration;

use redrive_policy::{Cause, Decision, Failure, Policy};
use redrive_store::{JobId, JobState, LetterReason, NewJob};
use serde::Serialize;
use tokio::time::Instant;

use super::executor::Worked;
use super::handler::silent;
use super::settle::Failing;
use super::{Engine, EngineError};
use crate::attempt::{AttemptError, RetryError, Stop};
use crate::cancel::Cancel;
use crate::hooks::panic_message;
use crate::inline::{Journey, Next, Terms};
use crate::into_failure::{IntoFailure, Typed};
use crate::outcome::{Evidence, Outcome};
pub(super) use desk::Desk;
use desk::{Ticket, Turn};

/// How often a caller that waits for its next attempt looks whether there will be one: others may have ended the job.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Engine {
    /// Calls the closure until it succeeds or the policy says that it is enough, and writes down every attempt. What
    /// fails for good becomes a dead letter, which can be redriven where a handler of that name is registered.
    ///
    /// ```
    /// use redrive::engine::Engine;
    /// use redrive::{Policy, RetryError};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("redrive.db");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let engine = Engine::open(&path).unwrap();
    /// async fn fetch() -> Result<u32, std::io::Error> {
    ///     Ok(42)
    /// }
    /// let answer = engine.retry("fetch", fetch).policy(Policy::standard()).await;
    /// assert_eq!(answer.unwrap(), 42);
    /// # });
    /// ```
    pub fn retry<'a, F, Fut, T, E>(&self, name: impl Into<String>, operation: F) -> InlineRetry<'a, F>
    where
        F: FnMut() -> Fut + 'a,
        Fut: Future<Output = Result<T, E>>,
        E: IntoFailure,
    {
        InlineRetry {
            engine: self.clone(),
            operation,
            job: NewJob { kind: name.into(), inline: true, ..NewJob::default() },
            policy: None,
            terms: Terms::default(),
            recorded: Recorded::Always,
            borrows: PhantomData,
        }
    }
}

/// From when on there is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// From the beginning.
    Always,
    /// Once an attempt has failed; that one is written down afterwards.
    OnceFailed,
}

/// A durable retry in process, to be furnished and awaited; see [`Engine::retry`].
#[must_use = "nothing happens until it is awaited"]
pub struct InlineRetry<'a, F> {
    engine: Engine,
    operation: F,
    pub(super) job: NewJob,
    policy: Option<Policy>,
    terms: Terms,
    pub(super) recorded: Recorded,
    /// For how long the closure's borrows last.
    borrows: PhantomData<&'a ()>,
}

impl<'a, F> InlineRetry<'a, F> {
    /// Under this policy instead of the engine's default; [`Engine::policy`] finds one by its name.
    pub fn policy(mut self, policy: impl Into<Policy>) -> InlineRetry<'a, F> {
        self.policy = Some(policy.into());
        self
    }

    /// What a letter keeps of it, so that a handler of the same name can take it over: written as JSON.
    pub fn payload<P: Serialize + ?Sized>(mut self, payload: &P) -> InlineRetry<'a, F> {
        match serde_json::to_vec(payload) {
            Ok(payload) => self.job.payload = payload,
            Err(error) => tracing::error!(%error, "the payload cannot be written as JSON and is left out"),
        }
        self
    }

    /// In this queue instead of `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> InlineRetry<'a, F> {
        self.job.queue = queue.into();
        self
    }

    /// What its events name as their source, instead of its name.
    pub fn source(mut self, source: impl Into<String>) -> InlineRetry<'a, F> {
        self.job.source = source.into();
        self
    }

    /// The caller's own id for it.
    pub fn caller_id(mut self, id: impl Into<String>) -> InlineRetry<'a, F> {
        self.job.caller_id = Some(id.into());
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, each: Duration) -> InlineRetry<'a, F> {
        self.terms.timeout = Some(each);
        self
    }

    /// How long the whole may take.
    pub fn deadline(mut self, total: Duration) -> InlineRetry<'a, F> {
        self.terms.deadline = Some(total);
        self
    }

    /// Who may end it.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> InlineRetry<'a, F> {
        self.terms.cancel = Some(cancel.clone());
        self
    }
}

impl<F> fmt::Debug for InlineRetry<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineRetry").field("name", &self.job.kind).finish_non_exhaustive()
    }
}

impl<'a, F, Fut, T, E> IntoFuture for InlineRetry<'a, F>
where
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: IntoFailure + Send + 'a,
{
    type Output = Result<T, RetryError<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.drive().await.0 })
    }
}

/// What is left of a retry beside its value: the job, if there was one.
#[derive(Debug, Default)]
pub(super) struct Traces {
    pub(super) job: Option<JobId>,
    pub(super) latency: Duration,
    /// The attempts that failed before the end: when, under which strategy, after what wait.
    pub(super) recoveries: Vec<(redrive_store::Timestamp, String, Duration)>,
}

impl<F> InlineRetry<'_, F> {
    pub(super) async fn drive<Fut, T, E>(mut self) -> (Result<T, RetryError<E>>, Traces)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: IntoFailure,
    {
        let engine = self.engine.clone();
        let policy = match self.policy.take() {
            Some(policy) => policy,
            None => match engine.policies().named(None) {
                Ok(named) => named.policy.clone(),
                Err(_) => Policy::standard(),
            },
        };
        self.job.policy = Some(policy.name.clone());
        self.terms.name = Some(Cow::Owned(self.job.kind.clone()));
        self.terms.catch_panics = true;
        self.terms.classifier = Some(engine.classifier());
        self.terms.rng = Some(engine.rng());
        let mut traces = Traces::default();
        let mut journey = Journey::<E>::new(policy);
        let mut history = History::new(engine.clone(), self.job);
        if self.recorded == Recorded::Always {
            history.open(&mut traces).await;
        }
        let began = Instant::now();
        loop {
            if !history.begin(self.terms.cancel.as_ref()).await || self.terms.is_cancelled() {
                history.cancel("cancelled by its caller").await;
                return (Err(journey.on_cancel(&self.terms, &mut ())), traces);
            }
            let attempt_began = Instant::now();
            let attempted = attempt(&mut self.operation, &self.terms, began).await;
            traces.latency = attempt_began.elapsed();
            let error = match attempted {
                Ok(value) => {
                    history.settle(silent(Outcome::Succeeded)).await;
                    return (Ok(value), traces);
                }
                Err(error) => error,
            };
            let evidence = evidence_of(&error);
            let left = self.terms.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
            match journey.on_failure(error, left, Some(&mut self.terms), &Typed, &mut ()) {
                Next::Wait(delay) => {
                    let Some((last, decision)) = journey.last() else { continue };
                    let strategy = decision.record(redrive_policy::Lang::En).strategy.unwrap_or_default();
                    traces.recoveries.push((engine.now(), strategy, delay));
                    let failing = decided(last.failure.clone(), &evidence, decision.clone(), None);
                    if self.recorded == Recorded::OnceFailed && traces.job.is_none() {
                        history.open(&mut traces).await;
                        history.begin(None).await;
                    }
                    history.settle(Worked::Failing(Box::new(failing))).await;
                    history.wait(delay, self.terms.cancel.as_ref()).await;
                }
                Next::Stop(error) => {
                    if error.stopped() == Stop::Cancelled {
                        history
                            .settle(silent(Outcome::Cancelled("cancelled by its caller".to_owned())))
                            .await;
                        return (Err(error), traces);
                    }
                    let forced =
                        matches!(error.stopped(), Stop::Deadline { .. }).then_some(LetterReason::Deadline);
                    let failure =
                        error.last().map_or_else(|| Failure::of(Cause::Unknown), |last| last.failure.clone());
                    let failing = decided(failure, &evidence, error.decision().clone(), forced);
                    if self.recorded == Recorded::OnceFailed && traces.job.is_none() {
                        history.open(&mut traces).await;
                        history.begin(None).await;
                    }
                    history.settle(Worked::Failing(Box::new(failing))).await;
                    return (Err(error), traces);
                }
            }
        }
    }
}

fn decided(
    failure: Failure,
    evidence: &Evidence,
    decision: Decision,
    forced: Option<LetterReason>,
) -> Failing {
    Failing { decided: Some(decision), forced, ..Failing::new(failure, evidence) }
}

fn evidence_of<E: IntoFailure>(error: &AttemptError<E>) -> Evidence {
    let said = |error_type: &str, message: String| Evidence {
        error_type: error_type.to_owned(),
        message,
        ..Evidence::default()
    };
    match error {
        AttemptError::Failed(error) => Evidence::of(error),
        AttemptError::TimedOut { limit, elapsed } => {
            said("Timeout", format!("timed out after {elapsed:?} (limit {limit:?})"))
        }
        AttemptError::PastDeadline { deadline, elapsed } => {
            said("DeadlineExceeded", format!("cut off after {elapsed:?} by the deadline of {deadline:?}"))
        }
        AttemptError::Panicked(message) => said("Panic", message.clone()),
        AttemptError::Cancelled => said("Cancelled", "cancelled while running".to_owned()),
    }
}

/// One attempt under its limits, its panics caught.
async fn attempt<F, Fut, T, E>(operation: &mut F, terms: &Terms, began: Instant) -> Result<T, AttemptError<E>>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let attempt_began = Instant::now();
    let left = terms.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
    let limit = [terms.timeout, left].into_iter().flatten().min();
    let mut attempt = match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(attempt) => pin!(attempt),
        Err(panic) => return Err(AttemptError::Panicked(panic_message(panic))),
    };
    let guarded = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(cx))) {
        Ok(polled) => polled.map_err(AttemptError::Failed),
        Err(panic) => std::task::Poll::Ready(Err(AttemptError::Panicked(panic_message(panic)))),
    });
    tokio::select! {
        biased;
        ended = guarded => ended,
        () = cancelled(terms.cancel.as_ref()) => Err(AttemptError::Cancelled),
        () = over(limit) => {
            let elapsed = attempt_began.elapsed();
            Err(match (terms.timeout, terms.deadline) {
                (Some(limit), _) if left.is_none_or(|left| limit <= left) => AttemptError::TimedOut { limit, elapsed },
                (_, deadline) => AttemptError::PastDeadline { deadline: deadline.unwrap_or_default(), elapsed },
            })
        }
    }
}

async fn over(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

async fn cancelled(cancel: Option<&Cancel>) {
    match cancel {
        Some(cancel) => cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The durable side of a retry. It may be missing, when the store is in trouble; then every step is local.
struct History {
    engine: Engine,
    job: Option<NewJob>,
    ticket: Option<Ticket>,
    turn: Option<Turn>,
}

impl History {
    fn new(engine: Engine, job: NewJob) -> History {
        History { engine, job: Some(job), ticket: None, turn: None }
    }

    /// Enqueues the job, held for this process.
    async fn open(&mut self, traces: &mut Traces) {
        let Some(job) = self.job.take() else { return };
        match self.engine.take_ticket(job).await {
            Ok(ticket) => {
                traces.job = Some(ticket.job());
                self.ticket = Some(ticket);
            }
            Err(error) => without_history(&error),
        }
    }

    /// Waits for the lease of the next attempt. `false` when somebody cancelled meanwhile.
    async fn begin(&mut self, cancel: Option<&Cancel>) -> bool {
        let Some(ticket) = &mut self.ticket else { return true };
        if self.turn.is_some() {
            return true;
        }
        loop {
            tokio::select! {
                biased;
                turn = ticket.turn() => {
                    if turn.is_none() {
                        tracing::error!("the worker for retries in process is gone; the rest has no history");
                        self.ticket = None;
                    }
                    self.turn = turn;
                    return true;
                }
                () = cancelled(cancel) => return false,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let job = ticket.job();
            match self.engine.store().job(job).await.map(|found| found.map(|record| record.state)) {
                Ok(Some(JobState::Ready { .. } | JobState::Leased { .. })) | Err(_) => {}
                Ok(Some(JobState::Ended) | None) => {
                    tracing::warn!(%job, "somebody cancelled a retry in process");
                    self.ticket = None;
                    return false;
                }
                Ok(Some(JobState::Dead(_))) => {
                    // This process was away for longer than its lease, and was taken for dead.
                    tracing::error!(%job, "a retry in process was set aside by others; the rest has no history");
                    self.ticket = None;
                    return true;
                }
            }
        }
    }

    /// Ends the attempt, durably.
    async fn settle(&mut self, worked: Worked) {
        if let Some(turn) = self.turn.take() {
            turn.settle(worked).await;
        }
    }

    /// Waits out a delay that no store keeps.
    async fn wait(&mut self, delay: Duration, cancel: Option<&Cancel>) {
        if self.ticket.is_none() {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = cancelled(cancel) => {}
            }
        }
    }

    /// Somebody cancelled while no attempt was running.
    async fn cancel(&mut self, why: &str) {
        if self.turn.is_some() {
            self.settle(silent(Outcome::Cancelled(why.to_owned()))).await;
        } else if let Some(ticket) = self.ticket.take()
            && let Err(error) = self.engine.cancel(ticket.job(), why).await
        {
            without_history(&error);
        }
    }
}

fn without_history(error: &EngineError) {
    tracing::error!(%error, "a retry in process goes on without its history");
}
