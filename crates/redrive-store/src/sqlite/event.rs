//! The stream: appending, importing, reading, pruning.
//!
//! A row keeps in columns what most events have and in `detail` (JSON) what few have. Reading puts the fields of R-E2
//! together again, the decision of a plain success included.

use std::collections::HashSet;

use rusqlite::types::Value as Sql;
use rusqlite::{Row, params, params_from_iter};

use super::batch::Batch;
use super::sql;
use super::wheres::Wheres;
use crate::error::StoreError;
use crate::event::{Aside, Event, EventFilter, EventId, EventStatus, ImportedEvent, NewEvent, Order, Scrap};
use crate::id::{EventSeq, JobId};
use crate::row::{self, Columns, Detail, EventRow};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

pub(super) fn append(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    events: &[NewEvent],
) -> Result<Vec<(EventSeq, EventId)>, StoreError> {
    let append_one = |event| {
        let seq = EventSeq(write(batch, now, event, Detail::default(), None, event.parent)?);
        Ok((seq, seq.event_id(now)))
    };
    events.iter().map(append_one).collect()
}

/// Appends an event that this one led to, unless it names another.
pub(super) fn append_led(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    event: &NewEvent,
    led_by: i64,
) -> Result<i64, StoreError> {
    write(batch, now, event, Detail::default(), None, event.parent.or(Some(EventSeq(led_by))))
}

fn write(
    batch: &mut Batch<'_, '_>,
    at: Timestamp,
    event: &NewEvent,
    came_with: Detail,
    imported_at: Option<i64>,
    parent: Option<EventSeq>,
) -> Result<i64, StoreError> {
    let source_id = batch.name(&event.source)?;
    let row = EventRow { imported_at, ..row::reported(event, came_with, parent, source_id)? };
    batch.event(at, &row)
}

pub(super) fn import(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    events: &[ImportedEvent],
    scraps: &[Scrap],
) -> Result<u64, StoreError> {
    batch.write_events()?;
    let mut added = 0;
    for imported in events {
        if seq_of(batch, &imported.event_id)?.is_some() {
            continue;
        }
        let parent = match &imported.parent_event_id {
            Some(id) => seq_of(batch, id)?,
            None => None,
        };
        let came_with = Detail::imported(&imported.event_id, imported.parent_event_id.as_deref());
        let seq = write(batch, imported.at, &imported.event, came_with, Some(now.millis()), parent)?;
        batch.run(sql!("event_alias_insert"), params![imported.event_id, seq])?;
        added += 1;
    }
    for scrap in scraps {
        let line = i64::try_from(scrap.line).unwrap_or(i64::MAX);
        let id = batch.next_event();
        let why = batch.seals.seal_text(Cell::AsideWhy, id, &scrap.why)?;
        let text = batch.seals.seal_bytes(Cell::AsideText, id, &scrap.text)?;
        batch.run(sql!("aside_insert"), params![id, now.millis(), scrap.origin, line, why, text])?;
    }
    Ok(added)
}

/// The place of the event known by this id: one that came from elsewhere, or one of ours whose time is right, too.
pub(super) fn seq_of(batch: &Batch<'_, '_>, id: &str) -> Result<Option<EventSeq>, StoreError> {
    if let Some(seq) = batch.first(sql!("event_alias_find"), [id], |row| row.get(0))? {
        return Ok(Some(EventSeq(seq)));
    }
    let Some(seq) = EventSeq::from_event_id(id) else { return Ok(None) };
    let at = batch.first(sql!("event_at"), [seq.0], |row| row.get(0))?;
    Ok(at.filter(|at| seq.event_id(Timestamp::from_millis(*at)) == id).map(|_| seq))
}

pub(super) fn event(batch: &Batch<'_, '_>, id: &str) -> Result<Option<Event>, StoreError> {
    match seq_of(batch, id)? {
        Some(seq) => at(batch, seq),
        None => Ok(None),
    }
}

fn at(batch: &Batch<'_, '_>, seq: EventSeq) -> Result<Option<Event>, StoreError> {
    let text = format!("{} WHERE e.seq = ?1", sql!("event_list").trim_end());
    let mut statement = batch.connection().prepare_cached(&text)?;
    let mut rows = statement.query([seq.0])?;
    rows.next()?.map(|row| read(&batch.seals, row)).transpose()
}

fn read(seals: &Seals, row: &Row<'_>) -> Result<Event, StoreError> {
    let columns = Columns {
        seq: row.get(0)?,
        at: row.get(1)?,
        event_type: row.get(2)?,
        source: row.get(3)?,
        status: row.get(4)?,
        job: row.get(5)?,
        queue: row.get(6)?,
        kind: row.get(7)?,
        parent: row.get(8)?,
        attempt: row.get(9)?,
        retries: row.get(10)?,
        max_retries: row.get(11)?,
        latency_ms: row.get(12)?,
        exit_code: row.get(13)?,
        importance: row.get(14)?,
        hypothesis: row.get(15)?,
        caller_id: row.get(16)?,
        detail: row.get(17)?,
        parent_at: row.get(18)?,
        tags: row.get(19)?,
    };
    columns.into_event(seals)
}

pub(super) fn events(
    batch: &Batch<'_, '_>,
    filter: &EventFilter,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    if let Some(job) = filter.job {
        return of_job(batch, job, filter, limit);
    }
    let mut wheres = Wheres::default();
    if !filter.types.is_empty() {
        wheres.one_of("t.text", filter.types.iter().map(|name| Sql::from(name.clone())));
    }
    if let Some(source) = &filter.source {
        wheres.must("s.text = ?", [source.clone().into()]);
    }
    if !filter.statuses.is_empty() {
        wheres.one_of("e.status", filter.statuses.iter().map(|status| Sql::from(*status as i64)));
        // Said in the words of the partial index, without which it is not used.
        if filter.statuses.iter().all(|status| *status >= EventStatus::Failed) {
            wheres.must("e.status >= 3", []);
        }
    }
    if let Some(hypothesis) = &filter.hypothesis {
        wheres.must("e.hypothesis = ?", [hypothesis.clone().into()]);
    }
    if let Some(caller_id) = &filter.caller_id {
        wheres.must("e.caller_id = ?", [caller_id.clone().into()]);
    }
    if !filter.tags.is_empty() {
        let marks = vec!["?"; filter.tags.len()].join(", ");
        wheres.must(
            &format!("EXISTS (SELECT 1 FROM json_each(e.tags) tag WHERE tag.value IN ({marks}))"),
            filter.tags.iter().map(|tag| Sql::from(tag.clone())),
        );
    }
    if let Some(since) = filter.since {
        wheres.must("e.at >= ?", [since.millis().into()]);
    }
    if let Some(until) = filter.until {
        wheres.must("e.at < ?", [until.millis().into()]);
    }
    if let Some(after) = filter.after {
        wheres.must("e.seq > ?", [after.0.into()]);
    }
    if let Some(before) = filter.before {
        wheres.must("e.seq < ?", [before.0.into()]);
    }
    let (conditions, values) = wheres.finish();
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let text = format!("{}{conditions} ORDER BY e.seq {order} LIMIT {limit}", sql!("event_list").trim_end());
    let mut statement = batch.connection().prepare_cached(&text)?;
    statement.query_and_then(params_from_iter(values), |row| read(&batch.seals, row))?.collect()
}

/// The most events that are looked at for one job: stories are short, but a job may be snoozed for years.
const LONGEST_STORY: u32 = 10_000;

fn of_job(
    batch: &Batch<'_, '_>,
    job: JobId,
    filter: &EventFilter,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    let latest: Option<i64> = batch.first(sql!("job_latest"), [job.0], |row| row.get(0))?.flatten();
    let mut story = match latest {
        // What led to its enqueuing is another's story, which may be long.
        Some(latest) => {
            chain(batch, EventSeq(latest), LONGEST_STORY, |event: &Event| event.job == Some(job))?
        }
        None => Vec::new(),
    };
    story.extend(beside(batch, job)?);
    story.retain(|event| row::matches(event, job, filter));
    story.sort_by_key(|event| event.seq);
    story.dedup_by_key(|event| event.seq);
    if filter.order == Order::NewestFirst {
        story.reverse();
    }
    story.truncate(limit as usize);
    Ok(story)
}

/// What was told about a job from beside its story: by people and programs, or by who came too late.
fn beside(batch: &Batch<'_, '_>, job: JobId) -> Result<Vec<Event>, StoreError> {
    let text = format!(
        "{} WHERE e.job_id = ?1 AND e.lane_id IS NULL ORDER BY e.seq DESC LIMIT {LONGEST_STORY}",
        sql!("event_list").trim_end()
    );
    let mut statement = batch.connection().prepare_cached(&text)?;
    statement.query_and_then([job.0], |row| read(&batch.seals, row))?.collect()
}

pub(super) fn causality(batch: &Batch<'_, '_>, seq: EventSeq, limit: u32) -> Result<Vec<Event>, StoreError> {
    chain(batch, seq, limit, |_| true)
}

/// An event and what led to it, as long as it belongs there; the oldest first.
fn chain(
    batch: &Batch<'_, '_>,
    seq: EventSeq,
    limit: u32,
    belongs: impl Fn(&Event) -> bool,
) -> Result<Vec<Event>, StoreError> {
    let mut chain: Vec<Event> = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(seq);
    while let Some(seq) = next {
        // A parent stands before its child; an import may say otherwise, and must not lead us in circles.
        if chain.len() >= limit as usize || !seen.insert(seq) {
            break;
        }
        let Some(event) = at(batch, seq)?.filter(&belongs) else { break };
        next = event.parent;
        chain.push(event);
    }
    chain.reverse();
    Ok(chain)
}

pub(super) fn asides(batch: &Batch<'_, '_>, after: i64, limit: u32) -> Result<Vec<Aside>, StoreError> {
    let mut statement = batch.statement(sql!("aside_list"))?;
    let read = |row: &Row<'_>| {
        let id = row.get(0)?;
        Ok(Aside {
            id,
            at: Timestamp::from_millis(row.get(1)?),
            scrap: Scrap {
                origin: row.get(2)?,
                line: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                why: batch.seals.open_text(Cell::AsideWhy, id, row.get(4)?)?,
                text: batch.seals.open_bytes(Cell::AsideText, id, row.get(5)?)?,
            },
        })
    };
    statement.query_and_then(params![after, limit], read)?.collect()
}

/// Deletes the next stretch of old events that nobody needs; answers how many, and whether more of them are old.
pub(super) fn prune(
    batch: &mut Batch<'_, '_>,
    before: Timestamp,
    limit: u32,
) -> Result<(u64, bool), StoreError> {
    batch.write_events()?;
    let cursor: i64 = batch.first(sql!("store_pruned_to"), [], |row| row.get(0))?.unwrap_or(0);
    let looked_at = batch.all(sql!("event_old"), params![cursor, limit], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, bool>(3)?))
    })?;
    // Times follow the sequence, so the first young one ends the round. What was imported is as old as its import.
    let old: Vec<_> = looked_at.iter().take_while(|(_, at, ..)| *at < before.millis()).collect();
    let mut gone = 0;
    for (seq, _, status, needed) in &old {
        if *needed {
            continue;
        }
        let went = batch.first(sql!("event_delete"), [seq], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, bool>(1)?))
        })?;
        let Some((job, imported)) = went else { continue };
        if let Some(job) = job {
            batch.run(sql!("ended_delete"), params![job, seq])?;
        }
        if imported {
            batch.run(sql!("event_alias_drop"), [seq])?;
        }
        batch.events_went(1, i64::from(*status == EventStatus::Failed as i64));
        gone += 1;
    }
    // At the end of the old ones it begins again: jobs end, and then their events may go.
    let reached = if old.len() < limit as usize { 0 } else { old.last().map_or(0, |(seq, ..)| *seq) };
    if reached != cursor {
        batch.run(sql!("store_prune_to"), [reached])?;
    }
    Ok((gone, reached != 0))
}
