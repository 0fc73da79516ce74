//! Four engines race for the same ticks (reliability row 39).

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Missed, NewSchedule};
use tokio::sync::Barrier;

use crate::world::{Keeper, Place, report, run, ticks};

const ENGINES: usize = 4;
const TICKS: u64 = 40;

/// Schedules, row 39: each of four engines looks at the same moment, and each tick has exactly one job.
#[test]
fn four_engines_fire_each_tick_once() {
    run(async {
        for place in Place::each() {
            // On PostgreSQL each has connections of its own, as servers on several machines have.
            let mut keepers = Vec::new();
            for _ in 0..ENGINES {
                keepers.push(Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await);
            }
            for name in ["a", "b"] {
                let name = Some(name.to_owned());
                let new = NewSchedule { name, missed: Missed::All, ..report("* * * * *") };
                keepers[0].engine.add_schedule(new).await.unwrap();
            }
            let engine = keepers[0].engine.clone();
            let line = Arc::new(Barrier::new(ENGINES));
            let mut racing = tokio::task::JoinSet::new();
            for keeper in keepers {
                let line = Arc::clone(&line);
                racing.spawn(async move {
                    let mut fired = 0;
                    for _ in 0..TICKS {
                        line.wait().await;
                        fired += keeper.pass(Duration::from_mins(1)).await;
                    }
                    fired
                });
            }
            let fired: Vec<u64> = racing.join_all().await;
            assert_eq!(fired.iter().sum::<u64>(), 2 * TICKS, "{fired:?}");
            let ticks = ticks(&engine).await;
            assert_eq!(ticks.len() as u64, 2 * TICKS);
            assert!(ticks.values().all(|jobs| *jobs == 1), "{ticks:?}");
        }
    });
}
