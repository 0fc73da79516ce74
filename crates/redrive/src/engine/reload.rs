//! What a configuration says while an engine runs: read again, it holds as a whole or not at all (reliability row 73).
//!
//! Jobs that wait are decided on by what holds when they are; what runs ends by what it began with.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use redrive_policy::{AutoRedrive, Config, EscalateSettings, RecoverySettings};

use super::maintenance::recover::Rule;
use super::policies::Policies;
use super::{Engine, EngineError};

/// What is read anew each time that it is needed.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) escalate: EscalateSettings,
    pub(super) recovery: RecoverySettings,
    /// By which dead letters are put back by themselves.
    pub(super) recovery_rules: Vec<Rule>,
}

impl Held {
    /// What a configuration says, and the rules that were given one by one.
    pub(super) fn new(config: Option<&Config>, own: &[AutoRedrive]) -> Result<Held, EngineError> {
        let of_config = config.map(|config| config.auto_redrive.as_slice()).unwrap_or_default();
        let rules = of_config.iter().chain(own).map(Rule::new);
        Ok(Held {
            escalate: config.map_or_else(EscalateSettings::default, |config| config.escalate),
            recovery: config.map_or_else(RecoverySettings::default, |config| config.recovery),
            recovery_rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

fn exchange<T>(held: &RwLock<Arc<T>>, new: T) {
    *held.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
}

impl Engine {
    /// What holds now.
    pub(super) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.0.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges everything that a configuration says of policies, rules, targets, alerts, automatic recovery and of how people are told
    /// for what one says that was read again. One that cannot be obeyed changes nothing. Jobs that wait are decided on by the new one.
    pub fn reload(&self, config: &Config) -> Result<(), EngineError> {
        self.prepare_reload(config).map(Reload::hold)
    }

    /// The same in two steps, for whoever has more to exchange: what can fail has not failed, and nothing has changed yet.
    pub fn prepare_reload(&self, config: &Config) -> Result<Reload, EngineError> {
        let policies = self.policies().reloaded(config)?;
        let held = Held::new(Some(config), &self.0.own_rules)?;
        #[cfg(feature = "alerts")]
        super::alert::check_alert_receivers(&config.alerts, &config.server.listen)?;
        Ok(Reload { engine: self.clone(), policies, held, config: config.clone() })
    }
}

/// A configuration that can be obeyed, and is not yet; see [`Engine::prepare_reload`].
#[derive(Debug)]
#[must_use = "it holds only once it is told to"]
pub struct Reload {
    engine: Engine,
    policies: Policies,
    held: Held,
    config: Config,
}

impl Reload {
    /// From now on it is obeyed.
    pub fn hold(self) {
        let Reload { engine, policies, held, config } = self;
        let shared = &engine.0;
        exchange(&shared.policies, policies);
        exchange(&shared.classifier, config.classifier());
        shared.telling.at_once.store(held.escalate.notify_immediately, Ordering::Relaxed);
        exchange(&shared.held, held);
        shared.targets.reload(config.targets);
        #[cfg(feature = "alerts")]
        engine.reload_alerts(&config.alerts);
    }
}
