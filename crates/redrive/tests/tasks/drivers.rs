//! Several who move one task on: no subtask is begun twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::Fail;
use redrive::engine::{Context, Engine, Shutdown, TaskTurn};
use redrive_store::{TaskId, TaskState};

use crate::support::{Kind, World, chained, on_both, worker};

on_both! {
    /// R-T1, invariant I2: two engines that both move a task on begin every subtask once.
    two_at_the_same_time = two_drivers;
    /// R-T1: whoever does not have the task does nothing, and takes over when its time is over.
    one_has_it = one_holds;
    /// R-T1: plain workers move a task on beside their work, however many there are.
    workers_beside_their_work = beside;
    /// R-T1: a worker that ends lets go of its tasks: another takes over at once, not when its hold is over.
    a_worker_that_ends = lets_go;
}

/// Forty steps, each but the first four after two others.
fn plan() -> String {
    chained(40, 4, &[4, 3])
}

type Times = Arc<Mutex<HashMap<u32, u32>>>;

async fn count(number: u32, times: Times) -> Result<(), Fail> {
    *times.lock().unwrap().entry(number).or_default() += 1;
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(())
}

fn every_one_once(times: &Times) {
    let times = times.lock().unwrap();
    assert!(times.len() == 40 && times.values().all(|times| *times == 1), "{times:?}");
}

/// Moves the task on with no pause, letting go of it again and again so that others have their chance.
async fn restless(engine: &Engine, id: TaskId, holder: i64) -> TaskState {
    let mut driver = engine.task_driver(id, holder, None);
    loop {
        let turn: TaskTurn = driver.turn().await.unwrap();
        if turn.again_in.is_none() {
            return turn.state;
        }
        driver.leave().await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

async fn two_drivers(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start(&plan()).await;
    let (one, other) = (world.engine.clone(), world.another());
    let times = Times::default();
    let noted = Arc::clone(&times);
    let working = worker(&one).handle("count", move |n: u32, _: Context| count(n, Arc::clone(&noted)));
    let shutdown = Shutdown::new();
    let driving = async {
        // The same holder twice is what the version is for: each takes the other for itself.
        let states = tokio::join!(restless(&one, id, 7), restless(&other, id, 8), restless(&other, id, 7));
        shutdown.signal();
        states
    };
    let (worked, (a, b, c)) = tokio::join!(working.run(&shutdown), driving);
    worked.unwrap();
    assert_eq!([a, b, c], [TaskState::Succeeded; 3]);
    every_one_once(&times);
    let rounds = world.store.subtasks(id).await.unwrap();
    assert!(rounds.iter().all(|subtask| subtask.rounds == 1), "{rounds:?}");
    world.is_sound().await;
}

async fn one_holds(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start("[[subtasks]]\nhandler = \"count\"\npayload = 1\n").await;
    let other = world.another();
    let (mut first, mut second) = (world.engine.task_driver(id, 1, None), other.task_driver(id, 2, None));
    let turn = first.turn().await.unwrap();
    assert!(!turn.elsewhere && turn.news.len() == 1, "{turn:?}");
    let turn = second.turn().await.unwrap();
    assert!(turn.elsewhere && turn.news.is_empty() && turn.again_in.is_some(), "{turn:?}");
    first.leave().await.unwrap();
    assert!(!second.turn().await.unwrap().elsewhere);
    assert!(first.turn().await.unwrap().elsewhere);
    assert_eq!(world.store.subtasks(id).await.unwrap()[0].rounds, 1);
}

async fn beside(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start(&plan()).await;
    let times = Times::default();
    let shutdown = Shutdown::new();
    let engines = [world.engine.clone(), world.another(), world.another()];
    let working = engines.iter().map(|engine| {
        let noted = Arc::clone(&times);
        let worker = engine.worker().handle("count", move |n: u32, _: Context| count(n, Arc::clone(&noted)));
        let shutdown = shutdown.clone();
        tokio::spawn(async move { worker.run(&shutdown).await })
    });
    let working: Vec<_> = working.collect();
    crate::support::until("the task is over", async || world.task(id).await.state != TaskState::Running)
        .await;
    shutdown.signal();
    for one in working {
        one.await.unwrap().unwrap();
    }
    assert_eq!(world.task(id).await.state, TaskState::Succeeded);
    every_one_once(&times);
}

async fn lets_go(kind: Kind) {
    // A worker that is stopped in the middle of a turn keeps its hold; that does not happen every time.
    for _ in 0..4 {
        if is_let_go(&World::new(kind).await).await {
            return;
        }
    }
    panic!("the worker still has it");
}

/// Whether a task can be taken as soon as the worker that had it has ended.
async fn is_let_go(world: &World) -> bool {
    // Nobody here runs this: the task goes on for as long as anybody looks.
    let id = world.start("[[subtasks]]\nhandler = \"nobody\"\npayload = 1\n").await;
    // With a number that no worker has yet.
    let mut second = world.another().task_driver(id, 1_000_000, None);
    let shutdown = Shutdown::new();
    let worker = world.engine.worker().handle("count", |_: u32, _: Context| async { Ok::<_, Fail>(()) });
    let looking = async {
        crate::support::until("the worker has the task", async || {
            let begun = !world.store.begun(id).await.unwrap().is_empty();
            begun && second.turn().await.unwrap().elsewhere
        })
        .await;
        shutdown.signal();
    };
    let (ended, ()) = tokio::join!(worker.run(&shutdown), looking);
    ended.unwrap();
    !second.turn().await.unwrap().elsewhere
}
