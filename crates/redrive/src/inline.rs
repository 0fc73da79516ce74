//! The whole logic of retrying in process, without a clock, a timer or a future (R-P13).
//!
//! A failing call goes like this: an attempt ends with an error → it is classified → the policy decides → the
//! caller has the last say → a wait that would pass the deadline is not begun → it is recorded → `on_retry` is
//! told and may exchange the policy → the driver waits. The drivers for futures and for blocking calls, the
//! tower layer and the HTTP client middleware all feed this one machine and do what it answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Classifier, Decision, Details, Failure, History, Policy, Rng, RuleId, decide};

use crate::attempt::{Attempt, AttemptError, Behind, RetryError, Stop, Story, keep};
use crate::cancel::Cancel;
use crate::chance;
use crate::hooks::{Hooks, guarded};
use crate::into_failure::Reporter;
use crate::record::Record;

/// What the verbs of a builder set. Boxed, and absent until the first verb, so that a plain call stays small.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) catch_panics: bool,
    pub(crate) classifier: Option<Arc<Classifier>>,
    pub(crate) rng: Option<Rng>,
}

impl Terms {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }
}

/// What the driver does next.
#[derive(Debug)]
pub(crate) enum Next<S> {
    /// Wait so long, then begin another attempt.
    Wait(Duration),
    /// Stop.
    Stop(S),
}

/// Rules on a failure, and records it when it is retried. `left` is the time until the deadline, if there is one;
/// `allowed` has the last say.
pub(crate) fn rule(
    policy: &Policy,
    history: &mut History,
    failure: &Failure,
    left: Option<Duration>,
    rng: &mut Rng,
    allowed: impl FnOnce() -> bool,
) -> (Decision, Next<Verdict>) {
    let decision = decide(policy, failure, history, rng);
    let Some(wait) = decision.delay() else { return (decision, Next::Stop(Verdict::Decided)) };
    // An attempt that may take no time at all is none: at the deadline is past it.
    if left.is_some_and(|left| wait >= left) {
        return (decision, Next::Stop(Verdict::Late(wait)));
    }
    if !allowed() {
        return (decision, Next::Stop(Verdict::Vetoed));
    }
    history.record(&decision);
    (decision, Next::Wait(wait))
}

/// Why the machine stops, before the drivers add what they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Decided,
    Vetoed,
    Late(Duration),
}

/// A policy and what became of the attempts under it. Nothing but the policy until the first failure, so that a
/// call that succeeds moves and drops next to nothing.
#[derive(Debug)]
pub(crate) struct Journey<E> {
    policy: Policy,
    trail: Option<Box<Trail<E>>>,
}

/// The attempts so far.
#[derive(Debug)]
struct Trail<E> {
    history: History,
    made: u32,
    attempts: Vec<Attempt<E>>,
    /// What was decided last, while a further attempt is to follow.
    decision: Option<Decision>,
    /// Whether every attempt so far proves that it did not reach the other side.
    never_sent: bool,
    behind: Behind<E>,
}

impl<E> Trail<E> {
    fn new(behind: Behind<E>) -> Trail<E> {
        Trail {
            history: History::default(),
            made: 0,
            attempts: Vec::new(),
            decision: None,
            never_sent: true,
            behind,
        }
    }
}

impl<E> Journey<E> {
    #[inline]
    pub(crate) fn new(policy: Policy) -> Journey<E> {
        Journey { policy, trail: None }
    }

    /// How many attempts have ended.
    pub(crate) fn made(&self) -> u32 {
        self.trail.as_ref().map_or(0, |trail| trail.made)
    }

    /// An attempt has failed: what next?
    #[inline(never)]
    pub(crate) fn on_failure<R: Reporter<E>, H: Hooks<E>>(
        &mut self,
        error: AttemptError<E>,
        left: Option<Duration>,
        terms: Option<&mut Terms>,
        reporter: &R,
        hooks: &mut H,
    ) -> Next<RetryError<E>> {
        let trail = self.trail.get_or_insert_with(|| Box::new(Trail::new(R::behind)));
        trail.made = trail.made.saturating_add(1);
        let number = trail.made;
        let mut none = Terms::default();
        let Terms { name, deadline, cancel, catch_panics, classifier, rng, timeout: _ } =
            terms.unwrap_or(&mut none);
        let classifier = classifier.as_deref().unwrap_or_else(|| Classifier::built_in());
        let failure = match &error {
            AttemptError::Failed(error) => {
                let unsent_before = trail.never_sent;
                let read = || {
                    let failure = classifier.classify(&reporter.report(error));
                    (failure, unsent_before && R::never_sent(error))
                };
                let (failure, never_sent) = if *catch_panics {
                    guarded("reading an error", read).unwrap_or_else(unreadable)
                } else {
                    read()
                };
                trail.never_sent = never_sent;
                failure
            }
            other => {
                trail.never_sent = false;
                failure_of(other)
            }
        };
        let past_deadline = matches!(error, AttemptError::PastDeadline { .. });
        let mut cancelled_now = matches!(error, AttemptError::Cancelled);
        // Neither is followed by an attempt, whatever a policy says about the cause.
        let left = if past_deadline || cancelled_now { Some(Duration::ZERO) } else { left };
        let attempt = keep(&mut trail.attempts, Attempt { number, error, failure, delay: None });
        let mut own_rng;
        let rng = if let Some(rng) = rng {
            rng
        } else {
            own_rng = chance::fresh();
            &mut own_rng
        };
        let allowed = || {
            cancelled_now |= cancel.as_ref().is_some_and(Cancel::is_cancelled);
            !cancelled_now && hooks.allows(attempt)
        };
        let (mut decision, next) =
            rule(&self.policy, &mut trail.history, &attempt.failure, left, rng, allowed);
        let verdict = match next {
            Next::Wait(delay) => {
                attempt.delay = Some(delay);
                tracing::debug!(
                    name = name.as_deref(),
                    attempt = number,
                    cause = attempt.failure.cause.name(),
                    rule = attempt.failure.rule.as_str(),
                    delay_ms = redrive_policy::round_to_millis(delay),
                    "an attempt failed and will be made again"
                );
                if let Some(policy) = hooks.on_retry(number, &attempt.failure, delay) {
                    self.policy = policy;
                }
                trail.decision = Some(decision);
                return Next::Wait(delay);
            }
            Next::Stop(verdict) => verdict,
        };
        let stop = match (verdict, *deadline) {
            _ if cancelled_now => Stop::Cancelled,
            (_, Some(deadline)) if past_deadline => Stop::Deadline { deadline, wait: None },
            (Verdict::Late(wait), Some(deadline)) => Stop::Deadline { deadline, wait: Some(wait) },
            (Verdict::Vetoed, _) => Stop::Vetoed,
            (Verdict::Decided | Verdict::Late(_), _) => Stop::Decided,
        };
        if cancelled_now {
            decision = decide(&self.policy, &cancelled(), &trail.history, rng);
        }
        let name = name.clone();
        Next::Stop(self.end(name, decision, stop, hooks))
    }

    /// The last attempt and what was decided about it, while a further one is to follow.
    #[cfg(feature = "engine")]
    pub(crate) fn last(&self) -> Option<(&Attempt<E>, &Decision)> {
        let trail = self.trail.as_ref()?;
        Some((trail.attempts.last()?, trail.decision.as_ref()?))
    }

    /// Somebody cancelled while no attempt was running.
    #[cold]
    pub(crate) fn on_cancel<H: Hooks<E>>(&mut self, terms: &Terms, hooks: &mut H) -> RetryError<E> {
        let history = self.trail.as_ref().map_or_else(History::default, |trail| trail.history);
        let decision = decide(&self.policy, &cancelled(), &history, &mut Rng::seeded(0));
        self.end(terms.name.clone(), decision, Stop::Cancelled, hooks)
    }

    /// The deadline came when no attempt was running: the wait, or who was told of it, took longer than planned.
    #[cold]
    pub(crate) fn on_late<H: Hooks<E>>(&mut self, terms: &Terms, hooks: &mut H) -> RetryError<E> {
        let decided = self.trail.as_mut().and_then(|trail| trail.decision.take());
        let decision = decided.unwrap_or_else(|| {
            decide(&self.policy, &Failure::of(Cause::Timeout), &History::default(), &mut Rng::seeded(0))
        });
        let stop = Stop::Deadline { deadline: terms.deadline.unwrap_or_default(), wait: None };
        self.end(terms.name.clone(), decision, stop, hooks)
    }

    /// The wait after the last attempt ended so long before its time.
    #[cold]
    pub(crate) fn cut_wait_short(&mut self, left: Duration) {
        let last = self.trail.as_mut().and_then(|trail| trail.attempts.last_mut());
        if let Some(delay) = last.and_then(|attempt| attempt.delay.as_mut()) {
            *delay = delay.saturating_sub(left);
        }
    }

    #[cold]
    fn end<H: Hooks<E>>(
        &mut self,
        name: Option<Cow<'static, str>>,
        decision: Decision,
        stop: Stop,
        hooks: &mut H,
    ) -> RetryError<E> {
        let none = || Box::new(Trail { never_sent: false, ..Trail::new(|_| None) });
        let Trail { made, attempts, never_sent, behind, .. } = *self.trail.take().unwrap_or_else(none);
        let failure = match attempts.last() {
            _ if stop == Stop::Cancelled => cancelled(),
            Some(last) => last.failure.clone(),
            None => Failure::of(Cause::Unknown),
        };
        let record = Record::new(failure, stop, never_sent);
        tracing::debug!(
            name = name.as_deref(),
            attempts = made,
            cause = decision.cause.map(Cause::name),
            stop = ?stop,
            "gave up"
        );
        let error = RetryError::new(Story { name, made, attempts, decision, stop, record, behind });
        hooks.on_failure(&error);
        error
    }
}

/// What it means that an attempt ended without an error of its own.
#[cold]
fn failure_of<E>(error: &AttemptError<E>) -> Failure {
    match error {
        AttemptError::TimedOut { limit, elapsed } => {
            Failure { rule: RuleId::built_in("attempt.timeout"), ..timed_out(*limit, *elapsed) }
        }
        AttemptError::PastDeadline { deadline, elapsed } => {
            Failure { rule: RuleId::built_in("attempt.deadline"), ..timed_out(*deadline, *elapsed) }
        }
        AttemptError::Panicked(_) => {
            Failure { rule: RuleId::built_in("attempt.panic"), ..Failure::of(Cause::Crashed) }
        }
        AttemptError::Cancelled => cancelled(),
        // The caller classifies these; without a reporter nothing is known.
        AttemptError::Failed(_) => Failure::of(Cause::Unknown),
    }
}

/// What is known of an error that panics when it is read, and whether it was never sent.
#[cold]
fn unreadable() -> (Failure, bool) {
    (Failure { rule: RuleId::built_in("attempt.unreadable"), ..Failure::of(Cause::Unknown) }, false)
}

fn cancelled() -> Failure {
    Failure { rule: RuleId::built_in("attempt.cancelled"), ..Failure::of(Cause::Cancelled) }
}

fn timed_out(limit: Duration, elapsed: Duration) -> Failure {
    let millis = |duration| Some(redrive_policy::round_to_millis(duration));
    let details = Details { timeout_ms: millis(limit), elapsed_ms: millis(elapsed), ..Details::default() };
    Failure { details: Some(Arc::new(details)), ..Failure::of(Cause::Timeout) }
}
