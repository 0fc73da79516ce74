//! A store of either kind, engines on it with clocks of their own, and what came of their schedules.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, ManualClock, NewSchedule};
use redrive_store::{
    EventFilter, NewJob, Order, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store, Timestamp, WorkerId,
};

pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres { url: String, schema: String },
}

impl Place {
    /// Both kinds of store; PostgreSQL where it can be had.
    pub(crate) fn each() -> Vec<Place> {
        let postgres = redrive_testing::shared()
            .map(|shared| Place::Postgres { url: shared.url().to_owned(), schema: shared.schema() });
        [Place::Sqlite(tempfile::tempdir().unwrap())].into_iter().chain(postgres).collect()
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        match self {
            Place::Sqlite(folder) => {
                let path = folder.path().join("redrive.db");
                Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap())
            }
            Place::Postgres { url, schema } => {
                // Time passes as the tests say.
                let options = PostgresOptions {
                    schema: Some(schema.clone()),
                    caller_clock: true,
                    ..PostgresOptions::default()
                };
                Arc::new(Postgres::open(url, options).await.unwrap())
            }
        }
    }
}

/// An engine with a worker's number and a clock that is told to move.
pub(crate) struct Keeper {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) worker: WorkerId,
}

impl Keeper {
    pub(crate) async fn new(store: Arc<dyn Store>, now: &str) -> Keeper {
        let clock = Arc::new(ManualClock::at(at(now)));
        let engine = Engine::builder(store).clock(Arc::clone(&clock) as _).build().unwrap();
        let worker = engine.store().register(engine.now(), "keeper".to_owned(), Duration::from_mins(5)).await;
        Keeper { worker: worker.unwrap(), engine, clock }
    }

    /// Time passes, and somebody tidies up.
    pub(crate) async fn pass(&self, time: Duration) -> u64 {
        self.clock.advance(time);
        self.look().await
    }

    pub(crate) async fn look(&self) -> u64 {
        self.engine.maintain(self.worker).await.unwrap().scheduled
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn report(cron: &str) -> NewSchedule {
    NewSchedule { name: Some("report".to_owned()), ..NewSchedule::new(cron, NewJob::new("report", "{}")) }
}

/// How many jobs each tick has.
pub(crate) async fn ticks(engine: &Engine) -> BTreeMap<String, usize> {
    let filter = EventFilter {
        types: vec!["job_enqueued".to_owned()],
        order: Order::OldestFirst,
        ..EventFilter::default()
    };
    let mut ticks = BTreeMap::new();
    for event in engine.query(filter, 10_000).await.unwrap() {
        let record = engine.store().job(event.job.unwrap()).await.unwrap().unwrap();
        *ticks.entry(record.job.unwrap().caller_id.unwrap_or_default()).or_default() += 1;
    }
    ticks
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_mins(1), test).await };
    runtime.block_on(bounded).expect("the test hangs")
}
