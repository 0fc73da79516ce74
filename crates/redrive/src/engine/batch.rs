//! Batch handlers: many jobs at once, an answer for each (R-D3).
//!
//! What succeeded is committed, what failed is retried or set aside, item by item. It fails closed: when the answers do
//! not cover exactly the items that were handed out, nothing is believed and the whole batch has failed. A payload
//! that does not parse fails alone, before the handler sees the batch.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_policy::{Cause, KnownSecrets, Verdict};
use redrive_store::{Ending, JobId};
use serde::de::DeserializeOwned;

use super::Engine;
use super::attempt::{Careful, TO_END, cut, late, panicked};
use super::executor::{Boxed, Running, Wish};
use super::handler::parse;
use super::settle::{Failing, classified, ending_of, set_aside};
use super::worker::Word;
use crate::cancel::Cancel;
use crate::hooks::panic_message;
use crate::into_failure::IntoFailure;
use crate::outcome::Evidence;

/// One job of a batch. It reads as the [`Running`] that it is.
#[derive(Debug)]
pub struct Item<T> {
    /// What the job carries.
    pub payload: T,
    running: Running,
}

impl<T> Deref for Item<T> {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

/// What becomes of one item.
///
/// ```no_run
/// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
/// use redrive::engine::ItemAnswer;
/// use redrive::Fail;
/// use std::time::Duration;
///
/// engine
///     .worker()
///     .handle_batch("index", 100, |items: Vec<redrive::engine::Item<String>>, _cx| async move {
///         let answer = |text: &str| match text {
///             "" => ItemAnswer::dead_letter("nothing to index"),
///             "later" => ItemAnswer::retry_after(Duration::from_secs(30), "the index is being rebuilt"),
///             _ => ItemAnswer::Ack,
///         };
///         Ok::<_, Fail>(items.iter().map(|item| (item.job_id(), answer(&item.payload))).collect())
///     })
///     .run_until_empty()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ItemAnswer {
    /// It is done.
    Ack,
    /// It failed, and the policy decides what follows.
    Failed(Box<Evidence>),
    /// Not now: again after so long, and no attempt is used up.
    Snooze(Duration),
    /// It is set aside for this reason.
    DeadLetter(String),
}

impl ItemAnswer {
    /// It failed with this error; the policy decides.
    pub fn failed<E: IntoFailure + ?Sized>(error: &E) -> ItemAnswer {
        ItemAnswer::Failed(Box::new(Evidence::of(error)))
    }

    /// It failed and is worth another attempt after so long, as far as its policy has retries left.
    pub fn retry_after(delay: Duration, why: impl Into<String>) -> ItemAnswer {
        ItemAnswer::Failed(Box::new(Evidence {
            said: Some((Cause::ApiError, Verdict::Yes)),
            retry_after: Some(delay),
            error_type: "RetryRequested".to_owned(),
            message: why.into(),
            ..Evidence::default()
        }))
    }

    /// It is set aside for this reason.
    pub fn dead_letter(why: impl Into<String>) -> ItemAnswer {
        ItemAnswer::DeadLetter(why.into())
    }
}

/// What a batch handler is told beside its items.
pub struct BatchContext<S = ()> {
    engine: Engine,
    state: Arc<S>,
    cancel: Cancel,
}

impl<S> BatchContext<S> {
    /// The state that the worker was given.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The engine that runs it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Fires when the batch should end.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

impl<S> fmt::Debug for BatchContext<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchContext").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// What a batch handler answered.
pub(super) type Answers = Result<Vec<(JobId, ItemAnswer)>, Evidence>;

/// A batch handler as the worker sees it.
pub(super) trait Batch: Send + Sync {
    /// Begins a batch: the items that do not parse, and the handler at work on the others.
    fn begin(&self, running: &[Running]) -> (Vec<(usize, Evidence)>, Boxed<'static, Answers>);
}

/// A batch handler whose types are known.
pub(super) struct TypedBatch<T, S, F> {
    state: Arc<S>,
    handler: F,
    payload: PhantomData<fn(T)>,
}

impl<T, S, F> TypedBatch<T, S, F> {
    pub(super) fn new(state: Arc<S>, handler: F) -> TypedBatch<T, S, F> {
        TypedBatch { state, handler, payload: PhantomData }
    }
}

impl<T, S, F, Fut, E> Batch for TypedBatch<T, S, F>
where
    T: DeserializeOwned + Send + 'static,
    S: Send + Sync + 'static,
    F: Fn(Vec<Item<T>>, BatchContext<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<(JobId, ItemAnswer)>, E>> + Send + 'static,
    E: IntoFailure,
{
    fn begin(&self, running: &[Running]) -> (Vec<(usize, Evidence)>, Boxed<'static, Answers>) {
        let mut items = Vec::with_capacity(running.len());
        let mut unreadable = Vec::new();
        for (place, running) in running.iter().enumerate() {
            match parse(&running.job.payload) {
                Ok(payload) => items.push(Item { payload, running: running.clone() }),
                Err(evidence) => unreadable.push((place, evidence)),
            }
        }
        let Some(first) = items.first() else {
            return (unreadable, Box::pin(std::future::ready(Ok(Vec::new()))));
        };
        let context = BatchContext {
            engine: first.engine().clone(),
            state: Arc::clone(&self.state),
            cancel: first.cancel().clone(),
        };
        let answers = (self.handler)(items, context);
        (unreadable, Box::pin(async move { answers.await.map_err(|error| Evidence::of(&error)) }))
    }
}

/// One batch, from held leases to the way each attempt ends.
pub(super) async fn run(batch: Arc<dyn Batch>, running: Vec<Running>, words: Vec<Word>) {
    let mut items: Vec<(Running, Word)> = Vec::with_capacity(running.len());
    for (running, word) in running.into_iter().zip(words) {
        match late(running.engine(), &running) {
            Some(late) => conclude(&running, late, word).await,
            None => items.push((running, word)),
        }
    }
    let running: Vec<Running> = items.iter().map(|(running, _)| running.clone()).collect();
    let Some(first) = running.first() else { return };
    let began = Instant::now();
    let (unreadable, answered) = match catch_unwind(AssertUnwindSafe(|| batch.begin(&running))) {
        Ok((unreadable, work)) => (unreadable, execute(first, &running, work).await),
        Err(panic) => (Vec::new(), Answered::Failed(Box::new(panicked(panic_message(panic))))),
    };
    let latency = began.elapsed();
    let mut unreadable: HashMap<usize, Evidence> = unreadable.into_iter().collect();
    let judged = judge(&running, &unreadable, answered);
    for (place, ((running, word), answer)) in items.into_iter().zip(judged).enumerate() {
        let answer = match unreadable.remove(&place) {
            Some(evidence) => Judged::Failed(Box::new(classified(running.engine(), &evidence))),
            None => answer,
        };
        let ended = ending(&running, answer, latency).await;
        word.send(ended);
    }
}

/// What became of the batch as a whole.
enum Answered {
    Answers(Vec<(JobId, ItemAnswer)>),
    Failed(Box<Failing>),
    Released,
}

async fn execute(first: &Running, running: &[Running], work: Boxed<'static, Answers>) -> Answered {
    let mut careful = Careful::new(work, first);
    let limit = running.iter().filter_map(Running::limit).min();
    let began = Instant::now();
    let time_is_up = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = &mut careful => ended,
        () = first.cancel().cancelled() => match tokio::time::timeout(TO_END, &mut careful).await {
            Ok(Ok(Ok(answers))) => Ok(Ok(answers)),
            Ok(_) | Err(_) => return Answered::Released,
        },
        () = time_is_up => {
            return Answered::Failed(Box::new(cut(limit.unwrap_or_default(), false, began.elapsed())));
        }
    };
    match ended {
        Ok(Ok(answers)) => Answered::Answers(answers),
        _ if first.wish().is_some() => Answered::Released,
        Ok(Err(evidence)) => {
            let mut failing = classified(first.engine(), &evidence);
            failing.evidence = evidence.redacted_knowing(&known_of(running));
            Answered::Failed(Box::new(failing))
        }
        Err(message) => Answered::Failed(Box::new(panicked(known_of(running).mask(&message).into_owned()))),
    }
}

/// What the jobs of a batch were given: what is said about all of them may repeat it of any.
fn known_of(running: &[Running]) -> KnownSecrets {
    KnownSecrets::of_payloads(running.iter().map(|one| &*one.job.payload))
}

/// What is believed about one item.
enum Judged {
    Answer(ItemAnswer),
    Failed(Box<Failing>),
    Released,
}

/// An answer for each item that was handed out and for nothing else, or the whole batch has failed.
fn judge(running: &[Running], unreadable: &HashMap<usize, Evidence>, answered: Answered) -> Vec<Judged> {
    let answers = match answered {
        Answered::Answers(answers) => answers,
        Answered::Failed(failing) => {
            return running.iter().map(|_| Judged::Failed(failing.clone())).collect();
        }
        Answered::Released => return running.iter().map(|_| Judged::Released).collect(),
    };
    let mut by_id: HashMap<JobId, ItemAnswer> = HashMap::with_capacity(answers.len());
    let mut wrong = None;
    for (id, answer) in answers {
        if by_id.insert(id, answer).is_some() {
            wrong.get_or_insert_with(|| format!("the handler answered twice for {id}"));
        }
    }
    let judged: Vec<Judged> = running
        .iter()
        .enumerate()
        .map(|(place, running)| match by_id.remove(&running.job_id()) {
            Some(answer) => Judged::Answer(answer),
            // It never reached the handler.
            None if unreadable.contains_key(&place) => Judged::Released,
            None => {
                wrong.get_or_insert_with(|| format!("the handler gave no answer for {}", running.job_id()));
                Judged::Released
            }
        })
        .collect();
    if let Some(id) = by_id.into_keys().min() {
        wrong.get_or_insert_with(|| format!("the handler answered for {id}, which is not in the batch"));
    }
    let (Some(why), Some(first)) = (wrong, running.first()) else { return judged };
    let evidence = Evidence {
        said: Some((Cause::Incomplete, Verdict::Unsaid)),
        error_type: "BatchAnswer".to_owned(),
        message: format!("{why}; the whole batch counts as failed"),
        ..Evidence::default()
    };
    let failing = Box::new(classified(first.engine(), &evidence));
    running.iter().map(|_| Judged::Failed(failing.clone())).collect()
}

async fn ending(running: &Running, judged: Judged, latency: Duration) -> Ending {
    let engine = running.engine();
    let held_for = running.incarnation().held_for();
    let failing = match judged {
        Judged::Answer(ItemAnswer::Ack) => {
            let max_retries = engine.policies().of_job(&running.job).policy.max_retries;
            return Ending::Succeeded { latency, exit_code: None, max_retries, output: None };
        }
        Judged::Answer(ItemAnswer::Snooze(delay)) => {
            return Ending::Snoozed { run_at: engine.now().after(delay), held_for };
        }
        Judged::Released if running.wish() == Some(Wish::Cancelled) => {
            return Ending::Cancelled { why: "somebody asked for it".to_owned(), exit_code: None };
        }
        Judged::Released => return Ending::Released { why: "its batch was stopped".to_owned() },
        Judged::Answer(ItemAnswer::DeadLetter(why)) => set_aside(engine, &why),
        Judged::Answer(ItemAnswer::Failed(evidence)) => classified(engine, &evidence),
        Judged::Failed(failing) => *failing,
    };
    ending_of(engine, running, Failing { latency: Some(latency), ..failing }, held_for).await
}

async fn conclude(running: &Running, failing: Failing, word: Word) {
    let ended = ending_of(running.engine(), running, failing, running.incarnation().held_for()).await;
    word.send(ended);
}
