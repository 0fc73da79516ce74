//! Taking over what expired, and giving free what was reserved for workers that are gone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use super::batch::LeaseRow;
use super::fault::Fault;
use super::job::{exactly, give_up};
use super::leasable::{self, Leasable};
use super::line::{Line, args, column};
use super::memory::Memory;
use super::take::flags;
use super::texts::sql;
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::lease::Seized;
use crate::metric::Metric;
use crate::protocol::{After, Claim, Standing, Verdict};
use crate::row::EventRow;
use crate::seal::{Cell, Seals};
use crate::settle::Ending;
use crate::time::{Timestamp, whole_millis as millis};

/// What expired before that is not believed at once: the reapers of living workers look every second.
const LONG_AGO: Duration = Duration::from_mins(10);

/// A lease that expired.
struct Expired {
    job: i64,
    from: WorkerId,
    begun: bool,
    fence: i64,
    event: i64,
    cancelled: bool,
}

/// Whether anything expired.
pub(super) struct ReaperWanted {
    /// By this clock; absent: by the database's.
    pub(super) now: Option<i64>,
}

impl Question for ReaperWanted {
    type Answer = bool;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<bool, Fault> {
        let row = line.first(sql!("reaper_wanted"), args![self.now]).await?;
        row.map_or(Ok(false), |row| column(&row, 0))
    }
}

/// Takes over what expired.
pub(super) struct SeizeExpired {
    pub(super) now: Timestamp,
    pub(super) reaper: WorkerId,
    pub(super) lease_for: Duration,
    pub(super) max: usize,
}

impl Verb for SeizeExpired {
    type Answer = Vec<Seized>;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Seized>, Fault> {
        let now = tx.now(self.now);
        let bounds = [now.millis(), millis(LONG_AGO)];
        // Tests that make time pass by themselves know nothing of the server's.
        let up_since: Option<i64> = match tx.line.first(sql!("server_up"), args![]).await? {
            Some(row) if tx.is_by_our_clock() => column(&row, 0)?,
            _ => None,
        };
        tx.line.run(sql!("lease_clamp"), args![bounds[0], bounds[1], up_since]).await?;
        tx.line.run(sql!("worker_clamp"), args![bounds[0], bounds[1], up_since]).await?;
        let (cancelled, expired): (Vec<_>, Vec<_>) =
            self.expired(tx, now).await?.into_iter().partition(|expired| expired.cancelled);
        end_cancelled(tx, now, &cancelled).await?;
        let mut seized = self.seize(tx, now, expired).await?;
        self.free_reservations(tx, now, &mut seized).await?;
        Ok(seized)
    }
}

impl SeizeExpired {
    async fn expired(&self, tx: &Tx<'_>, now: Timestamp) -> Result<Vec<Expired>, Fault> {
        let limit = i64::try_from(self.max).unwrap_or(i64::MAX);
        let mut expired = Vec::new();
        for row in tx.line.all(sql!("lease_expired"), args![now.millis(), limit]).await? {
            expired.push(Expired {
                job: column(&row, 0)?,
                from: WorkerId(column(&row, 1)?),
                begun: column(&row, 2)?,
                fence: column(&row, 3)?,
                event: column(&row, 4)?,
                cancelled: column(&row, 5)?,
            });
        }
        Ok(expired)
    }

    async fn seize(&self, tx: &Tx<'_>, now: Timestamp, expired: Vec<Expired>) -> Result<Vec<Seized>, Fault> {
        if expired.is_empty() {
            return Ok(Vec::new());
        }
        let jobs: Vec<i64> = expired.iter().map(|expired| expired.job).collect();
        let fences: Vec<i64> = expired
            .iter()
            .map(|Expired { fence, begun, .. }| {
                let standing = Standing { fence: *fence, ..Standing::default() };
                Claim { standing, begun: *begun }.seized().standing.fence
            })
            .collect();
        let (until, lasts) = (now.after(self.lease_for).millis(), millis(self.lease_for));
        let taken =
            tx.line.run(sql!("lease_seize"), args![jobs, fences, self.reaper.0, until, lasts]).await?;
        exactly(jobs.len() as u64, taken)?;
        let mut read = read_leasable(tx, &jobs).await?;
        let mut seized = Vec::with_capacity(expired.len());
        for (expired, fence) in expired.into_iter().zip(fences) {
            let id = JobId(expired.job);
            let mut leased = read.remove(&expired.job).ok_or_else(|| Fault::nowhere(id))?.leased;
            leased.token.fence = fence;
            leased.expires_at = now.after(self.lease_for);
            leased.begun = expired.begun;
            leased.event = EventSeq(expired.event);
            seized.push(Seized { leased, begun: expired.begun, from: expired.from });
        }
        Ok(seized)
    }

    /// What was reserved for workers that are gone becomes everybody's. An inline job becomes the reaper's: nobody can
    /// run it.
    async fn free_reservations(
        &self,
        tx: &mut Tx<'_>,
        now: Timestamp,
        seized: &mut Vec<Seized>,
    ) -> Result<(), Fault> {
        let room = self.max.saturating_sub(seized.len());
        if room == 0 {
            return Ok(());
        }
        let rows = tx.line.all(sql!("worker_gone"), args![now.millis()]).await?;
        let mut gone: Vec<i64> = rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        if gone.is_empty() {
            return Ok(());
        }
        gone.sort_unstable();
        let mut reserved =
            reserved(tx, &gone, i64::try_from(room).unwrap_or(i64::MAX)).await?.into_iter().peekable();
        let (mut inline, mut free, mut done): (Vec<Waiting>, Vec<Waiting>, Vec<i64>) = Default::default();
        for worker in gone {
            // Of each worker as much as there is room for; what is taken over takes room from the next.
            let room = room - inline.len();
            let mut its = 0;
            while let Some(waiting) = reserved.next_if(|waiting| waiting.worker == worker) {
                its += 1;
                if its > room {
                    continue;
                }
                if waiting.inline { inline.push(waiting) } else { free.push(waiting) }
            }
            // With rows left over the worker stays on the list, for the next round.
            if its < room {
                done.push(worker);
            }
        }
        if !done.is_empty() {
            tx.line.run(sql!("worker_delete"), args![done]).await?;
        }
        set_free(tx, &free).await?;
        leave_ready(tx, &inline).await?;
        let jobs: Vec<i64> = inline.iter().map(|waiting| waiting.job.0).collect();
        let mut read = read_leasable(tx, &jobs).await?;
        for waiting in inline {
            let leasable = read.remove(&waiting.job.0).ok_or_else(|| Fault::nowhere(waiting.job))?;
            seized.push(self.take_over(tx, now, leasable, WorkerId(waiting.worker)));
        }
        Ok(())
    }

    /// A lease whose execution has not begun, on a job that waited for somebody who is gone.
    fn take_over(&self, tx: &mut Tx<'_>, now: Timestamp, waited: Leasable, from: WorkerId) -> Seized {
        let Leasable { mut leased, standing, lane_id, source_id, has_progress, put_back } = waited;
        let claim = standing.leased(false);
        leased.token.fence = claim.standing.fence;
        leased.expires_at = now.after(self.lease_for);
        let flags = flags(&leased, has_progress, put_back.is_some());
        tx.batch.lease(LeaseRow {
            job_id: leased.token.job.0,
            lane_id,
            fence: claim.standing.fence,
            worker_id: self.reaper.0,
            leased_at: now.millis(),
            expires_at: leased.expires_at.millis(),
            lease_for_ms: millis(self.lease_for),
            begun_at: None,
            attempts: claim.standing.attempts,
            retries: claim.standing.retries,
            crashes: claim.standing.crashes,
            source_id,
            flags,
            event: leased.event.0,
        });
        tx.batch.count(lane_id, |delta| delta.leased += 1);
        Seized { leased, begun: false, from }
    }
}

/// These jobs with what they have been through, by their numbers.
async fn read_leasable(tx: &Tx<'_>, jobs: &[i64]) -> Result<HashMap<i64, Leasable>, Fault> {
    if jobs.is_empty() {
        return Ok(HashMap::new());
    }
    let memory = Rc::clone(&tx.memory);
    let rows = tx.line.all(sql!("leasable"), args![jobs]).await?;
    leasable::learn(tx.line, &memory, &rows).await?;
    let memory = memory.borrow();
    let read = |row| {
        let found = leasable::read(row, &memory, &tx.seals)?;
        Ok((found.leased.token.job.0, found))
    };
    rows.iter().map(read).collect()
}

/// Ends what somebody wanted cancelled and whose worker did not live to hear it: nobody need judge what it left.
async fn end_cancelled(tx: &mut Tx<'_>, now: Timestamp, expired: &[Expired]) -> Result<(), Fault> {
    if expired.is_empty() {
        return Ok(());
    }
    let jobs: Vec<i64> = expired.iter().map(|expired| expired.job).collect();
    let rows = tx.line.all(sql!("lease_end"), args![jobs]).await?;
    exactly(jobs.len() as u64, tx.line.run(sql!("lease_delete"), args![jobs]).await?)?;
    exactly(jobs.len() as u64, rows.len() as u64)?;
    for row in &rows {
        let job = JobId(column(row, 0)?);
        let standing = Standing {
            fence: column(row, 1)?,
            attempts: column(row, 4)?,
            retries: column(row, 5)?,
            crashes: column(row, 6)?,
        };
        let claim = Claim { standing, begun: column(row, 9)? };
        let why = tx.seals.open_some(Cell::LeaseCancelWhy, job.0, column(row, 10)?)?;
        if claim.settled(Verdict::Uncounted, why.is_some()) != After::Cancelled {
            return Err(Fault::corrupt(format_args!("{job} was to be cancelled, and nobody wants it")));
        }
        let (lane, key): (i64, Option<String>) = (column(row, 2)?, column(row, 12)?);
        let caller_id: Option<String> = column(row, 11)?;
        let put_back = leasable::put_back(row, 15)?;
        let instead_of = Ending::Released { why: String::new() };
        let told = json!({ "why": why, "cause": "cancelled", "instead_of": instead_of.name() });
        let row = EventRow {
            event_type: "job_cancelled",
            source_id: column(row, 3)?,
            status: Some(EventStatus::Failed),
            job: Some(job),
            lane_id: Some(lane),
            parent: Some(column(row, 8)?),
            attempt: Some(standing.attempts),
            retries: Some(standing.retries),
            caller_id: caller_id.as_deref(),
            detail: Some(json!({ "data": told }).to_string()),
            ..EventRow::default()
        };
        let event = tx.batch.event(now, row)?;
        if let Some(key) = key {
            tx.batch.free_key(queue_of(tx, lane).await?, key, job);
        }
        tx.batch.drop_progress(job);
        tx.batch.end(job, event);
        tx.batch.tally.add(now, lane, Metric::Cancelled, 1);
        if let Some(put_back) = put_back {
            give_up(tx, now, job, &put_back);
        }
        tx.batch.count(lane, |delta| {
            delta.leased -= 1;
            delta.cancelled += 1;
        });
    }
    Ok(())
}

async fn queue_of(tx: &Tx<'_>, lane: i64) -> Result<i64, Fault> {
    let known = |tx: &Tx<'_>| tx.memory.borrow().lane_of(lane).map(|lane| lane.queue_id);
    if known(tx).is_none() {
        super::memory::learn_lanes(tx.line, &tx.memory).await?;
    }
    known(tx).ok_or_else(|| Fault::corrupt(format_args!("lane {lane} does not exist")))
}

/// A job that waits for one worker alone.
struct Waiting {
    worker: i64,
    rank: i64,
    run_at: i64,
    job: JobId,
    lane: i64,
    inline: bool,
}

async fn reserved(tx: &Tx<'_>, workers: &[i64], limit: i64) -> Result<Vec<Waiting>, Fault> {
    let mut reserved = Vec::new();
    for row in tx.line.all(sql!("reserved_list"), args![workers, limit]).await? {
        reserved.push(Waiting {
            worker: column(&row, 0)?,
            rank: column(&row, 1)?,
            run_at: column(&row, 2)?,
            job: JobId(column(&row, 3)?),
            lane: column(&row, 4)?,
            inline: column(&row, 5)?,
        });
    }
    Ok(reserved)
}

async fn leave_ready(tx: &mut Tx<'_>, waiting: &[Waiting]) -> Result<(), Fault> {
    if waiting.is_empty() {
        return Ok(());
    }
    let of = |what: fn(&Waiting) -> i64| waiting.iter().map(what).collect::<Vec<i64>>();
    let (places, ranks) = (of(|waiting| -waiting.worker), of(|waiting| waiting.rank));
    let (times, jobs) = (of(|waiting| waiting.run_at), of(|waiting| waiting.job.0));
    let gone = tx.line.run(sql!("ready_delete"), args![places, ranks, times, jobs]).await?;
    exactly(waiting.len() as u64, gone)?;
    for waiting in waiting {
        tx.batch.count(waiting.lane, |delta| delta.ready -= 1);
    }
    Ok(())
}

/// What waited for one worker becomes everybody's.
async fn set_free(tx: &mut Tx<'_>, waiting: &[Waiting]) -> Result<(), Fault> {
    leave_ready(tx, waiting).await?;
    let jobs: Vec<i64> = waiting.iter().map(|waiting| waiting.job.0).collect();
    if !jobs.is_empty() {
        tx.line.run(sql!("progress_unhold"), args![jobs]).await?;
    }
    for Waiting { lane, rank, run_at, job, .. } in waiting {
        tx.batch.make_ready(*job, *lane, None, *rank, Timestamp::from_millis(*run_at));
    }
    Ok(())
}

/// A worker leaves by itself: what is reserved for it is everybody's at once.
pub(super) struct Unregister {
    pub(super) worker: WorkerId,
}

impl Verb for Unregister {
    type Answer = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let worker = self.worker.0;
        let reserved = reserved(tx, &[worker], i64::MAX).await?;
        let (inline, free): (Vec<_>, Vec<_>) = reserved.into_iter().partition(|waiting| waiting.inline);
        set_free(tx, &free).await?;
        if inline.is_empty() {
            tx.line.run(sql!("worker_delete"), args![vec![worker]]).await?;
        } else {
            // An inline job that is left behind needs the reaper, who looks for workers that are gone.
            tx.line.run(sql!("worker_renew"), args![vec![worker], vec![Some(0_i64)], vec![0_i64]]).await?;
        }
        Ok(())
    }
}
