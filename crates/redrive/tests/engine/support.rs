//! What the tests of the engine share: a store in a folder of its own, a clock that is told to move, and waits that
//! are bounded.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, EngineBuilder, ManualClock, WorkerBuilder};
use redrive_store::{
    DeadLetter, EventFilter, EventStatus, JobId, JobState, Order, Sqlite, SqliteOptions, Store, Timestamp,
};

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

impl World {
    pub(crate) fn new() -> World {
        World::with(|builder| builder)
    }

    pub(crate) fn with(furnish: impl FnOnce(EngineBuilder) -> EngineBuilder) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redrive.db");
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
        let clock = Arc::new(ManualClock::at(start()));
        let builder = Engine::builder(Arc::clone(&store)).clock(Arc::clone(&clock) as _).seed(7);
        let engine = furnish(builder).build().unwrap();
        World { engine, clock, store, _folder: folder }
    }

    /// Another engine on the same store and the same clock.
    pub(crate) fn another(&self, furnish: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
        let builder = Engine::builder(Arc::clone(&self.store)).clock(Arc::clone(&self.clock) as _).seed(8);
        furnish(builder).build().unwrap()
    }

    /// A worker that asks often, since its clock does not run by itself.
    pub(crate) fn worker(&self) -> WorkerBuilder {
        self.engine.worker().wait(Duration::from_millis(5))
    }

    pub(crate) async fn statuses(&self, job: JobId) -> Vec<EventStatus> {
        let filter = EventFilter { job: Some(job), order: Order::OldestFirst, ..EventFilter::default() };
        let events = self.engine.query(filter, 1_000).await.unwrap();
        events.iter().map(|event| event.status).collect()
    }

    pub(crate) async fn state(&self, job: JobId) -> JobState {
        self.engine.store().job(job).await.unwrap().unwrap().state
    }

    pub(crate) async fn letter(&self, job: JobId) -> DeadLetter {
        self.engine.letter(job).await.unwrap().expect("a letter")
    }

    /// Lets time pass, a bit at a time, until the work is over.
    pub(crate) async fn while_time_passes<T>(&self, step: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        for _ in 0..2_000 {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(Duration::from_millis(5)) => self.clock.advance(step),
            }
        }
        panic!("the work does not end");
    }
}

/// Runs an async test with a bound on its time.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(30), test).await };
    runtime.block_on(bounded).expect("the test hangs")
}

/// Polls until it holds, for a bounded time.
pub(crate) async fn until<Fut: Future<Output = bool>>(mut holds: impl FnMut() -> Fut) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never comes to hold");
}
