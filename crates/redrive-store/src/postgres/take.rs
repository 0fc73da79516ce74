//! Taking leases, beginning and renewing, for all callers of a group at once.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::batch::{BegunRow, LeaseRow};
use super::enqueue::Fresh;
use super::fault::Fault;
use super::leasable::{self, Leasable};
use super::line::{Line, args, column};
use super::memory::Memory;
use super::operation::{BeginCall, LeaseCall, RenewCall};
use super::texts::sql;
use super::tx::{Clock, Tx};
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::lease::{LeasedJob, MOST_LEASED_BYTES, Renewal};
use crate::protocol::{Claim, Standing};
use crate::row::EventRow;
use crate::time::{Timestamp, whole_millis};

/// What a lease row remembers about its job, so that settling need not look.
pub(super) const HAS_UNIQUE_KEY: i64 = 1;
pub(super) const HAS_PROGRESS: i64 = 2;
pub(super) const HAS_CALLER: i64 = 4;
pub(super) const WAS_REDRIVEN: i64 = 8;

/// The lanes that a request looks at, its worker's reservations included.
pub(super) fn places(memory: &Memory, call: &LeaseCall) -> Vec<i64> {
    let request = &call.request;
    let mut places =
        if request.reserved_only { Vec::new() } else { memory.lanes_of(&request.queues, &request.kinds) };
    places.push(-request.worker.0);
    places
}

/// One statement that takes work: for these calls, from these lanes.
#[derive(Debug)]
struct Round {
    calls: Vec<usize>,
    places: Vec<i64>,
    max: i64,
    now: Option<i64>,
}

/// Calls with the same lanes and the same clock share a round. A worker's reservations are in the same round: only it gets
/// what comes from there.
fn rounds(memory: &Memory, clock: Clock, calls: &[LeaseCall]) -> Vec<Round> {
    let mut rounds: Vec<(Vec<i64>, Round)> = Vec::new();
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.looked && call.request.max > 0) {
        let mut shared = places(memory, call);
        let reserved = shared.pop();
        let now = (clock == Clock::Caller).then(|| call.callers_now().millis());
        let max = i64::try_from(call.request.max).unwrap_or(i64::MAX);
        let known = rounds.iter_mut().find(|(lanes, round)| *lanes == shared && round.now == now);
        let round = if let Some((_, round)) = known {
            round
        } else {
            let round = Round { calls: Vec::new(), places: shared.clone(), max: 0, now };
            rounds.push((shared, round));
            let Some((_, round)) = rounds.last_mut() else { continue };
            round
        };
        round.calls.push(at);
        round.places.extend(reserved.filter(|reserved| !round.places.contains(reserved)));
        round.max = round.max.saturating_add(max);
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

/// What one round took.
#[derive(Debug)]
pub(super) struct Taken {
    calls: Vec<usize>,
    /// The lanes in which nothing more is due.
    pub(super) idle: Vec<i64>,
    rows: Vec<Row>,
}

/// Takes what is due for those who want to look.
pub(super) async fn take(
    line: &Line,
    memory: &std::cell::RefCell<Memory>,
    clock: Clock,
    calls: &[LeaseCall],
) -> Result<Vec<Taken>, Fault> {
    let rounds = rounds(&memory.borrow(), clock, calls);
    // As far as is known: what was taken of a queue that was paused since goes back.
    let text = if memory.borrow().some_paused { sql!("ready_take_paused") } else { sql!("ready_take") };
    let mut taken = Vec::with_capacity(rounds.len());
    for Round { calls, places, max, now } in rounds {
        let most_bytes = i64::try_from(MOST_LEASED_BYTES.saturating_mul(calls.len())).unwrap_or(i64::MAX);
        let rows = line.all(text, args![places, max, now, most_bytes]).await?;
        let mut bytes = 0_i64;
        for row in &rows {
            bytes = bytes.saturating_add(column(row, 29)?);
        }
        let is_all = i64::try_from(rows.len()).unwrap_or(i64::MAX) < max && bytes < most_bytes;
        taken.push(Taken { calls, idle: if is_all { places } else { Vec::new() }, rows });
    }
    Ok(taken)
}

/// Gives what was taken to those who asked, best first; what nobody may have goes back where it was.
pub(super) async fn hand_out(tx: &mut Tx<'_>, taken: &[Taken], calls: &mut [LeaseCall]) -> Result<(), Fault> {
    for round in taken {
        leasable::learn(tx.line, &tx.memory, &round.rows).await?;
        for row in &round.rows {
            let leasable = leasable::read(row, &tx.memory.borrow(), &tx.seals)?;
            let place: i64 = column(row, 27)?;
            // Others may have committed it since our own number was given out. The stream would tell of its attempt before it tells
            // of its enqueuing: it waits for a transaction with a later number.
            let in_order = tx.comes_after(leasable.leased.event);
            let may_go = in_order && !tx.is_paused(leasable.lane_id);
            let fits = |call: &LeaseCall| {
                may_go
                    && call.room() > 0
                    && !call.abandoned()
                    && if place < 0 { place == -call.request.worker.0 } else { !call.request.reserved_only }
            };
            tx.batch.count(leasable.lane_id, |delta| delta.ready -= 1);
            if let Some(at) = round.calls.iter().find(|at| fits(&calls[**at])) {
                lease_one(tx, &mut calls[*at], leasable)?;
            } else {
                // Its worker wanted fewer, or went away in this very moment, or its queue was paused, or we are too early.
                let held_for = (place < 0).then_some(-place);
                let rank = -i64::from(leasable.leased.job.priority);
                let run_at = Timestamp::from_millis(column(row, 28)?);
                tx.batch.make_ready(leasable.leased.token.job, leasable.lane_id, held_for, rank, run_at);
            }
        }
    }
    Ok(())
}

/// Gives new jobs to workers that wait for them; the others become ready.
pub(super) fn hand_over(
    tx: &mut Tx<'_>,
    mut fresh: Vec<Fresh>,
    calls: &mut [LeaseCall],
) -> Result<(), Fault> {
    fresh.sort_by_key(|fresh| (fresh.rank, fresh.run_at, fresh.leasable.leased.token.job));
    for Fresh { leasable, rank, run_at } in fresh {
        let job = &leasable.leased.job;
        let wants = |call: &LeaseCall| {
            let request = &call.request;
            call.room() > 0
                && !call.abandoned()
                && !request.reserved_only
                && (request.kinds.is_empty() || request.kinds.contains(&job.kind))
                && (request.queues.is_empty() || request.queues.contains(&job.queue))
        };
        let kept = tx.draining || tx.is_paused(leasable.lane_id);
        let taker = if kept { None } else { calls.iter().position(wants) };
        if let Some(at) = taker {
            lease_one(tx, &mut calls[at], leasable)?;
        } else {
            tx.batch.make_ready(job.id, leasable.lane_id, None, rank, run_at);
        }
    }
    Ok(())
}

fn lease_one(tx: &mut Tx<'_>, call: &mut LeaseCall, leasable: Leasable) -> Result<(), Fault> {
    let Leasable { mut leased, standing, lane_id, source_id, has_progress, put_back } = leasable;
    let (callers_now, request) = (call.callers_now(), &call.request);
    let now = tx.now(callers_now);
    // Past its deadline nothing is begun: whoever has the lease sets it aside.
    leased.begun = request.begin && leased.job.deadline_at.is_none_or(|deadline| now < deadline);
    let claim = standing.leased(leased.begun);
    leased.token.fence = claim.standing.fence;
    // The worker counts by its own clock.
    leased.expires_at = callers_now.after(request.lease_for);
    let deadline = leased.job.deadline_at;
    leased.job.deadline_at = deadline.map(|deadline| tx.by_callers_clock(deadline, callers_now));
    if leased.begun {
        let row = begun_row(
            leased.token.job,
            lane_id,
            source_id,
            leased.event.0,
            claim,
            leased.job.caller_id.as_deref(),
        );
        leased.event = EventSeq(tx.batch.event(now, row)?);
    }
    let flags = flags(&leased, has_progress, put_back.is_some());
    tx.batch.lease(LeaseRow {
        job_id: leased.token.job.0,
        lane_id,
        fence: claim.standing.fence,
        worker_id: request.worker.0,
        leased_at: now.millis(),
        expires_at: now.after(request.lease_for).millis(),
        lease_for_ms: whole_millis(request.lease_for),
        begun_at: leased.begun.then_some(now.millis()),
        attempts: claim.standing.attempts,
        retries: claim.standing.retries,
        crashes: claim.standing.crashes,
        source_id,
        flags,
        event: leased.event.0,
    });
    tx.batch.count(lane_id, |delta| delta.leased += 1);
    call.bytes += leased.job.payload.len();
    call.leased.push(leased);
    Ok(())
}

/// What the lease row of this job remembers about it.
pub(super) fn flags(leased: &LeasedJob, has_progress: bool, was_redriven: bool) -> i64 {
    let remembered = [
        (leased.job.unique_key.is_some(), HAS_UNIQUE_KEY),
        (has_progress, HAS_PROGRESS),
        (leased.job.caller_id.is_some(), HAS_CALLER),
        (was_redriven, WAS_REDRIVEN),
    ];
    remembered.into_iter().filter(|(holds, _)| *holds).map(|(_, flag)| flag).sum()
}

fn begun_row(
    job: JobId,
    lane_id: i64,
    source_id: i64,
    parent: i64,
    claim: Claim,
    caller_id: Option<&str>,
) -> EventRow<'_> {
    EventRow {
        event_type: "attempt_started",
        source_id,
        status: Some(EventStatus::Running),
        job: Some(job),
        lane_id: Some(lane_id),
        parent: Some(parent),
        attempt: Some(claim.standing.attempts),
        retries: Some(claim.standing.retries),
        caller_id,
        ..EventRow::default()
    }
}

/// The leases that are about to begin, kept from others.
pub(super) async fn read_begins(line: &Line, calls: &[BeginCall]) -> Result<Vec<Row>, Fault> {
    let mut ids: Vec<i64> = calls.iter().flat_map(|call| &call.ask).map(|token| token.job.0).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    ids.sort_unstable();
    ids.dedup();
    line.all(sql!("lease_read"), args![ids]).await
}

pub(super) fn begin(tx: &mut Tx<'_>, rows: &[Row], calls: &mut [BeginCall]) -> Result<(), Fault> {
    let mut claims: HashMap<i64, (Claim, &Row)> = HashMap::with_capacity(rows.len());
    for row in rows {
        let standing = Standing {
            fence: column(row, 1)?,
            attempts: column(row, 4)?,
            retries: column(row, 5)?,
            ..Standing::default()
        };
        claims.insert(column(row, 0)?, (Claim { standing, begun: column(row, 7)? }, row));
    }
    for call in calls {
        let now = tx.now(call.now);
        let mut answers = Vec::with_capacity(call.ask.len());
        for token in &call.ask {
            let Some((claim, row)) =
                claims.get_mut(&token.job.0).filter(|(claim, _)| claim.holds(token.fence))
            else {
                answers.push(false);
                continue;
            };
            let deadline: Option<i64> = column(row, 8)?;
            if claim.begun || deadline.is_some_and(|deadline| deadline <= now.millis()) {
                answers.push(claim.begun);
                continue;
            }
            *claim = claim.begun();
            let event = tx.batch.event(
                now,
                begun_row(
                    token.job,
                    column(row, 2)?,
                    column(row, 3)?,
                    column(row, 6)?,
                    *claim,
                    column::<Option<&str>>(row, 9)?,
                ),
            )?;
            let attempts = claim.standing.attempts;
            tx.batch.begin(BegunRow { job_id: token.job.0, attempts, begun_at: now.millis(), event });
            answers.push(true);
        }
        call.result = Some(answers);
    }
    Ok(())
}

/// Heartbeats: leases last longer, and so do workers.
pub(super) async fn renew(line: &Line, clock: Clock, calls: &[RenewCall]) -> Result<Vec<Row>, Fault> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let at = |call: &RenewCall| (clock == Clock::Caller).then(|| call.now.millis());
    let mut workers: Vec<(i64, Option<i64>, i64)> =
        calls.iter().map(|call| (call.ask.worker.0, at(call), whole_millis(call.ask.presence_for))).collect();
    // One row per worker, the latest, in an order in which nobody waits in a circle.
    workers.sort_unstable();
    workers.reverse();
    workers.dedup_by_key(|(worker, ..)| *worker);
    workers.reverse();
    let ids: Vec<i64> = workers.iter().map(|worker| worker.0).collect();
    let ats: Vec<Option<i64>> = workers.iter().map(|worker| worker.1).collect();
    let lasts: Vec<i64> = workers.iter().map(|worker| worker.2).collect();
    line.run(sql!("worker_renew"), args![ids, ats, lasts]).await?;
    let mut tokens: Vec<(i64, i64, Option<i64>)> = calls
        .iter()
        .flat_map(|call| call.ask.tokens.iter().map(move |token| (token.job.0, token.fence, at(call))))
        .collect();
    tokens.sort_unstable();
    tokens.dedup_by_key(|(job, fence, _)| (*job, *fence));
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<i64> = tokens.iter().map(|token| token.0).collect();
    let fences: Vec<i64> = tokens.iter().map(|token| token.1).collect();
    let ats: Vec<Option<i64>> = tokens.iter().map(|token| token.2).collect();
    line.all(sql!("lease_renew"), args![jobs, fences, ats]).await
}

pub(super) fn renewed(rows: &[Row], calls: &mut [RenewCall]) -> Result<(), Fault> {
    let mut renewals: HashMap<(i64, i64), bool> = HashMap::with_capacity(rows.len());
    for row in rows {
        renewals.insert((column(row, 0)?, column(row, 1)?), column(row, 2)?);
    }
    for call in calls {
        let told = call.ask.tokens.iter().map(|token| match renewals.get(&(token.job.0, token.fence)) {
            None => Renewal::Lost,
            Some(true) => Renewal::CancelRequested,
            Some(false) => Renewal::Extended,
        });
        call.result = Some(told.collect());
    }
    Ok(())
}
