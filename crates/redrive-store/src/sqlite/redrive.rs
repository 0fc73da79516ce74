//! Redrives: putting letters back, one by one or in the steps of a run.

use std::time::Duration;

use rusqlite::{Row, params};
use serde_json::Value;

use super::batch::Batch;
use super::{dead_letter, millis, sql};
use crate::dead_letter::Redriven;
use crate::effects::PutBack;
use crate::error::{StoreError, Trouble};
use crate::event::EventStatus;
use crate::id::JobId;
use crate::letter_group::GroupCounts;
use crate::protocol::Standing;
use crate::redrive::{FirstAttempt, Judged, NewRun, OpenRun, Run, RunId, RunState, RunStep, Stepped};
use crate::row::{self, EventRow};
use crate::time::Timestamp;
use crate::told;

/// In whose name letters are put back.
#[derive(Clone, Copy)]
struct Wish {
    event_type: &'static str,
    run: Option<RunId>,
    judged_in: Option<u32>,
}

pub(super) fn redrive(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    ids: &[JobId],
    event_type: &'static str,
) -> Result<Vec<Redriven>, StoreError> {
    let wish = Wish { event_type, run: None, judged_in: None };
    ids.iter().map(|id| redrive_one(batch, now, *id, wish)).collect()
}

fn redrive_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    wish: Wish,
) -> Result<Redriven, StoreError> {
    let last_run: Option<Option<i64>> = batch.first(sql!("letter_is"), [id.0], |row| row.get(0))?;
    let Some(last_run) = last_run else { return Ok(Redriven::NotDead) };
    if let Some(run) = wish.run
        && (last_run == Some(run.0) || has_put_back(batch, run, id)?)
    {
        return Ok(Redriven::NotDead);
    }
    let ends = batch.first(sql!("job_read_ends"), [id.0], |row| {
        let key: Option<String> = row.get(1)?;
        let (queue_id, rank, source_id): (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(5)?);
        Ok((row.get::<_, Option<String>>(0)?, key, queue_id, rank, source_id, row.get::<_, Option<i64>>(6)?))
    })?;
    let Some((caller_id, unique_key, queue_id, rank, source_id, deadline)) = ends else {
        return Err(Trouble::Corrupt(format!("there is a letter of {id}, but no such job")).into());
    };
    if let Some(key) = &unique_key {
        if let Some(of) = batch.first(sql!("unique_find"), params![queue_id, key], |row| row.get(0))? {
            return Ok(Redriven::Duplicate { of: JobId(of) });
        }
        batch.run(sql!("unique_insert"), params![queue_id, key, id.0])?;
    }
    let Some(taken) = dead_letter::take(batch, id)? else {
        return Err(Trouble::Corrupt(format!("the letter of {id} is gone")).into());
    };
    let row = EventRow {
        event_type: wish.event_type,
        source_id,
        status: Some(EventStatus::Pending),
        job: Some(id),
        lane_id: Some(taken.lane),
        parent: Some(taken.event),
        attempt: Some(0),
        retries: Some(0),
        importance: Some(4),
        caller_id: caller_id.as_deref(),
        tags: row::tags(&[wish.event_type, "recovery"]),
        detail: Some(told::redriven(taken.redrives + 1, wish.run)),
        ..EventRow::default()
    };
    let event = batch.event(now, &row)?;
    let fresh = Standing { fence: taken.fence, ..Standing::default() }.redriven();
    batch.run(
        sql!("progress_redriven"),
        params![
            id.0,
            now.millis(),
            fresh.fence,
            event,
            taken.redrives + 1,
            fresh.attempts,
            fresh.retries,
            fresh.crashes,
            taken.fingerprint,
            wish.run.map(|run| run.0)
        ],
    )?;
    if deadline.is_some_and(|deadline| deadline <= now.millis()) {
        batch.run(sql!("job_deadline_renew"), params![id.0, now.millis()])?;
    }
    if let (Some(run), Some(step)) = (wish.run, wish.judged_in) {
        batch.run(sql!("item_insert"), params![run.0, id.0, step])?;
    }
    batch.groups.add(now, &taken.fingerprint, GroupCounts::REDRIVEN);
    batch.tally.redriven(now, taken.lane, wish.event_type);
    batch.make_ready(id, taken.lane, None, rank, now)?;
    Ok(Redriven::Ready)
}

fn has_put_back(batch: &Batch<'_, '_>, run: RunId, id: JobId) -> Result<bool, StoreError> {
    Ok(batch.first(sql!("item_is"), params![run.0, id.0], |_| Ok(()))?.is_some())
}

/// Where a job that was redriven came from.
pub(super) fn origin(batch: &Batch<'_, '_>, id: JobId) -> Result<Option<PutBack>, StoreError> {
    batch.first(sql!("progress_origin"), [id.0], |row| {
        Ok(PutBack {
            fingerprint: row.get(0)?,
            run: row.get::<_, Option<i64>>(1)?.map(RunId),
            at: Timestamp::from_millis(row.get(2)?),
        })
    })
}

/// Writes down how the first attempt of a job went that a run has put back, if the run wants to know.
pub(super) fn judge(
    batch: &Batch<'_, '_>,
    run: RunId,
    id: JobId,
    how: FirstAttempt,
    fingerprint: Option<&str>,
) -> Result<(), StoreError> {
    let fingerprint = fingerprint.filter(|_| how == FirstAttempt::Failed);
    batch.run(sql!("item_judge"), params![run.0, id.0, how.number(), fingerprint])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    let json = |at| Ok::<Value, rusqlite::Error>(row::parse_json(&row.get::<_, String>(at)?));
    let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_millis));
    Ok(Run {
        id: RunId(row.get(0)?),
        created_at: Timestamp::from_millis(row.get(1)?),
        wanted_by: row.get(2)?,
        plan: json(3)?,
        progress: json(4)?,
        state: RunState::from_number(row.get(5)?),
        why: row.get(6)?,
        version: row.get(7)?,
        held_until: time(8)?,
        ended_at: time(9)?,
        moved: row.get::<_, i64>(10)?.unsigned_abs(),
        skipped: row.get::<_, i64>(11)?.unsigned_abs(),
    })
}

pub(super) fn start(batch: &mut Batch<'_, '_>, now: Timestamp, run: &NewRun) -> Result<RunId, StoreError> {
    batch.run(
        sql!("run_insert"),
        params![now.millis(), run.wanted_by, run.plan.to_string(), run.progress.to_string()],
    )?;
    let id = RunId(batch.connection().last_insert_rowid());
    let source_id = batch.name(told::SOURCE)?;
    batch.event(now, &told::run_started(source_id, id, run))?;
    Ok(id)
}

pub(super) fn runs(batch: &Batch<'_, '_>, open_only: bool, limit: u32) -> Result<Vec<Run>, StoreError> {
    batch.all(if open_only { sql!("run_list_open") } else { sql!("run_list") }, [limit], read)
}

pub(super) fn open_runs(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    holder: i64,
    after: Option<RunId>,
    limit: u32,
) -> Result<Vec<OpenRun>, StoreError> {
    let after = after.map_or(0, |after| after.0);
    batch.all(sql!("run_open"), params![now.millis(), holder, after, limit], |row| {
        Ok(OpenRun { id: RunId(row.get(0)?), version: row.get(1)?, held: row.get(2)? })
    })
}

pub(super) fn run(batch: &Batch<'_, '_>, id: RunId) -> Result<Option<Run>, StoreError> {
    batch.first(sql!("run_read"), [id.0], read)
}

pub(super) fn hold(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    id: RunId,
    holder: i64,
    hold_for: Duration,
) -> Result<Option<Run>, StoreError> {
    let until = now.millis().saturating_add(millis(hold_for));
    if batch.run(sql!("run_hold"), params![id.0, holder, now.millis(), until])? == 0 {
        return Ok(None);
    }
    run(batch, id)
}

pub(super) fn advance(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    step: &RunStep,
) -> Result<Option<Stepped>, StoreError> {
    let current = run(batch, step.run)?;
    let Some(current) = current.filter(|run| run.version == step.version && run.state == RunState::Running)
    else {
        return Ok(None);
    };
    let wish = Wish { event_type: "redrive", run: Some(step.run), judged_in: step.judged_in };
    let redriven =
        step.ids.iter().map(|id| redrive_one(batch, now, *id, wish)).collect::<Result<Vec<_>, _>>()?;
    let back = redriven.iter().filter(|what| **what == Redriven::Ready).count();
    if !redriven.is_empty() {
        let [moved, all] = [back, redriven.len()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        batch.run(sql!("run_count"), params![step.run.0, moved, all - moved])?;
    }
    let version = write(batch, now, &current, step.state, step.why.as_deref(), &step.progress)?;
    Ok(Some(Stepped { redriven, version }))
}

pub(super) fn cancel(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: RunId,
    why: &str,
) -> Result<bool, StoreError> {
    let Some(current) = run(batch, id)?.filter(|run| run.state == RunState::Running) else {
        return Ok(false);
    };
    write(batch, now, &current, RunState::Cancelled, Some(why), &current.progress)?;
    Ok(true)
}

/// How far a run is now; told when it is over. Answers its version.
fn write(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    run: &Run,
    state: RunState,
    why: Option<&str>,
    progress: &Value,
) -> Result<i64, StoreError> {
    let is_over = state != RunState::Running;
    let ended_at = is_over.then_some(now.millis());
    let version = batch.first(
        sql!("run_step"),
        params![run.id.0, progress.to_string(), state.number(), why, ended_at],
        |row| row.get(0),
    )?;
    if is_over {
        let source_id = batch.name(told::SOURCE)?;
        batch.event(now, &told::run_ended(source_id, run, state, why, progress))?;
    }
    Ok(version.unwrap_or(run.version + 1))
}

pub(super) fn judged(batch: &Batch<'_, '_>, id: RunId, step: Option<u32>) -> Result<Vec<Judged>, StoreError> {
    batch.all(sql!("item_counts"), params![id.0, step], |row| {
        Ok(Judged {
            first_attempt: FirstAttempt::from_number(row.get(0)?),
            fingerprint: row.get(1)?,
            jobs: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
        })
    })
}

/// Forgets runs that ended before, with what they have put back. Answers whether there may be more.
pub(super) fn prune(batch: &Batch<'_, '_>, before: Timestamp, limit: u32) -> Result<bool, StoreError> {
    let gone = batch.all(sql!("run_old"), params![before.millis(), limit], |row| row.get::<_, i64>(0))?;
    for run in &gone {
        batch.run(sql!("run_items_delete"), [run])?;
    }
    Ok(gone.len() >= limit as usize)
}
