//! Redrives, many at a time.

use std::time::Duration;

use redrive::engine::{Canary, RedriveRequest, Shutdown, Which};
use redrive::{Cause, Fail, Override, fail};
use redrive_store::{LetterFilter, RunId, RunState};

use crate::support::{Kind, World, on_both, until};

/// More than a worker looks at at once.
const MANY: usize = 300;

on_both! {
    /// R-D8, R-D9: a redrive goes on at its rate, however many newer ones wait for first attempts that nobody makes.
    the_oldest_goes_on = oldest;
}

/// Letters of a queue of their own.
pub(crate) async fn letters(world: &World, queue: &str, count: u64) {
    let once = Override { max_retries: Some(0), ..Override::default() };
    let job = |n: u64| world.engine.job("call", &n).queue(queue).overrides(&once).build().unwrap();
    world.engine.enqueue_many((0..count).map(job).collect()).await.unwrap();
    let dies = |_: u64, _| async { Err::<(), Fail>(fail(Cause::Network, "connection refused")) };
    world.engine.worker().queues([queue.to_owned()]).handle("call", dies).run_until_empty().await.unwrap();
}

async fn state(world: &World, id: RunId) -> (RunState, u64) {
    let run = world.engine.redrive_run(id).await.unwrap().unwrap();
    (run.state, run.moved)
}

async fn oldest(kind: Kind) {
    let world = World::new(kind).await;
    letters(&world, "slow", 12).await;
    letters(&world, "waits", MANY as u64).await;
    let slow = RedriveRequest::new(Which::Where("queue=slow".to_owned()));
    let slow = RedriveRequest { rate: Some(2.0), ..slow };
    let slow = world.engine.start_redrive(slow).await.unwrap();
    let letters = world.store.letters(LetterFilter::default(), 1_000).await.unwrap();
    for letter in letters.iter().filter(|letter| letter.queue == "waits") {
        let canary = Some(Canary::default());
        let canary = RedriveRequest { canary, ..RedriveRequest::new(Which::Ids(vec![letter.id])) };
        world.engine.start_redrive(canary).await.unwrap();
    }
    let shutdown = Shutdown::new();
    let story = async {
        until("it is over", async || state(&world, slow).await == (RunState::Done, 12)).await;
        let open = world.store.open_runs(world.engine.now(), 0, None, 1_000).await.unwrap();
        assert_eq!(open.len(), MANY, "the others still wait, for what nobody does");
        shutdown.signal();
    };
    // It takes no job: first attempts are made by nobody.
    let worker = world.engine.worker().only_present().wait(Duration::from_millis(10));
    let (left, ()) = tokio::join!(worker.run(&shutdown), story);
    left.unwrap();
    world.is_sound().await;
}
