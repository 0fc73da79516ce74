//! Taking leases, beginning, renewing, and taking over what expired.

use std::time::{Duration, Instant};

use rusqlite::params;

use super::batch::Batch;
use super::job::{duration, read_job};
use super::{millis, queue, settle, sql};
use crate::error::StoreError;
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::lease::{LeaseRequest, LeaseToken, LeasedJob, MOST_LEASED_BYTES, Renewal, Seized};
use crate::protocol::{Claim, Standing};
use crate::row::{EventRow, count};
use crate::seal::Cell;
use crate::settle::{Ending, Settlement};
use crate::time::Timestamp;

/// What a lease row remembers about its job, so that settling need not look.
pub(super) const HAS_UNIQUE_KEY: i64 = 1;
pub(super) const HAS_PROGRESS: i64 = 2;
pub(super) const HAS_CALLER: i64 = 4;
pub(super) const WAS_REDRIVEN: i64 = 8;

/// What expired before that is not believed at once: the reapers of living workers look every second.
const LONG_AGO: Duration = Duration::from_mins(10);

/// How often work is looked for while the store hands out none.
const WHILE_DRAINING: Duration = Duration::from_millis(250);

/// A job that is due.
struct Due {
    rank: i64,
    run_at: i64,
    job: JobId,
    place: i64,
}

/// The lanes that a request looks at, in no particular order.
pub(super) fn places(batch: &mut Batch<'_, '_>, request: &LeaseRequest) -> Result<Vec<i64>, StoreError> {
    let mut places =
        if request.reserved_only { Vec::new() } else { batch.lanes_of(&request.queues, &request.kinds)? };
    places.push(-request.worker.0);
    Ok(places)
}

pub(super) fn lease(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    request: &LeaseRequest,
    places: &[i64],
) -> Result<Vec<LeasedJob>, StoreError> {
    if batch.is_draining(now) {
        let look_again = Instant::now() + WHILE_DRAINING;
        batch.memory.idle.extend(places.iter().map(|place| (*place, Some(look_again))));
        return Ok(Vec::new());
    }
    let mut due = Vec::new();
    let some_paused = queue::some_are_paused(batch)?;
    for place in places {
        if !some_paused {
            find_due(batch, now, *place, request.max, &mut due)?;
        } else if *place < 0 {
            find_unpaused(batch, now, *place, &mut due)?;
        } else if queue::is_paused(batch, *place)? {
            batch.memory.idle.insert(*place, None);
        } else {
            find_due(batch, now, *place, request.max, &mut due)?;
        }
    }
    if places.len() > 1 {
        due.sort_unstable_by_key(|due| (due.rank, due.run_at, due.job.0));
    }
    // What is left for others is due where it stands, whatever looking at each lane alone has shown.
    for left in due.drain(request.max.min(due.len())..) {
        batch.memory.idle.remove(&left.place);
    }
    let (mut leased, mut bytes) = (Vec::with_capacity(due.len()), 0);
    let mut due = due.into_iter();
    while bytes < MOST_LEASED_BYTES
        && let Some(one) = due.next()
    {
        let one = lease_one(batch, now, request, &one)?;
        bytes += one.job.payload.len();
        leased.push(one);
    }
    for left in due {
        batch.memory.idle.remove(&left.place);
    }
    Ok(leased)
}

/// What is due in one lane, best first, at most `max`. Work that waits for its time is stepped over a rank at a time, so
/// the cost does not depend on how much of it there is.
fn find_due(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    place: i64,
    max: usize,
    due: &mut Vec<Due>,
) -> Result<(), StoreError> {
    let began = due.len();
    let mut rank = i64::MIN;
    let mut next: Option<i64> = None;
    let mut statement = batch.statement(sql!("ready_scan"))?;
    'ranks: loop {
        // One more than is wanted shows when the next one becomes due.
        let wanted = max.saturating_add(1).saturating_sub(due.len() - began);
        let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![place, rank, limit])?;
        let mut seen = 0;
        while let Some(row) = rows.next()? {
            let (of_rank, run_at): (i64, i64) = (row.get(0)?, row.get(1)?);
            if run_at > now.millis() {
                next = Some(next.map_or(run_at, |next| next.min(run_at)));
                rank = of_rank;
                continue 'ranks;
            }
            seen += 1;
            due.push(Due { rank: of_rank, run_at, job: JobId(row.get(2)?), place });
        }
        if seen == wanted {
            // There is more than was asked for: not idle.
            due.truncate(began.saturating_add(max));
            batch.memory.idle.remove(&place);
            return Ok(());
        }
        break;
    }
    let next = next.map(|next| Instant::now() + Timestamp::from_millis(next).since(now));
    batch.memory.idle.insert(place, next);
    Ok(())
}

/// What is due of that which is reserved for one worker, but for work of paused queues. Resuming one forgets what is idle.
fn find_unpaused(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    place: i64,
    due: &mut Vec<Due>,
) -> Result<(), StoreError> {
    let mut reserved = Vec::new();
    find_due(batch, now, place, usize::MAX, &mut reserved)?;
    for one in reserved {
        let lane: Option<i64> = batch.first(sql!("job_place"), [one.job.0], |row| row.get(0))?;
        if let Some(lane) = lane
            && !queue::is_paused(batch, lane)?
        {
            due.push(one);
        }
    }
    Ok(())
}

fn lease_one(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    request: &LeaseRequest,
    due: &Due,
) -> Result<LeasedJob, StoreError> {
    let id = due.job;
    batch.run(sql!("ready_delete"), params![due.place, due.rank, due.run_at, id.0])?;
    let (mut leased, remembered) = read_leasable(batch, id)?;
    // Past its deadline nothing is begun: whoever has the lease sets it aside.
    leased.begun = request.begin && leased.job.deadline_at.is_none_or(|deadline| now < deadline);
    let claim = standing(&leased).leased(leased.begun);
    leased.token.fence = claim.standing.fence;
    leased.expires_at = now.after(request.lease_for);
    let lane = batch.lane(&leased.job.queue, &leased.job.kind)?;
    let source_id = batch.name(&leased.job.source)?;
    if leased.begun {
        leased.event = EventSeq(tell_begun(batch, now, &leased, lane, source_id)?);
    }
    let flags = if leased.job.unique_key.is_some() { HAS_UNIQUE_KEY } else { 0 }
        | remembered
        | if leased.job.caller_id.is_some() { HAS_CALLER } else { 0 };
    batch.run(
        sql!("lease_insert"),
        params![
            id.0,
            lane,
            leased.token.fence,
            request.worker.0,
            now.millis(),
            leased.expires_at.millis(),
            millis(request.lease_for),
            leased.begun.then_some(now.millis()),
            claim.standing.attempts,
            claim.standing.retries,
            claim.standing.crashes,
            source_id,
            flags,
            leased.event.0
        ],
    )?;
    batch.count(lane, |delta| {
        delta.ready -= 1;
        delta.leased += 1;
    });
    Ok(leased)
}

/// What a job that was just read has been through, before the attempt that it is read for.
fn standing(leased: &LeasedJob) -> Standing {
    Standing {
        fence: leased.token.fence,
        attempts: i64::from(leased.attempt) - 1,
        retries: i64::from(leased.retries),
        crashes: i64::from(leased.crashes),
    }
}

/// A job with what it has been through, as the next attempt would see it, and the flags that say whether that has a row of
/// its own, and whether it was redriven.
fn read_leasable(batch: &mut Batch<'_, '_>, id: JobId) -> Result<(LeasedJob, i64), StoreError> {
    let mut statement = batch.statement(sql!("leasable"))?;
    let mut rows = statement.query([id.0])?;
    let Some(row) = rows.next()? else {
        return Err(crate::error::Trouble::Corrupt(format!("{id} is ready, but there is no such job")).into());
    };
    let job = read_job(batch, id, row)?;
    let number = |at| row.get::<_, Option<i64>>(at).map(|number| number.unwrap_or(0));
    let latest = row.get::<_, Option<i64>>(21)?;
    let redriven = row.get::<_, Option<bool>>(22)?.unwrap_or(false);
    let leased = LeasedJob {
        token: LeaseToken { job: id, fence: number(15)? },
        job,
        attempt: count(number(16)?) + 1,
        retries: count(number(17)?),
        crashes: count(number(18)?),
        last_delay: row.get::<_, Option<i64>>(19)?.map(duration),
        hint: batch.seals.open_some(Cell::ProgressHint, id.0, row.get(20)?)?,
        redriven,
        begun: false,
        expires_at: Timestamp::default(),
        event: EventSeq(latest.map_or_else(|| row.get(4), Ok)?),
    };
    let remembered =
        if latest.is_some() { HAS_PROGRESS } else { 0 } | if redriven { WAS_REDRIVEN } else { 0 };
    Ok((leased, remembered))
}

fn tell_begun(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    leased: &LeasedJob,
    lane: i64,
    source_id: i64,
) -> Result<i64, StoreError> {
    let row = EventRow {
        event_type: "attempt_started",
        source_id,
        status: Some(EventStatus::Running),
        job: Some(leased.token.job),
        lane_id: Some(lane),
        parent: Some(leased.event.0),
        attempt: Some(i64::from(leased.attempt)),
        retries: Some(i64::from(leased.retries)),
        caller_id: leased.job.caller_id.as_deref(),
        ..EventRow::default()
    };
    batch.event(now, &row)
}

pub(super) fn begin(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    tokens: &[LeaseToken],
) -> Result<Vec<bool>, StoreError> {
    tokens.iter().map(|token| begin_one(batch, now, *token)).collect()
}

fn begin_one(batch: &mut Batch<'_, '_>, now: Timestamp, token: LeaseToken) -> Result<bool, StoreError> {
    let read = batch.first(sql!("lease_read"), [token.job.0], |row| {
        let standing = Standing { fence: row.get(0)?, attempts: row.get(3)?, ..Standing::default() };
        Ok((Claim { standing, begun: row.get(6)? }, row.get(1)?, row.get(2)?, row.get(5)?))
    })?;
    let Some((claim, lane, source_id, parent)) = read else { return Ok(false) };
    if !claim.holds(token.fence) || claim.begun {
        return Ok(claim.holds(token.fence) && claim.begun);
    }
    let (mut leased, _) = read_leasable(batch, token.job)?;
    if leased.job.deadline_at.is_some_and(|deadline| deadline <= now) {
        return Ok(false);
    }
    leased.event = EventSeq(parent);
    let event = tell_begun(batch, now, &leased, lane, source_id)?;
    let attempts = claim.begun().standing.attempts;
    batch.run(sql!("lease_begin"), params![token.job.0, attempts, now.millis(), event])?;
    Ok(true)
}

pub(super) fn renew(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    worker: WorkerId,
    presence_for: Duration,
    tokens: &[LeaseToken],
) -> Result<Vec<Renewal>, StoreError> {
    batch.run(sql!("worker_renew"), params![worker.0, now.millis(), millis(presence_for)])?;
    let renew_one = |token: &LeaseToken| {
        let cancel =
            batch.first(sql!("lease_renew"), params![token.job.0, token.fence, now.millis()], |row| {
                row.get::<_, bool>(0)
            })?;
        Ok(match cancel {
            None => Renewal::Lost,
            Some(true) => Renewal::CancelRequested,
            Some(false) => Renewal::Extended,
        })
    };
    tokens.iter().map(renew_one).collect()
}

pub(super) fn seize_expired(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    reaper: WorkerId,
    lease_for: Duration,
    max: usize,
) -> Result<Vec<Seized>, StoreError> {
    batch.run(sql!("lease_clamp"), params![now.millis(), millis(LONG_AGO)])?;
    batch.run(sql!("worker_clamp"), params![now.millis(), millis(LONG_AGO)])?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let expired = batch.all(sql!("lease_expired"), params![now.millis(), limit], |row| {
        let token = LeaseToken { job: JobId(row.get(0)?), fence: row.get(3)? };
        Ok((token, WorkerId(row.get(1)?), row.get::<_, bool>(2)?, row.get(4)?, row.get::<_, bool>(5)?))
    })?;
    let mut seized = Vec::new();
    for (token, from, begun, event, cancelled) in expired {
        if cancelled {
            // Its worker did not live to hear it; nobody need judge what it left.
            let ending = Ending::Released { why: format!("its lease by {from} expired") };
            settle::settle(batch, now, &[Settlement { token, ending }])?;
            continue;
        }
        let LeaseToken { job: id, fence } = token;
        let standing = Standing { fence, ..Standing::default() };
        let fence = Claim { standing, begun }.seized().standing.fence;
        batch.run(sql!("lease_seize"), params![id.0, reaper.0, now.millis(), millis(lease_for), fence])?;
        let (mut leased, _) = read_leasable(batch, id)?;
        leased.token.fence = fence;
        leased.expires_at = now.after(lease_for);
        leased.begun = begun;
        leased.event = EventSeq(event);
        seized.push(Seized { leased, begun, from });
    }
    free_reservations(batch, now, reaper, lease_for, max, &mut seized)?;
    Ok(seized)
}

/// What was reserved for workers that are gone becomes everybody's. An inline job becomes the reaper's: nobody can run it.
fn free_reservations(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    reaper: WorkerId,
    lease_for: Duration,
    max: usize,
    seized: &mut Vec<Seized>,
) -> Result<(), StoreError> {
    let gone = batch.all(sql!("worker_gone"), [now.millis()], |row| row.get::<_, i64>(0))?;
    for worker in gone {
        let room = max.saturating_sub(seized.len());
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let reserved = batch.all(sql!("reserved_list"), params![worker, limit], |row| {
            Ok(Due { rank: row.get(0)?, run_at: row.get(1)?, job: JobId(row.get(2)?), place: -worker })
        })?;
        // With rows left over the worker stays on the list, for the next round.
        if reserved.len() < room {
            batch.run(sql!("worker_delete"), [worker])?;
        }
        for due in reserved {
            if is_inline(batch, due.job)? {
                let request = LeaseRequest {
                    worker: reaper,
                    queues: Vec::new(),
                    kinds: Vec::new(),
                    reserved_only: false,
                    max: 1,
                    lease_for,
                    begin: false,
                    wait: Duration::ZERO,
                };
                let leased = lease_one(batch, now, &request, &due)?;
                seized.push(Seized { leased, begun: false, from: WorkerId(worker) });
            } else {
                set_free(batch, &due)?;
            }
        }
    }
    Ok(())
}

fn is_inline(batch: &Batch<'_, '_>, id: JobId) -> Result<bool, StoreError> {
    Ok(batch.first(sql!("job_inline"), [id.0], |row| row.get(0))?.unwrap_or(false))
}

fn set_free(batch: &mut Batch<'_, '_>, due: &Due) -> Result<(), StoreError> {
    let lane: Option<i64> = batch.first(sql!("job_place"), [due.job.0], |row| row.get(0))?;
    let Some(lane) = lane else { return Ok(()) };
    batch.run(sql!("ready_delete"), params![due.place, due.rank, due.run_at, due.job.0])?;
    batch.count(lane, |delta| delta.ready -= 1);
    batch.run(sql!("progress_unhold"), [due.job.0])?;
    batch.make_ready(due.job, lane, None, due.rank, Timestamp::from_millis(due.run_at))
}

/// A worker leaves by itself: what is reserved for it is everybody's at once.
pub(super) fn unregister(batch: &mut Batch<'_, '_>, worker: WorkerId) -> Result<(), StoreError> {
    let reserved = batch.all(sql!("reserved_list"), params![worker.0, -1], |row| {
        Ok(Due { rank: row.get(0)?, run_at: row.get(1)?, job: JobId(row.get(2)?), place: -worker.0 })
    })?;
    let mut inline = false;
    for due in &reserved {
        if is_inline(batch, due.job)? {
            inline = true;
        } else {
            set_free(batch, due)?;
        }
    }
    // An inline job that is left behind needs the reaper, who looks for workers that are gone.
    if inline {
        batch.run(sql!("worker_renew"), params![worker.0, 0, 0])?;
    } else {
        batch.run(sql!("worker_delete"), [worker.0])?;
    }
    Ok(())
}
