//! Leases that expired: the worker that had them is gone, or as good as gone. They are taken over and settled through
//! the same door as every other attempt, so that a job that kills its workers ends in a letter and not in a loop.

use redrive_policy::Failure;
use redrive_store::{Ending, LetterReason, Seized, Settlement, WorkerId};

use super::{Maintained, REAPER_LEASE};
use crate::engine::settle::{Failing, ending_of};
use crate::engine::{Engine, EngineError};
use crate::outcome::Evidence;

/// How many leases are taken over at a time.
const AT_A_TIME: usize = 100;
/// How many rounds are made before others get their turn.
const ROUNDS: usize = 100;

pub(super) async fn reap(
    engine: &Engine,
    worker: WorkerId,
    maintained: &mut Maintained,
) -> Result<(), EngineError> {
    for _ in 0..ROUNDS {
        let seized = engine.store().seize_expired(engine.now(), worker, REAPER_LEASE, AT_A_TIME).await?;
        let count = seized.len();
        let mut settlements = Vec::with_capacity(count);
        for seized in seized {
            if seized.begun || seized.leased.job.inline {
                maintained.reaped += 1;
            } else {
                maintained.released += 1;
            }
            let ending = ending(engine, &seized).await;
            settlements.push(Settlement { token: seized.leased.token, ending });
        }
        if !settlements.is_empty() {
            engine.settle(settlements).await?;
        }
        if count < AT_A_TIME {
            break;
        }
    }
    Ok(())
}

/// How an attempt ends whose worker does not answer.
async fn ending(engine: &Engine, seized: &Seized) -> Ending {
    let Seized { leased, begun, from } = seized;
    if !begun && !leased.job.inline {
        return Ending::Released { why: format!("its lease by {from} expired before the attempt began") };
    }
    let message = if *begun {
        format!("{from} stopped answering during attempt {}", leased.attempt)
    } else {
        format!("{from}, in whose process it ran, is gone")
    };
    let evidence = Evidence { error_type: "WorkerDied".to_owned(), message, ..Evidence::default() };
    let mut failing = Failing::new(Failure::worker_died(), &evidence);
    // Nobody else has the closure.
    failing.forced = leased.job.inline.then_some(LetterReason::Crashed);
    ending_of(engine, leased, failing, None).await
}
