//! Traffic protection: what keeps the jobs of all processes from hurting one host, queue or key together (R-P15).
//!
//! Between a lease and its attempt stands the [`gate`](Engine::admit): work whose target is sick, too busy or has no budget left
//! is parked, uncounted, until a time of its own. What came of calls is taken in when attempts are settled. The rules are those
//! of [`redrive_policy::protection`]; what they must know is a notice on the board, which everybody changes by compare and swap.
//!
//! What nobody protects costs a look at its kind and queue. A target that is well costs no write: first attempts pass by what
//! was read within the last second, and their successes are told together, now and then.
//!
//! Every time in a state is the store's: servers whose clocks differ must agree on who still runs a call.

mod gate;
mod lent;
mod local;
mod matter;
mod name;
mod report;
mod show;
mod swap;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use redrive_policy::TargetSettings;
use redrive_policy::protection::{Protection, queue_of_key};
use redrive_store::LeaseToken;

use super::{Engine, EngineError};
use crate::chance;
pub(super) use gate::result_of;
pub(super) use lent::{Lent, News};
use local::Local;
pub(super) use name::MadeBy;

pub use name::{called_by, host_target};
pub use report::TargetReport;
pub use show::{ParkedJob, TargetLimits, TargetView, is_target};

/// The space of the board where states are.
const STATES: &str = "target";
/// The space of the board where limits are that were set by somebody.
const LIMITS: &str = "target_limit";
/// How long what was read of a target holds good while it is well.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How often limits are read again.
const LIMITS_EVERY: Duration = Duration::from_secs(1);
/// How long calls of a process count after it was heard of last.
const HOLD_FOR: Duration = Duration::from_secs(30);
/// How soon it is looked whether a lease that has a place lasts, and how much later for each one beside it: however many there are, no
/// more than twenty are looked at in a second.
const LOOK_AFTER: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long after its time a lease is looked at: somebody must have noticed.
const LAPSED_FOR: Duration = Duration::from_millis(500);
/// How often successes of a target that is well are told.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// After how long without a change it is looked whether a state can be forgotten.
const FORGET_AFTER: Duration = Duration::from_hours(1);
/// The most targets that a process remembers.
const MOST: usize = 4_096;

/// What one process knows of targets.
pub(super) struct Targets {
    /// Who it is to the others.
    holder: String,
    rules: RwLock<Arc<Rules>>,
    local: Mutex<HashMap<Arc<str>, Local>>,
    /// What this process runs: it was let through and has not ended.
    admitted: Mutex<HashMap<LeaseToken, Admitted>>,
    /// One change of the board at a time: in one process nobody outruns another.
    turn: tokio::sync::Mutex<()>,
}

/// An attempt that was let through.
struct Admitted {
    targets: Vec<Arc<str>>,
    /// When, by the store's clock.
    began: i64,
    /// When it is looked whether the lease still lasts, on the steady clock.
    look_at: Duration,
}

/// How targets are protected: what the configuration says, and what was set since.
#[derive(Debug, Default)]
struct Rules {
    config: TargetSettings,
    limits: BTreeMap<String, TargetLimits>,
    /// The queues that are protected; all of them where the default protects.
    queues: HashSet<String>,
    every_queue: bool,
    read_at: Option<Duration>,
}

impl Rules {
    fn new(
        config: TargetSettings,
        limits: BTreeMap<String, TargetLimits>,
        read_at: Option<Duration>,
    ) -> Rules {
        let named = config.named.iter().filter(|(_, settings)| !settings.is_nothing()).map(|(name, _)| name);
        let queues =
            named.chain(limits.keys()).filter_map(|name| name.strip_prefix("queue:")).map(str::to_owned);
        let (queues, every_queue) = (queues.collect(), !config.default_queue.is_nothing());
        Rules { config, limits, queues, every_queue, read_at }
    }

    fn of(&self, target: &str) -> Protection {
        let mut settings = self.config.of(target);
        // What is set for a key holds for that key of every queue, too, unless it has limits of its own.
        let bare = || {
            let (_, key) = queue_of_key(target.strip_prefix("key:")?)?;
            self.limits.get(&format!("key:{key}"))
        };
        if let Some(limits) = self.limits.get(target).or_else(bare) {
            settings.rate = limits.rate.or(settings.rate);
            settings.burst = limits.burst.or(settings.burst);
            settings.concurrency = limits.concurrency.or(settings.concurrency);
        }
        settings
    }
}

impl Targets {
    pub(super) fn new(settings: TargetSettings) -> Targets {
        Targets {
            holder: format!("{:016x}", chance::fresh().next_u64()),
            rules: RwLock::new(Arc::new(Rules::new(settings, BTreeMap::new(), None))),
            local: Mutex::default(),
            admitted: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The configuration was read again.
    pub(super) fn reload(&self, settings: TargetSettings) {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        *rules = Arc::new(Rules::new(settings, rules.limits.clone(), rules.read_at));
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn local(&self) -> MutexGuard<'_, HashMap<Arc<str>, Local>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admitted(&self) -> MutexGuard<'_, HashMap<LeaseToken, Admitted>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    fn targets_known(&self) -> &Targets {
        &self.0.targets
    }

    /// Reads the limits that somebody has set, if it is time.
    pub(super) async fn read_limits(&self, at_once: bool) -> Result<(), EngineError> {
        let targets = self.targets_known();
        let steady = self.clock().steady();
        let known = targets.rules().read_at;
        if !at_once && known.is_some_and(|read_at| steady.saturating_sub(read_at) < LIMITS_EVERY) {
            return Ok(());
        }
        let limits = self.all_limits().await?;
        let mut rules = targets.rules.write().unwrap_or_else(PoisonError::into_inner);
        *rules = Arc::new(Rules::new(rules.config.clone(), limits, Some(steady)));
        Ok(())
    }

    /// What is done about targets now and then: limits are read, successes told, calls that still run kept.
    pub(super) async fn tend_targets(&self, prunes: bool) -> Result<(), EngineError> {
        self.read_limits(false).await?;
        self.drop_lost_calls().await?;
        let due = self.targets_to_tell(false);
        if !due.is_empty() {
            self.tell_targets(&due).await;
        }
        if prunes { self.forget_targets().await } else { Ok(()) }
    }
}
