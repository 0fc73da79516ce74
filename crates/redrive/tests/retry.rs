//! Retrying futures (R-P13): the calls that are made, the waits between them, and what ends them.
//! The clock is tokio's paused one; nothing here waits for real.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use redrive::{
    Action, AttemptError, Backoff, Cancel, Cause, CauseSet, Class, Curve, Fail, Jitter, Lang, Policy,
    RetryError, RetryExt, Stop, Strategy, SwitchStrategy, fail,
};
use tokio::time::Instant;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `standard` without jitter and with this curve for every cause.
fn policy(curve: Curve, max_retries: u32) -> Policy {
    let mut spec = (*Policy::standard()).clone();
    spec.entries.clear();
    spec.max_retries = max_retries;
    spec.backoff = Backoff::new(curve).with_cap(seconds(3_600));
    spec.into()
}

fn at_once(max_retries: u32) -> Policy {
    policy(Curve::constant(Duration::ZERO), max_retries)
}

fn every(wait: Duration, max_retries: u32) -> Policy {
    policy(Curve::constant(wait), max_retries)
}

fn reset() -> Fail {
    fail(Cause::Network, "connection reset by peer")
}

/// Calls an operation that fails so often, and tells how often it was called.
async fn calls(failures: usize, cause: Cause, policy: &Policy) -> (usize, Result<usize, RetryError<Fail>>) {
    let made = Cell::new(0);
    let outcome = (|| async {
        made.set(made.get() + 1);
        if made.get() > failures { Ok(made.get()) } else { Err(fail(cause, "no")) }
    })
    .retry(policy)
    .await;
    (made.get(), outcome)
}

/// R-P13: fail, fail, succeed = three calls; an authentication error = one; two retries of what always fails = three.
#[tokio::test(start_paused = true)]
async fn an_operation_is_called_as_often_as_its_policy_says() {
    let (made, outcome) = calls(2, Cause::Network, &at_once(3)).await;
    assert_eq!((made, outcome.unwrap()), (3, 3));

    let (made, outcome) = calls(9, Cause::AuthError, &at_once(3)).await;
    let error = outcome.unwrap_err();
    assert_eq!((made, error.attempts_made(), error.stopped()), (1, 1, Stop::Decided));
    assert_eq!(error.decision().action, Action::Escalate);

    let (made, outcome) = calls(9, Cause::Network, &at_once(2)).await;
    assert_eq!((made, outcome.unwrap_err().attempts().len()), (3, 3));

    let (made, _) = calls(9, Cause::Unknown, &at_once(2)).await;
    assert_eq!(made, 1, "what nobody knows fails closed");
}

/// R-P13: told before the wait, from attempt 1, with the delay that is then waited.
#[tokio::test(start_paused = true)]
async fn on_retry_is_told_before_each_wait() {
    let began = Instant::now();
    let told = RefCell::new(Vec::new());
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(policy(Curve::exponential(seconds(1)), 3))
        .on_retry(|attempt, failure, delay| {
            told.borrow_mut().push((attempt, failure.cause, delay.as_secs(), began.elapsed().as_secs()));
        })
        .await
        .unwrap_err();
    let network = Cause::Network;
    assert_eq!(*told.borrow(), [(1, network, 1, 0), (2, network, 2, 1), (3, network, 4, 3)]);
    assert_eq!(began.elapsed().as_secs(), 7);
    let delays: Vec<_> = error.attempts().iter().map(|attempt| attempt.delay).collect();
    assert_eq!(delays, [Some(seconds(1)), Some(seconds(2)), Some(seconds(4)), None]);
}

/// R-P13: `on_retry` may answer with another policy for what remains (000's dynamic strategy).
#[tokio::test(start_paused = true)]
async fn on_retry_may_exchange_the_policy() {
    let began = Instant::now();
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(every(seconds(1), 3))
        .on_retry(|attempt, _, _| (attempt == 2).then(|| every(seconds(100), 4)))
        .await
        .unwrap_err();
    // 1 s, 1 s (the exchange comes after this delay was decided), then two of the new policy.
    assert_eq!((error.attempts_made(), began.elapsed()), (5, seconds(202)));
    assert_eq!(error.decision().max_retries, 4);
}

/// R-P13: callbacks that fail or panic are logged, never fatal.
#[tokio::test(start_paused = true)]
async fn callbacks_that_fail_or_panic_are_not_fatal() {
    let told = Cell::new(0);
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(at_once(2))
        .on_retry(|_, _, _| Err::<(), _>("the log is full"))
        .on_retry(|attempt, _, _| {
            told.set(told.get() + 1);
            assert!(attempt > 1, "a callback that panics");
        })
        .on_retry(|_, _, _| -> Result<Option<Policy>, String> { Ok(None) })
        .on_failure(|_| panic!("and another"))
        .await
        .unwrap_err();
    assert_eq!((told.get(), error.attempts_made()), (2, 3));
}

/// R-P13: `on_failure` hears the end once; a success is no failure.
#[tokio::test(start_paused = true)]
async fn on_failure_is_told_the_end() {
    let told = RefCell::new(Vec::new());
    let hear = |error: &RetryError<Fail>| told.borrow_mut().push(error.to_string());
    let _ = (|| async { Err::<(), _>(reset()) }).retry(at_once(1)).named("sync").on_failure(hear).await;
    (|| async { Ok::<_, Fail>(()) }).retry(at_once(1)).on_failure(hear).await.unwrap();
    assert_eq!(told.borrow().len(), 1);
    assert!(told.borrow()[0].starts_with("sync gave up after 2 attempts: "), "{told:?}");
    assert!(told.borrow()[0].ends_with("; last: connection reset by peer"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn when_has_the_last_say() {
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(at_once(9))
        .when(|attempt| attempt.number < 3 && attempt.failure.cause == Cause::Network)
        .await
        .unwrap_err();
    assert_eq!((error.attempts_made(), error.stopped()), (3, Stop::Vetoed));

    let error = (|| async { Err::<(), _>(fail(Cause::AuthError, "no")) })
        .retry(at_once(9))
        .when(|_| true)
        .await
        .unwrap_err();
    assert_eq!(error.attempts_made(), 1, "it forbids, it does not force");
}

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

/// R-P13: a panic is a failure on request, charged to the crash budget; else it passes through.
#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_on_request() {
    let made = Cell::new(0);
    let error = (|| {
        made.set(made.get() + 1);
        assert!(made.get() != 2, "in the closure");
        async {
            tokio::task::yield_now().await;
            assert!(made.get() != 1, "in the future: {}", 7);
            Err::<(), _>(fail(Cause::AuthError, "no"))
        }
    })
    .retry(at_once(0))
    .catch_panics()
    .await
    .unwrap_err();
    let messages: Vec<_> = error.attempts().iter().map(|attempt| attempt.error.to_string()).collect();
    assert_eq!(messages, ["panicked: in the future: 7", "panicked: in the closure", "no"]);
    assert_eq!(error.attempts()[0].failure.cause, Cause::Crashed);

    let uncaught = tokio::spawn(async {
        (|| async { if true { panic!("out") } else { Ok::<(), Fail>(()) } }).retry(at_once(3)).await
    });
    assert!(uncaught.await.unwrap_err().is_panic());
}

/// A delay of zero touches no timer: this runtime has none.
#[test]
fn zero_delays_need_no_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (made, outcome) = calls(100, Cause::Network, &at_once(100)).await;
        assert_eq!((made, outcome.unwrap()), (101, 101));
        // Timeout and deadline need a timer only for an attempt that has to be waited for.
        let value =
            (|| async { Ok::<_, Fail>(1) }).retry(at_once(1)).timeout(seconds(1)).deadline(seconds(9));
        assert_eq!(value.await.unwrap(), 1);
    });
}

/// Zero delays without end still let others run.
#[tokio::test(start_paused = true)]
async fn zero_delays_do_not_starve_the_executor() {
    let cancel = Cancel::new();
    let theirs = cancel.clone();
    tokio::spawn(async move { theirs.cancel() });
    let error = (|| async { Err::<(), _>(reset()) })
        .retry(at_once(u32::MAX))
        .cancelled_by(&cancel)
        .await
        .unwrap_err();
    assert_eq!(error.stopped(), Stop::Cancelled);
}

/// Everything is bounded: of a long run the first and the last attempts are kept.
#[tokio::test(start_paused = true)]
async fn a_long_run_keeps_its_first_and_its_last_attempts() {
    let error = (|| async { Err::<(), _>(reset()) }).retry(at_once(1_000)).await.unwrap_err();
    assert_eq!((error.attempts_made(), error.attempts().len()), (1_001, redrive::KEPT_ATTEMPTS));
    let numbers: Vec<u32> = error.attempts().iter().map(|attempt| attempt.number).collect();
    assert_eq!((numbers[0], numbers[127], numbers[128], numbers[255]), (1, 128, 874, 1_001));
}

/// Counts how often it was woken; its handle counts who still holds it.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Dropping the future in the middle of a wait leaves nothing behind: no timer, no task, no listener, no held value.
#[tokio::test(start_paused = true)]
async fn dropping_it_in_the_middle_leaves_nothing_behind() {
    let (held, woken, cancel) = (Arc::new(()), Arc::new(Woken::default()), Cancel::new());
    let theirs = held.clone();
    let mut retry = Box::pin(
        (move || {
            let held = theirs.clone();
            async move {
                drop(held);
                Err::<(), _>(reset())
            }
        })
        .retry(every(seconds(1_000), 3))
        .timeout(seconds(10))
        .deadline(seconds(10_000))
        .cancelled_by(&cancel),
    );
    let waker = Waker::from(woken.clone());
    assert!(retry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(Arc::strong_count(&woken) > 2, "the timer and the token would wake it");
    drop(retry);
    assert_eq!((Arc::strong_count(&woken), Arc::strong_count(&held)), (1, 1));
    tokio::time::advance(seconds(2_000)).await;
    cancel.cancel();
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// R-P11: a Retry-After wins over the curve, and one that is too long ends it.
#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_out() {
    let began = Instant::now();
    let made = Cell::new(0);
    (|| async {
        made.set(made.get() + 1);
        if made.get() == 2 {
            Ok(())
        } else {
            Err(fail(Cause::RateLimit, "slow down").retry_after(seconds(17)))
        }
    })
    .retry(Policy::standard())
    .await
    .unwrap();
    assert_eq!(began.elapsed(), seconds(17));

    let error = (|| async { Err::<(), _>(fail(Cause::RateLimit, "slow down").retry_after(seconds(7_200))) })
        .retry(Policy::standard())
        .await
        .unwrap_err();
    assert_eq!(error.attempts_made(), 1);
    assert!(error.decision().escalate_reason(Lang::En).is_some());
}

/// Issue 2: strategies of one's own, and switchable ones.
#[tokio::test(start_paused = true)]
async fn strategies_of_ones_own_are_followed_and_switched() {
    struct Squares;
    impl Strategy for Squares {
        fn name(&self) -> &'static str {
            "squares"
        }
        fn delay(&self, n: u32) -> Option<Duration> {
            Some(seconds(u64::from((n + 1) * (n + 1))))
        }
    }
    let began = Instant::now();
    let own = policy(Curve::Own(Arc::new(Squares)), 3);
    let _ = (|| async { Err::<(), _>(reset()) }).retry(own).await;
    assert_eq!(began.elapsed(), seconds(1 + 4 + 9));

    let began = Instant::now();
    let switch = SwitchStrategy::new(Curve::constant(seconds(1)));
    let _ = (|| async { Err::<(), _>(reset()) })
        .retry(policy(switch.curve(), 3))
        .on_retry(|attempt, _, _| {
            if attempt == 1 {
                switch.set(Curve::constant(seconds(60)));
            }
        })
        .await;
    assert_eq!(began.elapsed(), seconds(1 + 60 + 60));
}

/// A seed repeats the delays, and the default does not.
#[tokio::test(start_paused = true)]
async fn a_seed_repeats_the_delays() {
    let mut spec = (*every(seconds(100), 5)).clone();
    spec.backoff.jitter = Jitter::Full;
    let policy = Policy::from(spec);
    let delays = async |seed: Option<u64>| {
        let retry = (|| async { Err::<(), _>(reset()) }).retry(&policy);
        let retry = match seed {
            Some(seed) => retry.seed(seed),
            None => retry,
        };
        retry.await.unwrap_err().attempts().iter().map(|attempt| attempt.delay).collect::<Vec<_>>()
    };
    assert_eq!(delays(Some(3)).await, delays(Some(3)).await);
    assert_ne!(delays(Some(3)).await, delays(Some(4)).await);
    assert_ne!(delays(None).await, delays(None).await);
}

/// An error of one's own that knows nothing of redrive.
#[derive(Debug, thiserror::Error)]
#[error("upstream said {0}")]
struct Foreign(u16);

/// A foreign error is read by a closure.
#[tokio::test(start_paused = true)]
async fn a_foreign_error_is_read_by_a_closure() {
    let error = (|| async { Err::<(), _>(Foreign(418)) })
        .retry(at_once(2))
        .classify_with(|error| {
            redrive::Report::said(Cause::Network, redrive::Verdict::Unsaid, "x").with_status(error.0)
        })
        .await
        .unwrap_err();
    assert_eq!(error.attempts_made(), 3);
    assert_eq!(error.last().unwrap().failure.http_status, Some(418));
    assert!(error.to_string().ends_with("; last: upstream said 418"), "{error}");
    let whole = format!("{error:?}");
    assert!(whole.contains("Foreign(418)") && whole.contains("decision"), "{whole}");
    assert_eq!(error.into_error().unwrap().0, 418);
}

/// The line for a person holds no secret, and only one line.
#[tokio::test]
async fn the_message_holds_no_secret() {
    let error = (|| async {
        Err::<(), _>(fail(Cause::AuthError, "login as\u{1b}[31m password=hunter2 failed\nstack"))
    })
    .retry(at_once(2))
    .await
    .unwrap_err();
    let message = error.to_string();
    assert!(
        !message.contains("hunter2") && !message.contains('\n') && !message.contains('\u{1b}'),
        "{message}"
    );
    assert_eq!(Cause::AuthError.class(), Class::Permanent);
}

/// The future is `Send` when its parts are.
#[test]
fn the_future_is_send() {
    fn assert_send(_: impl Send) {}
    assert_send(
        (|| async { Err::<(), _>(reset()) })
            .retry(at_once(1))
            .timeout(seconds(1))
            .on_retry(|_, _, _| ())
            .when(|_| true)
            .on_failure(|_| ()),
    );
}

/// A retry inside a retry is judged by what its last attempt ended with.
#[tokio::test(start_paused = true)]
async fn a_retry_inside_a_retry_is_understood() {
    let made = Cell::new(0);
    let inner = async |cause| {
        (|| async {
            made.set(made.get() + 1);
            Err::<(), _>(fail(cause, "no"))
        })
        .retry(at_once(1))
        .await
    };
    let outer = (|| inner(Cause::Network)).retry(at_once(2)).await.unwrap_err();
    assert_eq!((outer.attempts_made(), made.get()), (3, 6));
    made.set(0);
    let outer = (|| inner(Cause::AuthError)).retry(at_once(2)).await.unwrap_err();
    assert_eq!((outer.attempts_made(), made.get()), (1, 1));
    assert_eq!(outer.last().unwrap().failure.cause, Cause::AuthError);
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

/// R-P13: a retry that has ended says so when it is polled again.
#[tokio::test]
#[should_panic(expected = "polled after it had ended")]
async fn a_retry_that_has_ended_is_not_polled_again() {
    let mut retry = Box::pin((|| async { Err::<(), _>(reset()) }).retry(at_once(0)));
    assert!(retry.as_mut().await.is_err());
    let _ = retry.as_mut().await;
}

/// Panics when it is dropped, unless a panic is under way.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

/// R-P13: panics are caught wherever the caller's code runs: when an attempt is dropped, when its panic is, and when
/// its error is read.
#[tokio::test(start_paused = true)]
async fn panics_are_caught_wherever_they_come_from() {
    let error = (|| async {
        let _bomb = Bomb;
        pending::<()>().await;
        Err::<(), _>(reset())
    })
    .retry(at_once(1))
    .catch_panics()
    .timeout(seconds(1))
    .await
    .unwrap_err();
    assert_eq!((error.attempts_made(), error.decision().cause), (2, Some(Cause::Timeout)));

    let error = (|| async { if true { std::panic::panic_any(Bomb) } else { Ok::<(), Fail>(()) } })
        .retry(at_once(0))
        .catch_panics()
        .await
        .unwrap_err();
    assert_eq!(error.last().unwrap().failure.cause, Cause::Crashed);

    let error = (|| async { Err::<(), _>(reset()) })
        .retry(at_once(3))
        .catch_panics()
        .classify_with(|_| panic!("cannot read it"))
        .await
        .unwrap_err();
    let failure = &error.last().unwrap().failure;
    assert_eq!((error.attempts_made(), failure.cause), (1, Cause::Unknown));
    assert_eq!(failure.rule.as_str(), "attempt.unreadable");
}

/// An error whose words cannot be read.
#[derive(Debug)]
struct Unspeakable;
impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}
impl std::error::Error for Unspeakable {}

/// R-P13: an error whose words panic is unknown.
#[tokio::test(start_paused = true)]
async fn an_error_whose_words_panic_is_unknown() {
    let error = (|| async { Err::<(), _>(redrive::AnyError(Unspeakable)) })
        .retry(at_once(3))
        .catch_panics()
        .await
        .unwrap_err();
    assert_eq!((error.attempts_made(), error.last().unwrap().failure.cause), (1, Cause::Unknown));
}

/// R-P13: that nothing was sent holds for all attempts, also for those that are not kept.
#[tokio::test(start_paused = true)]
async fn nothing_was_sent_only_if_no_attempt_was() {
    use redrive::IntoFailure;
    use std::io::{Error, ErrorKind};
    let outcome = async |reset_at: u32| {
        let made = Cell::new(0);
        let error = (|| async {
            made.set(made.get() + 1);
            let reset = made.get() == reset_at;
            let kind = if reset { ErrorKind::ConnectionReset } else { ErrorKind::ConnectionRefused };
            Err::<(), _>(Error::from(kind))
        })
        .retry(at_once(600))
        .await
        .unwrap_err();
        error.never_sent()
    };
    assert!(outcome(0).await);
    assert!(!outcome(200).await, "one of the attempts in the middle");
    let cancel = Cancel::new();
    cancel.cancel();
    let error = (|| async { Ok::<(), Error>(()) }).retry(at_once(1)).cancelled_by(&cancel).await.unwrap_err();
    assert!(!error.never_sent(), "there was no attempt");
}

/// Boxed errors that need not be shared between threads are read like any others.
#[tokio::test(start_paused = true)]
async fn a_boxed_error_that_is_only_send_is_read() {
    type Boxed = Box<dyn std::error::Error + Send>;
    let refused = || Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) as Boxed;
    let error = (|| async { Err::<(), _>(refused()) }).retry(at_once(2)).await.unwrap_err();
    assert_eq!(error.attempts_made(), 3);
}

mod nested {
    //! R-P13: a retry inside a retry is judged once.
    use super::*;
    use redrive::{IntoFailure, Report, Verdict, report_chain};
    use std::error::Error;

    #[derive(Debug, thiserror::Error)]
    enum Wrapped {
        #[error("could not load the rates")]
        Source(#[source] RetryError<Fail>),
        #[error(transparent)]
        Transparent(RetryError<Fail>),
    }
    impl IntoFailure for Wrapped {
        fn report(&self) -> Report<'_> {
            report_chain(self)
        }
        fn never_sent(&self) -> bool {
            false
        }
    }

    fn vetoed() -> impl Future<Output = Result<(), RetryError<Fail>>> {
        (|| async { Err::<(), _>(fail(Cause::Network, "no").code("E17").retry_after(seconds(9))) })
            .retry(at_once(3))
            .when(|_| false)
    }

    /// What an outer retry makes of an error: how many attempts, and which failure.
    async fn outer<E: IntoFailure, Fut: Future<Output = Result<(), E>>>(
        inner: impl FnMut() -> Fut,
    ) -> (u32, redrive::Failure) {
        let error = inner.retry(at_once(2)).await.unwrap_err();
        (error.attempts_made(), error.into_attempts().pop().unwrap().failure)
    }

    fn check((made, failure): (u32, redrive::Failure)) {
        assert_eq!((made, failure.cause, failure.verdict), (1, Cause::Network, Verdict::No));
        assert_eq!(failure.code.unwrap().as_str(), "E17");
        assert_eq!(failure.retry_after, Some(seconds(9)));
    }

    /// R-P13: a veto holds for outer retries as well, however the inner error is wrapped.
    #[tokio::test(start_paused = true)]
    async fn a_veto_holds_for_the_outer_retry() {
        check(outer(vetoed).await);
        check(outer(|| async { vetoed().await.map_err(Wrapped::Source) }).await);
        check(outer(|| async { vetoed().await.map_err(Wrapped::Transparent) }).await);
        check(outer(|| async { vetoed().await.map_err(std::io::Error::other) }).await);
        check(
            outer(|| async { vetoed().await.map_err(|e| Box::new(e) as Box<dyn Error + Send + Sync>) }).await,
        );
    }

    /// R-P13: what a closure found is not judged again, and neither is what has no error of its own.
    #[tokio::test(start_paused = true)]
    async fn what_was_found_stays_found() {
        let revoked = || {
            (|| async { Err::<(), _>(Foreign(503)) })
                .retry(at_once(3))
                .classify_with(|_| Report::said(Cause::AuthError, Verdict::No, "revoked"))
        };
        let (made, failure) = outer(revoked).await;
        assert_eq!((made, failure.cause), (1, Cause::AuthError));
        let crashed = || {
            (|| async { if true { panic!("bug") } else { Ok::<(), Fail>(()) } })
                .retry(at_once(3))
                .catch_panics()
                .named("probe the connection timeout: 429 too many requests")
        };
        let (_, failure) = outer(|| async { crashed().await.map_err(Wrapped::Source) }).await;
        assert_eq!(failure.cause, Cause::Crashed, "a name is no evidence");
    }

    /// R-P13: that nothing was sent is known through any wrapper.
    #[tokio::test(start_paused = true)]
    async fn nothing_sent_is_known_from_outside() {
        let refused = || async { Err::<(), _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) };
        let error = refused.retry(at_once(1)).await.unwrap_err();
        assert!(std::io::Error::other(error).never_sent());
    }

    /// A chain that is printed says nothing twice, and what is behind the last error is still there.
    #[tokio::test(start_paused = true)]
    async fn a_chain_says_nothing_twice() {
        let root = || std::io::Error::other("disk on fire");
        let error = (|| async { Err::<(), _>(fail(Cause::AuthError, "key revoked").because(root())) })
            .retry(at_once(1))
            .await
            .unwrap_err();
        assert!(error.source().unwrap().is::<std::io::Error>());
        let whole = redrive::Words::Chain(&error).render().into_owned();
        assert_eq!(whole.matches("key revoked").count(), 1, "{whole}");
        assert!(whole.ends_with("; last: key revoked: disk on fire"), "{whole}");
    }
}

/// `?` passes the end of a retry on, whatever error it was made of.
mod question_mark {
    use super::*;
    use std::error::Error;
    type Boxed = Box<dyn Error + Send + Sync>;

    async fn boxed() -> Result<u32, Boxed> {
        Ok("x".parse()?)
    }

    async fn words() -> Result<u32, String> {
        Err("no such host".to_owned())
    }

    async fn into_box() -> Result<u32, Boxed> {
        let first = boxed.retry(at_once(0)).await;
        assert!(first.is_err());
        words.retry(at_once(0)).await?;
        Ok(first?)
    }

    /// R-P13: boxed errors and plain words.
    #[tokio::test]
    async fn passes_boxes_and_words_on() {
        let error = into_box().await.unwrap_err();
        assert!(error.to_string().ends_with("; last: no such host"), "{error}");
    }

    /// R-P13: anyhow in, anyhow out.
    #[cfg(feature = "anyhow")]
    #[tokio::test]
    async fn passes_anyhow_on() {
        async fn load() -> anyhow::Result<u32> {
            Err(anyhow::Error::from(reset()).context("could not load the rates"))
        }
        async fn all() -> anyhow::Result<u32> {
            let _ = words.retry(at_once(0)).await.map_err(anyhow::Error::from);
            let _ = boxed.retry(at_once(0)).await.map_err(anyhow::Error::from);
            Ok(load.retry(at_once(1)).named("loading").await?)
        }
        let error = all().await.unwrap_err();
        let whole = format!("{error:#}");
        assert!(whole.starts_with("loading gave up after 2 attempts: "), "{whole}");
        assert!(whole.ends_with("; last: could not load the rates: connection reset by peer"), "{whole}");
    }
}
