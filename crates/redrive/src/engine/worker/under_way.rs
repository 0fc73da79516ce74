//! What a worker has under way with the store, polled beside each other, and what is made of the answers.

use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use redrive_store::{Ending, JobId, JobState, LeasedJob, Settled, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;

use super::run::{Counter, Finished, Sent, Settling};
use crate::engine::EngineError;
use crate::engine::executor::Boxed;
use crate::engine::settle::next_run;

/// How many turns everybody gets, at most, before what has ended is settled.
const TURNS: usize = 32;

/// Trouble of the store that may pass is told and waited out; other trouble ends the worker.
pub(super) fn passing<T>(answer: Result<T, EngineError>, what: &str) -> Result<Option<T>, EngineError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        // A lease that nobody heard of expires; a heartbeat or a takeover may be done twice.
        Err(EngineError::Store(error)) if error.may_pass() || error.outcome_is_unknown() => {
            tracing::warn!(%error, "{what} waits for the store");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn is_over(store: &dyn redrive_store::Store, job: JobId) -> Result<bool, StoreError> {
    Ok(match store.job(job).await? {
        None => true,
        Some(record) => matches!(record.state, JobState::Dead(_) | JobState::Ended),
    })
}

pub(super) fn is_last(ending: &Ending) -> bool {
    next_run(ending).is_none() && !matches!(ending, Ending::Released { .. })
}

pub(super) fn counter(ending: &Ending) -> Counter {
    match ending {
        Ending::Succeeded { .. } => |report| &mut report.succeeded,
        Ending::Retry { .. } => |report| &mut report.retried,
        Ending::Dead { .. } => |report| &mut report.dead,
        Ending::Snoozed { .. } => |report| &mut report.snoozed,
        Ending::Parked { .. } => |report| &mut report.parked,
        Ending::Cancelled { .. } => |report| &mut report.cancelled,
        Ending::Released { .. } => |report| &mut report.released,
    }
}

/// Polls what is under way. What is not there is never polled: the branch is off.
pub(super) async fn poll_some<T>(future: &mut Option<Boxed<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// A request for work that is under way.
pub(super) struct Asking<'a> {
    pub(super) max: usize,
    pub(super) answer: Boxed<'a, Result<Vec<LeasedJob>, StoreError>>,
}

/// The next request for work that was answered. All of them are polled, so that each is sent before it is waited for.
pub(super) fn next_leased<'s, 'a>(
    leasing: &'s mut Vec<Asking<'a>>,
) -> impl Future<Output = Result<Vec<LeasedJob>, StoreError>> + use<'s, 'a> {
    poll_fn(move |cx: &mut Context<'_>| {
        for place in 0..leasing.len() {
            if let Poll::Ready(answer) = leasing[place].answer.as_mut().poll(cx) {
                drop(leasing.swap_remove(place));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
}

/// The next settlement that was answered. All of them are polled, so that each is sent before it is waited for.
pub(super) fn next_settled<'s, 'a>(
    settling: &'s mut Vec<Settling<'a>>,
) -> impl Future<Output = (Vec<Sent>, Result<Vec<Settled>, StoreError>)> + use<'s, 'a> {
    poll_fn(move |cx: &mut Context<'_>| {
        for place in 0..settling.len() {
            if let Poll::Ready(answer) = settling[place].as_mut().poll(cx) {
                drop(settling.swap_remove(place));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
}

/// Others are about to end as well, and one commit for all of them is cheaper than one for each: goes on as long as more
/// of them end each time that everybody had a turn.
pub(super) async fn wait_for_more(
    running: usize,
    receiver: &mut UnboundedReceiver<Finished>,
    finished: &mut Vec<Finished>,
) {
    for _ in 0..TURNS {
        let so_far = finished.len();
        if so_far >= running {
            return;
        }
        tokio::task::yield_now().await;
        while let Ok(another) = receiver.try_recv() {
            finished.push(another);
        }
        if finished.len() == so_far {
            return;
        }
    }
}

/// Jobs that stand at the gate of their target, and how each of them ends that may not go.
type Sifted = (Vec<LeasedJob>, Result<Vec<Option<Ending>>, EngineError>);

/// The gate is being asked about so many jobs.
pub(super) struct Sifting<'a> {
    pub(super) count: usize,
    pub(super) answer: Boxed<'a, Sifted>,
}

/// The next answer of the gate.
pub(super) fn next_sifted<'s, 'a>(
    sifting: &'s mut Vec<Sifting<'a>>,
) -> impl Future<Output = Sifted> + use<'s, 'a> {
    poll_fn(move |cx: &mut Context<'_>| {
        for place in 0..sifting.len() {
            if let Poll::Ready(answer) = sifting[place].answer.as_mut().poll(cx) {
                drop(sifting.swap_remove(place));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
}
