//! Configuration as text becomes policies, rules and settings (R-P7), or errors that say where and what.
//!
//! Reading files is the caller's business; this module sees text and the name to blame.

use std::collections::BTreeMap;
use std::fmt;

use crate::classify::{Classifier, UserRule};
use crate::escalation::EscalateSettings;
use crate::lang::Lang;
use crate::policy::Policy;

/// Everything a configuration file can say about policy. A missing part has its built-in value.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The file's own policies by name; a `retry` section is the policy called `standard`.
    pub policies: BTreeMap<String, Policy>,
    /// The file's own rules, in order; they are asked before the built-in ones.
    pub rules: Vec<UserRule>,
    /// What to do about snapshots and partial results (its effects come with tasks).
    pub recovery: RecoverySettings,
    /// How people are told.
    pub escalate: EscalateSettings,
    /// What the command line would otherwise be told each time.
    pub settings: Settings,
    /// What is odd without being wrong.
    pub warnings: Vec<Problem>,
}

/// The `recovery` section of 002 §7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Take snapshots at all.
    pub enable_snapshots: bool,
    /// How long a snapshot can be restored.
    pub snapshot_retention_hours: u32,
    /// Whether a part of the results may be kept.
    pub partial_commit_enabled: bool,
}

impl Default for RecoverySettings {
    fn default() -> RecoverySettings {
        RecoverySettings {
            enable_snapshots: true,
            snapshot_retention_hours: 24,
            partial_commit_enabled: true,
        }
    }
}

/// Defaults for the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `sqlite:PATH` or `postgres://…`
    pub store: Option<String>,
    /// The language people are spoken to in.
    pub lang: Option<Lang>,
    /// The policy that is used when none is named.
    pub policy: Option<String>,
}

/// A format that configuration is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The JSON of 002 §7.1.
    Json,
    /// The same in TOML.
    Toml,
}

/// One thing that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file: `retry.default_backoff.multiplier`; a line for what cannot be parsed at all.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// What is allowed there.
    pub allowed: String,
}

/// A file that cannot be used, with everything that is wrong in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The name of the file.
    pub file: String,
    /// All of its problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let line_break = if i == 0 { "" } else { "\n" };
            write!(
                f,
                "{line_break}{}: {}: {}; allowed: {}",
                self.file, problem.path, problem.what, problem.allowed
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a configuration. `file` is the name that errors blame.
    pub fn parse(_source: &str, _format: Format, _file: &str) -> Result<Config, ConfigError> {
        Ok(Config::default())
    }

    /// The JSON Schema of a configuration file.
    pub fn schema() -> serde_json::Value {
        serde_json::Value::Null
    }

    /// The policy of that name: the file's own, or a preset.
    pub fn policy(&self, name: &str) -> Option<Policy> {
        self.policies.get(name).cloned().or_else(|| Policy::preset(name))
    }

    /// The names of all policies, presets first.
    pub fn policy_names(&self) -> Vec<String> {
        let presets = crate::presets::PRESETS.iter().map(|name| (*name).to_owned());
        let own =
            self.policies.keys().filter(|name| !crate::presets::PRESETS.contains(&name.as_str())).cloned();
        presets.chain(own).collect()
    }

    /// A classifier that asks the file's rules first.
    pub fn classifier(&self) -> Classifier {
        Classifier::with_user_rules(self.rules.clone())
    }
}
