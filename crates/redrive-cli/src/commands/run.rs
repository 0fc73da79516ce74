//! `run -- CMD…`: a command now, durably.
//!
//! The job is stored before the command starts, and held for this process while it lives. A worker of our own runs
//! it, with its output passed through; between the attempts a line says what failed and when the next one comes.
//! When this process dies, the job is still there, and any worker goes on with it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{CommandExecutor, Engine, EngineError, Shutdown, overrides_to_json};
use redrive::{CommandSpec, HintBy, Protected, Relay, Wiring};
use redrive_policy::plan::SnapshotPlan;
use redrive_policy::{Cause, Config, Report, Verdict, human_duration};
use redrive_store::{EventStatus, JobId, JobState, LetterReason, NewJob};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::enqueue::{self, EXEC};
use super::files::{self, FilesToTell};
use super::opened::{self, Opened};
use super::run_key::{self, Entered, Fate, Held, RENEW_EVERY};
use super::signals::{SIGINT, Signals};
use super::told::{End, Failed, Told};
use crate::args::RunArgs;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::enqueued::EnqueuedView;
use crate::{Exit, Stage, render};

/// The preset of `run`: as `standard`, and what is unknown is retried.
const PRESET: &str = "command";
/// Its time was over.
const TIMED_OUT: u8 = 124;
/// Its output was rejected by a review.
const REJECTED: u8 = 1;
/// redrive itself failed.
const OUR_FAULT: u8 = 125;
/// A command that nobody reads any more: 128 and SIGPIPE.
const UNREAD: i32 = 141;
/// How much of a hint is shown.
const HINT_LINES: usize = 12;
/// How soon a job that waits is cancelled after a signal.
const CANCEL_EVERY: Duration = Duration::from_millis(50);

/// Whatever goes wrong with redrive ends with a code of its own, so that it is not taken for the command's.
pub(super) fn run(args: &RunArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match try_run(args, stage) {
        Err(trouble) if trouble.exit() != Exit::Usage => {
            stage.talk.trouble(&trouble);
            // Nothing has run yet, and somebody may not want to wait for the store.
            if matches!(trouble, Trouble::Opening { .. } | Trouble::Unwritable { .. }) {
                let command = in_words(&args.command);
                stage.talk.hint(&text(
                    stage.settings.lang,
                    "trouble.hint.run-without",
                    &[("command", &command)],
                ));
            }
            Ok(Exit::Command(OUR_FAULT))
        }
        ended => ended,
    }
}

fn try_run(args: &RunArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let policy = args.flags.policy.as_deref().unwrap_or(PRESET);
    // Refused before anything is stored.
    stage.settings.policy(&config, Some(policy))?;
    let plain = enqueue::command(&args.command, stage)?;
    let spec = step(plain, args, &config, stage);
    let opened = opened::to_write(stage)?;
    let (engine, mut files) = files::heard(opened.engine_builder(&config, stage), "run");
    let engine = engine.build()?;
    let held = match &args.idempotency_key {
        None => None,
        Some(key) => match run_key::enter(key.as_str(), args, &engine, &opened, stage)? {
            Entered::Held(held) => Some(held),
            Entered::Over(exit) => {
                // What was acknowledged is safe; closing only tidies up.
                let _ = opened.wait(opened.store.close());
                return Ok(exit);
            }
        },
    };
    let mut wish = args.flags.wish();
    if held.is_some() {
        // Whoever died in the middle of it may have done it: under a key a person decides what comes next.
        wish.crash_budget = Some(0);
    }
    let job = NewJob {
        idempotency_key: args.idempotency_key.as_ref().map(ToString::to_string),
        caller_id: held.as_ref().map(Held::caller_id),
        policy: Some(policy.to_owned()),
        overrides: overrides_to_json(&wish),
        timeout: args.timeout,
        deadline_at: args.deadline.map(|deadline| engine.now().after(deadline)),
        source: args.name.clone().unwrap_or_default(),
        ..NewJob::new(EXEC, spec.to_payload())
    };
    if args.detach {
        let enqueued = opened.runtime.block_on(engine.enqueue(job))?;
        opened.wait(opened.store.close())?;
        stage.talk.note(&text(stage.settings.lang, "run.enqueued", &[("id", &enqueued.id)]));
        render::show(&EnqueuedView::new(enqueued), stage)?;
        return Ok(Exit::Done);
    }
    let mut stored = None;
    let attempted =
        opened.runtime.block_on(attempts(&engine, job, &mut stored, held.as_ref(), &mut files, stage));
    let (id, last, signal) = match attempted {
        Ok(ended) => ended,
        Err(trouble) => {
            if let Some(id) = stored {
                stage.talk.note(&text(stage.settings.lang, "run.stored", &[("id", &id)]));
            }
            if let Some(held) = held {
                // Without a job nothing can have been run; with one, the job knows.
                let fate = stored.map_or(Fate::Release, |_| Fate::GiveUp("redrive itself failed"));
                held.end(&fate, OUR_FAULT, &engine, &opened, stage);
            }
            return Err(trouble);
        }
    };
    let ended = end(id, last.as_ref(), signal, &opened, stage);
    if let Some(held) = held {
        let fate = if ended.is_ok() {
            Fate::of(last.as_ref(), signal)
        } else {
            Fate::GiveUp("redrive itself failed")
        };
        let code = match &ended {
            Ok(Exit::Command(code)) => *code,
            _ => OUR_FAULT,
        };
        held.end(&fate, code, &engine, &opened, stage);
    }
    // What was acknowledged is safe; closing only tidies up.
    let _ = opened.wait(opened.store.close());
    ended
}

/// The command, with what is to be kept, reviewed and told.
fn step(plain: CommandSpec, args: &RunArgs, config: &Config, stage: &Stage<'_>) -> CommandSpec {
    let protected = |roots: &[String]| {
        let kept = SnapshotPlan { roots: roots.to_vec(), ..SnapshotPlan::default() };
        Box::new(Protected { base: stage.cwd.clone(), plan: kept })
    };
    CommandSpec {
        // Who wants the output to be reviewed wants to say where the command is told what was wrong with it.
        hint: args.hint.or(args.review.then_some(HintBy::Env)),
        review: args.review.then(|| Box::new(config.review.clone())),
        snapshot: (!args.snapshot.is_empty()).then(|| protected(&args.snapshot)),
        ..plain
    }
}

/// Runs the job until it is over; the last attempt that we saw, and the signal that ended it.
async fn attempts(
    engine: &Engine,
    job: NewJob,
    stored: &mut Option<JobId>,
    held: Option<&Held>,
    files: &mut FilesToTell,
    stage: &mut Stage<'_>,
) -> Result<(JobId, Option<Told>, Option<i32>), Trouble> {
    let relay = Relay::new();
    let wired = {
        let relay = relay.clone();
        match held.map(Held::wiring) {
            Some(wiring) => CommandExecutor::wired(move || wiring(relay.clone())),
            None => CommandExecutor::wired(move || Wiring::passed_through(relay.clone())),
        }
    };
    let mut renewal = interval_at(Instant::now() + RENEW_EVERY, RENEW_EVERY);
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let (teller, mut told) = unbounded_channel();
    let worker = engine
        .worker()
        .reserved_only()
        .concurrency(1)
        .executor(EXEC, Arc::new(wired))
        .observe(move |report| {
            // Nobody listens only when this process is on its way out.
            let _ = teller.send(Told::of(report));
        })
        .register()
        .await?;
    let id = engine.enqueue(NewJob { held_for: Some(worker.id()), ..job }).await?.id;
    *stored = Some(id);
    let shutdown = Shutdown::new();
    let mut last = None;
    {
        let mut working = std::pin::pin!(worker.run_job(id, &shutdown));
        loop {
            tokio::select! {
                biased;
                // Before what the attempt itself writes, or what is said about its end.
                Some(one) = files.next() => files.tell(&one, stage),
                Some(attempt) = told.recv() => {
                    between(&attempt, stage);
                    last = Some(attempt);
                }
                _ = renewal.tick(), if held.is_some() => renew(held, engine).await,
                signal = signals.next() => relay.send(signal),
                // A command that runs is told by the relay; a job that only waits is cancelled here.
                () = sleep(CANCEL_EVERY), if relay.heard().is_some() => cancel(engine, id, &relay).await?,
                ended = &mut working => {
                    ended?;
                    break;
                }
            }
        }
    }
    files.rest(stage);
    drain(&mut told, &mut last, stage);
    Ok((id, last, relay.heard()))
}

/// A renewal that fails is no reason to stop: should the key lapse meanwhile, whoever comes asks the job, and completing it
/// at the end still counts.
async fn renew(held: Option<&Held>, engine: &Engine) {
    if let Some(held) = held {
        let _ = held.renew(engine.now()).await;
    }
}

/// What was told between the worker's last word and its end.
fn drain(told: &mut UnboundedReceiver<Told>, last: &mut Option<Told>, stage: &mut Stage<'_>) {
    while let Ok(attempt) = told.try_recv() {
        between(&attempt, stage);
        *last = Some(attempt);
    }
}

async fn cancel(engine: &Engine, id: JobId, relay: &Relay) -> Result<(), EngineError> {
    let store = engine.store();
    let waits = store.job(id).await?.is_some_and(|record| matches!(record.state, JobState::Ready { .. }));
    if waits {
        let why = format!("signal {}", relay.heard().unwrap_or_default());
        store.cancel(engine.now(), id, why).await?;
    }
    Ok(())
}

/// One line between two attempts.
fn between(attempt: &Told, stage: &mut Stage<'_>) {
    let End::Retrying { failed, delay, hint } = &attempt.end else { return };
    let lang = stage.settings.lang;
    let next = attempt.attempt.saturating_add(1);
    let line = text(
        lang,
        "run.failed",
        &[
            ("what", &failed.what(lang)),
            ("cause", &failed.cause(lang)),
            ("delay", &human_duration(*delay)),
            ("n", &next),
            ("all", &next.saturating_add(failed.max.saturating_sub(failed.retry))),
        ],
    );
    stage.talk.narrate(&line);
    // What a limit teaches is in the line already.
    if let Some(hint) = hint.as_ref().filter(|_| failed.cause != Cause::Timeout) {
        stage.talk.narrate(&say(lang, "run.told"));
        stage.talk.quoted(hint, HINT_LINES);
    }
}

/// The last words, and the exit code.
fn end(
    id: JobId,
    last: Option<&Told>,
    signal: Option<i32>,
    opened: &Opened,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let lang = stage.settings.lang;
    if let Some(Told { end: End::Succeeded { exit_code, .. }, .. }) = last {
        return Ok(Exit::Command(code(*exit_code, 0)));
    }
    if let Some(Told { end: End::Dead { failed, reason }, attempt, .. }) = last {
        dead(id, *attempt, failed, *reason, stage)?;
        // Without a code of its own the command did not begin, or nobody knows how it ended.
        let otherwise = match failed.cause {
            Cause::Timeout => TIMED_OUT,
            // The command was content with its output, and the review was not.
            Cause::Incomplete | Cause::Quality => REJECTED,
            _ => OUR_FAULT,
        };
        return Ok(Exit::Command(code(failed.exit_code, otherwise)));
    }
    if let Some(signal) = signal {
        if signal == SIGINT {
            stage.talk.after_a_key();
        }
        let line = text(lang, "run.cancelled", &[("id", &id), ("signal", &signal)]);
        stage.talk.narrate(&line);
        return Ok(Exit::Command(code(Some(128 + signal), 1)));
    }
    if let Some(Told { end: End::Cancelled { exit_code: Some(UNREAD) }, .. }) = last {
        // As any command that writes to somebody who has gone: without a word.
        return Ok(Exit::Command(code(Some(UNREAD), 1)));
    }
    if let Some(Told { end: End::Cancelled { exit_code }, .. }) = last {
        let line = text(lang, "run.cancelled-by-somebody", &[("id", &id)]);
        stage.talk.narrate(&line);
        return Ok(Exit::Command(code(*exit_code, 1)));
    }
    // Somebody else ended it: the stream knows how.
    stage.talk.narrate(&text(lang, "run.lost", &[("id", &id)]));
    let record = opened.wait(opened.store.job(id))?;
    let events = record.map(|record| opened.story(&record)).transpose()?.unwrap_or_default();
    let otherwise = match events.last().map(|event| event.status) {
        Some(EventStatus::Success) => 0,
        _ => 1,
    };
    Ok(Exit::Command(code(events.last().and_then(|event| event.exit_code), otherwise)))
}

/// Three lines: what, why, what to type next.
fn dead(
    id: JobId,
    attempt: u32,
    failed: &Failed,
    reason: LetterReason,
    stage: &mut Stage<'_>,
) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    let what = text(
        lang,
        "run.dead",
        &[("id", &id), ("n", &attempt), ("what", &failed.what(lang)), ("cause", &failed.cause(lang))],
    );
    stage.talk.narrate(&what);
    stage.talk.narrate(&text(lang, "run.why", &[("why", &failed.why(lang))]));
    // Only what the policy leaves out can be added to it; what a rule forbids cannot.
    let found = stage
        .settings
        .config()?
        .classifier()
        .explain(&Report { exit_code: failed.exit_code, ..Report::text(failed.message()) });
    let forbidden = found.failure.verdict == Verdict::No && found.failure.cause == failed.cause;
    let next = if reason == LetterReason::NonRetryable && !forbidden {
        text(lang, "run.next-anyway", &[("id", &id), ("cause", &failed.cause.name())])
    } else {
        text(lang, "run.next", &[("id", &id)])
    };
    stage.talk.narrate(&next);
    Ok(())
}

/// A command's exit code as ours.
pub(super) fn code(exit_code: Option<i32>, otherwise: u8) -> u8 {
    exit_code.map_or(otherwise, |code| u8::try_from(code & 0xff).unwrap_or(otherwise))
}

/// A command as one would type it.
fn in_words(command: &[OsString]) -> String {
    let word = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        let words: Vec<OsString> = ["sh", "-c", "exit 75", "it's", ""].map(OsString::from).to_vec();
        assert_eq!(in_words(&words), "sh -c 'exit 75' 'it'\\''s' ''");
        assert_eq!((code(Some(75), 1), code(None, 1), code(Some(256 + 3), 1)), (75, 1, 3));
    }
}
