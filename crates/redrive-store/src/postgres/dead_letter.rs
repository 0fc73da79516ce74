//! Dead letters: reading them, putting them back, and letting old ones go.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use redrive_policy::{Cause, Class};
use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::sql;
use super::tx::Tx;
use super::verb::{Question, Verb};
use super::wheres::Wheres;
use crate::dead_letter::{DeadLetter, EventSeqJson, LetterFilter, Redriven};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::protocol::Standing;
use crate::row::{self, EventRow, count};
use crate::seal::{Cell, Seals};
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// Reads the columns of `letter_find.sql` and `letter_list.sql`.
pub(super) fn read(row: &Row, seals: &Seals) -> Result<DeadLetter, Fault> {
    let id = JobId(column(row, 0)?);
    let open = |cell, at| seals.open_text(cell, id.0, column(row, at)?).map_err(Fault::from);
    let died_at = Timestamp::from_millis(column(row, 3)?);
    let text = |at| column::<String>(row, at);
    let number = |at| column::<i64>(row, at).map(count);
    Ok(DeadLetter {
        id,
        queue: text(1)?,
        kind: text(2)?,
        event: EventSeqJson { seq: EventSeq(column(row, 4)?), at: died_at },
        died_at,
        enqueued_at: Timestamp::from_millis(column(row, 19)?),
        reason: LetterReason::from_name(&text(5)?).unwrap_or(LetterReason::NonRetryable),
        cause: text(6)?.parse().unwrap_or(Cause::Unknown),
        retryable: column(row, 7)?,
        rule: text(8)?,
        fingerprint: text(9)?,
        error_type: text(10)?,
        error_message: open(Cell::LetterMessage, 11)?,
        attempts: number(12)?,
        retries: number(13)?,
        crashes: number(14)?,
        max_retries: number(15)?,
        redrives: number(16)?,
        context: row::parse_json(&open(Cell::LetterContext, 17)?),
        report: row::parse_json(&open(Cell::LetterReport, 18)?),
        caller_id: column(row, 20)?,
        policy: column(row, 21)?,
        payload: seals.open_bytes(Cell::JobPayload, id.0, column(row, 22)?)?,
    })
}

/// What a letter said that its job needs to go on.
pub(super) struct Taken {
    job: JobId,
    lane: i64,
    event: i64,
    fence: i64,
    redrives: i64,
    source_id: i64,
    caller_id: Option<String>,
    rank: i64,
}

/// Takes letters off the pile, the lowest number first; what becomes of their jobs is the caller's business.
pub(super) async fn take(tx: &mut Tx<'_>, ids: &[i64]) -> Result<Vec<Taken>, Fault> {
    let mut taken = Vec::with_capacity(ids.len());
    for row in tx.line.all(sql!("letter_delete"), args![ids]).await? {
        let lane = column(&row, 1)?;
        let cause: Cause = column::<String>(&row, 2)?.parse().unwrap_or(Cause::Unknown);
        taken.push(Taken {
            job: JobId(column(&row, 0)?),
            lane,
            event: column(&row, 3)?,
            fence: column(&row, 4)?,
            redrives: column(&row, 5)?,
            source_id: column(&row, 6)?,
            caller_id: column(&row, 7)?,
            rank: column(&row, 8)?,
        });
        tx.batch.count(lane, |delta| delta.dead -= 1);
        tx.batch.count_letters(cause, -1);
    }
    taken.sort_unstable_by_key(|taken| taken.job);
    Ok(taken)
}

/// Letters from the newest to the oldest.
pub(super) struct LettersOf {
    pub(super) filter: LetterFilter,
    pub(super) limit: u32,
}

impl Question for LettersOf {
    type Answer = Vec<DeadLetter>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<DeadLetter>, Fault> {
        let filter = &self.filter;
        let mut wheres = Wheres::default();
        for (text, value) in [
            ("q.name = {}", &filter.queue),
            ("l.kind = {}", &filter.kind),
            ("d.fingerprint = {}", &filter.fingerprint),
            ("j.caller_id = {}", &filter.caller_id),
        ] {
            if let Some(value) = value {
                wheres.must_be(text, value);
            }
        }
        if let Some(cause) = filter.cause {
            wheres.must_with("d.cause = {}", cause.name().to_owned());
        }
        if filter.transient_only {
            let lasting = Cause::ALL.iter().filter(|cause| cause.class() != Class::Transient);
            let lasting: Vec<String> = lasting.map(|cause| cause.name().to_owned()).collect();
            wheres.must_with("d.cause <> ALL ({})", lasting);
        }
        if let Some(before) = filter.before {
            wheres.must_with("d.died_at < {}", before.millis());
        }
        if let Some((died_at, id)) = filter.after {
            let place = vec![died_at.millis(), id.0];
            wheres.must_with("(d.died_at, d.job_id) < (({}::bigint[])[1], ({}::bigint[])[2])", place);
        }
        let behind = format!("ORDER BY d.died_at DESC, d.job_id DESC LIMIT {}", self.limit);
        let text = wheres.query(line.texts().schema(), sql!("letter_list"), &behind);
        line.all_of(&text, &wheres.args()).await?.iter().map(|row| read(row, seals)).collect()
    }
}

/// Puts letters back: ready again with a fresh budget.
pub(super) struct Redrive {
    pub(super) now: Timestamp,
    pub(super) ids: Vec<JobId>,
    pub(super) event_type: &'static str,
}

impl Verb for Redrive {
    type Answer = Vec<Redriven>;

    fn needs(&self) -> Vec<Need> {
        vec![Need::Name(self.event_type.to_owned())]
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Redriven>, Fault> {
        let now = tx.now(self.now);
        let mut outcome = self.claim(tx).await?;
        let chosen: Vec<i64> =
            outcome.iter().filter(|(_, what)| **what == Redriven::Ready).map(|(id, _)| id.0).collect();
        let taken = take(tx, &chosen).await?;
        exactly(chosen.len() as u64, taken.len() as u64)?;
        let (mut fences, mut events, mut redrives) = (Vec::new(), Vec::new(), Vec::new());
        let mut counts = Vec::new();
        for taken in &taken {
            let row = EventRow {
                event_type: self.event_type,
                source_id: taken.source_id,
                status: Some(EventStatus::Pending),
                job: Some(taken.job),
                lane_id: Some(taken.lane),
                parent: Some(taken.event),
                attempt: Some(0),
                retries: Some(0),
                importance: Some(4),
                caller_id: taken.caller_id.as_deref(),
                tags: row::tags(&[self.event_type, "recovery"]),
                detail: Some(serde_json::json!({ "data": { "redrives": taken.redrives + 1 } }).to_string()),
                ..EventRow::default()
            };
            events.push(tx.batch.event(now, row)?);
            let fresh = Standing { fence: taken.fence, ..Standing::default() }.redriven();
            fences.push(fresh.fence);
            counts.push((fresh.attempts, fresh.retries, fresh.crashes));
            redrives.push(taken.redrives + 1);
            tx.batch.make_ready(taken.job, taken.lane, None, taken.rank, now);
        }
        let jobs: Vec<i64> = taken.iter().map(|taken| taken.job.0).collect();
        let attempts: Vec<i64> = counts.iter().map(|counts| counts.0).collect();
        let retries: Vec<i64> = counts.iter().map(|counts| counts.1).collect();
        let crashes: Vec<i64> = counts.iter().map(|counts| counts.2).collect();
        let at = now.millis();
        let rows = args![jobs, at, fences, events, redrives, attempts, retries, crashes];
        tx.line.run(sql!("progress_redriven"), rows).await?;
        // What is named twice was a letter only the first time.
        let answer = |id| outcome.remove(id).unwrap_or(Redriven::NotDead);
        Ok(self.ids.iter().map(answer).collect())
    }
}

impl Redrive {
    /// What each of these is, with the unique keys taken of those that are letters and come back.
    async fn claim(&self, tx: &mut Tx<'_>) -> Result<HashMap<JobId, Redriven>, Fault> {
        let ids: Vec<i64> = self.ids.iter().map(|id| id.0).collect();
        let rows = tx.line.all(sql!("letter_is"), args![ids]).await?;
        let mut keys: HashMap<JobId, (i64, String)> = HashMap::new();
        let mut outcome = HashMap::new();
        for row in rows {
            let id = JobId(column(&row, 0)?);
            outcome.insert(id, Redriven::Ready);
            if let Some(key) = column::<Option<String>>(&row, 2)? {
                keys.insert(id, (column(&row, 1)?, key));
            }
        }
        // In the order in which they were named: the first of those that share a key has it.
        let mut named = HashSet::new();
        let with_key: Vec<JobId> =
            self.ids.iter().filter(|id| keys.contains_key(id) && named.insert(**id)).copied().collect();
        if with_key.is_empty() {
            return Ok(outcome);
        }
        let queues: Vec<i64> = with_key.iter().map(|id| keys[id].0).collect();
        let texts: Vec<&str> = with_key.iter().map(|id| keys[id].1.as_str()).collect();
        let jobs: Vec<i64> = with_key.iter().map(|id| id.0).collect();
        tx.line.run(sql!("unique_retake"), args![queues, texts, jobs]).await?;
        let mut holders: HashMap<(i64, String), JobId> = HashMap::new();
        for row in tx.line.all(sql!("unique_find"), args![queues, texts]).await? {
            holders.insert((column(&row, 0)?, column(&row, 1)?), JobId(column(&row, 2)?));
        }
        for (id, key) in keys {
            let of =
                holders.get(&key).copied().ok_or_else(|| Fault::Again(format!("the key of {id} is gone")))?;
            if of != id {
                outcome.insert(id, Redriven::Duplicate { of });
            }
        }
        Ok(outcome)
    }
}

/// Deletes letters that died before; answers how many.
pub(super) async fn purge(
    tx: &mut Tx<'_>,
    now: Timestamp,
    before: Timestamp,
    limit: u32,
) -> Result<u64, Fault> {
    let rows = tx.line.all(sql!("letter_old"), args![before.millis(), i64::from(limit)]).await?;
    let old: Vec<i64> = rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
    if old.is_empty() {
        return Ok(0);
    }
    let taken = take(tx, &old).await?;
    exactly(old.len() as u64, taken.len() as u64)?;
    for taken in taken {
        let row = EventRow {
            event_type: "letter_expired",
            source_id: taken.source_id,
            status: Some(EventStatus::Failed),
            job: Some(taken.job),
            lane_id: Some(taken.lane),
            parent: Some(taken.event),
            caller_id: taken.caller_id.as_deref(),
            ..EventRow::default()
        };
        let event = tx.batch.event(now, row)?;
        tx.batch.drop_progress(taken.job);
        tx.batch.end(taken.job, event);
        tx.batch.count(taken.lane, |delta| delta.discarded += 1);
    }
    Ok(old.len() as u64)
}
