//! Tasks, many at a time.

use std::time::Duration;

use redrive::engine::Shutdown;
use redrive_store::{Ending, JobId, LeaseRequest, Settlement, SubtaskState, TaskId, TaskState};

use crate::support::{Kind, World, on_both, until};

/// More than a worker has in hand, and more than it looks at at once.
const MANY: usize = 300;

on_both! {
    /// R-T1: a task goes on when its step is over, however many newer ones wait for a worker that nobody has.
    the_oldest_goes_on = oldest;
    /// R-T1: whoever wants the end of one that waits among many gets it.
    one_of_many_is_cancelled = cancelled;
}

fn two_steps(kind: &str) -> String {
    let step = |id: &str, after: &str| {
        format!("[[subtasks]]\nid = \"{id}\"\nhandler = \"{kind}\"\npayload = 1\ndepends_on = [{after}]\n")
    };
    format!("parallel = 1\n{}{}", step("one", ""), step("two", "\"one\""))
}

async fn is_begun(world: &World, id: TaskId, number: u32) -> bool {
    world.store.subtasks(id).await.unwrap().iter().any(|row| row.number == number && row.job.is_some())
}

/// Carries a job out as another process would: nobody here hears of it.
async fn carried_out(world: &World, job: JobId) {
    let (store, now) = (&world.store, world.engine.now());
    let worker = store.register(now, "elsewhere".to_owned(), Duration::from_mins(1)).await.unwrap();
    let request = LeaseRequest {
        worker,
        queues: Vec::new(),
        kinds: vec!["step".to_owned()],
        reserved_only: false,
        max: 1,
        lease_for: Duration::from_mins(1),
        begin: true,
        wait: Duration::from_secs(10),
    };
    let leased = store.lease(now, request).await.unwrap().remove(0);
    assert_eq!(leased.job.id, job);
    let ending = Ending::Succeeded { latency: Duration::ZERO, exit_code: None, max_retries: 0, output: None };
    store.settle(world.engine.now(), vec![Settlement { token: leased.token, ending }]).await.unwrap();
}

async fn oldest(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start(&two_steps("step")).await;
    let shutdown = Shutdown::new();
    let story = async {
        until("its first step is begun", async || is_begun(&world, id, 0).await).await;
        let mut others = Vec::new();
        for _ in 0..MANY {
            others.push(world.start(&two_steps("nobody")).await);
        }
        let all_begun = async || {
            for other in &others {
                if !is_begun(&world, *other, 0).await {
                    return false;
                }
            }
            true
        };
        until("each of the others has had its turn", all_begun).await;
        carried_out(&world, world.job(id, 0).await).await;
        until("its second step is begun", async || is_begun(&world, id, 1).await).await;
        carried_out(&world, world.job(id, 1).await).await;
        until("it is over", async || world.task(id).await.state == TaskState::Succeeded).await;
        assert_eq!(world.states(id).await, [SubtaskState::Succeeded; 2]);
        shutdown.signal();
    };
    let (left, ()) = tokio::join!(world.engine.worker().only_present().run(&shutdown), story);
    left.unwrap();
    world.is_sound().await;
}

async fn cancelled(kind: Kind) {
    let world = World::new(kind).await;
    let shutdown = Shutdown::new();
    let story = async {
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(world.start(&two_steps("nobody")).await);
        }
        for id in &ids {
            until("each has had its turn", async || is_begun(&world, *id, 0).await).await;
        }
        // Nobody in the process that moves them on is told.
        for id in [ids[0], ids[20], ids[39]] {
            assert!(world.another().cancel_task(id, "enough").await.unwrap());
            until("it is over", async || world.task(id).await.state == TaskState::Cancelled).await;
        }
        assert_eq!(world.task(ids[1]).await.state, TaskState::Running);
        shutdown.signal();
    };
    let (left, ()) = tokio::join!(world.engine.worker().only_present().run(&shutdown), story);
    left.unwrap();
    world.is_sound().await;
}
