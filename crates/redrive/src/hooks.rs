//! What the caller wants to be asked and told while retries go on.
//!
//! Hooks are types, not boxes: an unused one costs nothing, and the future is `Send` when they are. A hook that
//! panics or answers with an error is logged and never ends the work.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redrive_policy::{Failure, Policy};

use crate::attempt::{Attempt, RetryError};

/// Everything that a retry asks and tells its caller. Implemented by `()` and by what the verbs make of it.
pub trait Hooks<E> {
    /// Whether another attempt is fine after this one.
    fn allows(&mut self, attempt: &Attempt<E>) -> bool;

    /// Told before each wait; may answer with another policy for what remains.
    fn on_retry(&mut self, number: u32, failure: &Failure, delay: Duration) -> Option<Policy>;

    /// Told at the end.
    fn on_failure(&mut self, error: &RetryError<E>);
}

impl<E> Hooks<E> for () {
    #[inline]
    fn allows(&mut self, _: &Attempt<E>) -> bool {
        true
    }

    #[inline]
    fn on_retry(&mut self, _: u32, _: &Failure, _: Duration) -> Option<Policy> {
        None
    }

    #[inline]
    fn on_failure(&mut self, _: &RetryError<E>) {}
}

/// What an `on_retry` callback may return: nothing, perhaps another policy, or a result with either.
///
/// ```
/// use redrive::{OnRetryAnswer, Policy};
///
/// assert!(().into_policy().is_none());
/// assert!(Some(Policy::command()).into_policy().is_some());
/// assert!(Err::<(), _>("disk full").into_policy().is_none());
/// ```
#[diagnostic::on_unimplemented(
    message = "an `on_retry` callback cannot return `{Self}`",
    label = "neither nothing nor a policy",
    note = "it returns `()`, `Option<Policy>` (another policy for what remains), or a `Result` of either whose error can be displayed",
    note = "to return nothing, end the closure with a semicolon: `|attempt, failure, delay| {{ log(attempt); }}`"
)]
pub trait OnRetryAnswer {
    /// The policy for what remains, if it is another one.
    fn into_policy(self) -> Option<Policy>;
}

impl OnRetryAnswer for () {
    fn into_policy(self) -> Option<Policy> {
        None
    }
}

impl OnRetryAnswer for Option<Policy> {
    fn into_policy(self) -> Option<Policy> {
        self
    }
}

impl<A: OnRetryAnswer, X: Display> OnRetryAnswer for Result<A, X> {
    fn into_policy(self) -> Option<Policy> {
        match self {
            Ok(answer) => answer.into_policy(),
            Err(error) => {
                let error = crate::secrets::redact(&error.to_string());
                tracing::warn!(error, "the on_retry callback failed; retrying goes on");
                None
            }
        }
    }
}

/// Runs code of the caller's; a panic in it is logged and answered with `None`.
pub(crate) fn guarded<T>(what: &'static str, callback: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(answer) => Some(answer),
        Err(panic) => {
            let message = crate::secrets::redact(&panic_message(panic));
            tracing::error!(callback = what, message, "a callback panicked; it is not fatal");
            None
        }
    }
}

/// The message that a panic was raised with. What else it was raised with is dropped, and may panic at that.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = if let Some(message) = panic.downcast_ref::<&'static str>() {
        (*message).to_owned()
    } else if let Some(message) = panic.downcast_ref::<String>() {
        message.clone()
    } else {
        "a panic without a message".to_owned()
    };
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Whoever panics while a panic is dropped is not dropped in turn: it could go on for ever.
        std::mem::forget(another);
    }
    message
}

/// Adds a predicate.
#[derive(Debug, Clone, Copy)]
pub struct When<H, P>(pub(crate) H, pub(crate) P);

impl<E, H: Hooks<E>, P: FnMut(&Attempt<E>) -> bool> Hooks<E> for When<H, P> {
    fn allows(&mut self, attempt: &Attempt<E>) -> bool {
        // A predicate that panics has not said yes.
        self.0.allows(attempt) && guarded("when", || (self.1)(attempt)).unwrap_or(false)
    }

    fn on_retry(&mut self, number: u32, failure: &Failure, delay: Duration) -> Option<Policy> {
        self.0.on_retry(number, failure, delay)
    }

    fn on_failure(&mut self, error: &RetryError<E>) {
        self.0.on_failure(error);
    }
}

/// Adds a callback before each wait.
#[derive(Debug, Clone, Copy)]
pub struct OnRetry<H, C>(pub(crate) H, pub(crate) C);

impl<E, H, C, A> Hooks<E> for OnRetry<H, C>
where
    H: Hooks<E>,
    C: FnMut(u32, &Failure, Duration) -> A,
    A: OnRetryAnswer,
{
    fn allows(&mut self, attempt: &Attempt<E>) -> bool {
        self.0.allows(attempt)
    }

    fn on_retry(&mut self, number: u32, failure: &Failure, delay: Duration) -> Option<Policy> {
        let earlier = self.0.on_retry(number, failure, delay);
        guarded("on_retry", || (self.1)(number, failure, delay).into_policy()).flatten().or(earlier)
    }

    fn on_failure(&mut self, error: &RetryError<E>) {
        self.0.on_failure(error);
    }
}

/// Adds a callback at the end.
#[derive(Debug, Clone, Copy)]
pub struct OnFailure<H, C>(pub(crate) H, pub(crate) C);

impl<E, H: Hooks<E>, C: FnMut(&RetryError<E>)> Hooks<E> for OnFailure<H, C> {
    fn allows(&mut self, attempt: &Attempt<E>) -> bool {
        self.0.allows(attempt)
    }

    fn on_retry(&mut self, number: u32, failure: &Failure, delay: Duration) -> Option<Policy> {
        self.0.on_retry(number, failure, delay)
    }

    fn on_failure(&mut self, error: &RetryError<E>) {
        self.0.on_failure(error);
        guarded("on_failure", || (self.1)(error));
    }
}
