//! The policies that jobs name. A waiting job is decided on by the current policy of its name, and each decision records
//! that policy's version.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_policy::{Config, PRESETS, Policy};
use redrive_store::Job;

use super::EngineError;
use super::overrides::JobOverrides;

/// The policy of jobs that name none, where nobody says so.
const USUAL: &str = "standard";

/// A policy and its version, which is worked out once.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) policy: Policy,
    pub(super) version: Arc<str>,
}

impl Named {
    pub(super) fn new(policy: Policy) -> Named {
        let version = Arc::from(policy.version());
        Named { policy, version }
    }
}

/// All policies by name. There is always one of the default's name.
#[derive(Debug)]
pub(super) struct Policies {
    by_name: BTreeMap<String, Named>,
    /// Those that were given one by one; they beat a configuration's.
    own: Vec<Policy>,
    default: Named,
    /// The name of the default that was given beside any configuration.
    own_default: Option<String>,
}

impl Policies {
    pub(super) fn new(
        config: Option<&Config>,
        own: Vec<Policy>,
        own_default: Option<String>,
    ) -> Result<Policies, EngineError> {
        let none = Config::default();
        let config = config.unwrap_or(&none);
        let mut by_name: BTreeMap<String, Named> = PRESETS
            .iter()
            .copied()
            .chain(config.policies.keys().map(String::as_str))
            .filter_map(|name| Some((name.to_owned(), Named::new(config.policy(name)?))))
            .collect();
        for policy in &own {
            by_name.insert(policy.name.clone(), Named::new(policy.clone()));
        }
        let name = own_default.as_deref().or(config.settings.policy.as_deref()).unwrap_or(USUAL);
        let Some(default) = by_name.get(name).cloned() else {
            let (name, known) = (name.to_owned(), by_name.into_keys().collect());
            return Err(EngineError::UnknownPolicy { name, known });
        };
        Ok(Policies { by_name, own, default, own_default })
    }

    /// The same with another configuration.
    pub(super) fn reloaded(&self, config: &Config) -> Result<Policies, EngineError> {
        Policies::new(Some(config), self.own.clone(), self.own_default.clone())
    }

    /// The policy of jobs that name none.
    pub(super) fn default_named(&self) -> &Named {
        &self.default
    }

    /// The name of that.
    pub(super) fn default_name(&self) -> &str {
        &self.default.policy.name
    }

    /// Every policy, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Policy> {
        self.by_name.values().map(|named| &named.policy)
    }

    /// The policy of that name, or the default.
    pub(super) fn named(&self, name: Option<&str>) -> Result<&Named, EngineError> {
        match name {
            None => Ok(&self.default),
            Some(name) => self.by_name.get(name).ok_or_else(|| EngineError::UnknownPolicy {
                name: name.to_owned(),
                known: self.by_name.keys().cloned().collect(),
            }),
        }
    }

    /// What a job's policy says about retries, without a copy of the whole policy.
    #[cfg(feature = "remote")]
    pub(super) fn max_retries_of(&self, job: &Job) -> u32 {
        match (&job.overrides, self.named(job.policy.as_deref())) {
            (None, Ok(named)) => named.policy.max_retries,
            _ => self.of_job(job).policy.max_retries,
        }
    }

    /// The policy that a job runs under. One that this process does not know is replaced by the default: a job must
    /// not be stuck because its policy was renamed, and the default retries only what is known to heal.
    pub(super) fn of_job(&self, job: &Job) -> Named {
        let named = self.named(job.policy.as_deref()).unwrap_or_else(|error| {
            tracing::warn!(job = %job.id, %error, "the default policy stands in");
            &self.default
        });
        let Some(overrides) = &job.overrides else { return named.clone() };
        match JobOverrides::parse(overrides) {
            Ok(overrides) => Named::new(overrides.apply_to(&named.policy)),
            Err(error) => {
                tracing::warn!(job = %job.id, %error, "what the job overrides is left out");
                named.clone()
            }
        }
    }
}
