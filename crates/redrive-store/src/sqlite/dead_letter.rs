//! Dead letters: writing them, reading them whole, taking them off the pile, and letting them go.

use std::collections::HashMap;

use redrive_policy::Cause;
use rusqlite::{Row, params};
use serde_json::{Value, json};

use super::batch::Batch;
use super::{heads, job, sql};
use crate::dead_letter::{DeadLetter, EventSeqJson, LetterFilter};
use crate::error::StoreError;
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::letter_group::GroupCounts;
use crate::metric::Metric;
use crate::protocol::Standing;
use crate::row::{self, EventRow, count};
use crate::seal::{Cell, Seals};
use crate::settle::LetterReason;
use crate::time::Timestamp;
use crate::told;

/// A letter to be written.
pub(super) struct Written<'a> {
    pub(super) id: JobId,
    pub(super) lane: i64,
    pub(super) died_at: Timestamp,
    pub(super) event: i64,
    pub(super) reason: LetterReason,
    pub(super) cause: Cause,
    pub(super) retryable: bool,
    pub(super) rule: &'a str,
    pub(super) fingerprint: &'a str,
    pub(super) error_type: &'a str,
    pub(super) error_message: &'a str,
    pub(super) standing: Standing,
    pub(super) max_retries: u32,
    /// Absent: as its progress says.
    pub(super) redrives: Option<u32>,
    pub(super) caller_id: Option<&'a str>,
    pub(super) context: &'a Value,
    pub(super) report: &'a Value,
}

/// Writes a letter; its group is the caller's business.
pub(super) fn write(batch: &mut Batch<'_, '_>, letter: &Written<'_>) -> Result<(), StoreError> {
    let id = letter.id.0;
    let seal = |cell, text| batch.seals.seal_text(cell, id, text);
    let (context, report) = (letter.context.to_string(), letter.report.to_string());
    batch.run(
        sql!("letter_insert"),
        params![
            id,
            letter.lane,
            letter.died_at.millis(),
            letter.event,
            letter.reason.name(),
            letter.cause.name(),
            letter.retryable,
            letter.rule,
            letter.fingerprint,
            letter.error_type,
            seal(Cell::LetterMessage, letter.error_message)?,
            letter.standing.attempts,
            letter.standing.retries,
            letter.standing.crashes,
            letter.max_retries,
            letter.standing.fence,
            letter.redrives,
            letter.caller_id
        ],
    )?;
    batch.run(
        sql!("letter_report_insert"),
        params![id, seal(Cell::LetterContext, &context)?, seal(Cell::LetterReport, &report)?],
    )?;
    batch.count(letter.lane, |delta| delta.dead += 1);
    batch.count_letters(letter.cause, 1);
    Ok(())
}

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
            fingerprint: row.get(5)?,
        })
    })?;
    if let Some(taken) = &taken {
        batch.run(sql!("letter_report_delete"), [id.0])?;
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
    pub(super) fence: i64,
    pub(super) redrives: i64,
    pub(super) fingerprint: String,
}

pub(super) fn letters(
    batch: &mut Batch<'_, '_>,
    filter: &LetterFilter,
    limit: u32,
) -> Result<Vec<DeadLetter>, StoreError> {
    let heads = heads::heads(batch, filter, limit, u32::MAX)?.heads;
    let order: HashMap<JobId, usize> = heads.iter().enumerate().map(|(at, head)| (head.id, at)).collect();
    let wanted: Vec<i64> = heads.iter().map(|head| head.id.0).collect();
    let mut statement = batch.statement(sql!("letter_list"))?;
    let mut letters = statement
        .query_and_then([json!(wanted).to_string()], |row| read(&batch.seals, row))?
        .collect::<Result<Vec<_>, _>>()?;
    letters.sort_by_key(|letter| order.get(&letter.id).copied());
    Ok(letters)
}

/// Lets a letter go for good. Answers whether it was one.
fn let_go(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    event_type: &str,
    why: Option<&str>,
) -> Result<bool, StoreError> {
    let Some(taken) = take(batch, id)? else { return Ok(false) };
    let ends = batch.first(sql!("job_read_ends"), [id.0], |row| Ok((row.get(0)?, row.get(5)?)))?;
    let (caller_id, source_id): (Option<String>, i64) = ends.unwrap_or_default();
    let row = EventRow {
        event_type,
        source_id,
        // It was a letter to its end; `failed` is what never was one.
        status: Some(EventStatus::DeadLetter),
        job: Some(id),
        lane_id: Some(taken.lane),
        parent: Some(taken.event),
        caller_id: caller_id.as_deref(),
        detail: told::discarded(why),
        ..EventRow::default()
    };
    let event = batch.event(now, &row)?;
    job::forget(batch, id)?;
    batch.run(sql!("ended_insert"), params![id.0, event])?;
    batch.count(taken.lane, |delta| delta.discarded += 1);
    batch.groups.add(now, &taken.fingerprint, GroupCounts::DISCARDED);
    batch.tally.add(now, taken.lane, Metric::Discarded, 1);
    Ok(true)
}

pub(super) fn discard(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    ids: &[JobId],
    event_type: &str,
    why: Option<&str>,
) -> Result<Vec<bool>, StoreError> {
    ids.iter().map(|id| let_go(batch, now, *id, event_type, why)).collect()
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
        let_go(batch, now, JobId(*id), "letter_expired", None)?;
    }
    Ok(old.len() as u64)
}
