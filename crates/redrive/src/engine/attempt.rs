//! One attempt, from a held lease to the way it ends: execute → classify → decide. What comes of it is settled by the
//! worker, together with what other attempts came to, in one transaction.
//!
//! Whatever the work does — panic, hang, lose its lease, outlive its worker — it ends here as data.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use redrive_policy::{
    Cause, Details, Failure, KnownSecrets, RuleId, Verdict, human_duration, round_to_millis,
};
use redrive_store::{Ending, EventSeq, LeasedJob, LetterReason, Output};
use tokio::sync::futures::OwnedNotified;

use super::Engine;
use super::executor::{Boxed, Running, Wish, Work, Worked};
use super::settle::{Failing, bounded_why, ending_of, redacted_output};
use crate::hooks::{guarded, panic_message};
use crate::outcome::{Evidence, Executed, Outcome};

/// How long work that was asked to end may take over it.
pub(super) const TO_END: Duration = Duration::from_secs(5);

/// An attempt that has been settled, as observers see it.
#[derive(Debug)]
#[non_exhaustive]
pub struct AttemptReport<'a> {
    /// The job and its attempt.
    pub leased: &'a LeasedJob,
    /// How the attempt ended: the decision about it, when it failed.
    pub ending: &'a Ending,
    /// The event that tells of it.
    pub event: EventSeq,
}

/// What became of carrying out an attempt.
enum Ran {
    /// The work ended by itself.
    Ended(Worked),
    /// Its time was up.
    Cut { limit: Duration, past_deadline: bool },
    /// It panicked with this message.
    Panicked(String),
    /// It was asked to end, and has.
    Asked(Wish, Option<i32>),
}

/// One attempt. The answer is how it ends; settling is the caller's.
pub(super) async fn run(running: &Running, work: &dyn Work) -> Ending {
    let engine = running.engine();
    if let Some(late) = late(engine, running) {
        return ending_of(engine, running, late, running.incarnation().held_for()).await;
    }
    let began = Instant::now();
    let ran = execute(running, work, began).await;
    let latency = began.elapsed();
    let held_for = running.incarnation().held_for();
    let failing = match ran {
        Ran::Asked(Wish::Released, _) => {
            return Ending::Released { why: "its worker leaves".to_owned() };
        }
        Ran::Asked(Wish::Cancelled, exit_code) => {
            return Ending::Cancelled { why: "somebody asked for it".to_owned(), exit_code };
        }
        Ran::Cut { limit, past_deadline } => cut(limit, past_deadline, latency),
        Ran::Panicked(message) => panicked(message),
        Ran::Ended(Worked::Failing(failing)) => *failing,
        Ran::Ended(Worked::Executed(executed)) => {
            let Executed { outcome, exit_code, stdout_tail, stderr_tail, .. } = executed;
            let output = Output { stdout: stdout_tail, stderr: stderr_tail };
            let known = || KnownSecrets::of_payload(&running.job.payload);
            match outcome {
                Outcome::Succeeded => {
                    let max_retries = engine.policies().of_job(&running.job).policy.max_retries;
                    let output = (!output.is_empty()).then(|| Box::new(redacted_output(output, &known())));
                    return Ending::Succeeded { latency, exit_code, max_retries, output };
                }
                Outcome::Snoozed(delay) => {
                    return Ending::Snoozed { run_at: engine.now().after(delay), held_for };
                }
                Outcome::Cancelled(why) => {
                    let why = bounded_why(&known().mask(&why));
                    return Ending::Cancelled { why, exit_code };
                }
                Outcome::Failed(evidence) => {
                    let failure = engine.classifier().classify(&evidence.report());
                    Failing { exit_code, output, ..Failing::new(failure, &evidence) }
                }
            }
        }
    };
    ending_of(engine, running, Failing { latency: Some(latency), ..failing }, held_for).await
}

/// Carries out the work under its limits: its own time, the job's deadline, whoever asks it to end.
async fn execute(running: &Running, work: &dyn Work, began: Instant) -> Ran {
    let mut careful = match catch_unwind(AssertUnwindSafe(|| work.begin(running.clone()))) {
        Ok(inner) => Careful::new(inner, running),
        Err(panic) => return Ran::Panicked(panic_message(panic)),
    };
    let limit = running.limit();
    let past_deadline = limit.is_some() && running.job.timeout.is_none_or(|each| limit < Some(each));
    let ended = match limit {
        None => {
            tokio::select! {
                biased;
                ended = &mut careful => ended,
                () = running.cancel().cancelled() => return asked(running, careful).await,
            }
        }
        Some(limit) => {
            tokio::select! {
                biased;
                ended = &mut careful => ended,
                () = running.cancel().cancelled() => return asked(running, careful).await,
                // An executor with a limit of its own ends the work more kindly than a drop would: it comes first.
                () = tokio::time::sleep(limit.saturating_sub(began.elapsed()).saturating_add(work.leeway())) => {
                    return Ran::Cut { limit, past_deadline };
                }
            }
        }
    };
    told(running, ended)
}

/// Somebody wants the attempt to end: it has a moment to do so by itself.
async fn asked(running: &Running, mut careful: Careful<'_, Worked>) -> Ran {
    match tokio::time::timeout(TO_END, &mut careful).await {
        Ok(ended) => told(running, ended),
        Err(_) => Ran::Asked(running.wish().unwrap_or(Wish::Cancelled), None),
    }
}

/// What an attempt came to. One that was asked to end and did not succeed has done what it was asked.
fn told(running: &Running, ended: Result<Worked, String>) -> Ran {
    let Some(wish) = running.wish() else {
        return match ended {
            Ok(worked) => Ran::Ended(worked),
            Err(message) => Ran::Panicked(message),
        };
    };
    match ended {
        Ok(Worked::Executed(executed)) if executed.outcome == Outcome::Succeeded => {
            Ran::Ended(Worked::Executed(executed))
        }
        Ok(Worked::Executed(executed)) => Ran::Asked(wish, executed.exit_code),
        Ok(Worked::Failing(_)) | Err(_) => Ran::Asked(wish, None),
    }
}

/// The work, polled so that neither a panic nor a lease that may be lost gets past.
pub(super) struct Careful<'a, T> {
    inner: Option<Boxed<'static, T>>,
    running: &'a Running,
    /// Set while the lease is in doubt.
    beaten: Option<Pin<Box<OwnedNotified>>>,
}

impl<'a, T> Careful<'a, T> {
    pub(super) fn new(inner: Boxed<'static, T>, running: &'a Running) -> Careful<'a, T> {
        Careful { inner: Some(inner), running, beaten: None }
    }
}

impl<T> Future for Careful<'_, T> {
    /// What it came to, or the message of its panic.
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A process that was stopped for longer than its lease acts no further before it knows that the lease is its own.
        let incarnation = this.running.incarnation();
        let clock = this.running.engine().clock();
        while !incarnation.is_sure(clock) {
            let beaten = this.beaten.get_or_insert_with(|| Box::pin(incarnation.next_beat()));
            ready!(beaten.as_mut().poll(cx));
            this.beaten = None;
        }
        let Some(inner) = &mut this.inner else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(executed)) => Poll::Ready(Ok(executed)),
            Err(panic) => Poll::Ready(Err(panic_message(panic))),
        }
    }
}

impl<T> Drop for Careful<'_, T> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        guarded("the drop of an attempt", || drop(inner));
    }
}

/// A job that was handed out when its deadline had passed.
pub(super) fn late(engine: &Engine, leased: &LeasedJob) -> Option<Failing> {
    let deadline = leased.job.deadline_at.filter(|deadline| *deadline <= engine.now())?;
    let failure = Failure { rule: RuleId::built_in("attempt.deadline"), ..Failure::of(Cause::Timeout) };
    let evidence = Evidence {
        error_type: "DeadlineExceeded".to_owned(),
        message: format!("the deadline {deadline} passed before the attempt began"),
        ..Evidence::default()
    };
    Some(Failing { forced: Some(LetterReason::Deadline), ..Failing::new(failure, &evidence) })
}

pub(super) fn cut(limit: Duration, past_deadline: bool, elapsed: Duration) -> Failing {
    let millis = |duration| Some(round_to_millis(duration));
    let details = Details { timeout_ms: millis(limit), elapsed_ms: millis(elapsed), ..Details::default() };
    let human = |duration| human_duration(Duration::from_millis(round_to_millis(duration)));
    let (rule, error_type, message) = if past_deadline {
        ("attempt.deadline", "DeadlineExceeded", format!("cut off after {} by the deadline", human(elapsed)))
    } else {
        ("attempt.timeout", "Timeout", format!("timed out after {} (limit {})", human(elapsed), human(limit)))
    };
    let failure = Failure {
        rule: RuleId::built_in(rule),
        details: Some(Arc::new(details)),
        ..Failure::of(Cause::Timeout)
    };
    let evidence = Evidence {
        error_type: error_type.to_owned(),
        message,
        details: failure.details.clone(),
        ..Evidence::default()
    };
    let forced = past_deadline.then_some(LetterReason::Deadline);
    Failing { forced, ..Failing::new(failure, &evidence) }
}

pub(super) fn panicked(message: String) -> Failing {
    let failure = Failure { rule: RuleId::built_in("attempt.panic"), ..Failure::of(Cause::Crashed) };
    let evidence = Evidence {
        said: Some((Cause::Crashed, Verdict::Unsaid)),
        error_type: "Panic".to_owned(),
        message,
        ..Evidence::default()
    };
    Failing::new(failure, &evidence)
}
