//! The one door through which an attempt ends, for all callers of a group at once.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};
use tokio_postgres::Row;

use super::batch::{LetterRow, ProgressRow, ReportRow};
use super::fault::Fault;
use super::leasable;
use super::line::{Line, args, column};
use super::operation::SettleCall;
use super::take::{HAS_CALLER, HAS_PROGRESS, HAS_UNIQUE_KEY, WAS_REDRIVEN};
use super::texts::sql;
use super::tx::Tx;
use crate::effects::{self, PutBack};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::protocol::{After, Claim, Standing};
use crate::redrive::FirstAttempt;
use crate::row::{self, EventRow};
use crate::seal::{Cell, Seals};
use crate::settle::{Ending, FailedAttempt, NewLetter, Settled, Settlement};
use crate::time::{Timestamp, whole_millis};
use crate::told;

/// What a lease said, and what its job must be told or tidied up with.
#[derive(Debug)]
pub(super) struct Held {
    job: JobId,
    pub(super) claim: Claim,
    lane: i64,
    source_id: i64,
    flags: i64,
    event: i64,
    cancel_why: Option<String>,
    caller_id: Option<String>,
    unique_key: Option<String>,
    rank: i64,
    reserved_for: Option<i64>,
    put_back: Option<PutBack>,
}

fn read(row: &Row, seals: &Seals) -> Result<Held, Fault> {
    let standing = Standing {
        fence: column(row, 1)?,
        attempts: column(row, 4)?,
        retries: column(row, 5)?,
        crashes: column(row, 6)?,
    };
    let flags: i64 = column(row, 7)?;
    let job = JobId(column(row, 0)?);
    Ok(Held {
        job,
        claim: Claim { standing, begun: column(row, 9)? },
        lane: column(row, 2)?,
        source_id: column(row, 3)?,
        flags,
        event: column(row, 8)?,
        cancel_why: seals.open_some(Cell::LeaseCancelWhy, job.0, column(row, 10)?)?,
        caller_id: if flags & HAS_CALLER == 0 { None } else { column(row, 11)? },
        unique_key: if flags & HAS_UNIQUE_KEY == 0 { None } else { column(row, 12)? },
        rank: column(row, 13)?,
        reserved_for: column(row, 14)?,
        put_back: if flags & WAS_REDRIVEN == 0 { None } else { leasable::put_back(row, 15)? },
    })
}

/// The leases of everything that is to be settled, kept from others until that is decided.
pub(super) async fn fetch(line: &Line, calls: &[SettleCall]) -> Result<Vec<Row>, Fault> {
    let mut ids: Vec<i64> =
        calls.iter().flat_map(|call| &call.ask).map(|settlement| settlement.token.job.0).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    ids.sort_unstable();
    ids.dedup();
    line.all(sql!("lease_end"), args![ids]).await
}

pub(super) async fn apply(tx: &mut Tx<'_>, rows: &[Row], calls: &mut [SettleCall]) -> Result<(), Fault> {
    let mut held: HashMap<JobId, Held> = HashMap::with_capacity(rows.len());
    for row in rows {
        let found = read(row, &tx.seals)?;
        held.insert(found.job, found);
    }
    let mut stale: Vec<Stale> = Vec::new();
    let mut told: HashMap<JobId, (i64, Held)> = HashMap::new();
    for (at, call) in calls.iter_mut().enumerate() {
        let mut settled = Vec::with_capacity(call.ask.len());
        for (place, settlement) in call.ask.iter().enumerate() {
            let token = settlement.token;
            let holds = held.get(&token.job).is_some_and(|held| held.claim.holds(token.fence));
            // Whoever shows the right fence ends the lease; whoever comes behind finds none.
            if let Some(held) = holds.then(|| held.remove(&token.job)).flatten() {
                let outcome = settle_one(tx, call.now, &held, settlement)?;
                if let Settled::Done { event } | Settled::Cancelled { event } = outcome {
                    told.insert(token.job, (event.0, held));
                }
                settled.push(outcome);
                continue;
            }
            settled.push(Settled::Stale);
            let latest = held.get(&token.job).map(|held| (held.event, held));
            let latest = latest.or_else(|| told.get(&token.job).map(|(event, held)| (*event, held)));
            if let Some((parent, held)) = latest {
                let about = About { parent, source_id: held.source_id, caller_id: held.caller_id.as_deref() };
                let seq = tx.batch.next_event()?;
                put_stale(tx, seq, call.now, settlement, about)?;
            } else {
                // Its number is taken now, so that it stands where it belongs.
                stale.push(Stale { call: at, place, seq: tx.batch.next_event()? });
            }
        }
        call.result = Some(settled);
    }
    tell_stale(tx, &stale, calls).await
}

/// A settlement that came too late, about a job that nobody has a lease of.
struct Stale {
    call: usize,
    place: usize,
    seq: i64,
}

/// What a settlement that came too late is told beside.
#[derive(Clone, Copy)]
struct About<'a> {
    parent: i64,
    source_id: i64,
    caller_id: Option<&'a str>,
}

/// Who comes too late changes nothing, but what it came with is told: beside the job's story, in which it has no place.
fn put_stale(
    tx: &mut Tx<'_>,
    seq: i64,
    callers_now: Timestamp,
    settlement: &Settlement,
    about: About<'_>,
) -> Result<(), Fault> {
    let row = EventRow {
        event_type: "stale_settle",
        source_id: about.source_id,
        // Nothing came of it, so it is neither work that succeeded nor work that failed.
        status: Some(EventStatus::Pending),
        job: Some(settlement.token.job),
        parent: Some(about.parent),
        caller_id: about.caller_id,
        tags: row::tags(&["stale"]),
        detail: Some(row::stale(settlement)),
        ..EventRow::default()
    };
    tx.batch.put_event(seq, tx.now(callers_now), row)
}

/// Looks up what a job without a lease came to. One that nobody remembers has no story that anything could be told beside.
async fn tell_stale(tx: &mut Tx<'_>, stale: &[Stale], calls: &[SettleCall]) -> Result<(), Fault> {
    if stale.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = stale.iter().map(|late| calls[late.call].ask[late.place].token.job.0).collect();
    let mut latest: HashMap<i64, (i64, i64, Option<String>)> = HashMap::new();
    for row in tx.line.all(sql!("job_latest"), args![ids]).await? {
        latest.insert(column(&row, 0)?, (column(&row, 1)?, column(&row, 2)?, column(&row, 3)?));
    }
    for late in stale {
        let (call, settlement) = (&calls[late.call], &calls[late.call].ask[late.place]);
        let Some((parent, source_id, caller_id)) = latest.get(&settlement.token.job.0) else { continue };
        let about = About { parent: *parent, source_id: *source_id, caller_id: caller_id.as_deref() };
        put_stale(tx, late.seq, call.now, settlement, about)?;
    }
    Ok(())
}

/// Ends one attempt, whose lease is held.
pub(super) fn settle_one(
    tx: &mut Tx<'_>,
    callers_now: Timestamp,
    held: &Held,
    settlement: &Settlement,
) -> Result<Settled, Fault> {
    let now = tx.now(callers_now);
    tx.batch.drop_lease(held.job);
    tx.batch.count(held.lane, |delta| delta.leased -= 1);
    let after = held.claim.settled(settlement.ending.verdict(), held.cancel_why.is_some());
    take_effect(tx, now, held, after, &settlement.ending);
    if let (Some(why), After::Cancelled, false) =
        (&held.cancel_why, after, matches!(settlement.ending, Ending::Cancelled { .. }))
    {
        // Somebody wants it over: it is not put back, whatever its worker heard of that.
        let told = json!({ "why": why, "cause": "cancelled", "instead_of": settlement.ending.name() });
        let event = cancelled(tx, now, held, &told, settlement.ending.exit_code())?;
        return Ok(Settled::Cancelled { event: EventSeq(event) });
    }
    let event = match &settlement.ending {
        Ending::Succeeded { latency, exit_code, max_retries, output } => {
            let row = EventRow {
                status: Some(EventStatus::Success),
                max_retries: Some(i64::from(*max_retries)),
                latency_ms: Some(whole_millis(*latency)),
                exit_code: *exit_code,
                detail: output.as_deref().filter(|output| !output.is_empty()).map(row::said),
                ..about(held, "attempt_succeeded")
            };
            let event = tx.batch.event(now, row)?;
            end(tx, held, event);
            tx.batch.count(held.lane, |delta| delta.succeeded += 1);
            event
        }
        Ending::Retry { run_at, delay, held_for, hint, failure } => {
            let run_at = tx.by_our_clock(*run_at, callers_now);
            let event = tell_failure(tx, now, held, failure, EventStatus::Retrying, Some(run_at), None)?;
            let back = Back { run_at, held_for: *held_for, after };
            put_back(tx, held, event, &back, Some(whole_millis(*delay)), hint.as_deref())?;
            event
        }
        Ending::Dead { failure, letter } => set_aside(tx, now, held, failure, letter)?,
        Ending::Snoozed { run_at, held_for } => {
            let run_at = tx.by_our_clock(*run_at, callers_now);
            let detail = json!({ "data": { "run_at": run_at } }).to_string();
            let back = Back { run_at, held_for: *held_for, after };
            uncounted(tx, now, held, "job_snoozed", detail, &back)?
        }
        Ending::Parked { run_at, held_for, parked } => {
            let run_at = tx.by_our_clock(*run_at, callers_now);
            let detail = told::parked(run_at, parked);
            let back = Back { run_at, held_for: *held_for, after };
            uncounted(tx, now, held, "job_parked", detail, &back)?
        }
        Ending::Released { why } => {
            let detail = json!({ "data": { "why": why } }).to_string();
            let back = Back { run_at: now, held_for: held.reserved_for.map(WorkerId), after };
            uncounted(tx, now, held, "job_released", detail, &back)?
        }
        Ending::Cancelled { why, exit_code } => {
            cancelled(tx, now, held, &json!({ "why": why, "cause": "cancelled" }), *exit_code)?
        }
    };
    Ok(Settled::Done { event: EventSeq(event) })
}

/// What the end of an attempt means beside its job: for groups, for the counts of the hour, for the run that put it back.
fn take_effect(tx: &mut Tx<'_>, now: Timestamp, held: &Held, after: After, ending: &Ending) {
    let put_back = held.put_back.as_ref();
    tx.batch.groups.settled(now, after, ending, put_back);
    tx.batch.tally.settled(now, held.lane, held.claim, after, ending, put_back);
    let run = put_back.and_then(|put_back| put_back.run);
    if let Some((run, first)) = run.zip(effects::first_attempt(held.claim, after, ending)) {
        let failed_with =
            (first == FirstAttempt::Failed).then(|| effects::failed_with(after, ending)).flatten();
        tx.batch.judge(run, held.job, first, failed_with);
    }
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

/// The job is over because somebody wanted it to be: no retry, no letter.
fn cancelled(
    tx: &mut Tx<'_>,
    now: Timestamp,
    held: &Held,
    told: &Value,
    exit_code: Option<i32>,
) -> Result<i64, Fault> {
    let row = EventRow {
        status: Some(EventStatus::Failed),
        exit_code,
        detail: Some(json!({ "data": told }).to_string()),
        ..about(held, "job_cancelled")
    };
    let event = tx.batch.event(now, row)?;
    end(tx, held, event);
    tx.batch.count(held.lane, |delta| delta.cancelled += 1);
    Ok(event)
}

/// The job is over: everything of it goes but its story.
fn end(tx: &mut Tx<'_>, held: &Held, event: i64) {
    tidy_up(tx, held);
    if held.put_back.is_some() {
        tx.batch.drop_versions(held.job);
    }
    tx.batch.end(held.job, event);
}

/// What only unfinished work has.
fn tidy_up(tx: &mut Tx<'_>, held: &Held) {
    let queue_id = tx.memory.borrow().lane_of(held.lane).map(|lane| lane.queue_id);
    if let (Some(key), Some(queue_id)) = (&held.unique_key, queue_id) {
        tx.batch.free_key(queue_id, key.clone(), held.job);
    }
    if held.flags & HAS_PROGRESS != 0 {
        tx.batch.drop_progress(held.job);
    }
}

/// The job becomes a dead letter, and its unique key is free.
fn set_aside(
    tx: &mut Tx<'_>,
    now: Timestamp,
    held: &Held,
    failure: &FailedAttempt,
    letter: &NewLetter,
) -> Result<i64, Fault> {
    let event = tell_failure(tx, now, held, failure, EventStatus::DeadLetter, None, Some(&letter.context))?;
    let standing = held.claim.standing;
    let seal = |cell, text: &str| tx.seals.seal_text(cell, held.job.0, text).map(Cow::into_owned);
    let error_message = seal(Cell::LetterMessage, &without_nul(&failure.error_message))?;
    let context = seal(Cell::LetterContext, &letter.context.to_string())?;
    let report = seal(Cell::LetterReport, &letter.report.to_string())?;
    let letter_row = LetterRow {
        job_id: held.job.0,
        lane_id: held.lane,
        died_at: now.millis(),
        event,
        reason: letter.reason.name().to_owned(),
        cause: failure.cause.name().to_owned(),
        retryable: failure.retryable,
        rule: failure.rule.clone(),
        fingerprint: failure.fingerprint.clone(),
        error_type: without_nul(&failure.error_type),
        error_message,
        attempts: standing.attempts,
        retries: standing.retries,
        crashes: standing.crashes,
        max_retries: i64::from(failure.decision.record.max_retries),
        fence: standing.fence,
        caller_id: held.caller_id.clone(),
        redrives: None,
    };
    tx.batch.letter(letter_row, ReportRow { job_id: held.job.0, context, report });
    tidy_up(tx, held);
    tx.batch.count(held.lane, |delta| delta.dead += 1);
    tx.batch.count_letters(failure.cause, 1);
    Ok(event)
}

/// PostgreSQL's text has no NUL.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

/// Where a job stands when it is put back.
struct Back {
    run_at: Timestamp,
    held_for: Option<WorkerId>,
    after: After,
}

fn put_back(
    tx: &mut Tx<'_>,
    held: &Held,
    event: i64,
    back: &Back,
    delay_ms: Option<i64>,
    hint: Option<&str>,
) -> Result<(), Fault> {
    let hint = hint.map(without_nul);
    let hint = tx.seals.seal_some(Cell::ProgressHint, held.job.0, hint.as_deref())?.map(Cow::into_owned);
    let held_for = back.held_for.map(|worker| worker.0);
    let standing = back.after.standing(held.claim);
    tx.batch.progress(ProgressRow {
        job_id: held.job.0,
        run_at: back.run_at.millis(),
        held_for,
        fence: standing.fence,
        attempts: standing.attempts,
        retries: standing.retries,
        crashes: standing.crashes,
        last_delay_ms: delay_ms,
        hint,
        event,
    });
    tx.batch.make_ready(held.job, held.lane, held_for, held.rank, back.run_at);
    Ok(())
}

/// Puts a job back as if the attempt had never begun.
fn uncounted(
    tx: &mut Tx<'_>,
    now: Timestamp,
    held: &Held,
    event_type: &str,
    detail: String,
    back: &Back,
) -> Result<i64, Fault> {
    let row = EventRow {
        status: Some(EventStatus::Pending),
        attempt: Some(back.after.standing(held.claim).attempts),
        detail: Some(detail),
        ..about(held, event_type)
    };
    let event = tx.batch.event(now, row)?;
    put_back(tx, held, event, back, None, None)?;
    Ok(event)
}

fn tell_failure(
    tx: &mut Tx<'_>,
    now: Timestamp,
    held: &Held,
    failure: &FailedAttempt,
    status: EventStatus,
    next_retry_at: Option<Timestamp>,
    context: Option<&Value>,
) -> Result<i64, Fault> {
    let dead = status == EventStatus::DeadLetter;
    let row = EventRow {
        status: Some(status),
        max_retries: Some(i64::from(failure.decision.record.max_retries)),
        latency_ms: failure.latency.map(whole_millis),
        exit_code: failure.exit_code,
        importance: dead.then_some(5),
        detail: Some(row::failed(failure, next_retry_at, context)),
        ..about(held, if dead { "job_dead" } else { "attempt_failed" })
    };
    tx.batch.event(now, row)
}
