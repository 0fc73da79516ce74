//! What has been kept long enough goes, a little at a time, so that nobody waits for it (R-D6).
//!
//! What went is gone, so a clock is believed only when the store bears it out: somebody wrote to it an hour ago or
//! more, and not longer ago than anything is kept. A machine that starts in the wrong year prunes nothing.

use std::time::Duration;

use redrive_store::{EventFilter, EventSeq, Timestamp};

use super::Maintained;
use crate::engine::{Engine, EngineError, Retention};

/// How many of each go at a time.
const AT_A_TIME: u32 = 1_000;
/// How many times in one round of maintenance.
const ROUNDS: usize = 50;
/// How long a clock must have been used before anything is old by it.
const BORNE_OUT: Duration = Duration::from_hours(1);

pub(super) async fn prune(engine: &Engine, maintained: &mut Maintained) -> Result<(), EngineError> {
    let Retention { letters, events } = engine.retention();
    let now = engine.now();
    if !is_borne_out(engine, now, letters.min(events)).await? {
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
async fn is_borne_out(engine: &Engine, now: Timestamp, kept: Duration) -> Result<bool, EngineError> {
    let (since, until) = (now.before(kept), now.before(BORNE_OUT.min(kept / 2)));
    let mut before = None;
    let mut step = 1;
    loop {
        let filter = EventFilter { before, ..EventFilter::default() };
        let Some(event) = engine.query(filter, 1).await?.pop() else { return Ok(false) };
        if event.timestamp < until {
            return Ok(event.timestamp >= since);
        }
        before = Some(EventSeq(event.seq.0.saturating_sub(step)));
        step = step.saturating_mul(2);
    }
}
