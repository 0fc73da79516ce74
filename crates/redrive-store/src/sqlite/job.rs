//! Enqueuing, looking a job up, running it now, cancelling it.

use std::time::Duration;

use rusqlite::{Row, params};

use super::batch::Batch;
use super::{dead_letter, millis, redrive, sql};
use crate::error::{StoreError, Trouble};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::job::{Enqueued, Job, JobRecord, JobState, NewJob, Origin, RunNow};
use crate::letter_group::GroupCounts;
use crate::metric::Metric;
use crate::redrive::FirstAttempt;
use crate::row::{self, EventRow, count};
use crate::seal::Cell;
use crate::time::Timestamp;

pub(super) fn enqueue(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, StoreError> {
    jobs.iter().map(|job| enqueue_one(batch, now, job, job.parent)).collect()
}

/// Adds a job that this event led to.
pub(super) fn enqueue_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    new: &NewJob,
    parent: Option<EventSeq>,
) -> Result<Enqueued, StoreError> {
    let lane = batch.lane(new.queue(), &new.kind)?;
    let queue_id = batch.lane_of(lane)?.queue_id;
    if let Some(key) = &new.unique_key {
        let found = batch.first(sql!("unique_find"), params![queue_id, key], |row| row.get(0))?;
        if let Some(id) = found {
            return Ok(Enqueued { id: JobId(id), existing: true });
        }
    }
    let id = batch.next_job();
    let event = batch.next_event();
    let source_id = batch.name(new.source())?;
    let run_at = new.run_at.unwrap_or(now);
    let rank = insert(batch, now, new, &Numbers { id, event, lane, source_id })?;
    if let Some(key) = &new.unique_key {
        batch.run(sql!("unique_insert"), params![queue_id, key, id.0])?;
    }
    let row = EventRow {
        event_type: "job_enqueued",
        source_id,
        status: Some(EventStatus::Pending),
        job: Some(id),
        lane_id: Some(lane),
        parent: parent.map(|parent| parent.0),
        caller_id: new.caller_id.as_deref(),
        ..EventRow::default()
    };
    batch.put_event(event, now, &row)?;
    if let Some(worker) = new.held_for {
        let none: Option<i64> = None;
        batch.run(
            sql!("progress_put"),
            params![id.0, run_at.millis(), worker.0, 0, 0, 0, 0, none, none, event],
        )?;
    }
    batch.make_ready(id, lane, new.held_for.map(|worker| worker.0), rank, run_at)?;
    Ok(Enqueued { id, existing: false })
}

/// The numbers that belong to a new job.
pub(super) struct Numbers {
    pub(super) id: JobId,
    pub(super) event: i64,
    pub(super) lane: i64,
    pub(super) source_id: i64,
}

/// Writes the row of a job. Answers its rank.
pub(super) fn insert(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    new: &NewJob,
    numbers: &Numbers,
) -> Result<i64, StoreError> {
    let Numbers { id, event, lane, source_id } = *numbers;
    let run_at = new.run_at.unwrap_or(now);
    let rank = -i64::from(new.priority);
    let plain = new.policy.is_none()
        && new.overrides.is_none()
        && new.caller_id.is_none()
        && new.idempotency_key.is_none()
        && new.unique_key.is_none()
        && new.timeout.is_none()
        && new.deadline_at.is_none()
        && new.origin == Origin::Local
        && !new.inline
        && new.target.is_none();
    let payload = batch.seals.seal_bytes(Cell::JobPayload, id.0, &new.payload)?;
    if plain {
        batch.run(
            sql!("job_insert_plain"),
            params![id.0, lane, payload, now.millis(), run_at.millis(), rank, source_id, event],
        )?;
    } else {
        let overrides = batch.seals.seal_some(Cell::JobOverrides, id.0, new.overrides.as_deref())?;
        batch.run(
            sql!("job_insert"),
            params![
                id.0,
                lane,
                payload,
                now.millis(),
                run_at.millis(),
                rank,
                source_id,
                event,
                new.policy,
                overrides,
                new.caller_id,
                new.idempotency_key,
                new.unique_key,
                new.timeout.map(millis),
                new.deadline_at.map(Timestamp::millis),
                new.origin as i64,
                new.inline,
                new.target
            ],
        )?;
    }
    Ok(rank)
}

/// Reads the columns that `leasable.sql` begins with.
pub(super) fn read_job(batch: &mut Batch<'_, '_>, id: JobId, row: &Row<'_>) -> Result<Job, StoreError> {
    let lane = batch.lane_of(row.get(14)?)?.clone();
    let source = batch.name_of(row.get(3)?)?;
    Ok(Job {
        id,
        queue: lane.queue,
        kind: lane.kind,
        payload: batch.seals.open_bytes(Cell::JobPayload, id.0, row.get(0)?)?,
        enqueued_at: Timestamp::from_millis(row.get(1)?),
        priority: i32::try_from(-row.get::<_, i64>(2)?).unwrap_or_default(),
        source,
        policy: row.get(5)?,
        overrides: batch.seals.open_some(Cell::JobOverrides, id.0, row.get(6)?)?,
        caller_id: row.get(7)?,
        idempotency_key: row.get(8)?,
        unique_key: row.get(9)?,
        timeout: row.get::<_, Option<i64>>(10)?.map(duration),
        deadline_at: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_millis),
        origin: if row.get::<_, i64>(12)? == 0 { Origin::Local } else { Origin::Api },
        inline: row.get(13)?,
        target: row.get(23)?,
    })
}

pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Where a ready job stands in the table of ready ones.
struct Place {
    lane: i64,
    held_for: Option<i64>,
    rank: i64,
    run_at: i64,
}

fn place(batch: &Batch<'_, '_>, id: JobId) -> Result<Option<Place>, StoreError> {
    let place = batch.first(sql!("job_place"), [id.0], |row| {
        Ok(Place { lane: row.get(0)?, held_for: row.get(1)?, rank: row.get(2)?, run_at: row.get(3)? })
    })?;
    let Some(place) = place else { return Ok(None) };
    let at = place.held_for.map_or(place.lane, |worker| -worker);
    let there =
        batch.first(sql!("ready_find"), params![at, place.rank, place.run_at, id.0], |_| Ok(()))?.is_some();
    Ok(there.then_some(place))
}

fn leave_ready(batch: &mut Batch<'_, '_>, id: JobId, place: &Place) -> Result<(), StoreError> {
    let at = place.held_for.map_or(place.lane, |worker| -worker);
    batch.run(sql!("ready_delete"), params![at, place.rank, place.run_at, id.0])?;
    batch.count(place.lane, |delta| delta.ready -= 1);
    Ok(())
}

pub(super) fn job(batch: &mut Batch<'_, '_>, id: JobId) -> Result<Option<JobRecord>, StoreError> {
    let mut statement = batch.statement(sql!("leasable"))?;
    let mut rows = statement.query([id.0])?;
    let Some(row) = rows.next()? else {
        let ended = batch.first(sql!("ended_find"), [id.0], |row| row.get(0))?;
        return Ok(ended.map(|event| JobRecord {
            id,
            job: None,
            state: JobState::Ended,
            attempts: 0,
            retries: 0,
            crashes: 0,
            event: EventSeq(event),
        }));
    };
    let job = read_job(batch, id, row)?;
    let number = |at| row.get::<_, Option<i64>>(at).map(|number| count(number.unwrap_or(0)));
    let (mut attempts, mut retries, mut crashes) = (number(16)?, number(17)?, number(18)?);
    let mut event = row.get::<_, Option<i64>>(21)?.map_or_else(|| row.get(4), Ok)?;
    let lease = batch.first(sql!("lease_show"), [id.0], |row| {
        let state = JobState::Leased {
            worker: WorkerId(row.get(0)?),
            expires_at: Timestamp::from_millis(row.get(1)?),
            begun_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis),
            cancel_requested: row.get(3)?,
            fence: row.get(6)?,
        };
        Ok((state, row.get::<_, i64>(4)?, row.get::<_, i64>(5)?))
    })?;
    let state = if let Some((state, begun, latest)) = lease {
        (attempts, event) = (count(begun), latest);
        state
    } else if let Some(letter) = dead_letter::find(batch, id)? {
        (attempts, retries, crashes) = (letter.attempts, letter.retries, letter.crashes);
        event = letter.event.seq.0;
        JobState::Dead(Box::new(letter))
    } else if let Some(place) = place(batch, id)? {
        JobState::Ready {
            run_at: Timestamp::from_millis(place.run_at),
            held_for: place.held_for.map(WorkerId),
        }
    } else {
        return Err(Trouble::Corrupt(format!("{id} is neither ready nor leased nor dead")).into());
    };
    Ok(Some(JobRecord { id, job: Some(job), state, attempts, retries, crashes, event: EventSeq(event) }))
}

pub(super) fn run_now(batch: &mut Batch<'_, '_>, now: Timestamp, id: JobId) -> Result<RunNow, StoreError> {
    let Some(record) = job(batch, id)? else { return Ok(RunNow::Unknown) };
    match record.state {
        JobState::Leased { .. } => return Ok(RunNow::Running),
        JobState::Dead(_) => return Ok(RunNow::Dead),
        JobState::Ended => return Ok(RunNow::Ended),
        JobState::Ready { .. } => {}
    }
    let Some(place) = place(batch, id)? else { return Ok(RunNow::Unknown) };
    leave_ready(batch, id, &place)?;
    let event = tell(batch, now, &record, place.lane, "manual_retry", EventStatus::Pending, None)?;
    let fence = batch.first(sql!("progress_fence"), [id.0], |row| row.get::<_, i64>(0))?.unwrap_or(0);
    let none: Option<i64> = None;
    batch.run(
        sql!("progress_put"),
        params![
            id.0,
            now.millis(),
            place.held_for,
            fence,
            record.attempts,
            record.retries,
            record.crashes,
            none,
            none,
            event
        ],
    )?;
    batch.tally.add(now, place.lane, Metric::ManualRetries, 1);
    batch.make_ready(id, place.lane, place.held_for, place.rank, now)?;
    Ok(RunNow::Due)
}

pub(super) fn cancel(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    why: &str,
) -> Result<Option<bool>, StoreError> {
    let Some(record) = job(batch, id)? else { return Ok(None) };
    match record.state {
        JobState::Ended => Ok(Some(true)),
        JobState::Leased { .. } => {
            let why = batch.seals.seal_text(Cell::LeaseCancelWhy, id.0, why)?;
            batch.run(sql!("lease_cancel"), params![id.0, why])?;
            Ok(Some(false))
        }
        JobState::Dead(ref letter) => {
            let lane = batch.lane(&letter.queue, &letter.kind)?;
            dead_letter::take(batch, id)?;
            batch.groups.add(now, &letter.fingerprint, GroupCounts::DISCARDED);
            batch.tally.add(now, lane, Metric::Discarded, 1);
            let event = tell(batch, now, &record, lane, "job_cancelled", EventStatus::Failed, Some(why))?;
            end(batch, now, id, lane, event)?;
            Ok(Some(true))
        }
        JobState::Ready { .. } => {
            let Some(place) = place(batch, id)? else { return Ok(None) };
            leave_ready(batch, id, &place)?;
            if let Some(put_back) = redrive::origin(batch, id)? {
                batch.groups.add(now, &put_back.fingerprint, GroupCounts::OVER);
                if let Some(run) = put_back.run {
                    redrive::judge(batch, run, id, FirstAttempt::None, None)?;
                }
            }
            let event =
                tell(batch, now, &record, place.lane, "job_cancelled", EventStatus::Failed, Some(why))?;
            end(batch, now, id, place.lane, event)?;
            Ok(Some(true))
        }
    }
}

/// The end of a cancelled job: its row goes, and so does its unique key.
fn end(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    lane: i64,
    event: i64,
) -> Result<(), StoreError> {
    forget(batch, id)?;
    batch.run(sql!("ended_insert"), params![id.0, event])?;
    batch.count(lane, |delta| delta.cancelled += 1);
    batch.tally.add(now, lane, Metric::Cancelled, 1);
    Ok(())
}

/// Deletes everything that a job leaves behind but its story.
pub(super) fn forget(batch: &mut Batch<'_, '_>, id: JobId) -> Result<(), StoreError> {
    free_unique_key(batch, id)?;
    batch.run(sql!("progress_delete"), [id.0])?;
    batch.run(sql!("payload_version_delete"), [id.0])?;
    batch.run(sql!("job_delete"), [id.0])?;
    Ok(())
}

pub(super) fn free_unique_key(batch: &mut Batch<'_, '_>, id: JobId) -> Result<(), StoreError> {
    let key = batch.first(sql!("job_read_ends"), [id.0], |row| {
        Ok((row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?))
    })?;
    if let Some((Some(key), queue_id)) = key {
        batch.run(sql!("unique_delete"), params![queue_id, key, id.0])?;
    }
    Ok(())
}

/// An event about a job outside a lease.
fn tell(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    record: &JobRecord,
    lane: i64,
    event_type: &str,
    status: EventStatus,
    why: Option<&str>,
) -> Result<i64, StoreError> {
    let source = record.job.as_ref().map_or("redrive", |job| job.source.as_str());
    let source_id = batch.name(source)?;
    let manual = event_type == "manual_retry";
    let detail = match why {
        Some(why) => Some(serde_json::json!({ "data": { "why": why } }).to_string()),
        None if manual => Some(serde_json::json!({ "data": { "retry_type": "manual" } }).to_string()),
        None => None,
    };
    let row = EventRow {
        event_type,
        source_id,
        status: Some(status),
        job: Some(record.id),
        lane_id: Some(lane),
        parent: Some(record.event.0),
        attempt: Some(i64::from(record.attempts)),
        retries: Some(i64::from(record.retries)),
        importance: manual.then_some(4),
        caller_id: record.job.as_ref().and_then(|job| job.caller_id.as_deref()),
        tags: manual.then(|| row::tags(&["manual_retry", "recovery"])).flatten(),
        detail,
        ..EventRow::default()
    };
    batch.event(now, &row)
}

pub(super) fn unfinished(
    batch: &mut Batch<'_, '_>,
    queues: &[String],
    kinds: &[String],
) -> Result<bool, StoreError> {
    let lanes = batch
        .all(sql!("lane_unfinished"), [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    Ok(lanes.iter().any(|(queue, kind)| {
        (queues.is_empty() || queues.contains(queue)) && (kinds.is_empty() || kinds.contains(kind))
    }))
}
