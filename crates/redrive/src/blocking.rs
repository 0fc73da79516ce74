//! `fetch.retry_blocking(policy).call()`: the driver for calls that block.
//!
//! The same machine as for futures, with a thread that sleeps where a future would wait. The sleeper can be
//! exchanged, so that a test waits for nothing.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redrive_policy::{Classifier, Failure, Policy, Report, Rng};

use crate::attempt::{Attempt, AttemptError, RetryError};
use crate::cancel::Cancel;
use crate::hooks::{Hooks, OnFailure, OnRetry, OnRetryAnswer, When, panic_message};
use crate::inline::{Journey, Next, Terms};
use crate::into_failure::{By, Reporter, Typed};
use crate::verbs::{shaping_verbs, shared_verbs};

/// Retries closures that block.
///
/// ```
/// use redrive::{Policy, RetryBlockingExt};
///
/// let bytes = (|| std::fs::read("Cargo.toml")).retry_blocking(Policy::standard()).call().unwrap();
/// assert!(!bytes.is_empty());
/// ```
pub trait RetryBlockingExt<T, E>: Sized {
    /// Prepares calling this until it succeeds or the policy says that it is enough.
    fn retry_blocking(self, policy: impl Into<Policy>) -> RetryBlocking<Self, ThreadSleep, E>;
}

impl<F, T, E> RetryBlockingExt<T, E> for F
where
    F: FnMut() -> Result<T, E>,
{
    #[inline]
    fn retry_blocking(self, policy: impl Into<Policy>) -> RetryBlocking<Self, ThreadSleep, E> {
        RetryBlocking {
            operation: self,
            sleeper: ThreadSleep,
            journey: Journey::new(policy.into()),
            terms: None,
            reporter: Typed,
            hooks: (),
        }
    }
}

/// Waits, and knows how late it is. A closure that takes a duration is one too, with the system's clock.
///
/// ```
/// use redrive::{Cancel, Sleeper};
/// use std::time::Duration;
///
/// /// A clock that moves only when somebody sleeps.
/// struct Manual(Duration);
/// impl Sleeper for Manual {
///     fn sleep(&mut self, wait: Duration, _: Option<&Cancel>) { self.0 += wait }
///     fn now(&mut self) -> Duration { self.0 }
/// }
/// ```
pub trait Sleeper {
    /// Waits so long. A sleeper that can be woken returns at once when somebody cancels.
    fn sleep(&mut self, wait: Duration, cancel: Option<&Cancel>);

    /// The time since some fixed moment; read only when there is a deadline or somebody may cancel.
    fn now(&mut self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

impl<S: FnMut(Duration)> Sleeper for S {
    fn sleep(&mut self, wait: Duration, _: Option<&Cancel>) {
        self(wait);
    }
}

/// The sleeper that puts the thread to sleep.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadSleep;

impl Sleeper for ThreadSleep {
    fn sleep(&mut self, wait: Duration, cancel: Option<&Cancel>) {
        match cancel {
            Some(cancel) => cancel.sleep(wait),
            None => std::thread::sleep(wait),
        }
    }
}

/// A retry of a blocking call, to be furnished with verbs and called. Made by
/// [`RetryBlockingExt::retry_blocking`].
#[must_use = "nothing is called before `call`"]
pub struct RetryBlocking<F, S, E, R = Typed, H = ()> {
    operation: F,
    sleeper: S,
    journey: Journey<E>,
    terms: Option<Box<Terms>>,
    reporter: R,
    hooks: H,
}

impl<F, S, E, R, H> RetryBlocking<F, S, E, R, H> {
    shared_verbs!(
        "# use redrive::*; use std::time::Duration;\n(|| Ok::<_, std::io::Error>(1))\n    .retry_blocking(Policy::standard())",
        "    .call()\n    .unwrap();"
    );

    shaping_verbs!(
        RetryBlocking<F, S, E>,
        "# use redrive::*; use std::time::Duration;\n(|| Ok::<_, std::io::Error>(1))\n    .retry_blocking(Policy::standard())",
        "    .call()\n    .unwrap();"
    );

    /// Waits by something else than the thread's sleep.
    ///
    /// ```
    /// # use redrive::*; use std::time::Duration;
    /// let mut waited = Duration::ZERO;
    /// let error = (|| Err::<(), _>(fail(Cause::Network, "no route")))
    ///     .retry_blocking(Policy::standard())
    ///     .sleeper(|wait| waited += wait)
    ///     .call()
    ///     .unwrap_err();
    /// assert_eq!(error.attempts_made(), 4);
    /// assert!(waited > Duration::from_secs(6));
    /// ```
    pub fn sleeper<S2: Sleeper>(self, sleeper: S2) -> RetryBlocking<F, S2, E, R, H> {
        let RetryBlocking { operation, sleeper: _, journey, terms, reporter, hooks } = self;
        RetryBlocking { operation, sleeper, journey, terms, reporter, hooks }
    }

    fn terms(&mut self) -> &mut Terms {
        self.terms.get_or_insert_with(Box::default)
    }

    fn reshape<R2, H2>(self, change: impl FnOnce(R, H) -> (R2, H2)) -> RetryBlocking<F, S, E, R2, H2> {
        let RetryBlocking { operation, sleeper, journey, terms, reporter, hooks } = self;
        let (reporter, hooks) = change(reporter, hooks);
        RetryBlocking { operation, sleeper, journey, terms, reporter, hooks }
    }

    /// Decides and waits; gives the end when there is no further attempt. Apart, so that a success stays small.
    #[inline(never)]
    fn after_failure(&mut self, error: AttemptError<E>, deadline: Option<Duration>) -> Option<RetryError<E>>
    where
        S: Sleeper,
        R: Reporter<E>,
        H: Hooks<E>,
    {
        let left = deadline.map(|deadline| deadline.saturating_sub(self.sleeper.now()));
        let terms = self.terms.as_deref_mut();
        match self.journey.on_failure(error, left, terms, &self.reporter, &mut self.hooks) {
            Next::Stop(error) => return Some(error),
            Next::Wait(Duration::ZERO) => {}
            Next::Wait(wait) => self.wait(wait),
        }
        match &self.terms {
            Some(terms)
                if !terms.is_cancelled()
                    && deadline.is_some_and(|deadline| self.sleeper.now() >= deadline) =>
            {
                Some(self.journey.on_late(terms, &mut self.hooks))
            }
            _ => None,
        }
    }

    fn wait(&mut self, wait: Duration)
    where
        S: Sleeper,
    {
        let Some(cancel) = self.terms.as_ref().and_then(|terms| terms.cancel.as_ref()) else {
            return self.sleeper.sleep(wait, None);
        };
        let began = self.sleeper.now();
        self.sleeper.sleep(wait, Some(cancel));
        if cancel.is_cancelled() {
            let waited = self.sleeper.now().saturating_sub(began);
            self.journey.cut_wait_short(wait.saturating_sub(waited));
        }
    }

    /// Calls it, until it succeeds or the policy says that it is enough.
    ///
    /// ```
    /// # use redrive::*;
    /// assert_eq!((|| Ok::<_, String>(7)).retry_blocking(Policy::standard()).call().unwrap(), 7);
    /// ```
    #[inline]
    pub fn call<T>(mut self) -> Result<T, RetryError<E>>
    where
        F: FnMut() -> Result<T, E>,
        S: Sleeper,
        R: Reporter<E>,
        H: Hooks<E>,
    {
        let deadline = match &self.terms {
            Some(terms) => terms.deadline.map(|deadline| self.sleeper.now().saturating_add(deadline)),
            None => None,
        };
        loop {
            let error = match &self.terms {
                Some(terms) if terms.is_cancelled() => {
                    return Err(self.journey.on_cancel(terms, &mut self.hooks));
                }
                Some(terms) if terms.catch_panics => {
                    match catch_unwind(AssertUnwindSafe(&mut self.operation)) {
                        Ok(Ok(value)) => return Ok(value),
                        Ok(Err(error)) => AttemptError::Failed(error),
                        Err(panic) => AttemptError::Panicked(panic_message(panic)),
                    }
                }
                _ => match (self.operation)() {
                    Ok(value) => return Ok(value),
                    Err(error) => AttemptError::Failed(error),
                },
            };
            if let Some(end) = self.after_failure(error, deadline) {
                return Err(end);
            }
        }
    }
}

impl<F, S, E, R, H> fmt::Debug for RetryBlocking<F, S, E, R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBlocking").field("terms", &self.terms).finish_non_exhaustive()
    }
}
