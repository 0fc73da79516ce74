//! `fetch.retry(policy).await`: the asynchronous driver.
//!
//! It owns the attempt that is running or the timer that is awaited, and nothing else: dropping it in the middle
//! leaves nothing behind. Without verbs it reads no clock, and a delay of zero touches no timer.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use redrive_policy::{Classifier, Failure, Policy, Report, Rng};
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep};

use crate::attempt::{Attempt, AttemptError, RetryError};
use crate::cancel::Cancel;
use crate::hooks::{Hooks, OnFailure, OnRetry, OnRetryAnswer, When, guarded, panic_message};
use crate::inline::{Journey, Next, Terms};
use crate::into_failure::{By, Reporter, Typed};
use crate::turns::TURNS;
use crate::verbs::{shaping_verbs, shared_verbs};

/// Retries closures that make futures.
///
/// ```
/// use redrive::{Policy, RetryExt};
///
/// async fn fetch() -> Result<u32, std::io::Error> {
///     Ok(42)
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(fetch.retry(Policy::standard()).await.unwrap(), 42);
/// # });
/// ```
pub trait RetryExt<Fut>: Sized {
    /// The future that calls this until it succeeds or the policy says that it is enough.
    fn retry<T, E>(self, policy: impl Into<Policy>) -> Retry<Self, Fut, E>
    where
        Fut: Future<Output = Result<T, E>>;
}

impl<F, Fut> RetryExt<Fut> for F
where
    F: FnMut() -> Fut,
{
    #[inline]
    fn retry<T, E>(self, policy: impl Into<Policy>) -> Retry<Self, Fut, E>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        Retry {
            operation: self,
            journey: Journey::new(policy.into()),
            terms: None,
            reporter: Typed,
            hooks: (),
            phase: Phase::Idle,
        }
    }
}

pin_project! {
    /// A retry, to be furnished with verbs and awaited. Made by [`RetryExt::retry`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Retry<F, Fut, E, R = Typed, H = ()> {
        operation: F,
        journey: Journey<E>,
        terms: Option<Box<Watched>>,
        reporter: R,
        hooks: H,
        #[pin]
        phase: Phase<Fut>,
    }
}

pin_project! {
    #[project = PhaseProjection]
    enum Phase<Fut> {
        Idle,
        Running { #[pin] attempt: Fut },
        // Boxed only when a wait is real, so that the future stays small for the many that never wait.
        Waiting { sleep: Pin<Box<Sleep>> },
        Done,
    }
}

/// The terms of a retry, and the watch that sees to them once it has begun.
#[derive(Debug, Default)]
struct Watched {
    terms: Terms,
    watch: Option<Watch>,
}

impl Watched {
    fn left(&self) -> Option<Duration> {
        self.watch.as_ref().and_then(|watch| watch.left(&self.terms))
    }
}

/// The clock and the timers of a retry that has terms.
#[derive(Debug)]
struct Watch {
    /// When the whole and when the running attempt began; no clock is read when no time limits either.
    began: Option<(Instant, Instant)>,
    /// Rings when the running attempt must end. Set only once the attempt has to be waited for.
    alarm: Option<Pin<Box<Sleep>>>,
    cancelled: Option<Pin<Box<OwnedNotified>>>,
}

/// Why a running attempt or a wait ends before its time.
enum Interrupt {
    Cancelled,
    TimedOut { limit: Duration, elapsed: Duration },
    Deadline { deadline: Duration, elapsed: Duration },
}

impl<E> From<Interrupt> for AttemptError<E> {
    fn from(interrupt: Interrupt) -> AttemptError<E> {
        match interrupt {
            Interrupt::Cancelled => AttemptError::Cancelled,
            Interrupt::TimedOut { limit, elapsed } => AttemptError::TimedOut { limit, elapsed },
            Interrupt::Deadline { deadline, elapsed } => AttemptError::PastDeadline { deadline, elapsed },
        }
    }
}

impl Watch {
    fn new(timed: bool) -> Watch {
        let began = timed.then(Instant::now).map(|now| (now, now));
        Watch { began, alarm: None, cancelled: None }
    }

    /// The time until the deadline.
    fn left(&self, terms: &Terms) -> Option<Duration> {
        let (began, _) = self.began?;
        terms.deadline.map(|deadline| deadline.saturating_sub(began.elapsed()))
    }

    /// Ready as soon as somebody cancels; registers for being woken.
    fn poll_cancelled(&mut self, terms: &Terms, cx: &mut Context<'_>) -> Poll<()> {
        let Some(cancel) = &terms.cancel else { return Poll::Pending };
        let listening = self.cancelled.get_or_insert_with(|| Box::pin(cancel.listen()));
        let woken = listening.as_mut().poll(cx).is_ready();
        if woken || cancel.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ready when the running attempt must end.
    fn poll_interrupt(&mut self, terms: &Terms, cx: &mut Context<'_>) -> Poll<Interrupt> {
        if self.poll_cancelled(terms, cx).is_ready() {
            return Poll::Ready(Interrupt::Cancelled);
        }
        let Some((began, attempt_began)) = self.began else { return Poll::Pending };
        let by_timeout = terms.timeout.and_then(|limit| attempt_began.checked_add(limit));
        let by_deadline = terms.deadline.and_then(|deadline| began.checked_add(deadline));
        let Some(end) = by_timeout.into_iter().chain(by_deadline).min() else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        // An attempt that has used up the task's budget keeps the alarm from ringing, so the clock is asked as well.
        // Such an alarm has woken the task, so that this is asked again.
        let now = match alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Instant::now(),
            Poll::Pending => match Instant::now() {
                now if now >= end => now,
                _ => return Poll::Pending,
            },
        };
        let elapsed = now.saturating_duration_since(attempt_began);
        Poll::Ready(match (terms.timeout, terms.deadline) {
            (Some(limit), _) if by_timeout == Some(end) => Interrupt::TimedOut { limit, elapsed },
            (_, deadline) => Interrupt::Deadline { deadline: deadline.unwrap_or_default(), elapsed },
        })
    }
}

impl<T, F, Fut, E, R, H> Future for Retry<F, Fut, E, R, H>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    R: Reporter<E>,
    H: Hooks<E>,
{
    type Output = Result<T, RetryError<E>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let ended = match this.phase.as_mut().project() {
                PhaseProjection::Idle => match this.terms {
                    None => {
                        let attempt = (this.operation)();
                        this.phase.set(Phase::Running { attempt });
                        continue;
                    }
                    Some(watched) => match begin(watched, this.operation) {
                        Begun::Attempt(attempt) => {
                            this.phase.set(Phase::Running { attempt });
                            continue;
                        }
                        Begun::Cancelled => {
                            this.phase.set(Phase::Done);
                            return Poll::Ready(Err(this.journey.on_cancel(&watched.terms, this.hooks)));
                        }
                        Begun::Late => {
                            this.phase.set(Phase::Done);
                            return Poll::Ready(Err(this.journey.on_late(&watched.terms, this.hooks)));
                        }
                        Begun::Panicked(error) => error,
                    },
                },
                PhaseProjection::Running { attempt } => {
                    let outcome = match this.terms.as_deref_mut() {
                        Some(watched) => ready!(poll_watched(attempt, watched, cx)),
                        None => ready!(attempt.poll(cx)).map_err(AttemptError::Failed),
                    };
                    match outcome {
                        // Left as it is: an attempt that has given its value says itself that it is polled too often.
                        Ok(value) => return Poll::Ready(Ok(value)),
                        Err(error) => error,
                    }
                }
                PhaseProjection::Waiting { sleep } => {
                    if let Some(Watched { terms, watch: Some(watch) }) = this.terms.as_deref_mut()
                        && watch.poll_cancelled(terms, cx).is_ready()
                    {
                        let left = sleep.deadline().saturating_duration_since(Instant::now());
                        this.journey.cut_wait_short(left);
                        this.phase.set(Phase::Done);
                        return Poll::Ready(Err(this.journey.on_cancel(terms, this.hooks)));
                    }
                    ready!(sleep.as_mut().poll(cx));
                    this.phase.set(Phase::Idle);
                    continue;
                }
                PhaseProjection::Done => panic!("a retry was polled after it had ended"),
            };
            // The attempt is over: what it holds is let go before anybody waits.
            if this.terms.as_ref().is_some_and(|watched| watched.terms.catch_panics) {
                guarded("the drop of an attempt", || this.phase.as_mut().set(Phase::Idle));
            } else {
                this.phase.set(Phase::Idle);
            }
            let left = this.terms.as_ref().and_then(|watched| watched.left());
            let terms = this.terms.as_deref_mut().map(|watched| &mut watched.terms);
            let next = this.journey.on_failure(ended, left, terms, this.reporter, this.hooks);
            match next {
                Next::Stop(error) => {
                    this.phase.set(Phase::Done);
                    return Poll::Ready(Err(error));
                }
                Next::Wait(Duration::ZERO) => {
                    if this.journey.made().is_multiple_of(TURNS) {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Next::Wait(wait) => {
                    this.phase.set(Phase::Waiting { sleep: Box::pin(tokio::time::sleep(wait)) });
                }
            }
        }
    }
}

/// What came of beginning an attempt under terms.
enum Begun<Fut, E> {
    Attempt(Fut),
    Panicked(AttemptError<E>),
    Cancelled,
    /// The deadline came before a further attempt could begin.
    Late,
}

fn begin<F, Fut, E>(watched: &mut Watched, operation: &mut F) -> Begun<Fut, E>
where
    F: FnMut() -> Fut,
{
    let Watched { terms, watch } = watched;
    if terms.is_cancelled() {
        return Begun::Cancelled;
    }
    let timed = terms.timeout.is_some() || terms.deadline.is_some();
    match watch {
        Some(watch) => {
            if let Some((began, attempt_began)) = &mut watch.began {
                let now = Instant::now();
                if terms.deadline.is_some_and(|deadline| now.saturating_duration_since(*began) >= deadline) {
                    return Begun::Late;
                }
                *attempt_began = now;
            }
            watch.alarm = None;
        }
        None if timed || terms.cancel.is_some() => *watch = Some(Watch::new(timed)),
        None => {}
    }
    if !terms.catch_panics {
        return Begun::Attempt(operation());
    }
    match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(attempt) => Begun::Attempt(attempt),
        Err(panic) => Begun::Panicked(AttemptError::Panicked(panic_message(panic))),
    }
}

/// Polls a running attempt, then whatever may end it: a result that is there counts, however late.
fn poll_watched<T, E, Fut: Future<Output = Result<T, E>>>(
    attempt: Pin<&mut Fut>,
    watched: &mut Watched,
    cx: &mut Context<'_>,
) -> Poll<Result<T, AttemptError<E>>> {
    let Watched { terms, watch } = watched;
    let polled = if terms.catch_panics {
        match catch_unwind(AssertUnwindSafe(|| attempt.poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => return Poll::Ready(Err(AttemptError::Panicked(panic_message(panic)))),
        }
    } else {
        attempt.poll(cx)
    };
    match (polled, watch) {
        (Poll::Ready(outcome), _) => Poll::Ready(outcome.map_err(AttemptError::Failed)),
        (Poll::Pending, Some(watch)) => {
            watch.poll_interrupt(terms, cx).map(|interrupt| Err(interrupt.into()))
        }
        (Poll::Pending, None) => Poll::Pending,
    }
}

impl<F, Fut, E, R, H> Retry<F, Fut, E, R, H> {
    shared_verbs!(
        "# use redrive::*; use std::time::Duration;\n# tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {\n(|| async { Ok::<_, std::io::Error>(1) })\n    .retry(Policy::standard())",
        "    .await\n    .unwrap();\n# });"
    );

    shaping_verbs!(
        Retry<F, Fut, E>,
        "# use redrive::*; use std::time::Duration;\n# tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {\n(|| async { Ok::<_, std::io::Error>(1) })\n    .retry(Policy::standard())",
        "    .await\n    .unwrap();\n# });"
    );

    /// How long one attempt may take. One that takes longer is dropped and counts as a failure with the cause
    /// `timeout`.
    ///
    /// ```
    /// # use redrive::*; use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// (|| async { Ok::<_, std::io::Error>(1) })
    ///     .retry(Policy::standard())
    ///     .timeout(Duration::from_secs(5))
    ///     .await
    ///     .unwrap();
    /// # });
    /// ```
    pub fn timeout(mut self, each: Duration) -> Self {
        self.terms().timeout = Some(each);
        self
    }

    fn terms(&mut self) -> &mut Terms {
        &mut self.terms.get_or_insert_with(Box::default).terms
    }

    fn reshape<R2, H2>(self, change: impl FnOnce(R, H) -> (R2, H2)) -> Retry<F, Fut, E, R2, H2> {
        let Retry { operation, journey, terms, reporter, hooks, phase } = self;
        let (reporter, hooks) = change(reporter, hooks);
        Retry { operation, journey, terms, reporter, hooks, phase }
    }
}

impl<F, Fut, E, R, H> fmt::Debug for Retry<F, Fut, E, R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("terms", &self.terms)
            .field("attempts_made", &self.journey.made())
            .finish_non_exhaustive()
    }
}
