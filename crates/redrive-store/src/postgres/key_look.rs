//! Looking at idempotency keys before anything is written: one statement for all who ask in the same moment.
//!
//! What is found here may be old a moment later, which hurts nobody: an answer stays an answer, and whoever is to take a key decides
//! again inside the transaction that takes it.

use std::rc::Rc;
use std::sync::Arc;

use tokio_postgres::Row;

use super::desk::Room;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::operation::Call;
use super::patience::Patience;
use super::texts::sql;
use super::tx::{Clock, by_callers_clock, seals};
use crate::error::StoreError;
use crate::id::JobId;
use crate::idempotency::record::{Cells, Found};
use crate::idempotency::{Claimed, KeyClaim, KeyState, Meeting, Standing};
use crate::seal::Seals;
use crate::time::Timestamp;

/// The most claims that one statement looks for.
const MOST: usize = 256;
/// Longer answers are read one by one: all of them at once might not fit into memory.
const SHORT: i64 = 64 << 10;

/// What reading alone says about a claim.
#[derive(Debug)]
pub(super) enum Looked {
    /// All there is to say.
    Known(Claimed),
    /// It was answered, at length, in this record.
    Answered(i64),
    /// Something is to be written: to the record that was found, if one was.
    ToTake(Option<Seen>),
}

/// A record that was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) id: i64,
    pub(super) since: Timestamp,
    pub(super) job: Option<JobId>,
}

pub(super) type LookCall = Call<Arc<KeyClaim>, Looked>;

/// Looks for whoever asks, until the store is closed.
pub(super) async fn look(room: Rc<Room>) {
    loop {
        let calls = room.next_looks(MOST);
        if calls.is_empty() {
            if room.is_closing() {
                return;
            }
            room.wake_looker.notified().await;
            continue;
        }
        let busy = room.busy();
        look_for(&room, calls).await;
        drop(busy);
    }
}

async fn look_for(room: &Room, mut calls: Vec<LookCall>) {
    let mut patience = Patience::new(room.pool.down_since());
    loop {
        calls.retain(|call| !call.abandoned());
        if calls.is_empty() {
            return;
        }
        match found(room, &calls).await {
            Ok(looked) => {
                room.pool.note(true);
                for (mut call, looked) in calls.into_iter().zip(looked) {
                    // One damaged record is its own trouble.
                    let outcome = looked.map(|looked| call.result = Some(looked));
                    call.answer(outcome);
                }
                return;
            }
            Err(fault) => {
                let Some(delay) = patience.after(&fault) else {
                    let error = fault.into_error();
                    for call in calls {
                        call.answer(Err(error.clone()));
                    }
                    return;
                };
                if let Fault::Lost(_) = fault {
                    room.pool.note(false);
                }
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// What is known for each of them, in their order.
async fn found(room: &Room, calls: &[LookCall]) -> Result<Vec<Result<Looked, StoreError>>, Fault> {
    let line = room.pool.line().await?;
    let rows = found_on(room, &line, calls).await;
    if let Err(Fault::Lost(_)) = &rows {
        line.discard();
    }
    rows
}

async fn found_on(
    room: &Room,
    line: &Line,
    calls: &[LookCall],
) -> Result<Vec<Result<Looked, StoreError>>, Fault> {
    let principals: Vec<&str> = calls.iter().map(|call| call.ask.principal.as_str()).collect();
    let keys: Vec<&str> = calls.iter().map(|call| call.ask.key.as_str()).collect();
    let mut looked: Vec<_> = calls.iter().map(|_| Ok(Looked::ToTake(None))).collect();
    for row in line.all(sql!("idempotency_find"), args![principals, keys, SHORT]).await? {
        let seals = seals(line, &room.keeper, column(&row, 1)?).await?;
        let at = usize::try_from(column::<i64>(&row, 2)? - 1).unwrap_or(usize::MAX);
        let Some(call) = calls.get(at) else { return Err(Fault::corrupt("a key that nobody asked for")) };
        let clock = match room.clock {
            Clock::Database => Timestamp::from_millis(column(&row, 0)?),
            Clock::Caller => call.now,
        };
        looked[at] = meet(&row, call, clock, &seals)?;
    }
    Ok(looked)
}

fn meet(
    row: &Row,
    call: &LookCall,
    clock: Timestamp,
    seals: &Seals,
) -> Result<Result<Looked, StoreError>, Fault> {
    let time = |at| column::<Option<i64>>(row, at).map(|at| at.map(Timestamp::from_millis));
    let mut found = Found {
        id: column(row, 3)?,
        endpoint: column(row, 4)?,
        standing: Standing {
            request_hash: column(row, 5)?,
            state: KeyState::from_number(column(row, 6)?),
            leased_until: time(7)?,
            expires_at: time(8)?,
        },
        job: column::<Option<i64>>(row, 9)?.map(JobId),
        created_at: Timestamp::from_millis(column(row, 10)?),
        ended_at: time(11)?,
        cells: Cells { status: column(row, 12)?, head: column(row, 14)?, body: column(row, 15)? },
    };
    let meeting = Standing::meets(Some(&found.standing), &call.ask, clock);
    let seen = Seen { id: found.id, since: found.created_at, job: found.job };
    if meeting == Meeting::Replays && column::<Option<bool>>(row, 13)? == Some(true) {
        return Ok(Ok(Looked::Answered(seen.id)));
    }
    let until = found.standing.leased_until;
    found.standing.leased_until = until.map(|until| by_callers_clock(until, call.now, clock));
    let claimed = found.claimed(meeting, seals);
    Ok(claimed.map(|claimed| claimed.map_or(Looked::ToTake(Some(seen)), Looked::Known)))
}
