//! Retrying blocking calls (R-P13): the same machine, with a sleeper that notes instead of sleeping.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use redrive::{Backoff, Cancel, Cause, Curve, Fail, Policy, RetryBlockingExt, Sleeper, Stop, fail};

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn policy(curve: Curve, max_retries: u32) -> Policy {
    let mut spec = (*Policy::standard()).clone();
    spec.entries.clear();
    spec.max_retries = max_retries;
    spec.backoff = Backoff::new(curve);
    spec.into()
}

fn reset() -> Fail {
    fail(Cause::Network, "connection reset by peer")
}

/// A clock that moves only when somebody sleeps.
#[derive(Clone, Default)]
struct Manual(Rc<Cell<Duration>>);

impl Sleeper for Manual {
    fn sleep(&mut self, wait: Duration, _: Option<&Cancel>) {
        self.0.set(self.0.get() + wait);
    }

    fn now(&mut self) -> Duration {
        self.0.get()
    }
}

/// R-P13: fail, fail, succeed = three calls, with the waits of the curve.
#[test]
fn a_call_is_made_until_it_succeeds() {
    let waits = RefCell::new(Vec::new());
    let mut made = 0;
    let outcome = (|| {
        made += 1;
        if made < 3 { Err(reset()) } else { Ok(made) }
    })
    .retry_blocking(policy(Curve::exponential(seconds(1)), 3))
    .on_retry(|attempt, _, delay| waits.borrow_mut().push((attempt, delay, "told")))
    .sleeper(|wait| waits.borrow_mut().push((0, wait, "slept")))
    .call();
    assert_eq!(outcome.unwrap(), 3);
    let expected = [
        (1, seconds(1), "told"),
        (0, seconds(1), "slept"),
        (2, seconds(2), "told"),
        (0, seconds(2), "slept"),
    ];
    assert_eq!(*waits.borrow(), expected);
}

/// R-P13: the same limits as for futures.
#[test]
fn a_call_is_given_up_as_its_policy_says() {
    let gave_up = |cause, retries| {
        (|| Err::<(), _>(fail(cause, "no")))
            .retry_blocking(policy(Curve::constant(seconds(1)), retries))
            .sleeper(|_| ())
            .call()
            .unwrap_err()
            .attempts_made()
    };
    assert_eq!(gave_up(Cause::AuthError, 3), 1);
    assert_eq!(gave_up(Cause::Network, 2), 3);
    assert_eq!(gave_up(Cause::Network, 0), 1);
}

/// R-P13: a wait that would pass the deadline is not begun.
#[test]
fn no_wait_passes_the_deadline() {
    let clock = Manual::default();
    let error = (|| Err::<(), _>(reset()))
        .retry_blocking(policy(Curve::constant(seconds(4)), 100))
        .deadline(seconds(10))
        .sleeper(clock.clone())
        .call()
        .unwrap_err();
    assert_eq!((error.attempts_made(), clock.0.get()), (3, seconds(8)));
    assert_eq!(error.stopped(), Stop::Deadline { deadline: seconds(10), wait: Some(seconds(4)) });
}

/// R-P13: an attempt that ran past the deadline is the last one, also with no wait before the next.
#[test]
fn no_attempt_begins_after_the_deadline() {
    let clock = Manual::default();
    let error = (|| {
        clock.0.set(clock.0.get() + seconds(6));
        Err::<(), _>(reset())
    })
    .retry_blocking(policy(Curve::constant(Duration::ZERO), 100))
    .deadline(seconds(10))
    .sleeper(clock.clone())
    .call()
    .unwrap_err();
    assert_eq!((error.attempts_made(), clock.0.get()), (2, seconds(12)));
}

/// R-P13: cancelling wakes a thread that would sleep for an hour.
#[test]
fn cancelling_wakes_a_sleeping_thread() {
    let cancel = Cancel::new();
    let theirs = cancel.clone();
    let (told, about_to_sleep) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        (|| Err::<(), _>(reset()))
            .retry_blocking(policy(Curve::constant(seconds(300)), 3))
            .cancelled_by(&theirs)
            .on_retry(|_, _, _| told.send(()))
            .call()
    });
    about_to_sleep.recv().unwrap();
    cancel.cancel();
    let error = thread.join().unwrap().unwrap_err();
    assert_eq!((error.stopped(), error.attempts_made()), (Stop::Cancelled, 1));
}

/// R-P13: panics as failures, on request.
#[test]
fn a_panic_is_a_failure_on_request() {
    let error = (|| -> Result<(), Fail> { panic!("out of ideas") })
        .retry_blocking(policy(Curve::constant(seconds(1)), 0))
        .catch_panics()
        .sleeper(|_| ())
        .call()
        .unwrap_err();
    assert_eq!(error.attempts_made(), 4, "the crash budget, not max_retries");
    assert_eq!(error.last().unwrap().failure.cause, Cause::Crashed);
    assert!(error.to_string().ends_with("; last: panicked: out of ideas"), "{error}");
}

/// R-P13: no attempt begins at or after the deadline, however long a callback took.
#[test]
fn a_callback_that_takes_its_time_does_not_move_the_deadline() {
    let clock = Manual::default();
    let error = (|| Err::<(), _>(reset()))
        .retry_blocking(policy(Curve::constant(seconds(2)), 100))
        .deadline(seconds(5))
        .on_retry(|_, _, _| clock.0.set(clock.0.get() + seconds(10)))
        .sleeper(clock.clone())
        .call()
        .unwrap_err();
    assert_eq!(error.attempts_made(), 1);
    assert_eq!(error.stopped(), Stop::Deadline { deadline: seconds(5), wait: None });
}
