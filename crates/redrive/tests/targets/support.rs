//! A store in a folder of its own, engines with a clock that is told to move, and a door for workers elsewhere.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, ManualClock, Remote, RemoteEnd, RemoteOutcome, RemoteRequest};
use redrive::{Cause, Evidence, Verdict};
use redrive_policy::{Config, Format};
use redrive_store::{LeasedJob, NewJob, Sqlite, SqliteOptions, Store, Timestamp};

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

pub(crate) fn config(text: &str) -> Config {
    Config::parse(text, Format::Toml, "redrive.toml").unwrap()
}

impl World {
    pub(crate) fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
        World { store: Arc::new(store), clock: Arc::new(ManualClock::at(start())), _folder: folder }
    }

    pub(crate) fn engine(&self, settings: &str, seed: u64) -> Engine {
        let builder = Engine::builder(Arc::clone(&self.store)).clock(Arc::clone(&self.clock) as _);
        builder.seed(seed).config(&config(settings)).build().unwrap()
    }
}

/// A worker elsewhere, as the server gives it work.
pub(crate) struct Elsewhere {
    pub(crate) engine: Engine,
    pub(crate) remote: Remote,
}

/// A job that a worker elsewhere has.
pub(crate) struct Has {
    pub(crate) leased: LeasedJob,
    pub(crate) lease: String,
}

impl Elsewhere {
    pub(crate) async fn new(engine: &Engine) -> Elsewhere {
        let worker = engine.store().register(engine.now(), "test".to_owned(), Duration::from_hours(9)).await;
        Elsewhere { engine: engine.clone(), remote: engine.remote(worker.unwrap()).await.unwrap() }
    }

    pub(crate) async fn take(&self, max: usize) -> Vec<Has> {
        let request = RemoteRequest {
            queues: Vec::new(),
            kinds: Vec::new(),
            max,
            lease_for: Duration::from_mins(10),
            wait: Duration::ZERO,
        };
        let handed = self.remote.lease(request).await.unwrap();
        handed.into_iter().map(|handed| Has { leased: handed.leased, lease: handed.lease }).collect()
    }

    pub(crate) async fn end(&self, jobs: Vec<Has>, well: bool) {
        let evidence = || Evidence {
            said: Some((Cause::Network, Verdict::Unsaid)),
            message: "connection refused".to_owned(),
            ..Evidence::default()
        };
        let end = |has: Has| {
            let outcome = if well {
                RemoteOutcome::Succeeded
            } else {
                RemoteOutcome::Failed { evidence: Box::new(evidence()), again: None, stack: None }
            };
            let held = self.remote.read(&has.lease).unwrap();
            RemoteEnd { held, outcome, latency: Some(Duration::from_millis(20)), output: None }
        };
        self.remote.settle(jobs.into_iter().map(end).collect()).await.unwrap();
    }
}

/// A call that our own processes make to this address.
pub(crate) fn http(url: &str) -> NewJob {
    NewJob::new("http", serde_json::json!({"method": "POST", "url": url}).to_string())
}

/// Work of somebody elsewhere, who says where it goes: `key:NAME`.
pub(crate) fn call(name: &str) -> NewJob {
    NewJob { target: Some(name.to_owned()), ..NewJob::new("call", "null") }
}

/// Runs an async test with a bound on its time.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_mins(2), test).await };
    runtime.block_on(bounded).expect("the test hangs")
}
