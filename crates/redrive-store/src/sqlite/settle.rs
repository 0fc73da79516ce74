//! The one door through which an attempt ends. The lease is looked for by its fence; only if it is found does anything
//! else happen.

use rusqlite::params;
use serde_json::{Value, json};

use super::batch::Batch;
use super::lease::{HAS_CALLER, HAS_PROGRESS, HAS_UNIQUE_KEY, WAS_REDRIVEN};
use super::{dead_letter, job, millis, redrive, sql};
use crate::effects;
use crate::error::StoreError;
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::protocol::{After, Claim, Standing};
use crate::row::{self, EventRow};
use crate::seal::Cell;
use crate::settle::{Ending, FailedAttempt, NewLetter, Settled, Settlement};
use crate::time::Timestamp;
use crate::told;

/// What the deleted lease said.
struct Held {
    job: JobId,
    claim: Claim,
    lane: i64,
    source_id: i64,
    flags: i64,
    event: i64,
    cancel_why: Option<String>,
    caller_id: Option<String>,
}

pub(super) fn settle(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    settlements: &[Settlement],
) -> Result<Vec<Settled>, StoreError> {
    settlements.iter().map(|settlement| settle_one(batch, now, settlement)).collect()
}

fn settle_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    settlement: &Settlement,
) -> Result<Settled, StoreError> {
    let token = settlement.token;
    let held = batch.first(sql!("lease_end"), [token.job.0], |row| {
        let standing = Standing {
            fence: row.get(9)?,
            attempts: row.get(2)?,
            retries: row.get(3)?,
            crashes: row.get(4)?,
        };
        Ok(Held {
            job: token.job,
            claim: Claim { standing, begun: row.get(7)? },
            lane: row.get(0)?,
            source_id: row.get(1)?,
            flags: row.get(5)?,
            event: row.get(6)?,
            cancel_why: row.get(8)?,
            caller_id: None,
        })
    })?;
    let Some(mut held) = held.filter(|held| held.claim.holds(token.fence)) else {
        tell_stale(batch, now, settlement)?;
        return Ok(Settled::Stale);
    };
    held.cancel_why = batch.seals.open_some(Cell::LeaseCancelWhy, token.job.0, held.cancel_why)?;
    batch.run(sql!("lease_delete"), [token.job.0])?;
    batch.count(held.lane, |delta| delta.leased -= 1);
    if held.flags & HAS_CALLER != 0 {
        held.caller_id = batch.first(sql!("job_read_ends"), [held.job.0], |row| row.get(0))?.flatten();
    }
    let after = held.claim.settled(settlement.ending.verdict(), held.cancel_why.is_some());
    effect(batch, now, &held, after, &settlement.ending)?;
    if let (Some(why), After::Cancelled, false) =
        (&held.cancel_why, after, matches!(settlement.ending, Ending::Cancelled { .. }))
    {
        // Somebody wants it over: it is not put back, whatever its worker heard of that.
        let told = json!({ "why": why, "cause": "cancelled", "instead_of": settlement.ending.name() });
        let event = cancelled(batch, now, &held, &told, settlement.ending.exit_code())?;
        return Ok(Settled::Cancelled { event: EventSeq(event) });
    }
    let event = match &settlement.ending {
        Ending::Succeeded { latency, exit_code, max_retries, output } => {
            let detail = output.as_deref().filter(|output| !output.is_empty()).map(row::said);
            let row = EventRow {
                status: Some(EventStatus::Success),
                max_retries: Some(i64::from(*max_retries)),
                latency_ms: Some(millis(*latency)),
                exit_code: *exit_code,
                detail,
                ..about(&held, "attempt_succeeded")
            };
            let event = batch.event(now, &row)?;
            end(batch, &held, event)?;
            batch.count(held.lane, |delta| delta.succeeded += 1);
            event
        }
        Ending::Retry { run_at, delay, held_for, hint, failure } => {
            let event = tell_failure(batch, now, &held, failure, EventStatus::Retrying, Some(*run_at), None)?;
            let back = Back { run_at: *run_at, held_for: *held_for, after };
            put_back(batch, &held, event, &back, Some(millis(*delay)), hint.as_deref())?;
            event
        }
        Ending::Dead { failure, letter } => set_aside(batch, now, &held, failure, letter)?,
        Ending::Snoozed { run_at, held_for } => {
            let detail = json!({ "data": { "run_at": run_at } }).to_string();
            let back = Back { run_at: *run_at, held_for: *held_for, after };
            uncounted(batch, now, &held, "job_snoozed", detail, &back)?
        }
        Ending::Parked { run_at, held_for, parked } => {
            let detail = told::parked(*run_at, parked);
            let back = Back { run_at: *run_at, held_for: *held_for, after };
            uncounted(batch, now, &held, "job_parked", detail, &back)?
        }
        Ending::Released { why } => {
            let detail = json!({ "data": { "why": why } }).to_string();
            let held_for = batch.first(sql!("progress_held"), [held.job.0], |row| row.get(0))?.flatten();
            let back = Back { run_at: now, held_for: held_for.map(WorkerId), after };
            uncounted(batch, now, &held, "job_released", detail, &back)?
        }
        Ending::Cancelled { why, exit_code } => {
            cancelled(batch, now, &held, &json!({ "why": why, "cause": "cancelled" }), *exit_code)?
        }
    };
    Ok(Settled::Done { event: EventSeq(event) })
}

/// What the end of the attempt means for the counts, for groups of letters and for the run that put the job back.
fn effect(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    held: &Held,
    after: After,
    ending: &Ending,
) -> Result<(), StoreError> {
    let came_from = if held.flags & WAS_REDRIVEN == 0 { None } else { redrive::origin(batch, held.job)? };
    batch.tally.settled(now, held.lane, held.claim, after, ending, came_from.as_ref());
    batch.groups.settled(now, after, ending, came_from.as_ref());
    if let Some(run) = came_from.and_then(|put_back| put_back.run)
        && let Some(how) = effects::first_attempt(held.claim, after, ending)
    {
        redrive::judge(batch, run, held.job, how, effects::failed_with(after, ending))?;
    }
    Ok(())
}

/// Who comes too late changes nothing, but what it came with is told: beside the job's story, in which it has no place.
/// A job that nobody remembers has none.
fn tell_stale(batch: &mut Batch<'_, '_>, now: Timestamp, settlement: &Settlement) -> Result<(), StoreError> {
    let token = settlement.token;
    let latest: Option<i64> = batch.first(sql!("job_latest"), [token.job.0], |row| row.get(0))?.flatten();
    let Some(latest) = latest else { return Ok(()) };
    let about: Option<(i64, Option<String>)> =
        batch.first(sql!("event_about"), [latest], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((source_id, caller_id)) = about else { return Ok(()) };
    let row = EventRow {
        event_type: "stale_settle",
        source_id,
        // Nothing came of it, so it is neither work that succeeded nor work that failed.
        status: Some(EventStatus::Pending),
        job: Some(token.job),
        parent: Some(latest),
        caller_id: caller_id.as_deref(),
        tags: row::tags(&["stale"]),
        detail: Some(row::stale(settlement)),
        ..EventRow::default()
    };
    batch.event(now, &row)?;
    Ok(())
}

/// The job is over because somebody wanted it to be: no retry, no letter.
fn cancelled(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    held: &Held,
    told: &Value,
    exit_code: Option<i32>,
) -> Result<i64, StoreError> {
    let row = EventRow {
        status: Some(EventStatus::Failed),
        exit_code,
        detail: Some(json!({ "data": told }).to_string()),
        ..about(held, "job_cancelled")
    };
    let event = batch.event(now, &row)?;
    end(batch, held, event)?;
    batch.count(held.lane, |delta| delta.cancelled += 1);
    Ok(event)
}

/// The job becomes a dead letter, and its unique key is free.
fn set_aside(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    held: &Held,
    failure: &FailedAttempt,
    letter: &NewLetter,
) -> Result<i64, StoreError> {
    let event =
        tell_failure(batch, now, held, failure, EventStatus::DeadLetter, None, Some(&letter.context))?;
    let standing = held.claim.standing;
    dead_letter::write(
        batch,
        &dead_letter::Written {
            id: held.job,
            lane: held.lane,
            died_at: now,
            event,
            reason: letter.reason,
            cause: failure.cause,
            retryable: failure.retryable,
            rule: &failure.rule,
            fingerprint: &failure.fingerprint,
            error_type: &failure.error_type,
            error_message: &failure.error_message,
            standing,
            max_retries: failure.decision.record.max_retries,
            redrives: None,
            caller_id: held.caller_id.as_deref(),
            context: &letter.context,
            report: &letter.report,
        },
    )?;
    if held.flags & HAS_UNIQUE_KEY != 0 {
        job::free_unique_key(batch, held.job)?;
    }
    if held.flags & HAS_PROGRESS != 0 {
        batch.run(sql!("progress_delete"), [held.job.0])?;
    }
    Ok(event)
}

/// An event about the job that was held; the caller fills in the rest.
fn about<'a>(held: &'a Held, event_type: &'a str) -> EventRow<'a> {
    EventRow {
        event_type,
        source_id: held.source_id,
        job: Some(held.job),
        lane_id: Some(held.lane),
        parent: Some(held.event),
        attempt: Some(held.claim.standing.attempts),
        retries: Some(held.claim.standing.retries),
        caller_id: held.caller_id.as_deref(),
        ..EventRow::default()
    }
}

/// The job is over: everything of it goes but its story.
fn end(batch: &mut Batch<'_, '_>, held: &Held, event: i64) -> Result<(), StoreError> {
    if held.flags & HAS_UNIQUE_KEY != 0 {
        job::free_unique_key(batch, held.job)?;
    }
    if held.flags & HAS_PROGRESS != 0 {
        batch.run(sql!("progress_delete"), [held.job.0])?;
    }
    // Only a letter is edited, and only a redrive leads from there to here.
    if held.flags & WAS_REDRIVEN != 0 {
        batch.run(sql!("payload_version_delete"), [held.job.0])?;
    }
    batch.run(sql!("job_delete"), [held.job.0])?;
    batch.run(sql!("ended_insert"), params![held.job.0, event])?;
    Ok(())
}

/// Where a job stands when it is put back.
struct Back {
    run_at: Timestamp,
    held_for: Option<WorkerId>,
    after: After,
}

fn put_back(
    batch: &mut Batch<'_, '_>,
    held: &Held,
    event: i64,
    back: &Back,
    delay_ms: Option<i64>,
    hint: Option<&str>,
) -> Result<(), StoreError> {
    let held_for = back.held_for.map(|worker| worker.0);
    let standing = back.after.standing(held.claim);
    let hint = batch.seals.seal_some(Cell::ProgressHint, held.job.0, hint)?;
    batch.run(
        sql!("progress_put"),
        params![
            held.job.0,
            back.run_at.millis(),
            held_for,
            standing.fence,
            standing.attempts,
            standing.retries,
            standing.crashes,
            delay_ms,
            hint,
            event
        ],
    )?;
    let rank: Option<i64> = batch.first(sql!("job_read_ends"), [held.job.0], |row| row.get(3))?;
    batch.make_ready(held.job, held.lane, held_for, rank.unwrap_or(0), back.run_at)
}

/// Puts a job back as if the attempt had never begun.
fn uncounted(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    held: &Held,
    event_type: &str,
    detail: String,
    back: &Back,
) -> Result<i64, StoreError> {
    let row = EventRow {
        status: Some(EventStatus::Pending),
        attempt: Some(back.after.standing(held.claim).attempts),
        detail: Some(detail),
        ..about(held, event_type)
    };
    let event = batch.event(now, &row)?;
    put_back(batch, held, event, back, None, None)?;
    Ok(event)
}

fn tell_failure(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    held: &Held,
    failure: &FailedAttempt,
    status: EventStatus,
    next_retry_at: Option<Timestamp>,
    context: Option<&Value>,
) -> Result<i64, StoreError> {
    let dead = status == EventStatus::DeadLetter;
    let row = EventRow {
        status: Some(status),
        max_retries: Some(i64::from(failure.decision.record.max_retries)),
        latency_ms: failure.latency.map(millis),
        exit_code: failure.exit_code,
        importance: dead.then_some(5),
        detail: Some(row::failed(failure, next_retry_at, context)),
        ..about(held, if dead { "job_dead" } else { "attempt_failed" })
    };
    let event = batch.event(now, &row)?;
    Ok(event)
}
