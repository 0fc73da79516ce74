//! Dead letters: reading them, and putting them back.

use redrive_policy::{Cause, Class};
use rusqlite::{Row, params, params_from_iter};

use super::batch::Batch;
use super::wheres::Wheres;
use super::{job, sql};
use crate::dead_letter::{DeadLetter, EventSeqJson, LetterFilter, Redriven};
use crate::error::{StoreError, Trouble};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::protocol::Standing;
use crate::row::{self, EventRow, count};
use crate::seal::{Cell, Seals};
use crate::settle::LetterReason;
use crate::time::Timestamp;

fn read(seals: &Seals, row: &Row<'_>) -> Result<DeadLetter, StoreError> {
    let id = JobId(row.get(0)?);
    let died_at = Timestamp::from_millis(row.get(3)?);
    let text = |at| row.get::<_, String>(at);
    let open = |cell, at| seals.open_text(cell, id.0, row.get(at)?);
    let json = |cell, at| Ok::<_, StoreError>(row::parse_json(&open(cell, at)?));
    let cause: Cause = text(6)?.parse().unwrap_or(Cause::Unknown);
    Ok(DeadLetter {
        id,
        queue: text(1)?,
        kind: text(2)?,
        event: EventSeqJson { seq: EventSeq(row.get(4)?), at: died_at },
        died_at,
        enqueued_at: Timestamp::from_millis(row.get(19)?),
        reason: LetterReason::from_name(&text(5)?).unwrap_or(LetterReason::NonRetryable),
        cause,
        retryable: row.get(7)?,
        rule: text(8)?,
        fingerprint: text(9)?,
        error_type: text(10)?,
        error_message: open(Cell::LetterMessage, 11)?,
        attempts: count(row.get(12)?),
        retries: count(row.get(13)?),
        crashes: count(row.get(14)?),
        max_retries: count(row.get(15)?),
        redrives: count(row.get(16)?),
        context: json(Cell::LetterContext, 17)?,
        report: json(Cell::LetterReport, 18)?,
        caller_id: row.get(20)?,
        policy: row.get(21)?,
        payload: seals.open_bytes(Cell::JobPayload, id.0, row.get(22)?)?,
    })
}

pub(super) fn find(batch: &Batch<'_, '_>, id: JobId) -> Result<Option<DeadLetter>, StoreError> {
    let mut statement = batch.statement(sql!("letter_find"))?;
    let mut rows = statement.query([id.0])?;
    rows.next()?.map(|row| read(&batch.seals, row)).transpose()
}

/// Takes a letter off the pile; what becomes of its job is the caller's business.
pub(super) fn take(batch: &mut Batch<'_, '_>, id: JobId) -> Result<Option<Taken>, StoreError> {
    let taken = batch.first(sql!("letter_delete"), [id.0], |row| {
        Ok(Taken {
            lane: row.get(0)?,
            cause: row.get::<_, String>(1)?.parse().unwrap_or(Cause::Unknown),
            event: row.get(2)?,
            fence: row.get(3)?,
            redrives: row.get(4)?,
        })
    })?;
    if let Some(taken) = &taken {
        batch.count(taken.lane, |delta| delta.dead -= 1);
        batch.count_letters(taken.cause, -1);
    }
    Ok(taken)
}

/// What a letter said that its job needs to go on.
pub(super) struct Taken {
    pub(super) lane: i64,
    cause: Cause,
    pub(super) event: i64,
    fence: i64,
    redrives: i64,
}

pub(super) fn letters(
    batch: &Batch<'_, '_>,
    filter: &LetterFilter,
    limit: u32,
) -> Result<Vec<DeadLetter>, StoreError> {
    let mut wheres = Wheres::default();
    if let Some(queue) = &filter.queue {
        wheres.must("q.name = ?", [queue.clone().into()]);
    }
    if let Some(kind) = &filter.kind {
        wheres.must("l.kind = ?", [kind.clone().into()]);
    }
    if let Some(cause) = filter.cause {
        wheres.must("d.cause = ?", [cause.name().to_owned().into()]);
    }
    if let Some(fingerprint) = &filter.fingerprint {
        wheres.must("d.fingerprint = ?", [fingerprint.clone().into()]);
    }
    if let Some(caller_id) = &filter.caller_id {
        wheres.must("j.caller_id = ?", [caller_id.clone().into()]);
    }
    if let Some(before) = filter.before {
        wheres.must("d.died_at < ?", [before.millis().into()]);
    }
    if filter.transient_only {
        for cause in Cause::ALL.iter().filter(|cause| cause.class() != Class::Transient) {
            wheres.must("d.cause <> ?", [cause.name().to_owned().into()]);
        }
    }
    if let Some((died_at, id)) = filter.after {
        wheres.must("(d.died_at, d.job_id) < (?, ?)", [died_at.millis().into(), id.0.into()]);
    }
    let (joined, values) = wheres.finish();
    let text = format!(
        "{}{joined} ORDER BY d.died_at DESC, d.job_id DESC LIMIT {limit}",
        sql!("letter_list").trim_end()
    );
    let mut statement = batch.connection().prepare_cached(&text)?;
    statement.query_and_then(params_from_iter(values), |row| read(&batch.seals, row))?.collect()
}

pub(super) fn redrive(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    ids: &[JobId],
    event_type: &'static str,
) -> Result<Vec<Redriven>, StoreError> {
    ids.iter().map(|id| redrive_one(batch, now, *id, event_type)).collect()
}

fn redrive_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    event_type: &'static str,
) -> Result<Redriven, StoreError> {
    let ends = batch.first(sql!("job_read_ends"), [id.0], |row| {
        Ok((
            row.get::<_, Option<String>>(0)?,
            row.get::<_, Option<String>>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, i64>(3)?,
        ))
    })?;
    let Some((caller_id, unique_key, queue_id, rank)) = ends else { return Ok(Redriven::NotDead) };
    let is_dead = batch.first(sql!("letter_is"), [id.0], |_| Ok(()))?.is_some();
    if !is_dead {
        return Ok(Redriven::NotDead);
    }
    if let Some(key) = &unique_key {
        if let Some(of) = batch.first(sql!("unique_find"), params![queue_id, key], |row| row.get(0))? {
            return Ok(Redriven::Duplicate { of: JobId(of) });
        }
        batch.run(sql!("unique_insert"), params![queue_id, key, id.0])?;
    }
    let Some(taken) = take(batch, id)? else {
        return Err(Trouble::Corrupt(format!("the letter of {id} is gone")).into());
    };
    let source_id: i64 = batch.first(sql!("job_source"), [id.0], |row| row.get(0))?.unwrap_or_default();
    let row = EventRow {
        event_type,
        source_id,
        status: Some(EventStatus::Pending),
        job: Some(id),
        lane_id: Some(taken.lane),
        parent: Some(taken.event),
        attempt: Some(0),
        retries: Some(0),
        importance: Some(4),
        caller_id: caller_id.as_deref(),
        tags: row::tags(&[event_type, "recovery"]),
        detail: Some(serde_json::json!({ "data": { "redrives": taken.redrives + 1 } }).to_string()),
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
            fresh.crashes
        ],
    )?;
    batch.make_ready(id, taken.lane, None, rank, now)?;
    Ok(Redriven::Ready)
}

/// Deletes letters that died before; answers how many.
pub(super) fn purge(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let old = batch.all(sql!("letter_old"), params![before.millis(), limit], |row| row.get::<_, i64>(0))?;
    for id in &old {
        let id = JobId(*id);
        let source_id: i64 = batch.first(sql!("job_source"), [id.0], |row| row.get(0))?.unwrap_or_default();
        let caller_id: Option<String> =
            batch.first(sql!("job_read_ends"), [id.0], |row| row.get(0))?.flatten();
        let Some(taken) = take(batch, id)? else { continue };
        let row = EventRow {
            event_type: "letter_expired",
            source_id,
            status: Some(EventStatus::Failed),
            job: Some(id),
            lane_id: Some(taken.lane),
            parent: Some(taken.event),
            caller_id: caller_id.as_deref(),
            ..EventRow::default()
        };
        let event = batch.event(now, &row)?;
        job::forget(batch, id)?;
        batch.run(sql!("ended_insert"), params![id.0, event])?;
        batch.count(taken.lane, |delta| delta.discarded += 1);
    }
    Ok(old.len() as u64)
}
