//! Enqueuing, for all callers of a group at once.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::batch::{JobRow, ProgressRow};
use super::fault::Fault;
use super::leasable::Leasable;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::operation::EnqueueCall;
use super::texts::sql;
use super::tx::Tx;
use crate::event::EventStatus;
use crate::id::{EventSeq, JobId};
use crate::job::{Enqueued, Job, NewJob, Origin};
use crate::lease::{LeaseToken, LeasedJob};
use crate::protocol::Standing;
use crate::row::EventRow;
use crate::seal::Cell;
use crate::time::{Timestamp, whole_millis};

/// A queue's number and a unique key.
type Key = (i64, String);

/// What was taken for the new jobs: their numbers, and the unique keys that were free.
#[derive(Debug, Default)]
pub(super) struct Claims {
    numbers: VecDeque<i64>,
    won: HashMap<Key, i64>,
    lost: HashMap<Key, i64>,
}

/// The jobs of all calls.
pub(super) fn jobs(calls: &[EnqueueCall]) -> impl Iterator<Item = &NewJob> {
    calls.iter().flat_map(|call| &call.ask)
}

pub(super) fn needs<'a>(jobs: impl Iterator<Item = &'a NewJob>) -> impl Iterator<Item = Need> {
    jobs.flat_map(|new| {
        let lane = Need::Lane { queue: new.queue().to_owned(), kind: new.kind.clone() };
        [lane, Need::Name(new.source().to_owned())]
    })
}

fn lane_numbers(memory: &Memory, new: &NewJob) -> Result<(i64, i64), Fault> {
    let lane = memory.lane(new.queue(), &new.kind);
    let lane = lane.ok_or_else(|| Fault::corrupt(format_args!("the lane of {} is gone", new.kind)))?;
    Ok((lane.id, lane.queue_id))
}

/// Takes numbers and keys. A key that somebody else is taking is waited for.
pub(super) async fn claim(
    line: &Line,
    memory: &std::cell::RefCell<Memory>,
    jobs: impl Iterator<Item = &NewJob>,
) -> Result<Claims, Fault> {
    let mut claims = Claims::default();
    let mut plain: i64 = 0;
    let (mut queues, mut keys): (Vec<i64>, Vec<String>) = (Vec::new(), Vec::new());
    let mut seen: HashSet<Key> = HashSet::new();
    for new in jobs {
        let Some(key) = &new.unique_key else {
            plain += 1;
            continue;
        };
        let (_, queue_id) = lane_numbers(&memory.borrow(), new)?;
        if seen.insert((queue_id, key.clone())) {
            queues.push(queue_id);
            keys.push(key.clone());
        }
    }
    if plain > 0 {
        for row in line.all(sql!("job_number"), args![plain]).await? {
            claims.numbers.push_back(column(&row, 0)?);
        }
    }
    if keys.is_empty() {
        return Ok(claims);
    }
    for row in line.all(sql!("unique_insert"), args![queues, keys]).await? {
        claims.won.insert((column(&row, 0)?, column(&row, 1)?), column(&row, 2)?);
    }
    if claims.won.len() < keys.len() {
        for row in line.all(sql!("unique_find"), args![queues, keys]).await? {
            let key: Key = (column(&row, 0)?, column(&row, 1)?);
            if !claims.won.contains_key(&key) {
                claims.lost.insert(key, column(&row, 2)?);
            }
        }
        if claims.won.len() + claims.lost.len() < keys.len() {
            // Whoever had the key gave it back in between.
            return Err(Fault::Again("a unique key changed hands".to_owned()));
        }
    }
    Ok(claims)
}

/// A job that is new and due at once, for a worker that waits.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) leasable: Leasable,
    pub(super) rank: i64,
    pub(super) run_at: Timestamp,
}

/// Says what is written for the new jobs. Those that a waiting worker may have at once are handed to `fresh` instead of
/// being made ready; whoever does not give them away makes them ready.
pub(super) fn apply(
    tx: &mut Tx<'_>,
    claims: &mut Claims,
    calls: &mut [EnqueueCall],
    wanted: bool,
    fresh: &mut Vec<Fresh>,
) -> Result<(), Fault> {
    for call in calls {
        let now = tx.now(call.now);
        let mut enqueued = Vec::with_capacity(call.ask.len());
        for new in &call.ask {
            let fresh = wanted.then_some(&mut *fresh);
            enqueued.push(apply_one(tx, claims, (call.now, now), new, new.parent, fresh)?);
        }
        call.result = Some(enqueued);
    }
    Ok(())
}

/// The same for one job that this event led to; the caller's time comes before ours.
pub(super) fn apply_one(
    tx: &mut Tx<'_>,
    claims: &mut Claims,
    (callers_now, now): (Timestamp, Timestamp),
    new: &NewJob,
    parent: Option<EventSeq>,
    fresh: Option<&mut Vec<Fresh>>,
) -> Result<Enqueued, Fault> {
    let (lane, queue_id) = lane_numbers(&tx.memory.borrow(), new)?;
    let id = if let Some(key) = &new.unique_key {
        let key = (queue_id, key.clone());
        if let Some(id) = claims.lost.get(&key) {
            return Ok(Enqueued { id: JobId(*id), existing: true });
        }
        let id = claims.won.remove(&key).ok_or_else(|| Fault::corrupt("a unique key was not asked for"))?;
        // Whoever comes with the same key in this group comes too late.
        claims.lost.insert(key, id);
        id
    } else {
        claims.numbers.pop_front().ok_or_else(|| Fault::corrupt("too few numbers were taken"))?
    };
    let id = JobId(id);
    let event = tx.batch.next_event()?;
    let source_id = tx.memory.borrow().name(new.source())?;
    // A time that was counted from the caller's clock is kept as far away by ours.
    let run_at = match new.run_at {
        None => now,
        Some(run_at) if run_at <= callers_now => now.min(tx.by_our_clock(run_at, callers_now)),
        Some(run_at) => tx.by_our_clock(run_at, callers_now),
    };
    let rank = -i64::from(new.priority);
    let overrides = tx.seals.seal_some(Cell::JobOverrides, id.0, new.overrides.as_deref())?;
    tx.batch.job(JobRow {
        id: id.0,
        lane_id: lane,
        payload: tx.seals.seal_bytes(Cell::JobPayload, id.0, &new.payload)?.into_owned(),
        enqueued_at: now.millis(),
        run_at: run_at.millis(),
        rank,
        source_id,
        event,
        policy: new.policy.clone(),
        overrides: overrides.map(Cow::into_owned),
        caller_id: new.caller_id.clone(),
        idempotency_key: new.idempotency_key.clone(),
        unique_key: new.unique_key.clone(),
        timeout_ms: new.timeout.map(whole_millis),
        deadline_at: new.deadline_at.map(|deadline| tx.by_our_clock(deadline, callers_now).millis()),
        origin: new.origin as i64,
        inline: new.inline,
        target: new.target.clone(),
    });
    let row = EventRow {
        event_type: "job_enqueued",
        source_id,
        status: Some(EventStatus::Pending),
        job: Some(id),
        lane_id: Some(lane),
        parent: parent.map(|parent| parent.0),
        caller_id: new.caller_id.as_deref(),
        ..EventRow::default()
    };
    tx.batch.put_event(event, now, row)?;
    if let Some(worker) = new.held_for {
        tx.batch.progress(ProgressRow {
            job_id: id.0,
            run_at: run_at.millis(),
            held_for: Some(worker.0),
            fence: 0,
            attempts: 0,
            retries: 0,
            crashes: 0,
            last_delay_ms: None,
            hint: None,
            event,
        });
    }
    if let Some(fresh) = fresh.filter(|_| run_at <= now && new.held_for.is_none()) {
        let mut leasable = leasable(new, id, lane, source_id, event, now);
        let deadline = new.deadline_at.map(|deadline| tx.by_our_clock(deadline, callers_now));
        leasable.leased.job.deadline_at = deadline;
        fresh.push(Fresh { leasable, rank, run_at });
    } else {
        tx.batch.make_ready(id, lane, new.held_for.map(|worker| worker.0), rank, run_at);
    }
    Ok(Enqueued { id, existing: false })
}

/// A new job as its first attempt sees it.
fn leasable(new: &NewJob, id: JobId, lane_id: i64, source_id: i64, event: i64, now: Timestamp) -> Leasable {
    let job = Job {
        id,
        queue: new.queue().to_owned(),
        kind: new.kind.clone(),
        payload: new.payload.clone(),
        enqueued_at: now,
        priority: new.priority,
        source: new.source().to_owned(),
        policy: new.policy.clone(),
        overrides: new.overrides.clone(),
        caller_id: new.caller_id.clone(),
        idempotency_key: new.idempotency_key.clone(),
        unique_key: new.unique_key.clone(),
        timeout: new.timeout,
        deadline_at: new.deadline_at,
        origin: if new.origin == Origin::Local { Origin::Local } else { Origin::Api },
        inline: new.inline,
        target: new.target.clone(),
    };
    let leased = LeasedJob {
        token: LeaseToken { job: id, fence: 0 },
        job,
        attempt: 1,
        retries: 0,
        crashes: 0,
        last_delay: None,
        hint: None,
        redriven: false,
        begun: false,
        expires_at: Timestamp::default(),
        event: EventSeq(event),
    };
    Leasable {
        leased,
        standing: Standing::default(),
        lane_id,
        source_id,
        has_progress: false,
        put_back: None,
    }
}
