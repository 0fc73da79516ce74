//! Retrying futures (R-P13): the calls that are made, the waits between them, and what ends them.
//! The clock is tokio's paused one; nothing here waits for real.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use redrive::{
    Action, Cancel, Cause, Class, Curve, Fail, Jitter, Lang, Policy, RetryError, RetryExt, Stop, Strategy,
    SwitchStrategy, fail,
};
use tokio::time::Instant;

mod work;
use work::*;

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
