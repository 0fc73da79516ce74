//! The stream: appending, importing, reading, pruning.
//!
//! A row keeps in columns what most events have and in `detail` (JSON) what few have. Reading puts the fields of R-E2
//! together again, the decision of a plain success included.

use std::collections::HashSet;

use redrive_policy::{Decision, History, Lang, Policy};
use rusqlite::types::Value as Sql;
use rusqlite::{Row, params, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::batch::{Batch, EventRow};
use super::job::count;
use super::wheres::Wheres;
use super::{millis, sql};
use crate::error::{StoreError, Trouble};
use crate::event::{
    Aside, ErrorInfo, Event, EventFilter, EventId, EventStatus, ImportedEvent, NewEvent, Order,
    RecoveryAction, RetryInfo, Scrap,
};
use crate::id::{EventSeq, JobId};
use crate::time::Timestamp;

/// What few events have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Detail {
    #[serde(skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recovery: Vec<RecoveryAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_event_id: Option<EventId>,
}

/// The part of a retry's state that has no column.
#[derive(Debug, Serialize, Deserialize)]
struct Retry {
    retryable: bool,
    #[serde(default)]
    next_retry_at: Option<Timestamp>,
    #[serde(default, flatten)]
    more: Map<String, Value>,
}

/// JSON of our own from the store; what cannot be read is shown as the text that it is.
pub(super) fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

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

fn write(
    batch: &mut Batch<'_, '_>,
    at: Timestamp,
    event: &NewEvent,
    came_with: Detail,
    imported_at: Option<i64>,
    parent: Option<EventSeq>,
) -> Result<i64, StoreError> {
    let status = event.status.unwrap_or_else(|| {
        EventStatus::automatic(event.exit_code, event.error_info.is_some(), event.retry_info.is_some())
    });
    let retry = event.retry_info.as_ref();
    let detail = Detail {
        data: event.data.clone(),
        error: event.error_info.clone(),
        retry: retry.map(|retry| Retry {
            retryable: retry.retryable,
            next_retry_at: retry.next_retry_at,
            more: retry.more.clone(),
        }),
        recovery: event.recovery_actions.clone(),
        ..came_with
    };
    let detail = serde_json::to_string(&detail).map_err(|error| Trouble::Database(error.to_string()))?;
    let tags: Vec<&str> = event.tags.iter().map(String::as_str).collect();
    let row = EventRow {
        type_id: batch.name(&event.event_type)?,
        source_id: batch.name(&event.source)?,
        status: Some(status),
        job: event.job,
        parent: parent.map(|parent| parent.0),
        retries: retry.map(|retry| i64::from(retry.retry_count)),
        max_retries: retry.map(|retry| i64::from(retry.max_retries)),
        latency_ms: event.latency.map(millis),
        exit_code: event.exit_code,
        importance: event.importance,
        hypothesis: event.related_hypothesis_id.as_deref(),
        caller_id: event.caller_id.as_deref(),
        tags: &tags,
        imported_at,
        detail: (detail != "{}").then_some(detail),
        ..EventRow::default()
    };
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
        let came_with = Detail {
            event_id: Some(imported.event_id.clone()),
            parent_event_id: imported.parent_event_id.clone(),
            ..Detail::default()
        };
        let seq = write(batch, imported.at, &imported.event, came_with, Some(now.millis()), parent)?;
        batch.run(sql!("event_alias_insert"), params![imported.event_id, seq])?;
        added += 1;
    }
    for scrap in scraps {
        let line = i64::try_from(scrap.line).unwrap_or(i64::MAX);
        let id = batch.next_event();
        batch.run(
            sql!("aside_insert"),
            params![id, now.millis(), scrap.origin, line, scrap.why, scrap.text],
        )?;
    }
    Ok(added)
}

/// The place of the event known by this id: one that came from elsewhere, or one of ours whose time is right, too.
fn seq_of(batch: &Batch<'_, '_>, id: &str) -> Result<Option<EventSeq>, StoreError> {
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
    rows.next()?.map(read).transpose().map_err(StoreError::from)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    let seq = EventSeq(row.get(0)?);
    let timestamp = Timestamp::from_millis(row.get(1)?);
    let status = EventStatus::ALL[usize::try_from(row.get::<_, i64>(4)?).unwrap_or(0).min(5)];
    let job = row.get::<_, Option<i64>>(5)?.map(JobId);
    let (retries, max_retries) = (row.get::<_, Option<i64>>(10)?, row.get::<_, Option<i64>>(11)?);
    let detail: Detail = match row.get::<_, Option<String>>(17)? {
        Some(text) => serde_json::from_str(&text)
            .unwrap_or_else(|_| Detail { data: Value::String(text), ..Detail::default() }),
        None => Detail::default(),
    };
    let mut data = detail.data;
    let queue: Option<String> = row.get(6)?;
    if let (Some(job), Some(queue)) = (job, queue) {
        let mut of_job = Map::new();
        of_job.insert("job_id".to_owned(), json!(job));
        of_job.insert("queue".to_owned(), json!(queue));
        of_job.insert("kind".to_owned(), json!(row.get::<_, Option<String>>(7)?));
        of_job.insert("attempt".to_owned(), json!(row.get::<_, Option<i64>>(9)?));
        if let Some(caller_id) = row.get::<_, Option<String>>(16)? {
            of_job.insert("caller_id".to_owned(), json!(caller_id));
        }
        if status == EventStatus::Success {
            let passed = pass(retries.unwrap_or(0), max_retries.unwrap_or(0));
            of_job.insert("decision".to_owned(), passed);
        }
        if let Value::Object(more) = data {
            of_job.extend(more);
        }
        data = Value::Object(of_job);
    } else if let Some(caller_id) = row.get::<_, Option<String>>(16)?
        && let Value::Object(object) = &mut data
    {
        object.entry("caller_id").or_insert(json!(caller_id));
    }
    let again = retries.is_some_and(|retries| retries > 0);
    let retry_info = match detail.retry {
        Some(Retry { retryable, next_retry_at, more }) => Some((retryable, next_retry_at, more)),
        None if again && max_retries.is_some() => Some((true, None, Map::new())),
        None => None,
    };
    let parent = row.get::<_, Option<i64>>(8)?.map(EventSeq);
    let parent_at = row.get::<_, Option<i64>>(18)?.map(Timestamp::from_millis);
    let latency: Option<i64> = row.get(12)?;
    Ok(Event {
        seq,
        event_id: detail.event_id.unwrap_or_else(|| seq.event_id(timestamp)),
        timestamp,
        event_type: row.get(2)?,
        source: row.get(3)?,
        data: if data.is_null() { json!({}) } else { data },
        parent_event_id: detail
            .parent_event_id
            .or_else(|| parent.zip(parent_at).map(|(parent, at)| parent.event_id(at))),
        related_hypothesis_id: row.get(15)?,
        tags: read_tags(row.get(19)?),
        latency_ms: latency.and_then(|latency| u64::try_from(latency).ok()),
        exit_code: row.get(13)?,
        importance: row.get::<_, Option<u8>>(14)?.unwrap_or(3),
        status,
        error_info: detail.error,
        retry_info: retry_info.map(|(retryable, next_retry_at, more)| RetryInfo {
            retry_count: count(retries.unwrap_or(0)),
            max_retries: count(max_retries.unwrap_or(0)),
            retryable,
            next_retry_at,
            more,
        }),
        recovery_actions: detail.recovery,
        job,
        parent,
    })
}

/// Tags as they stand in their column.
fn read_tags(text: Option<String>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The decision about an attempt that succeeded, which no row needs to keep.
fn pass(retries: i64, max_retries: i64) -> Value {
    let policy = Policy::standard();
    let decision = Decision::pass(&policy, &History::retries(count(retries)));
    json!({
        "decision": "PASS",
        "current_retry_count": retries,
        "max_retries": max_retries,
        "reasoning": decision.reasoning(Lang::En),
        "ja": { "reasoning": decision.reasoning(Lang::Ja) },
    })
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
    let rows = statement.query_map(params_from_iter(values), read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
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
    let matches = |event: &Event| {
        event.job == Some(job)
            && (filter.types.is_empty() || filter.types.contains(&event.event_type))
            && filter.source.as_ref().is_none_or(|source| *source == event.source)
            && (filter.statuses.is_empty() || filter.statuses.contains(&event.status))
            && filter.hypothesis.as_ref().is_none_or(|one| event.related_hypothesis_id.as_ref() == Some(one))
            && filter.caller_id.as_ref().is_none_or(|one| event.data["caller_id"] == **one)
            && filter.since.is_none_or(|since| event.timestamp >= since)
            && filter.until.is_none_or(|until| event.timestamp < until)
            && filter.after.is_none_or(|after| event.seq > after)
            && filter.before.is_none_or(|before| event.seq < before)
            && (filter.tags.is_empty() || filter.tags.iter().any(|tag| event.tags.contains(tag)))
    };
    let mut story = match latest {
        Some(latest) => causality(batch, EventSeq(latest), LONGEST_STORY)?,
        None => Vec::new(),
    };
    story.extend(beside(batch, job)?);
    story.retain(matches);
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
    let rows = statement.query_map([job.0], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn causality(batch: &Batch<'_, '_>, seq: EventSeq, limit: u32) -> Result<Vec<Event>, StoreError> {
    let mut chain: Vec<Event> = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(seq);
    while let Some(seq) = next {
        // A parent stands before its child; an import may say otherwise, and must not lead us in circles.
        if chain.len() >= limit as usize || !seen.insert(seq) {
            break;
        }
        let Some(event) = at(batch, seq)? else { break };
        next = event.parent;
        chain.push(event);
    }
    chain.reverse();
    Ok(chain)
}

pub(super) fn asides(batch: &Batch<'_, '_>, after: i64, limit: u32) -> Result<Vec<Aside>, StoreError> {
    batch.all(sql!("aside_list"), params![after, limit], |row| {
        Ok(Aside {
            id: row.get(0)?,
            at: Timestamp::from_millis(row.get(1)?),
            scrap: Scrap {
                origin: row.get(2)?,
                line: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                why: row.get(4)?,
                text: row.get(5)?,
            },
        })
    })
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
