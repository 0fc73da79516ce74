//! The durable engine: work that finishes, or becomes a letter that tells a person why it did not.
//!
//! A job's way through these files is its life: [`enqueue`](Engine::enqueue) → [`Worker`] → `attempt` (execute,
//! classify, decide) → `settle` → `dead_letter` or done → [`redrive`](Engine::redrive). Nothing here speaks SQL, and
//! nothing here computes a delay: the store writes down what the policy decides. Closures that never leave the process
//! go the same way ([`Engine::retry`]), and so do the executors for commands and HTTP calls.

mod act;
#[cfg(feature = "alerts")]
mod alert;
mod attempt;
mod batch;
mod builder;
mod clock;
mod context;
mod dead_letter;
mod enqueue;
mod error;
mod escalation;
mod events;
#[cfg(feature = "exec")]
mod exec;
mod executor;
mod explain;
mod handler;
#[cfg(feature = "http-call")]
mod http_call;
mod inline;
mod key_report;
mod maintenance;
mod metrics;
mod overrides;
mod policies;
#[cfg(all(feature = "snapshot", feature = "exec"))]
mod protect;
#[cfg(feature = "push")]
mod push;
mod redrive;
mod reload;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "schedules")]
mod schedule;
mod search;
#[cfg(feature = "secrets")]
mod secret;
mod settle;
mod shutdown;
mod simulate;
mod status;
mod store_clock;
mod story;
mod target;
#[cfg(feature = "tasks")]
mod task;
#[cfg(feature = "tokens")]
mod token;
mod trace;
mod worker;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redrive_policy::{
    AutoRedrive, Classifier, Decision, History, Lang, Policy, RecoverySettings, Rng, decide,
};
use redrive_store::{Store, Timestamp};

use crate::chance;
use crate::outcome::Evidence;
use inline::Desk;
use maintenance::ClockWatch;
use policies::Policies;

/// The store's own words: `NewJob`, `JobId`, `DeadLetter`, `enqueue_in` and the rest.
pub use redrive_store as store;

pub use act::Act;
#[cfg(feature = "alerts")]
pub use alert::{
    ALERT_HOP, ALERT_KIND, AlertExecutor, AlertProblem, AlertReport, AlertRule, AlertStatus, AlertUnit,
    Finding, NewSilence, Silence, check_alert_receivers,
};
pub use attempt::AttemptReport;
pub use batch::{BatchContext, Item, ItemAnswer};
pub use builder::{EngineBuilder, Retention};
pub use clock::{Clock, ManualClock, SystemClock};
pub use context::Context;
pub use dead_letter::{BadLine, Discard, JobSettings, LetterLine, LettersImported, Work, is_readable_name};
#[cfg(all(feature = "exec", feature = "http-call"))]
pub use dead_letter::{BadPayload, check_payload};
pub use enqueue::JobBuilder;
pub use error::{EngineError, RuleProblem};
pub use escalation::{Escalated, EscalationId, EscalationItem, EscalationPage, EscalationPlace};
pub use events::{Emit, EmitWithRetry, ImportOptions, Imported};
#[cfg(feature = "exec")]
pub use exec::{CommandExecutor, NotListed, may_run};
pub use executor::{Executor, Running};
pub use explain::{AttemptStory, Explanation};
pub use handler::Reply;
#[cfg(feature = "http-call")]
pub use http_call::HttpExecutor;
pub use inline::InlineRetry;
pub use key_report::{KeyReport, key_id};
pub use maintenance::Maintained;
pub use maintenance::recover::check_recovery_rule;
pub use metrics::{
    ALERT_QUEUE, AutomaticRetry, Exposition, Hour, KeyUse, Kind, Labels, LetterCounts, MetricsReport, Number,
    Rates, Recovery, RetryCounts, Spread, TextForm, Totals, TypeCount,
};
pub use overrides::{overrides_from_json, overrides_to_json};
#[cfg(all(feature = "snapshot", feature = "exec"))]
pub use protect::FileNews;
#[cfg(feature = "push")]
pub use push::{
    BadEndpoint, BadSecret, MOST_ENDPOINTS, PushClients, PushEndpoint, PushProblem, PushSecret, PushWish,
};
pub use redrive::{
    Canary, EndedWhy, MOST_IDS, RedrivePlan, RedrivePreview, RedriveRequest, RedriveRun, RetryNow, Tally,
    Turn, Which, Would, parse_rate, step_size,
};
pub use reload::Reload;
#[cfg(feature = "remote")]
pub use remote::{
    Decided, HandedOut, HeldLease, Remote, RemoteEnd, RemoteOutcome, RemoteRequest, RemoteSettled,
};
#[cfg(feature = "schedules")]
pub use schedule::{
    BadCron, CRON_EXAMPLE, Cron, CronField, CronProblem, Missed, NewSchedule, Schedule, ScheduleProblem,
};
pub use search::{EventSearch, LetterPage, Named, Purged};
pub use shutdown::Shutdown;
pub use simulate::{Candidate, Difference, Simulate, Simulated, Simulation};
pub use status::{
    GroupCount, GroupReport, LaneReport, QueueReport, StatusReport, TargetTrouble, Untaken, working,
};
pub use story::{JobStory, StoryAttempt, job_state};
pub use target::{ParkedJob, TargetLimits, TargetReport, TargetView, called_by, host_target, is_target};
#[cfg(feature = "tasks")]
pub use task::{
    Driver, Standing, SubtaskLine, TASK_QUEUE, TaskNews, TaskRequest, TaskStory, TaskTurn, check_plan,
    subtask_id,
};
#[cfg(feature = "tokens")]
pub use token::{NewToken, Scope, Shown, Token, TokenKeeper, TokenProblem, TokenText, queue_fits};
pub use trace::{TraceEntry, TraceEvent, latest as latest_iteration};
pub use worker::{Worker, WorkerBuilder, WorkerReport};

/// The engine on one store. Cheap to clone; every clone is the same engine.
///
/// ```
/// use redrive::engine::Engine;
/// use redrive::{Cause, Fail, fail};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("redrive.db");
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let engine = Engine::open(&path)?;
/// engine.job("greet", &"Ada").enqueue().await?;
/// engine
///     .worker()
///     .handle("greet", |name: String, _cx| async move {
///         if name.is_empty() { Err(fail(Cause::ValidationError, "nobody to greet")) } else { Ok(()) }
///     })
///     .run_until_empty()
///     .await?;
/// assert_eq!(engine.store().status(engine.now()).await?.dead_letters, 0);
/// # Ok::<(), redrive::engine::EngineError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    policies: RwLock<Arc<Policies>>,
    classifier: RwLock<Arc<Classifier>>,
    held: RwLock<Arc<reload::Held>>,
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    snapshots: Option<Arc<protect::SnapshotPlace>>,
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    file_listener: Option<protect::FileListener>,
    telling: escalation::Telling,
    lang: Lang,
    seed: Option<AtomicU64>,
    targets: target::Targets,
    retention: Retention,
    /// Rules by which dead letters are put back, beside those of the configuration.
    own_rules: Vec<AutoRedrive>,
    /// Of the workers that this engine ever had: after a jump of the clock the living have so long.
    longest_lease_ms: AtomicU64,
    clock_watch: Mutex<ClockWatch>,
    store_clock: store_clock::StoreClock,
    desk: tokio::sync::Mutex<Option<Desk>>,
    #[cfg(feature = "alerts")]
    alerts: alert::Alerts,
    #[cfg(feature = "schedules")]
    schedules: schedule::ScheduleWatch,
    #[cfg(feature = "tasks")]
    tasks_moved: tokio::sync::watch::Sender<worker::TasksMoved>,
    #[cfg(feature = "tasks")]
    tasks_heard: worker::TasksHeard,
}

impl Engine {
    /// An engine on this store, to be furnished.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    /// The store that it works on.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// The store, to be shared.
    pub fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0.store)
    }

    /// What the engine's clock shows.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The clock itself.
    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// How long letters and events are kept.
    pub fn retention(&self) -> Retention {
        self.0.retention
    }

    /// What is done about snapshots and partial results.
    pub fn recovery_settings(&self) -> RecoverySettings {
        self.held().recovery
    }

    /// The policy of that name; an error that lists the known ones when there is none.
    pub fn policy(&self, name: &str) -> Result<Policy, EngineError> {
        self.policies().named(Some(name)).map(|named| named.policy.clone())
    }

    /// Every policy that a job can name, in the order of their names, with whether it is one of the user's own.
    pub fn all_policies(&self) -> Vec<(Policy, bool)> {
        let is_own = |policy: &Policy| {
            Policy::preset(&policy.name).is_none_or(|preset| preset.version() != policy.version())
        };
        self.policies().all().map(|policy| (policy.clone(), is_own(policy))).collect()
    }

    /// The policy of whoever names none.
    pub fn default_policy(&self) -> Policy {
        self.policies().default_named().policy.clone()
    }

    /// What the classifier and a policy make of a failure after so many retries: for work that no worker carries out.
    ///
    /// ```
    /// use redrive::{Action, Evidence, engine::Engine};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let engine = Engine::open(dir.path().join("redrive.db"))?;
    /// let rejected = Evidence { http_status: Some(401), ..Evidence::default() };
    /// assert_eq!(engine.decide_on(&rejected, &engine.default_policy(), 0).action, Action::Escalate);
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub fn decide_on(&self, evidence: &Evidence, policy: &Policy, retries: u32) -> Decision {
        let failure = self.classifier().classify(&evidence.report());
        decide(policy, &failure, &History::retries(retries), &mut self.rng())
    }

    fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.0.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What tells failures apart: the configuration's rules and the built-in ones.
    pub fn classifier(&self) -> Arc<Classifier> {
        Arc::clone(&self.0.classifier.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A source of chance: of its own, or the next of a seeded series.
    pub fn rng(&self) -> Rng {
        match &self.0.seed {
            None => chance::fresh(),
            Some(seed) => Rng::seeded(Rng::seeded(seed.fetch_add(1, Ordering::Relaxed)).next_u64()),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.0.store.location()).finish_non_exhaustive()
    }
}
