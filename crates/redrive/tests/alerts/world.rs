//! An engine whose configuration says who is told, with work that fails and a clock that is told to move.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Context, Engine, ManualClock};
use redrive::{Cause, fail};
use redrive_policy::{Config, Format};
use redrive_store::{EventFilter, NewJob, Order, Sqlite, SqliteOptions, Store, WorkerId};

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) keeper: WorkerId,
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(config: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
        World::made(folder, Arc::new(store), config).await
    }

    /// On another store than a file.
    pub(crate) async fn on(store: Arc<dyn Store>, config: &str) -> World {
        World::made(tempfile::tempdir().unwrap(), store, config).await
    }

    async fn made(folder: tempfile::TempDir, store: Arc<dyn Store>, config: &str) -> World {
        let config = config.replace("FOLDER", &folder.path().display().to_string());
        let config = Config::parse(&config, Format::Toml, "redrive.toml").unwrap();
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap()));
        let engine = Engine::builder(store).clock(Arc::clone(&clock) as _).config(&config).seed(7);
        let engine = engine.build().unwrap();
        let keeper =
            engine.store().register(engine.now(), "keeper".to_owned(), Duration::from_hours(48)).await;
        World { keeper: keeper.unwrap(), engine, clock, folder }
    }

    /// So many jobs that die at once, in the same way.
    pub(crate) async fn die(&self, count: usize, words: &'static str) {
        let jobs = (0..count).map(|_| NewJob::new("hopeless", "null")).collect();
        // Somebody who knows nothing of alerts, so that the test says when anybody looks.
        let engine = Engine::builder(self.engine.shared_store()).clock(Arc::clone(&self.clock) as _);
        let engine = engine.build().unwrap();
        engine.enqueue_many(jobs).await.unwrap();
        engine
            .worker()
            .concurrency(64)
            .wait(Duration::from_millis(5))
            .handle("hopeless", move |(): (), _: Context| async move {
                Err::<(), _>(fail(Cause::ValidationError, words))
            })
            .run_until_empty()
            .await
            .unwrap();
    }

    /// Time passes, and somebody looks.
    pub(crate) async fn look_after(&self, time: Duration) -> u64 {
        self.clock.advance(time);
        self.engine.maintain(self.keeper).await.unwrap().alerts_told
    }

    /// Delivers what is to be delivered, while time passes.
    pub(crate) async fn deliver(&self) {
        let worker = self.engine.worker().queues(["redrive-alerts"]).wait(Duration::from_millis(5));
        let worker = worker.handle("nothing", |(): (), _: Context| async { Ok::<_, redrive::Fail>(()) });
        let mut working = std::pin::pin!(worker.run_until_empty());
        for _ in 0..3_000 {
            tokio::select! {
                biased;
                done = &mut working => {
                    done.unwrap();
                    return;
                }
                () = tokio::time::sleep(Duration::from_millis(5)) => self.clock.advance(Duration::from_millis(500)),
            }
        }
        panic!("messages are never delivered");
    }

    /// Everything that the stream says, as one text.
    pub(crate) async fn stream(&self) -> String {
        let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
        let events = self.engine.query(filter, 10_000).await.unwrap();
        events.iter().map(|event| serde_json::to_string(event).unwrap()).collect::<Vec<_>>().join("\n")
    }
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_mins(1), test).await };
    runtime.block_on(bounded).expect("the test hangs")
}
