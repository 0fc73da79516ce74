//! What has been kept long enough goes, a little at a time, so that nobody waits for it (R-D6).

use super::Maintained;
use crate::engine::{Engine, EngineError, Retention};

/// How many of each go at a time.
const AT_A_TIME: u32 = 1_000;
/// How many times in one round of maintenance.
const ROUNDS: usize = 50;

pub(super) async fn prune(engine: &Engine, maintained: &mut Maintained) -> Result<(), EngineError> {
    let Retention { letters, events } = engine.retention();
    let now = engine.now();
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
