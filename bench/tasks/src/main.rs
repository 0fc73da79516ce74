//! What a subtask costs on the embedded store, from the start of its task to its end: every step, job and event is on disk
//! (`synchronous=FULL`) before it counts.

mod shape;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::engine::{CommandExecutor, Context, Engine, Shutdown, TASK_QUEUE, TaskRequest};
use redrive_policy::graph::Graph;
use redrive_store::{Origin, TaskState};
use tokio::sync::Notify;

use shape::Shape;

/// What there is to measure: a shape, how many subtasks, how many at a time.
const ROWS: [(Shape, u32, u32); 15] = [
    (Shape::Random, 1_000, 4),
    (Shape::Random, 3_000, 4),
    (Shape::Random, 10_000, 4),
    (Shape::Random, 1_000, 64),
    (Shape::Random, 3_000, 64),
    (Shape::Random, 10_000, 64),
    (Shape::Apart, 1_000, 4),
    (Shape::Apart, 3_000, 4),
    (Shape::Apart, 10_000, 4),
    (Shape::Apart, 1_000, 64),
    (Shape::Apart, 3_000, 64),
    (Shape::Apart, 10_000, 64),
    (Shape::Chain, 1_000, 4),
    (Shape::Commands, 1_000, 4),
    (Shape::Commands, 3_000, 4),
];

/// The same, moved on by a worker that nobody told to.
const BESIDE: [(Shape, u32, u32); 3] =
    [(Shape::Random, 10_000, 4), (Shape::Random, 10_000, 64), (Shape::Chain, 1_000, 4)];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:<24} {:>9} {:>13} {:>10} {:>15} {:>13} {:>7} {:>7} {:>7}",
        "shape",
        "subtasks",
        "dependencies",
        "at a time",
        "ms per subtask",
        "bare jobs ms",
        "turns",
        "start s",
        "end s"
    );
    if let [shape, subtasks, parallel] = &args[..] {
        let shape = Shape::named(shape).expect("random, chain, apart or commands");
        let number = |text: &str| text.parse().expect("a number");
        runtime.block_on(row(shape, number(subtasks), number(parallel)));
        return;
    }
    for (shape, subtasks, parallel) in ROWS {
        runtime.block_on(row(shape, subtasks, parallel));
    }
    println!("\nmoved on by a worker beside its work");
    for (shape, subtasks, parallel) in BESIDE {
        runtime.block_on(beside(shape, subtasks, parallel));
    }
}

/// A task from its start to its end, beside the same jobs without a task.
async fn row(shape: Shape, subtasks: u32, parallel: u32) {
    let bare = bare(shape, subtasks, parallel).await;
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let engine = Engine::open(folder.path().join("redrive.db")).expect("a store");
    let plan = shape.plan(subtasks, parallel);
    let dependencies: usize = plan.subtasks.iter().map(|subtask| subtask.depends_on.len()).sum();
    Graph::of(&plan).expect("no circle");
    let began = Instant::now();
    let request = TaskRequest { plan, place: None, base: folder.path().to_owned(), umask: None, origin: Origin::Local };
    let id = engine.start_task(request).await.expect("a task");
    let started = began.elapsed();
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    let worker = engine
        .worker()
        .queues([TASK_QUEUE])
        .keeps_its_own()
        .concurrency(parallel as usize)
        .handle("nothing", |_: u32, _: Context| async { Ok::<_, redrive::Fail>(()) })
        .executor("exec", Arc::new(CommandExecutor::captured()))
        .observe(move |_| wake.notify_one())
        .register()
        .await
        .expect("a worker");
    let mut driver = engine.task_driver(id, worker.id().0, Some(worker.id()));
    let shutdown = Shutdown::new();
    let mut turns = 0_u32;
    let driving = async {
        loop {
            turns += 1;
            let turn = driver.turn().await.expect("a turn");
            let Some(again_in) = turn.again_in else { break turn.state };
            tokio::select! {
                () = tokio::time::sleep(again_in) => {}
                () = changed.notified() => {}
            }
        }
    };
    let driving = async {
        let state = driving.await;
        let over = began.elapsed();
        shutdown.signal();
        (state, over)
    };
    let (worked, (state, over)) = tokio::join!(worker.run(&shutdown), driving);
    worked.expect("worked");
    assert_eq!(state, TaskState::Succeeded);
    let ended = began.elapsed().checked_sub(over).unwrap_or_default();
    let per = over.as_secs_f64() * 1e3 / f64::from(subtasks);
    println!(
        "{:<24} {subtasks:>9} {dependencies:>13} {parallel:>10} {per:>15.3} {bare:>13.3} {turns:>7} {:>7.2} {:>7.2}",
        shape.name(),
        started.as_secs_f64(),
        ended.as_secs_f64(),
    );
}

/// A task that is started beside a worker, from its start to its end.
async fn beside(shape: Shape, subtasks: u32, parallel: u32) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let engine = Engine::open(folder.path().join("redrive.db")).expect("a store");
    let shutdown = Shutdown::new();
    let plan = shape.plan(subtasks, parallel);
    let working = engine
        .worker()
        .concurrency(parallel as usize)
        .handle("nothing", |_: u32, _: Context| async { Ok::<_, redrive::Fail>(()) })
        .executor("exec", Arc::new(CommandExecutor::captured()))
        .run(&shutdown);
    let watching = async {
        let began = Instant::now();
        let request = TaskRequest { plan, place: None, base: folder.path().to_owned(), umask: None, origin: Origin::Local };
        let id = engine.start_task(request).await.expect("a task");
        // Asking for the whole task would cost as much as it does.
        while engine.store().open_tasks(1).await.expect("tasks").contains(&id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shutdown.signal();
        (engine.store().task(id).await.expect("a task").map(|task| task.state), began.elapsed())
    };
    let (worked, (state, over)) = tokio::join!(working, watching);
    worked.expect("worked");
    assert_eq!(state, Some(TaskState::Succeeded));
    let per = over.as_secs_f64() * 1e3 / f64::from(subtasks);
    println!("{:<24} {subtasks:>9} {:>13} {parallel:>10} {per:>15.3}", shape.name(), "");
}

/// The same jobs, enqueued at once and worked off: milliseconds for each.
async fn bare(shape: Shape, subtasks: u32, parallel: u32) -> f64 {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let engine = Engine::open(folder.path().join("redrive.db")).expect("a store");
    let began = Instant::now();
    let jobs: Vec<_> = (0..subtasks).map(|number| shape.job(number, folder.path())).collect();
    for some in jobs.chunks(1_000) {
        engine.store().enqueue(engine.now(), some.to_vec()).await.expect("enqueued");
    }
    engine
        .worker()
        .concurrency(parallel as usize)
        .wait(Duration::from_millis(100))
        .handle("nothing", |_: u32, _: Context| async { Ok::<_, redrive::Fail>(()) })
        .executor("exec", Arc::new(CommandExecutor::captured()))
        .run_until_empty()
        .await
        .expect("worked");
    began.elapsed().as_secs_f64() * 1e3 / f64::from(subtasks)
}
