//! What ends a retry before its policy does (R-P13): the timeout of an attempt, the deadline of all, a cancellation.
//! The clock is tokio's paused one; nothing here waits for real.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use redrive::{AttemptError, Cancel, Cause, CauseSet, Fail, Policy, RetryExt, Stop};
use tokio::time::Instant;

mod work;
use work::*;

/// R-P13: a wait that would pass the deadline is not begun.
#[tokio::test(start_paused = true)]
async fn no_wait_passes_the_deadline() {
    let began = Instant::now();
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(every(seconds(4), 100))
        .deadline(seconds(10))
        .await
        .unwrap_err();
    assert_eq!((error.attempts_made(), began.elapsed()), (3, seconds(8)));
    assert_eq!(error.stopped(), Stop::Deadline { deadline: seconds(10), wait: Some(seconds(4)) });
    assert!(error.to_string().contains("a wait of 4s would pass the deadline of 10s"), "{error}");

    let error = (|| async { Err::<(), _>(reset()) })
        .retry(every(seconds(5), 100))
        .deadline(seconds(10))
        .await
        .unwrap_err();
    assert_eq!(error.attempts_made(), 2, "at the deadline is past it");
}

/// R-P13: an attempt that is running when the deadline comes is cut off.
#[tokio::test(start_paused = true)]
async fn no_attempt_passes_the_deadline() {
    let began = Instant::now();
    let error = (|| async {
        tokio::time::sleep(seconds(7)).await;
        Err::<(), _>(reset())
    })
    .retry(every(seconds(1), 100))
    .deadline(seconds(10))
    .await
    .unwrap_err();
    assert_eq!(began.elapsed(), seconds(10));
    assert_eq!(error.stopped(), Stop::Deadline { deadline: seconds(10), wait: None });
    let last = error.last().unwrap();
    assert!(matches!(last.error, AttemptError::PastDeadline { elapsed, .. } if elapsed == seconds(2)));
    assert_eq!(last.failure.cause, Cause::Timeout);
}

/// Counts how often it was dropped.
struct Held(Rc<Cell<u32>>);
impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// R-P13: an attempt that takes too long is dropped, and its failure knows limit and elapsed time.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_a_timeout() {
    let dropped = Rc::new(Cell::new(0));
    let at_retry = Cell::new(0);
    let error = (|| {
        let held = Held(dropped.clone());
        async move {
            pending::<()>().await;
            drop(held);
            Err::<(), _>(reset())
        }
    })
    .retry(Policy::standard())
    .timeout(Duration::from_millis(250))
    .on_retry(|_, _, _| at_retry.set(dropped.get()))
    .await
    .unwrap_err();
    // `standard` gives a timeout two retries, five seconds apart.
    assert_eq!((error.attempts_made(), dropped.get(), at_retry.get()), (3, 3, 2));
    for attempt in error.attempts() {
        let details = attempt.failure.details.as_ref().unwrap();
        assert_eq!((details.timeout_ms, details.elapsed_ms), (Some(250), Some(250)));
    }
    let hint = (error.attempts()[0].failure.clone(), error.decision().clone());
    assert_eq!(hint.0.rule.as_str(), "attempt.timeout");
    assert!(error.to_string().ends_with("; last: timed out after 250ms (limit 250ms)"), "{error}");
}

/// R-P13: a result that is there counts, however late the clock says it is.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_there_beats_the_clock() {
    let value = (|| async { Ok::<_, Fail>(5) }).retry(at_once(0)).timeout(Duration::ZERO).await;
    assert_eq!(value.unwrap(), 5);
}

/// R-P13: cancelling ends a wait, a running attempt, and what has not begun.
#[tokio::test(start_paused = true)]
async fn cancelling_ends_it_wherever_it_is() {
    let cancel_in = |wait| {
        let cancel = Cancel::new();
        let theirs = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            theirs.cancel();
        });
        cancel
    };
    let began = Instant::now();
    let cancel = cancel_in(seconds(5));
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(every(seconds(1_000), 3))
        .cancelled_by(&cancel)
        .await
        .unwrap_err();
    assert_eq!((error.stopped(), error.attempts_made(), began.elapsed()), (Stop::Cancelled, 1, seconds(5)));
    assert_eq!(error.decision().cause, Some(Cause::Cancelled));
    assert!(error.error().is_some(), "the last attempt's error is still there");

    let cancel = cancel_in(seconds(5));
    let error = (|| async {
        pending::<()>().await;
        Err::<(), _>(reset())
    })
    .retry(every(seconds(1), 3))
    .cancelled_by(&cancel)
    .await
    .unwrap_err();
    assert_eq!((error.stopped(), began.elapsed()), (Stop::Cancelled, seconds(10)));
    assert!(matches!(error.last().unwrap().error, AttemptError::Cancelled));

    let error = (|| async { Ok::<_, Fail>(()) }).retry(at_once(1)).cancelled_by(&cancel).await.unwrap_err();
    assert_eq!((error.attempts_made(), error.attempts().len()), (0, 0));
    assert_eq!(error.to_string(), "gave up after 0 attempts: cancelled");
}

/// A policy that would retry even what was cancelled does not get to.
#[tokio::test(start_paused = true)]
async fn no_policy_retries_what_was_cancelled() {
    let mut spec = (*at_once(5)).clone();
    (spec.retry_on, spec.never) = (CauseSet::ALL, CauseSet::NONE);
    let cancel = Cancel::new();
    let error = (|| async {
        cancel.cancel();
        pending::<()>().await;
        Err::<(), _>(reset())
    })
    .retry(Policy::from(spec))
    .cancelled_by(&cancel)
    .await
    .unwrap_err();
    assert_eq!((error.attempts_made(), error.stopped()), (1, Stop::Cancelled));
}

/// R-P13: an attempt that leaves the executor no budget is cut off as well, by its timeout and by the deadline.
#[tokio::test]
async fn a_busy_attempt_is_cut_off() {
    let busy = || async {
        loop {
            tokio::task::consume_budget().await;
        }
        #[allow(unreachable_code)]
        Ok::<(), Fail>(())
    };
    let error = busy.retry(at_once(0)).timeout(Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(error.last().unwrap().error, AttemptError::TimedOut { .. }));
    let error = busy.retry(at_once(0)).deadline(Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(error.last().unwrap().error, AttemptError::PastDeadline { .. }));
}

/// R-P13: no attempt begins at or after the deadline, also when the wait took longer than planned.
#[tokio::test(start_paused = true)]
async fn no_attempt_begins_after_a_wait_that_took_too_long() {
    let made = Cell::new(0);
    let mut retry = Box::pin(
        (|| {
            made.set(made.get() + 1);
            async { Err::<(), _>(reset()) }
        })
        .retry(every(seconds(2), 100))
        .deadline(seconds(3)),
    );
    // Polled once, then not again before the deadline has passed: an executor that is late.
    assert!(retry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::advance(seconds(4)).await;
    let error = retry.await.unwrap_err();
    assert_eq!((made.get(), error.attempts_made()), (1, 1));
    assert_eq!(error.stopped(), Stop::Deadline { deadline: seconds(3), wait: None });
    assert_eq!(error.decision().cause, Some(Cause::Network));
    assert!(error.to_string().contains("the deadline of 3s has passed"), "{error}");
}

/// R-P13: what was waited is told, not what was planned; and who has cancelled is not told of a retry.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_is_as_long_as_it_was() {
    let cancel = Cancel::new();
    let retry = (|| async { Err::<(), _>(reset()) }).retry(every(seconds(100), 3)).cancelled_by(&cancel);
    let (outcome, ()) = tokio::join!(retry, async {
        tokio::time::sleep(seconds(7)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err().last().unwrap().delay, Some(seconds(7)));

    let (cancel, told) = (Cancel::new(), Cell::new(0));
    let error = (|| {
        cancel.cancel();
        async { Err::<(), _>(reset()) }
    })
    .retry(at_once(3))
    .cancelled_by(&cancel)
    .on_retry(|_, _, _| told.set(told.get() + 1))
    .await
    .unwrap_err();
    assert_eq!((told.get(), error.stopped(), error.last().unwrap().delay), (0, Stop::Cancelled, None));
    assert_eq!(error.decision().cause, Some(Cause::Cancelled));
}
