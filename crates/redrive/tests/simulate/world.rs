//! An engine on a store of its own, and time that goes from one due moment to the next.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{
    Candidate, Engine, EngineBuilder, ManualClock, Shutdown, Simulate, Simulation, WorkerBuilder,
};
use redrive_store::{JobId, JobState, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store, Timestamp};

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    _folder: Option<tempfile::TempDir>,
}

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

/// So many seconds after the start.
pub(crate) fn second(seconds: u64) -> Timestamp {
    start().after(Duration::from_secs(seconds))
}

impl World {
    fn on(store: Arc<dyn Store>, folder: Option<tempfile::TempDir>, furnish: &Furnish) -> World {
        let clock = Arc::new(ManualClock::at(start()));
        let builder = Engine::builder(store).clock(Arc::clone(&clock) as _).seed(7);
        World { engine: furnish(builder).build().unwrap(), clock, _folder: folder }
    }

    /// A worker whose leases outlast every jump of the clock. It never waits at the store, which would add the time that
    /// really passed to ours.
    pub(crate) fn worker(&self) -> WorkerBuilder {
        self.engine.worker().wait(Duration::ZERO).lease_for(Duration::from_hours(1_000))
    }

    /// The time is set, and everything that is due then has been worked off.
    pub(crate) async fn at(&self, now: Timestamp, jobs: &[JobId]) {
        self.clock.advance(now.since(self.engine.now()));
        for _ in 0..20_000 {
            let mut busy = false;
            for job in jobs {
                busy |= match self.state(*job).await {
                    Some(JobState::Leased { .. }) => true,
                    Some(JobState::Ready { run_at, .. }) => run_at <= now,
                    _ => false,
                };
            }
            if !busy {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("the work does not end");
    }

    pub(crate) async fn state(&self, job: JobId) -> Option<JobState> {
        self.engine.store().job(job).await.unwrap().map(|record| record.state)
    }

    /// When the next of these jobs is due, if one waits.
    pub(crate) async fn next(&self, jobs: &[JobId]) -> Option<Timestamp> {
        let mut next = None;
        for job in jobs {
            if let Some(JobState::Ready { run_at, .. }) = self.state(*job).await {
                next = Some(next.map_or(run_at, |next: Timestamp| next.min(run_at)));
            }
        }
        next
    }

    /// Time passes until then, from one due moment to the next.
    pub(crate) async fn until(&self, end: Timestamp, jobs: &[JobId]) {
        self.at(self.engine.now(), jobs).await;
        while let Some(next) = self.next(jobs).await.filter(|next| *next <= end) {
            self.at(next.max(self.engine.now()), jobs).await;
        }
        self.at(end, jobs).await;
    }

    pub(crate) async fn simulate(&self, candidates: Vec<Candidate>) -> Simulation {
        self.engine.simulate(&whole(self.engine.now(), candidates)).await.unwrap()
    }
}

/// Everything up to now.
pub(crate) fn whole(now: Timestamp, candidates: Vec<Candidate>) -> Simulate {
    Simulate {
        since: start(),
        until: now.after(Duration::from_millis(1)),
        now,
        queue: None,
        kind: None,
        cause: None,
        limit: 100_000,
        seed: 1,
        candidates,
    }
}

pub(crate) fn candidate(policy: &str) -> Candidate {
    Candidate { label: policy.to_owned(), policy: Some(policy.to_owned()), ..Candidate::default() }
}

type Furnish = dyn Fn(EngineBuilder) -> EngineBuilder;

/// Runs a test on the embedded store, and on PostgreSQL where there is one.
pub(crate) fn on_both<Fut: Future<Output = ()>>(furnish: &Furnish, test: impl Fn(World) -> Fut) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = |world| async { tokio::time::timeout(Duration::from_mins(5), test(world)).await };
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
    runtime.block_on(bounded(World::on(Arc::new(store), Some(folder), furnish))).expect("the test hangs");
    let Some(shared) = redrive_testing::shared() else { return };
    runtime.block_on(async {
        let options = PostgresOptions {
            schema: Some(shared.schema()),
            caller_clock: true,
            ..PostgresOptions::default()
        };
        let store = Postgres::open(shared.url(), options).await.unwrap();
        bounded(World::on(Arc::new(store), None, furnish)).await.expect("the test hangs");
    });
}

/// A worker in the background while the test goes on.
pub(crate) async fn beside<T>(worker: WorkerBuilder, test: impl Future<Output = T>) -> T {
    let shutdown = Shutdown::new();
    let running = worker.run(&shutdown);
    let test = async {
        let answer = test.await;
        shutdown.signal();
        answer
    };
    let (report, answer) = tokio::join!(running, test);
    report.unwrap();
    answer
}
