//! What has been kept long enough goes, a little at a time, so that nobody waits for it (R-D6).
//!
//! What went is gone, so a clock is believed only when the store bears it out: somebody wrote to it an hour ago or
//! more, and not longer ago than anything is kept. A machine that starts in the wrong year prunes nothing.

use std::time::{Duration, Instant};

use redrive_policy::idempotency::DEFAULT_KEEP_FOR;
use redrive_store::{EventFilter, EventSeq, KeyQuery, Timestamp};

use super::Maintained;
use crate::engine::{Engine, EngineError, Retention};

/// How many of each go at a time.
const AT_A_TIME: u32 = 1_000;
/// How many times in one round of maintenance.
const ROUNDS: usize = 50;
/// How many keys, or items of the outbox, go at a time: somebody's request waits for them.
const SWEPT_AT_A_TIME: u32 = 200;
/// How long in one round of maintenance; the next one goes on.
const SWEEPS_FOR: Duration = Duration::from_secs(2);
/// How long a clock must have been used before anything is old by it.
const BORNE_OUT: Duration = Duration::from_hours(1);

pub(super) async fn prune(engine: &Engine, maintained: &mut Maintained) -> Result<(), EngineError> {
    let Retention { letters, events } = engine.retention();
    let now = engine.now();
    if !is_borne_out(engine, Witness::Events, now, letters.min(events)).await? {
        return Ok(());
    }
    let (events_before, letters_before) = (now.before(events), now.before(letters));
    for _ in 0..ROUNDS {
        let pruned = engine.store().prune(now, events_before, letters_before, AT_A_TIME).await?;
        maintained.events_pruned += pruned.events;
        maintained.letters_pruned += pruned.letters;
        if !pruned.more {
            break;
        }
    }
    Ok(())
}

/// Whether somebody wrote to the store an hour ago or more, and less than `kept` ago. Looked for in steps that double,
/// from the newest event back: times follow the sequence, and nobody scans what may be millions.
async fn is_borne_out(
    engine: &Engine,
    by: Witness,
    now: Timestamp,
    kept: Duration,
) -> Result<bool, EngineError> {
    let (since, until) = (now.before(kept), now.before(BORNE_OUT.min(kept / 2)));
    let mut before = None;
    let mut step = 1;
    loop {
        let Some((number, at)) = by.newest(engine, before).await? else { return Ok(false) };
        if at < until {
            return Ok(at >= since);
        }
        before = Some(number.saturating_sub(step));
        step = step.saturating_mul(2);
    }
}

/// What shows that somebody wrote to the store.
#[derive(Debug, Clone, Copy)]
enum Witness {
    Events,
    /// Keys that were taken, which leave no event.
    Keys,
}

impl Witness {
    /// The newest of them before a number: its own number, and its time.
    async fn newest(
        self,
        engine: &Engine,
        before: Option<i64>,
    ) -> Result<Option<(i64, Timestamp)>, EngineError> {
        Ok(match self {
            Witness::Events => {
                let filter = EventFilter { before: before.map(EventSeq), ..EventFilter::default() };
                engine.query(filter, 1).await?.pop().map(|event| (event.seq.0, event.timestamp))
            }
            Witness::Keys => {
                let query = KeyQuery { before, limit: 1, ..KeyQuery::default() };
                engine.store().keys(query).await?.pop().map(|record| (record.id, record.created_at))
            }
        })
    }
}

/// Keys whose holder fell silent become unknown outcomes, and keys and items of the outbox whose time is over are forgotten. A
/// key that is forgotten by a wrong clock would let its request run again, so the clock must be borne out here, too; who
/// claims a key finds its silent holder anyway.
pub(super) async fn sweep_keys(engine: &Engine, maintained: &mut Maintained) -> Result<(), EngineError> {
    let now = engine.now();
    let sent = engine.retention().events;
    if !is_borne_out(engine, Witness::Keys, now, DEFAULT_KEEP_FOR).await?
        && !is_borne_out(engine, Witness::Events, now, sent).await?
    {
        return Ok(());
    }
    let began = Instant::now();
    while began.elapsed() < SWEEPS_FOR {
        let round = Instant::now();
        let keys = engine.store().sweep_keys(now, DEFAULT_KEEP_FOR, SWEPT_AT_A_TIME).await?;
        let items = engine.store().sweep_items(now.before(sent), SWEPT_AT_A_TIME).await?;
        maintained.keys_lapsed += keys.lapsed;
        maintained.keys_forgotten += keys.expired;
        maintained.items_forgotten += items;
        if !keys.more && items == 0 {
            break;
        }
        // At least half of the time belongs to others.
        tokio::time::sleep(round.elapsed()).await;
    }
    Ok(())
}
