//! Looking through letters: by which index, in which order, and how many there are.
//!
//! The way into the table is chosen here and not by the planner, which knows nothing of how many letters a cause, a lane or
//! a group has. A question with several answers (a queue has several lanes) becomes several ways, each in order, which are
//! merged; so a page costs what it shows, however many letters there are.

use redrive_policy::{Cause, Class};
use rusqlite::types::Value;
use rusqlite::{Row, Rows, params, params_from_iter};
use serde_json::json;

use super::batch::Batch;
use super::letter_group::beyond;
use super::sql;
use super::wheres::Wheres;
use crate::dead_letter::{Heads, LetterFilter, LetterHead};
use crate::error::StoreError;
use crate::id::JobId;
use crate::row::count as counted;
use crate::seal::Cell;
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// More ways than these are not merged: everything is looked at instead.
const MOST_WAYS: u32 = 64;

/// How letters are reached.
enum Access {
    /// No letter can match.
    Nowhere,
    /// These jobs.
    Ids(Vec<i64>),
    /// By an index whose first column has one of these values.
    By { index: &'static str, column: &'static str, values: Vec<Value> },
    /// In the order of death.
    Age,
}

/// What a filter asks for, with names turned into numbers.
struct Question {
    access: Access,
    causes: Option<Vec<Value>>,
    lanes: Option<Vec<Value>>,
}

/// One statement and its values.
type Way = (String, Vec<Value>);

impl Question {
    fn of(batch: &mut Batch<'_, '_>, filter: &LetterFilter) -> Result<Question, StoreError> {
        let causes = causes(filter);
        let lanes = lanes(batch, filter)?;
        let access = access(batch, filter, causes.as_deref(), lanes.as_deref())?;
        Ok(Question { access, causes, lanes })
    }

    /// The statements that find the letters, each beginning with `select`.
    fn ways(&self, filter: &LetterFilter, select: &str, ordered: bool) -> Vec<Way> {
        let way = |from: &str, mut wheres: Wheres, ids: Option<Value>| {
            self.conditions(filter, &mut wheres);
            let (conditions, mut values) = wheres.finish();
            values.splice(0..0, ids);
            let order = match (ordered, filter.oldest_first) {
                (false, _) => "",
                (true, true) => " ORDER BY d.died_at, d.job_id",
                (true, false) => " ORDER BY d.died_at DESC, d.job_id DESC",
            };
            (format!("{} FROM {from}{conditions}{order}", select.trim_end()), values)
        };
        match &self.access {
            Access::Nowhere => Vec::new(),
            Access::Ids(ids) => {
                let from = "json_each(?) x CROSS JOIN dead_letter d ON d.job_id = x.value";
                vec![way(from, Wheres::default(), Some(json!(ids).to_string().into()))]
            }
            Access::By { index, column, values } => {
                let from = format!("dead_letter d INDEXED BY {index}");
                let by_one = |value: &Value| {
                    let mut wheres = Wheres::default();
                    wheres.must(&format!("{column} = ?"), [value.clone()]);
                    way(&from, wheres, None)
                };
                values.iter().map(by_one).collect()
            }
            Access::Age if ordered => {
                vec![way("dead_letter d INDEXED BY dead_letter_age", Wheres::default(), None)]
            }
            Access::Age => vec![way("dead_letter d", Wheres::default(), None)],
        }
    }

    /// Everything that is asked for but what the way answers already.
    fn conditions(&self, filter: &LetterFilter, wheres: &mut Wheres) {
        let by = if let Access::By { column, .. } = &self.access { *column } else { "" };
        if let Some(causes) = self.causes.as_ref().filter(|_| by != "d.cause") {
            wheres.one_of("d.cause", causes.iter().cloned());
        }
        if let Some(lanes) = self.lanes.as_ref().filter(|_| by != "d.lane_id") {
            wheres.one_of("d.lane_id", lanes.iter().cloned());
        }
        if let Some(reason) = filter.reason {
            wheres.must("d.reason = ?", [reason.name().to_owned().into()]);
        }
        if let Some(fingerprint) = &filter.fingerprint {
            wheres.must("d.fingerprint = ?", [fingerprint.clone().into()]);
        }
        if let Some(prefix) = &filter.fingerprint_prefix {
            wheres.must("d.fingerprint >= ?", [prefix.clone().into()]);
            wheres.must("d.fingerprint < ?", [beyond(prefix).into()]);
        }
        if let Some(caller_id) = &filter.caller_id {
            wheres.must("d.caller_id = ?", [caller_id.clone().into()]);
        }
        if let Some(since) = filter.since {
            wheres.must("d.died_at >= ?", [since.millis().into()]);
        }
        if let Some(before) = filter.before {
            wheres.must("d.died_at < ?", [before.millis().into()]);
        }
        if let Some(run) = filter.not_by {
            wheres.must("d.run_id IS NOT ?", [run.0.into()]);
        }
        if let Some((died_at, id)) = filter.after {
            let text = if filter.oldest_first {
                "(d.died_at, d.job_id) > (?, ?)"
            } else {
                "(d.died_at, d.job_id) < (?, ?)"
            };
            wheres.must(text, [died_at.millis().into(), id.0.into()]);
        }
    }
}

/// The causes that may match; absent: all.
fn causes(filter: &LetterFilter) -> Option<Vec<Value>> {
    if filter.causes.is_empty() && filter.cause.is_none() && !filter.transient_only {
        return None;
    }
    let wanted = |cause: &&Cause| {
        (filter.causes.is_empty() || filter.causes.contains(cause))
            && filter.cause.is_none_or(|one| one == **cause)
            && (!filter.transient_only || cause.class() == Class::Transient)
    };
    Some(Cause::ALL.iter().filter(wanted).map(|cause| cause.name().to_owned().into()).collect())
}

/// The lanes that may match; absent: all.
fn lanes(batch: &mut Batch<'_, '_>, filter: &LetterFilter) -> Result<Option<Vec<Value>>, StoreError> {
    if filter.queue.is_none() && filter.kind.is_none() {
        return Ok(None);
    }
    let lanes = batch.all(sql!("lane_list"), [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
    })?;
    let wanted = lanes.into_iter().filter(|(_, queue, kind)| {
        filter.queue.as_ref().is_none_or(|one| one == queue)
            && filter.kind.as_ref().is_none_or(|one| one == kind)
    });
    Ok(Some(wanted.map(|(id, ..)| id.into()).collect()))
}

fn access(
    batch: &Batch<'_, '_>,
    filter: &LetterFilter,
    causes: Option<&[Value]>,
    lanes: Option<&[Value]>,
) -> Result<Access, StoreError> {
    let by = |index, column, values: &[Value]| Access::By { index, column, values: values.to_vec() };
    if causes.is_some_and(<[_]>::is_empty) || lanes.is_some_and(<[_]>::is_empty) {
        return Ok(Access::Nowhere);
    }
    if let Some(ids) = &filter.ids {
        let mut ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        return Ok(Access::Ids(ids));
    }
    if let Some(caller_id) = &filter.caller_id {
        return Ok(by("dead_letter_caller", "d.caller_id", &[caller_id.clone().into()]));
    }
    if let Some(fingerprint) = &filter.fingerprint {
        return Ok(by("dead_letter_group", "d.fingerprint", &[fingerprint.clone().into()]));
    }
    if let Some(prefix) = &filter.fingerprint_prefix {
        let groups =
            batch.all(sql!("group_prefix"), params![prefix, beyond(prefix), MOST_WAYS + 1], |row| {
                row.get(0)
            })?;
        if groups.is_empty() {
            return Ok(Access::Nowhere);
        }
        if groups.len() <= MOST_WAYS as usize {
            return Ok(by("dead_letter_group", "d.fingerprint", &groups));
        }
    }
    let lanes = lanes.filter(|lanes| lanes.len() <= MOST_WAYS as usize);
    Ok(match (causes, lanes) {
        (Some(causes), Some(lanes)) if letters_of_lanes(batch, lanes)? < letters_with(batch, causes)? => {
            by("dead_letter_lane", "d.lane_id", lanes)
        }
        (Some(causes), _) => by("dead_letter_cause", "d.cause", causes),
        (None, Some(lanes)) => by("dead_letter_lane", "d.lane_id", lanes),
        (None, None) => Access::Age,
    })
}

fn letters_of_lanes(batch: &Batch<'_, '_>, lanes: &[Value]) -> Result<i64, StoreError> {
    let all =
        batch.all(sql!("lane_counts"), [], |row| Ok((Value::from(row.get::<_, i64>(0)?), row.get(5)?)))?;
    Ok(all.iter().filter(|(lane, _)| lanes.contains(lane)).map(|(_, dead): &(_, i64)| dead).sum())
}

fn letters_with(batch: &Batch<'_, '_>, causes: &[Value]) -> Result<i64, StoreError> {
    let all = batch
        .all(sql!("dead_count_list"), [], |row| Ok((Value::from(row.get::<_, String>(0)?), row.get(1)?)))?;
    Ok(all.iter().filter(|(cause, _)| causes.contains(cause)).map(|(_, letters): &(_, i64)| letters).sum())
}

fn read(batch: &mut Batch<'_, '_>, row: &Row<'_>) -> Result<LetterHead, StoreError> {
    let id = JobId(row.get(0)?);
    let text = |at: usize| -> Result<&str, StoreError> {
        Ok(row.get_ref(at)?.as_str().map_err(rusqlite::Error::from)?)
    };
    let lane = batch.lane_of(row.get(2)?)?;
    let (queue, kind) = (lane.queue.clone(), lane.kind.clone());
    Ok(LetterHead {
        id,
        queue,
        kind,
        died_at: Timestamp::from_millis(row.get(1)?),
        reason: LetterReason::from_name(text(3)?).unwrap_or(LetterReason::NonRetryable),
        cause: text(4)?.parse().unwrap_or(Cause::Unknown),
        retryable: row.get(5)?,
        rule: row.get(6)?,
        fingerprint: row.get(7)?,
        error_type: row.get(8)?,
        error_message: batch.seals.open_text(Cell::LetterMessage, id.0, row.get(9)?)?,
        attempts: counted(row.get(10)?),
        retries: counted(row.get(11)?),
        redrives: counted(row.get(12)?),
        caller_id: row.get(13)?,
    })
}

/// Shows letters in the order that is asked for, whether they pass the test or not, until `each` has seen enough. Answers
/// whether there are more.
fn walk(
    batch: &mut Batch<'_, '_>,
    filter: &LetterFilter,
    each: &mut dyn FnMut(LetterHead) -> bool,
) -> Result<bool, StoreError> {
    let ways = Question::of(batch, filter)?.ways(filter, sql!("letter_head"), true);
    let connection = batch.connection();
    let mut statements =
        ways.iter().map(|(text, _)| connection.prepare_cached(text)).collect::<rusqlite::Result<Vec<_>>>()?;
    let mut streams = Vec::with_capacity(ways.len());
    for (statement, (_, values)) in statements.iter_mut().zip(ways) {
        streams.push(statement.query(params_from_iter(values))?);
    }
    let next = |batch: &mut Batch<'_, '_>, stream: &mut Rows<'_>| {
        stream.next()?.map(|row| read(batch, row)).transpose()
    };
    let mut fronts =
        streams.iter_mut().map(|stream| next(batch, stream)).collect::<Result<Vec<_>, StoreError>>()?;
    loop {
        let places = fronts.iter().enumerate().filter_map(|(at, head)| {
            let head = head.as_ref()?;
            Some(((head.died_at, head.id), at))
        });
        let Some((_, at)) = (if filter.oldest_first { places.min() } else { places.max() }) else {
            return Ok(false);
        };
        let following = next(batch, &mut streams[at])?;
        let Some(head) = std::mem::replace(&mut fronts[at], following) else { return Ok(false) };
        if !each(head) {
            return Ok(fronts.iter().any(Option::is_some));
        }
    }
}

fn passes(filter: &LetterFilter, head: &LetterHead) -> bool {
    filter.only.as_ref().is_none_or(|test| (test.0)(head))
}

pub(super) fn heads(
    batch: &mut Batch<'_, '_>,
    filter: &LetterFilter,
    limit: u32,
    look_at: u32,
) -> Result<Heads, StoreError> {
    if limit == 0 || look_at == 0 {
        return Ok(Heads { heads: Vec::new(), next: filter.after });
    }
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    let more = walk(batch, filter, &mut |head| {
        looked_at += 1;
        last = Some((head.died_at, head.id));
        if passes(filter, &head) {
            found.push(head);
        }
        found.len() < limit as usize && looked_at < look_at
    })?;
    Ok(Heads { heads: found, next: last.filter(|_| more) })
}

pub(super) fn count(batch: &mut Batch<'_, '_>, filter: &LetterFilter) -> Result<u64, StoreError> {
    let question = Question::of(batch, filter)?;
    let select = if filter.only.is_some() { sql!("letter_head") } else { sql!("letter_count") };
    let mut found = 0;
    for (text, values) in question.ways(filter, select, false) {
        let mut statement = batch.connection().prepare_cached(&text)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            found += if filter.only.is_some() {
                u64::from(passes(filter, &read(batch, row)?))
            } else {
                u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0)
            };
        }
    }
    Ok(found)
}
