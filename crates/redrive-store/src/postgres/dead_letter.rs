//! Dead letters: reading them, putting them back, and letting them go.

use std::collections::{HashMap, HashSet};

use redrive_policy::Cause;
use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{args, column};
use super::memory::Need;
use super::texts::sql;
use super::tx::Tx;
use super::verb::Verb;
use crate::dead_letter::{DeadLetter, EventSeqJson, Redriven};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::letter_group::GroupCounts;
use crate::metric::Metric;
use crate::protocol::Standing;
use crate::redrive::RunId;
use crate::row::{self, EventRow, count};
use crate::seal::{Cell, Seals};
use crate::settle::LetterReason;
use crate::time::Timestamp;
use crate::told;

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
    fingerprint: String,
    deadline: Option<i64>,
}

/// Takes letters off the pile, the lowest number first, each of which changes its group so. What becomes of their jobs is the
/// caller's business.
pub(super) async fn take(
    tx: &mut Tx<'_>,
    now: Timestamp,
    ids: &[i64],
    change: GroupCounts,
) -> Result<Vec<Taken>, Fault> {
    let mut taken = Vec::with_capacity(ids.len());
    for row in tx.line.all(sql!("letter_delete"), args![ids]).await? {
        let (job, lane) = (JobId(column(&row, 0)?), column(&row, 1)?);
        let cause: Cause = column::<&str>(&row, 2)?.parse().unwrap_or(Cause::Unknown);
        let fingerprint: String = column(&row, 9)?;
        tx.batch.count(lane, |delta| delta.dead -= 1);
        tx.batch.count_letters(cause, -1);
        tx.batch.groups.add(now, &fingerprint, change);
        tx.batch.drop_report(job);
        taken.push(Taken {
            job,
            lane,
            event: column(&row, 3)?,
            fence: column(&row, 4)?,
            redrives: column(&row, 5)?,
            source_id: column(&row, 6)?,
            caller_id: column(&row, 7)?,
            rank: column(&row, 8)?,
            fingerprint,
            deadline: column(&row, 10)?,
        });
    }
    taken.sort_unstable_by_key(|taken| taken.job);
    Ok(taken)
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
        put_back(tx, now, &self.ids, self.event_type, None).await
    }
}

/// Puts letters back, for a run or by themselves. One that the run has put back before stays.
pub(super) async fn put_back(
    tx: &mut Tx<'_>,
    now: Timestamp,
    ids: &[JobId],
    event_type: &'static str,
    run: Option<RunId>,
) -> Result<Vec<Redriven>, Fault> {
    let mut outcome = claim(tx, ids, run).await?;
    let chosen: Vec<i64> =
        outcome.iter().filter(|(_, what)| **what == Redriven::Ready).map(|(id, _)| id.0).collect();
    let taken = take(tx, now, &chosen, GroupCounts::REDRIVEN).await?;
    exactly(chosen.len() as u64, taken.len() as u64)?;
    let is_late = |taken: &&Taken| taken.deadline.is_some_and(|deadline| deadline <= now.millis());
    let late: Vec<i64> = taken.iter().filter(is_late).map(|taken| taken.job.0).collect();
    if !late.is_empty() {
        tx.line.run(sql!("job_deadline_renew"), args![late, now.millis()]).await?;
    }
    let mut back = Back::default();
    for taken in taken {
        let row = EventRow {
            event_type,
            source_id: taken.source_id,
            status: Some(EventStatus::Pending),
            job: Some(taken.job),
            lane_id: Some(taken.lane),
            parent: Some(taken.event),
            attempt: Some(0),
            retries: Some(0),
            importance: Some(4),
            caller_id: taken.caller_id.as_deref(),
            tags: row::tags(&[event_type, "recovery"]),
            detail: Some(told::redriven(taken.redrives + 1, run)),
            ..EventRow::default()
        };
        let event = tx.batch.event(now, row)?;
        let fresh = Standing { fence: taken.fence, ..Standing::default() }.redriven();
        back.jobs.push(taken.job.0);
        back.fences.push(fresh.fence);
        back.events.push(event);
        back.redrives.push(taken.redrives + 1);
        back.attempts.push(fresh.attempts);
        back.retries.push(fresh.retries);
        back.crashes.push(fresh.crashes);
        back.fingerprints.push(taken.fingerprint);
        tx.batch.tally.redriven(now, taken.lane, event_type);
        tx.batch.make_ready(taken.job, taken.lane, None, taken.rank, now);
    }
    if !back.jobs.is_empty() {
        let Back { jobs, fences, events, redrives, attempts, retries, crashes, fingerprints } = &back;
        let (at, run) = (now.millis(), run.map(|run| run.0));
        let rows =
            args![*jobs, at, *fences, *events, *redrives, *attempts, *retries, *crashes, *fingerprints, run];
        tx.line.run(sql!("progress_redriven"), rows).await?;
    }
    // What is named twice was a letter only the first time.
    let answer = |id| outcome.remove(id).unwrap_or(Redriven::NotDead);
    Ok(ids.iter().map(answer).collect())
}

/// Where jobs stand that were put back, as one array per column.
#[derive(Default)]
struct Back {
    jobs: Vec<i64>,
    fences: Vec<i64>,
    events: Vec<i64>,
    redrives: Vec<i64>,
    attempts: Vec<i64>,
    retries: Vec<i64>,
    crashes: Vec<i64>,
    fingerprints: Vec<String>,
}

/// What each of these is, with the unique keys taken of those that are letters and come back.
async fn claim(
    tx: &mut Tx<'_>,
    ids: &[JobId],
    run: Option<RunId>,
) -> Result<HashMap<JobId, Redriven>, Fault> {
    let numbers: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = tx.line.all(sql!("letter_is"), args![numbers, run.map(|run| run.0)]).await?;
    let mut keys: HashMap<JobId, (i64, String)> = HashMap::new();
    let mut outcome = HashMap::with_capacity(rows.len());
    for row in rows {
        let id = JobId(column(&row, 0)?);
        if column(&row, 3)? {
            continue;
        }
        outcome.insert(id, Redriven::Ready);
        if let Some(key) = column::<Option<String>>(&row, 2)? {
            keys.insert(id, (column(&row, 1)?, key));
        }
    }
    // In the order in which they were named: the first of those that share a key has it.
    let mut named = HashSet::new();
    let with_key: Vec<JobId> =
        ids.iter().filter(|id| keys.contains_key(id) && named.insert(**id)).copied().collect();
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

/// Lets letters go for good.
pub(super) struct Discard {
    pub(super) now: Timestamp,
    pub(super) ids: Vec<JobId>,
    pub(super) event_type: &'static str,
    pub(super) why: Option<String>,
}

impl Verb for Discard {
    type Answer = Vec<bool>;

    fn needs(&self) -> Vec<Need> {
        vec![Need::Name(self.event_type.to_owned())]
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<bool>, Fault> {
        let now = tx.now(self.now);
        let ids: Vec<i64> = self.ids.iter().map(|id| id.0).collect();
        let taken = take(tx, now, &ids, GroupCounts::DISCARDED).await?;
        let mut gone: HashSet<JobId> = taken.iter().map(|taken| taken.job).collect();
        let_go(tx, now, taken, self.event_type, self.why.as_deref())?;
        // What is named twice was a letter only the first time.
        Ok(self.ids.iter().map(|id| gone.remove(id)).collect())
    }
}

/// The end of jobs whose letters were taken.
fn let_go(
    tx: &mut Tx<'_>,
    now: Timestamp,
    taken: Vec<Taken>,
    event_type: &'static str,
    why: Option<&str>,
) -> Result<(), Fault> {
    for taken in taken {
        let row = EventRow {
            event_type,
            source_id: taken.source_id,
            // It was a letter to its end; `failed` is what never was one.
            status: Some(EventStatus::DeadLetter),
            job: Some(taken.job),
            lane_id: Some(taken.lane),
            parent: Some(taken.event),
            caller_id: taken.caller_id.as_deref(),
            detail: told::discarded(why),
            ..EventRow::default()
        };
        let event = tx.batch.event(now, row)?;
        tx.batch.drop_progress(taken.job);
        tx.batch.drop_versions(taken.job);
        tx.batch.end(taken.job, event);
        tx.batch.count(taken.lane, |delta| delta.discarded += 1);
        tx.batch.tally.add(now, taken.lane, Metric::Discarded, 1);
    }
    Ok(())
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
    let taken = take(tx, now, &old, GroupCounts::DISCARDED).await?;
    exactly(old.len() as u64, taken.len() as u64)?;
    let_go(tx, now, taken, "letter_expired", None)?;
    Ok(old.len() as u64)
}
