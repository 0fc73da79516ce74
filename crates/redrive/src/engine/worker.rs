//! Workers: they lease what is due and can be run, carry it out, keep their leases, and leave in good order.
//!
//! This file is what people say to a worker; `run` is what it does, `incarnation` who it is. A worker takes no more
//! than it has free slots, has one request for work outstanding at a time, and one heartbeat for all its leases.

mod beside;
#[cfg(feature = "tasks")]
mod in_hand;
mod incarnation;
mod run;
mod slots;
mod under_way;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redrive_store::{JobId, Takes, WorkerId};
use serde::de::DeserializeOwned;

use super::batch::{Batch, BatchContext, Item, ItemAnswer, TypedBatch};
use super::executor::{ByExecutor, Work};
use super::handler::{Reply, Typed};
use super::{AttemptReport, Context, Engine, EngineError, Executor, Shutdown};
use crate::into_failure::IntoFailure;
#[cfg(feature = "tasks")]
pub(super) use beside::{TasksHeard, TasksMoved};
pub(super) use incarnation::Incarnation;
pub(super) use run::Word;

/// How long a lease lasts unless it is renewed, which happens three times as often.
const LEASE_FOR: Duration = Duration::from_secs(30);
/// How long what runs may take when the worker is asked to leave.
const GRACE: Duration = Duration::from_secs(30);
/// How long a worker that holds reserved jobs counts as present after it was seen last.
const RESERVED_PRESENCE: Duration = Duration::from_secs(8);
/// How long one request for work may wait.
const WAIT: Duration = Duration::from_secs(10);
/// How many messages are delivered at a time by a worker that is only present.
#[cfg(feature = "alerts")]
const ALERTS_AT_A_TIME: usize = 2;
/// How many jobs run at a time.
const CONCURRENCY: usize = 8;

/// Who is told about settled attempts.
pub(super) type Observer = Arc<dyn Fn(&AttemptReport<'_>) + Send + Sync>;

/// How a kind of job is carried out.
#[derive(Clone)]
pub(super) enum Route {
    One(Arc<dyn Work>),
    Many { max: usize, batch: Arc<dyn Batch> },
}

/// Everything that was said about a worker.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) label: String,
    pub(super) queues: Vec<String>,
    pub(super) routes: HashMap<String, Route>,
    /// For kinds without a route of their own.
    pub(super) otherwise: Option<Route>,
    pub(super) concurrency: usize,
    pub(super) lease_for: Duration,
    pub(super) grace: Duration,
    pub(super) wait: Duration,
    pub(super) reserved_only: bool,
    /// What it begins stays its own between attempts.
    pub(super) keeps_its_own: bool,
    /// It keeps the store in order, moves on redrives and tasks, and delivers messages to people where there are any to be told. Others
    /// only do their work.
    pub(super) tends: bool,
    /// The target that all of it goes to, beside those that jobs have of their own.
    pub(super) goes_to: Option<String>,
    pub(super) observer: Option<Observer>,
}

impl Plan {
    /// The kinds that it can run; empty: all of them.
    pub(super) fn kinds(&self) -> Vec<String> {
        if self.otherwise.is_some() { Vec::new() } else { self.routes.keys().cloned().collect() }
    }

    /// The kinds that it asks for now, empty for all of them: a process that knows of nobody to tell leaves messages to those who do.
    /// `None` if it takes nothing else.
    #[cfg(feature = "alerts")]
    pub(super) fn kinds_now(&self, engine: &Engine) -> Option<Vec<String>> {
        let mut kinds = self.kinds();
        let all = kinds.is_empty();
        if engine.alert_settings().receivers.is_empty() {
            kinds.retain(|kind| kind != super::ALERT_KIND);
        }
        if kinds.is_empty() && !all { None } else { Some(kinds) }
    }

    #[cfg(not(feature = "alerts"))]
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn kinds_now(&self, _: &Engine) -> Option<Vec<String>> {
        Some(self.kinds())
    }

    /// Whoever works where people are told of trouble delivers the messages, too, whatever its queues are; and so does whoever is
    /// only present, and takes nothing else.
    #[cfg(feature = "alerts")]
    fn takes_alerts(&mut self, engine: &Engine) -> Result<(), EngineError> {
        use super::{ALERT_KIND, ALERT_QUEUE, AlertExecutor};
        if self.keeps_its_own || !self.tends {
            return Ok(());
        }
        let told = !engine.alert_settings().receivers.is_empty();
        if self.concurrency == 0 && told {
            (self.queues, self.routes) = (vec![ALERT_QUEUE.to_owned()], HashMap::new());
            self.concurrency = ALERTS_AT_A_TIME;
        }
        if self.concurrency == 0 || !(told || self.routes.contains_key(ALERT_KIND)) {
            return Ok(());
        }
        if !self.queues.is_empty() && !self.queues.iter().any(|queue| queue == ALERT_QUEUE) {
            self.queues.push(ALERT_QUEUE.to_owned());
        }
        if self.routes.contains_key(ALERT_KIND) {
            return Ok(());
        }
        let route = Route::One(Arc::new(ByExecutor(Arc::new(AlertExecutor::new()?))));
        self.routes.insert(ALERT_KIND.to_owned(), route);
        Ok(())
    }

    /// How long its presence lasts unless it is renewed.
    pub(super) fn presence_for(&self) -> Duration {
        if self.keeps_its_own { RESERVED_PRESENCE.min(self.lease_for) } else { self.lease_for }
    }

    /// How often leases and presence are renewed.
    pub(super) fn beat_every(&self) -> Duration {
        self.presence_for() / 3
    }
}

/// A worker in the making; see [`Engine::worker`].
#[must_use = "a worker does nothing until it runs"]
pub struct WorkerBuilder<S = ()> {
    engine: Engine,
    plan: Plan,
    state: Arc<S>,
}

impl Engine {
    /// A worker, to be given handlers and run.
    pub fn worker(&self) -> WorkerBuilder {
        let plan = Plan {
            label: format!("process {}", std::process::id()),
            queues: Vec::new(),
            routes: HashMap::new(),
            otherwise: None,
            concurrency: CONCURRENCY,
            lease_for: LEASE_FOR,
            grace: GRACE,
            wait: WAIT,
            reserved_only: false,
            keeps_its_own: false,
            tends: true,
            goes_to: None,
            observer: None,
        };
        WorkerBuilder { engine: self.clone(), plan, state: Arc::new(()) }
    }
}

impl<S: Send + Sync + 'static> WorkerBuilder<S> {
    /// What handlers share. Said before the handlers that use it.
    pub fn state<S2: Send + Sync + 'static>(self, state: S2) -> WorkerBuilder<S2> {
        WorkerBuilder { engine: self.engine, plan: self.plan, state: Arc::new(state) }
    }

    /// What it calls itself, for people.
    pub fn label(mut self, label: impl Into<String>) -> WorkerBuilder<S> {
        self.plan.label = label.into();
        self
    }

    /// Only from these queues; all of them unless something is said.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> WorkerBuilder<S> {
        self.plan.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// How many jobs run at a time (8). The items of a batch are counted one by one.
    pub fn concurrency(mut self, jobs: usize) -> WorkerBuilder<S> {
        self.plan.concurrency = jobs.clamp(1, redrive_store::MAX_BATCH);
        self
    }

    /// How long a lease lasts unless it is renewed (30 s); renewed three times as often.
    pub fn lease_for(mut self, lease_for: Duration) -> WorkerBuilder<S> {
        self.plan.lease_for = lease_for.max(Duration::from_millis(30));
        self
    }

    /// How long what runs may take when the worker is asked to leave (30 s).
    pub fn grace(mut self, grace: Duration) -> WorkerBuilder<S> {
        self.plan.grace = grace;
        self
    }

    /// How long one request for work waits (10 s). Work that becomes due ends the wait at once; only a clock that does not
    /// run by itself needs a short one.
    pub fn wait(mut self, wait: Duration) -> WorkerBuilder<S> {
        self.plan.wait = wait;
        self
    }

    /// Only jobs that are held for this worker; they stay its own between attempts.
    pub fn reserved_only(mut self) -> WorkerBuilder<S> {
        self.plan.reserved_only = true;
        self.keeps_its_own()
    }

    /// Jobs that it has begun stay its own between attempts, while it lives: how a task is run by one process. Such a worker
    /// moves on no redrive and no task beside its work.
    pub fn keeps_its_own(mut self) -> WorkerBuilder<S> {
        self.plan.keeps_its_own = true;
        self
    }

    /// It takes no work but messages of alerts: it is only present, keeps the store in order, and moves on redrives and tasks. What others do in its
    /// name, such as workers that lease through a server, is theirs to renew.
    pub fn only_present(mut self) -> WorkerBuilder<S> {
        self.plan.concurrency = 0;
        self
    }

    /// Tells about each attempt once it is settled.
    pub fn observe(
        mut self,
        observer: impl Fn(&AttemptReport<'_>) + Send + Sync + 'static,
    ) -> WorkerBuilder<S> {
        self.plan.observer = Some(Arc::new(observer));
        self
    }

    /// How jobs of this kind are carried out: the payload, read from JSON, and a context. The answer is `Ok(())`, another
    /// [`Reply`], or an error that redrive can read.
    pub fn handle<T, F, Fut, R, E>(mut self, kind: impl Into<String>, handler: F) -> WorkerBuilder<S>
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(T, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Reply> + 'static,
        E: IntoFailure + 'static,
    {
        let work = Typed::new(Arc::clone(&self.state), handler);
        self.plan.routes.insert(kind.into(), Route::One(Arc::new(work)));
        self
    }

    /// How jobs of this kind are carried out many at a time, at most `max`. Each item gets its own answer; see
    /// [`ItemAnswer`].
    pub fn handle_batch<T, F, Fut, E>(
        mut self,
        kind: impl Into<String>,
        max: usize,
        handler: F,
    ) -> WorkerBuilder<S>
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Vec<Item<T>>, BatchContext<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(JobId, ItemAnswer)>, E>> + Send + 'static,
        E: IntoFailure + 'static,
    {
        let max = max.clamp(1, redrive_store::MAX_BATCH);
        let batch = TypedBatch::new(Arc::clone(&self.state), handler);
        self.plan.routes.insert(kind.into(), Route::Many { max, batch: Arc::new(batch) });
        self.plan.concurrency = self.plan.concurrency.max(max);
        self
    }

    /// How jobs of this kind are carried out, by something that is no typed handler.
    pub fn executor(mut self, kind: impl Into<String>, executor: Arc<dyn Executor>) -> WorkerBuilder<S> {
        self.plan.routes.insert(kind.into(), Route::One(Arc::new(ByExecutor(executor))));
        self
    }

    /// All of it goes to this target, which may be protected: messages to people go elsewhere, and by others. It does nothing beside
    /// that work: there may be hundreds of its kind in a process.
    #[cfg(feature = "push")]
    pub(super) fn goes_to(mut self, target: Option<String>) -> WorkerBuilder<S> {
        self.plan.tends = false;
        self.plan.goes_to = target;
        self
    }

    /// How jobs of this kind are carried out, by work that is no executor.
    #[cfg(feature = "push")]
    pub(super) fn work(mut self, kind: String, work: Arc<dyn Work>) -> WorkerBuilder<S> {
        self.plan.routes.insert(kind, Route::One(work));
        self
    }

    /// How jobs of this kind are carried out many at a time, by a batch that has no type.
    #[cfg(feature = "push")]
    pub(super) fn batches(mut self, kind: String, max: usize, batch: Arc<dyn Batch>) -> WorkerBuilder<S> {
        self.plan.routes.insert(kind, Route::Many { max, batch });
        self
    }

    /// Every kind that has no route of its own.
    pub(super) fn otherwise(mut self, work: Arc<dyn Work>) -> WorkerBuilder<S> {
        self.plan.otherwise = Some(Route::One(work));
        self
    }

    /// Enters it in the store, as a fresh incarnation. From here on jobs can be held for it; it must run soon, for its
    /// presence is renewed only while it does.
    pub async fn register(self) -> Result<Worker, EngineError> {
        let WorkerBuilder { engine, mut plan, .. } = self;
        // What is held for it comes free when it falls silent, also in the middle of an attempt.
        plan.lease_for = plan.lease_for.min(plan.presence_for());
        if plan.concurrency > 0 && plan.routes.is_empty() && plan.otherwise.is_none() {
            return Err(EngineError::NothingToRun);
        }
        #[cfg(feature = "alerts")]
        plan.takes_alerts(&engine)?;
        let takes_work = plan.concurrency > 0;
        engine.remember_lease(plan.lease_for);
        let presence_for = plan.presence_for();
        let id = engine.store().register(engine.now(), plan.label.clone(), presence_for).await?;
        let held_for = plan.keeps_its_own.then_some(id);
        if takes_work && !plan.reserved_only {
            let takes = Takes { queues: plan.queues.clone(), kinds: plan.kinds() };
            engine.store().takes(id, takes).await?;
        } else if !takes_work {
            // It does not work: nobody is to wait for it.
            engine.store().takes(id, Takes::no_work()).await?;
        }
        let incarnation = Incarnation::new(id, presence_for, held_for, plan.lease_for, engine.clock());
        Ok(Worker { engine, plan, incarnation: Arc::new(incarnation) })
    }

    /// Registers it and works until the shutdown.
    pub async fn run(self, shutdown: &Shutdown) -> Result<WorkerReport, EngineError> {
        self.register().await?.run(shutdown).await
    }

    /// Registers it and works until no job that it can run is ready, scheduled or leased.
    pub async fn run_until_empty(self) -> Result<WorkerReport, EngineError> {
        self.register().await?.run_until_empty(&Shutdown::new()).await
    }
}

impl<S> fmt::Debug for WorkerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder").field("label", &self.plan.label).finish_non_exhaustive()
    }
}

/// A worker that is entered in the store, to be run once.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    engine: Engine,
    plan: Plan,
    incarnation: Arc<Incarnation>,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerReport {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that failed and are to be made again.
    pub retried: u64,
    /// Jobs that were set aside.
    pub dead: u64,
    /// Jobs that were put off by their handlers.
    pub snoozed: u64,
    /// Jobs that were put off because their target is protected.
    pub parked: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs that were given back.
    pub released: u64,
    /// Attempts whose lease was lost: what they came to did not count.
    pub lost: u64,
}

/// When a worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Shutdown,
    Empty,
    JobIsOver(JobId),
}

impl Worker {
    /// Its number: jobs can be held for it.
    pub fn id(&self) -> WorkerId {
        self.incarnation.id
    }

    /// Works until the shutdown.
    pub async fn run(self, shutdown: &Shutdown) -> Result<WorkerReport, EngineError> {
        run::run(self, Until::Shutdown, shutdown).await
    }

    /// Works until no job that it can run is ready, scheduled or leased.
    pub async fn run_until_empty(self, shutdown: &Shutdown) -> Result<WorkerReport, EngineError> {
        run::run(self, Until::Empty, shutdown).await
    }

    /// Works until this job is over, whoever ends it.
    pub async fn run_job(self, job: JobId, shutdown: &Shutdown) -> Result<WorkerReport, EngineError> {
        run::run(self, Until::JobIsOver(job), shutdown).await
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id())
            .field("label", &self.plan.label)
            .finish_non_exhaustive()
    }
}
