//! Looking a job up, running it now, cancelling it.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::try_join4;
use tokio_postgres::Row;

use super::batch::ProgressRow;
use super::dead_letter;
use super::fault::Fault;
use super::leasable::{self, Leasable};
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::effects::PutBack;
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::job::{JobRecord, JobState, RunNow as Ran};
use crate::letter_group::GroupCounts;
use crate::metric::Metric;
use crate::redrive::FirstAttempt;
use crate::row::{self, EventRow, count};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

/// Where a ready job stands in the table of ready ones.
struct Place {
    held_for: Option<i64>,
    rank: i64,
    run_at: i64,
}

/// A job as it was found, with what its record does not say.
struct Found {
    record: JobRecord,
    leasable: Option<Leasable>,
    place: Option<Place>,
}

async fn find(
    line: &Line,
    memory: &RefCell<Memory>,
    seals: &Seals,
    id: JobId,
) -> Result<Option<Found>, Fault> {
    let (rows, lease, letter, place) = try_join4(
        line.all(sql!("leasable"), args![vec![id.0]]),
        line.first(sql!("lease_show"), args![id.0]),
        line.first(sql!("letter_find"), args![id.0]),
        line.first(sql!("job_place"), args![id.0]),
    )
    .await?;
    let Some(row) = rows.first() else { return ended(line, id).await };
    leasable::learn(line, memory, &rows).await?;
    let found = leasable::read(row, &memory.borrow(), seals)?;
    let standing = found.standing;
    let mut record = JobRecord {
        id,
        job: Some(found.leased.job.clone()),
        state: JobState::Ended,
        attempts: count(standing.attempts),
        retries: count(standing.retries),
        crashes: count(standing.crashes),
        event: found.leased.event,
    };
    let mut stands = None;
    if let Some(row) = lease {
        record.state = leased(&row)?;
        record.attempts = count(column(&row, 4)?);
        record.event = EventSeq(column(&row, 5)?);
    } else if let Some(row) = letter {
        let letter = dead_letter::read(&row, seals)?;
        (record.attempts, record.retries, record.crashes) = (letter.attempts, letter.retries, letter.crashes);
        record.event = letter.event.seq;
        record.state = JobState::Dead(Box::new(letter));
    } else if let Some(row) = place {
        let place = Place { held_for: column(&row, 0)?, rank: column(&row, 1)?, run_at: column(&row, 2)? };
        record.state = JobState::Ready {
            run_at: Timestamp::from_millis(place.run_at),
            held_for: place.held_for.map(WorkerId),
        };
        stands = Some(place);
    } else {
        return Err(Fault::nowhere(id));
    }
    Ok(Some(Found { record, leasable: Some(found), place: stands }))
}

/// A job of which only its story is left.
async fn ended(line: &Line, id: JobId) -> Result<Option<Found>, Fault> {
    let Some(row) = line.first(sql!("ended_find"), args![id.0]).await? else { return Ok(None) };
    let record = JobRecord {
        id,
        job: None,
        state: JobState::Ended,
        attempts: 0,
        retries: 0,
        crashes: 0,
        event: EventSeq(column(&row, 0)?),
    };
    Ok(Some(Found { record, leasable: None, place: None }))
}

fn leased(row: &Row) -> Result<JobState, Fault> {
    Ok(JobState::Leased {
        worker: WorkerId(column(row, 0)?),
        expires_at: Timestamp::from_millis(column(row, 1)?),
        begun_at: column::<Option<i64>>(row, 2)?.map(Timestamp::from_millis),
        cancel_requested: column(row, 3)?,
        fence: column(row, 6)?,
    })
}

/// Everything about a job.
pub(super) struct JobOf {
    pub(super) id: JobId,
}

impl Question for JobOf {
    type Answer = Option<JobRecord>;

    async fn ask(
        &self,
        line: &Line,
        memory: &RefCell<Memory>,
        seals: &Seals,
    ) -> Result<Option<JobRecord>, Fault> {
        Ok(find(line, memory, seals, self.id).await?.map(|found| found.record))
    }
}

/// Makes a waiting job due at once.
pub(super) struct RunNow {
    pub(super) now: Timestamp,
    pub(super) id: JobId,
}

impl Verb for RunNow {
    type Answer = Ran;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Ran, Fault> {
        let now = tx.now(self.now);
        let memory = Rc::clone(&tx.memory);
        let Some(found) = find(tx.line, &memory, &tx.seals, self.id).await? else { return Ok(Ran::Unknown) };
        let (place, leasable) = match (&found.record.state, &found.place, &found.leasable) {
            (JobState::Leased { .. }, ..) => return Ok(Ran::Running),
            (JobState::Dead(_), ..) => return Ok(Ran::Dead),
            (JobState::Ended, ..) => return Ok(Ran::Ended),
            (JobState::Ready { .. }, Some(place), Some(leasable)) => (place, leasable),
            (JobState::Ready { .. }, ..) => return Err(Fault::nowhere(self.id)),
        };
        leave_ready(tx, self.id, leasable.lane_id, place).await?;
        let row = EventRow {
            event_type: "manual_retry",
            status: Some(EventStatus::Pending),
            importance: Some(4),
            tags: row::tags(&["manual_retry", "recovery"]),
            detail: Some(serde_json::json!({ "data": { "retry_type": "manual" } }).to_string()),
            ..about(&found.record, leasable)
        };
        let event = tx.batch.event(now, row)?;
        tx.batch.tally.add(now, leasable.lane_id, Metric::ManualRetries, 1);
        tx.batch.progress(ProgressRow {
            job_id: self.id.0,
            run_at: now.millis(),
            held_for: place.held_for,
            fence: leasable.standing.fence,
            attempts: leasable.standing.attempts,
            retries: leasable.standing.retries,
            crashes: leasable.standing.crashes,
            last_delay_ms: None,
            hint: None,
            event,
        });
        tx.batch.make_ready(self.id, leasable.lane_id, place.held_for, place.rank, now);
        Ok(Ran::Due)
    }
}

/// Ends a waiting job, or asks the worker that has it to stop.
pub(super) struct Cancel {
    pub(super) now: Timestamp,
    pub(super) id: JobId,
    pub(super) why: String,
}

impl Verb for Cancel {
    type Answer = Option<bool>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<bool>, Fault> {
        let now = tx.now(self.now);
        let memory = Rc::clone(&tx.memory);
        let Some(found) = find(tx.line, &memory, &tx.seals, self.id).await? else { return Ok(None) };
        let Some(leasable) = &found.leasable else { return Ok(Some(true)) };
        match (&found.record.state, &found.place) {
            (JobState::Ended, _) => return Ok(Some(true)),
            (JobState::Leased { .. }, _) => {
                let why = storable(&self.why);
                let why = tx.seals.seal_text(Cell::LeaseCancelWhy, self.id.0, &why)?.into_owned();
                exactly(1, tx.line.run(sql!("lease_cancel"), args![self.id.0, why]).await?)?;
                return Ok(Some(false));
            }
            (JobState::Dead(_), _) => {
                let taken = dead_letter::take(tx, now, &[self.id.0], GroupCounts::DISCARDED).await?;
                exactly(1, taken.len() as u64)?;
                tx.batch.tally.add(now, leasable.lane_id, Metric::Discarded, 1);
                tx.batch.drop_versions(self.id);
            }
            (JobState::Ready { .. }, Some(place)) => {
                leave_ready(tx, self.id, leasable.lane_id, place).await?;
            }
            (JobState::Ready { .. }, None) => return Err(Fault::nowhere(self.id)),
        }
        let row = EventRow {
            event_type: "job_cancelled",
            status: Some(EventStatus::Failed),
            detail: Some(serde_json::json!({ "data": { "why": self.why } }).to_string()),
            ..about(&found.record, leasable)
        };
        let event = tx.batch.event(now, row)?;
        if let Some(key) = &leasable.leased.job.unique_key {
            let lane = memory.borrow().lane_of(leasable.lane_id).map(|lane| lane.queue_id);
            let queue_id = lane.ok_or_else(|| Fault::nowhere(self.id))?;
            tx.batch.free_key(queue_id, key.clone(), self.id);
        }
        tx.batch.drop_progress(self.id);
        tx.batch.end(self.id, event);
        tx.batch.count(leasable.lane_id, |delta| delta.cancelled += 1);
        tx.batch.tally.add(now, leasable.lane_id, Metric::Cancelled, 1);
        if let Some(put_back) = &leasable.put_back {
            give_up(tx, now, self.id, put_back);
        }
        Ok(Some(true))
    }
}

/// A job that was redriven is over without having been done, and nobody will know how its first attempt goes if it had none.
pub(super) fn give_up(tx: &mut Tx<'_>, now: Timestamp, id: JobId, put_back: &PutBack) {
    tx.batch.groups.add(now, &put_back.fingerprint, GroupCounts::OVER);
    if let Some(run) = put_back.run {
        tx.batch.judge(run, id, FirstAttempt::None, None);
    }
    tx.batch.drop_versions(id);
}

/// An event about a job outside a lease; the caller fills in the rest.
fn about<'a>(record: &JobRecord, leasable: &'a Leasable) -> EventRow<'a> {
    EventRow {
        source_id: leasable.source_id,
        job: Some(record.id),
        lane_id: Some(leasable.lane_id),
        parent: Some(record.event.0),
        attempt: Some(i64::from(record.attempts)),
        retries: Some(i64::from(record.retries)),
        caller_id: leasable.leased.job.caller_id.as_deref(),
        ..EventRow::default()
    }
}

async fn leave_ready(tx: &mut Tx<'_>, id: JobId, lane: i64, place: &Place) -> Result<(), Fault> {
    let at = place.held_for.map_or(lane, |worker| -worker);
    let row = [at, place.rank, place.run_at, id.0].map(|number| vec![number]);
    let gone = tx.line.run(sql!("ready_delete"), args![row[0], row[1], row[2], row[3]]).await?;
    exactly(1, gone)?;
    tx.batch.count(lane, |delta| delta.ready -= 1);
    Ok(())
}

/// What was read must still be there when it is written: otherwise others were faster, and all is looked at again.
pub(super) fn exactly(expected: u64, found: u64) -> Result<(), Fault> {
    if expected == found {
        return Ok(());
    }
    Err(Fault::Again(format!("{expected} rows were there, and {found} of them still are")))
}

/// Whether any job of these queues and kinds is not over.
pub(super) struct Unfinished {
    pub(super) queues: Vec<String>,
    pub(super) kinds: Vec<String>,
}

impl Question for Unfinished {
    type Answer = bool;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<bool, Fault> {
        for row in line.all(sql!("lane_unfinished"), args![]).await? {
            let (queue, kind): (String, String) = (column(&row, 0)?, column(&row, 1)?);
            let named = |names: &[String], name| names.is_empty() || names.contains(name);
            if named(&self.queues, &queue) && named(&self.kinds, &kind) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
