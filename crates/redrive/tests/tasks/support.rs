//! What these tests share: a store of either kind, a folder that plans are meant from, and a worker beside a driver.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{
    CommandExecutor, Driver, Engine, EngineBuilder, HttpExecutor, Shutdown, TASK_QUEUE, TaskNews,
    TaskRequest, WorkerBuilder,
};
use redrive::{Override, Policy};
use redrive_policy::Format;
use redrive_policy::plan::Plan;
use redrive_store::{
    Event, EventFilter, JobId, Order, Origin, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store,
    SubtaskState, Task, TaskId, TaskState,
};
use tokio::sync::Notify;

/// The longest that a test may take.
const MOST: Duration = Duration::from_secs(100);

/// Where a test's store is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Says a story on both stores.
macro_rules! on_both {
    ($($(#[doc = $doc:literal])+ $name:ident = $story:expr;)+) => {
        $(
            $(#[doc = $doc])+
            mod $name {
                use super::*;
                #[test]
                fn on_sqlite() {
                    $crate::support::run($story($crate::support::Kind::Sqlite));
                }
                #[test]
                fn on_postgres() {
                    if redrive_testing::shared().is_some() {
                        $crate::support::run($story($crate::support::Kind::Postgres));
                    }
                }
            }
        )+
    };
}
pub(crate) use on_both;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: tempfile::TempDir,
}

/// Retries that are not waited for.
pub(crate) fn quick() -> Policy {
    let wish = Override {
        initial: Some(Duration::from_millis(5)),
        cap: Some(Duration::from_millis(10)),
        ..Override::default()
    };
    Policy::standard().with_override(&wish)
}

impl World {
    pub(crate) async fn new(kind: Kind) -> World {
        World::with(kind, |builder| builder).await
    }

    pub(crate) async fn with(kind: Kind, furnish: impl FnOnce(EngineBuilder) -> EngineBuilder) -> World {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match kind {
            Kind::Sqlite => {
                let path = folder.path().join("redrive.db");
                Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap())
            }
            Kind::Postgres => {
                let shared = redrive_testing::shared().expect("it was there a moment ago");
                let schema = Some(shared.schema());
                let options = PostgresOptions { create: true, schema, ..Default::default() };
                Arc::new(Postgres::open(shared.url(), options).await.unwrap())
            }
        };
        World::of(store, folder, furnish)
    }

    pub(crate) fn of(
        store: Arc<dyn Store>,
        folder: tempfile::TempDir,
        furnish: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> World {
        fs::create_dir(folder.path().join("base")).unwrap();
        let builder = Engine::builder(Arc::clone(&store))
            .policy(quick())
            .snapshots_in(folder.path().join("snapshots"), Vec::new());
        let engine = furnish(builder).build().unwrap();
        World { engine, store, folder }
    }

    /// Another engine on the same store, as another process has it.
    pub(crate) fn another(&self) -> Engine {
        Engine::builder(Arc::clone(&self.store))
            .policy(quick())
            .snapshots_in(self.folder.path().join("snapshots"), Vec::new())
            .build()
            .unwrap()
    }

    /// Where plans are meant from.
    pub(crate) fn base(&self) -> PathBuf {
        self.folder.path().join("base")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.base().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a file says; nothing when it is not there.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.base().join(name)).ok()
    }

    pub(crate) async fn start(&self, plan: &str) -> TaskId {
        let (plan, _) = Plan::parse(plan, Format::Toml, "plan.toml").unwrap();
        self.start_plan(plan).await
    }

    pub(crate) async fn start_plan(&self, plan: Plan) -> TaskId {
        let request =
            TaskRequest { plan, place: None, base: self.base(), umask: None, origin: Origin::Local };
        self.engine.start_task(request).await.unwrap()
    }

    /// A worker of commands and calls, to be given handlers.
    pub(crate) fn worker(&self) -> WorkerBuilder {
        worker(&self.engine)
    }

    /// Moves a task on to its end, with this worker; what there was to tell.
    pub(crate) async fn finish(&self, id: TaskId, worker: WorkerBuilder) -> (TaskState, Vec<TaskNews>) {
        finish(&self.engine, id, worker).await
    }

    /// Starts a plan of commands and moves it on to its end.
    pub(crate) async fn done(&self, plan: &str) -> (TaskId, TaskState, Vec<TaskNews>) {
        let id = self.start(plan).await;
        let (state, news) = self.finish(id, self.worker()).await;
        (id, state, news)
    }

    pub(crate) async fn task(&self, id: TaskId) -> Task {
        self.store.task(id).await.unwrap().unwrap()
    }

    /// The job of a subtask.
    pub(crate) async fn job(&self, id: TaskId, number: u32) -> JobId {
        let subtasks = self.store.subtasks(id).await.unwrap();
        subtasks.iter().find(|one| one.number == number).and_then(|one| one.job).expect("it was begun")
    }

    /// How those subtasks stand that were begun, or skipped.
    pub(crate) async fn states(&self, id: TaskId) -> Vec<SubtaskState> {
        self.store.subtasks(id).await.unwrap().iter().map(|one| one.state).collect()
    }

    /// All that there is to read about a task, in order.
    pub(crate) async fn events(&self, id: TaskId) -> Vec<Event> {
        let filter = EventFilter {
            caller_id: Some(id.to_string()),
            order: Order::OldestFirst,
            ..EventFilter::default()
        };
        self.engine.query(filter, 1_000).await.unwrap()
    }

    pub(crate) async fn is_sound(&self) {
        let report = self.store.check().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
    }
}

/// A plan of so many calls of `count`, each with its number and after those that are so many before it.
pub(crate) fn chained(count: usize, parallel: u32, after: &[usize]) -> String {
    let subtask = |number: usize| {
        let before = after.iter().filter_map(|back| number.checked_sub(*back));
        let names: Vec<String> = before.map(|before| format!("\"s{before}\"")).collect();
        let depends_on = names.join(", ");
        format!(
            "[[subtasks]]\nid = \"s{number}\"\nhandler = \"count\"\npayload = {number}\ndepends_on = [{depends_on}]\n"
        )
    };
    format!("parallel = {parallel}\n{}", (0..count).map(subtask).collect::<String>())
}

/// A worker of commands and calls, to be given handlers.
pub(crate) fn worker(engine: &Engine) -> WorkerBuilder {
    engine
        .worker()
        .queues([TASK_QUEUE])
        .keeps_its_own()
        .concurrency(64)
        .executor("exec", Arc::new(CommandExecutor::captured()))
        .executor("http", Arc::new(HttpExecutor::new().unwrap()))
}

/// Moves a task on to its end, with this worker.
pub(crate) async fn finish(engine: &Engine, id: TaskId, worker: WorkerBuilder) -> (TaskState, Vec<TaskNews>) {
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    let worker = worker.observe(move |_| wake.notify_one()).register().await.unwrap();
    let mut driver = engine.task_driver(id, worker.id().0, Some(worker.id()));
    let shutdown = Shutdown::new();
    let driving = async {
        let ended = drive(&mut driver, &changed).await;
        shutdown.signal();
        ended
    };
    let (left, ended) = tokio::join!(worker.run(&shutdown), driving);
    left.unwrap();
    ended
}

/// Takes turns until the task is over.
pub(crate) async fn drive(driver: &mut Driver, changed: &Notify) -> (TaskState, Vec<TaskNews>) {
    let mut news = Vec::new();
    loop {
        let turn = driver.turn().await.unwrap();
        news.extend(turn.news);
        let Some(again_in) = turn.again_in else { return (turn.state, news) };
        tokio::select! {
            () = tokio::time::sleep(again_in) => {}
            () = changed.notified() => {}
        }
    }
}

/// Runs an async test with a bound on its time.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(MOST, test).await };
    runtime.block_on(bounded).expect("the test hangs")
}

/// Polls until it holds, for a bounded time.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
