//! Configuration as text becomes policies, rules and settings (R-P7), or errors that say where and what.
//!
//! Reading files is the caller's business; this module sees text and the name to blame. A file goes through
//! three hands: [`node`] makes a tree of it, whatever its format; [`check`] compares the tree with the one
//! description of its shape, in [`file`], of which [`schema`] makes the JSON Schema; `read_*` and [`inherit`]
//! lift it into policies and rules. Nobody stops at the first problem, and all are told in file order.
//!
//! How what is not said is filled in:
//! - A policy of the file takes what it does not say from the one it `extends`, field by field, the fields
//!   of its backoff included. `retry` is the policy `standard` and builds on 002 §1.3. `extends = "none"`
//!   builds on the same numbers without entries for single causes.
//! - `retryable_failures` and `never` replace their lists, `retry_on` adds to one. `never` beats both.
//! - An entry of `cause_specific` replaces all that is inherited about its causes; other causes keep theirs.
//!   An entry for a code beats one for a cause, which beats one for a failure type.
//! - A cause's `backoff` replaces the policy's: no `jitter` means none, no `multiplier` 2, no `increment` the
//!   initial delay, no cap the policy's.
//! - A file with its own `standard` has its own `command` too, which is the same and retries `unknown`.
//!
//! A field that is given twice in JSON, which most parsers let pass, is an error here.

mod alert_file;
mod check;
mod file;
mod idempotency_file;
mod inherit;
mod node;
mod path;
mod place;
mod plan_file;
mod problem;
mod push_file;
mod read_alert;
mod read_auto_redrive;
mod read_backoff;
mod read_idempotency;
mod read_plan;
mod read_policy;
mod read_push;
mod read_review;
mod read_rules;
mod read_server;
mod read_subtask;
mod read_target;
mod schema;
mod server_file;
mod shape;
mod target_file;
mod task;
mod words;
mod write;

use std::collections::BTreeMap;

use crate::cause::{Cause, CauseSet};
use crate::classify::{Classifier, UserRule};
use crate::escalation::EscalateSettings;
use crate::idempotency::Guarded;
use crate::lang::Lang;
use crate::policy::{Policy, PolicySpec};
use crate::presets::PRESETS;
use crate::review::ReviewPlan;
use node::Node;
use path::Path;
use problem::Problems;
use shape::{Shape, Table};

pub use problem::{ConfigError, Expected, Place, Problem, ProblemKind, ValueType};
pub use read_alert::{AlertBy, AlertReceiver, AlertSettings, Severity};
pub use read_auto_redrive::AutoRedrive;
pub use read_idempotency::ProxySettings;
pub use read_push::PushConfig;
pub use read_server::{Allowed, ServerConfig, TlsFiles};
pub use read_target::TargetSettings;
pub use task::TaskRetryOverride;
pub use write::policy_to_json;

/// Everything a configuration file can say about policy. A missing part has its built-in value.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The file's own policies by name; a `retry` section is the policy called `standard`.
    pub policies: BTreeMap<String, Policy>,
    /// The file's own rules, in order; they are asked before the built-in ones.
    pub rules: Vec<UserRule>,
    /// What to do about snapshots and partial results (its effects come with tasks).
    pub recovery: RecoverySettings,
    /// When people are told that something is wrong, and how.
    pub alerts: AlertSettings,
    /// Rules by which workers put dead letters back.
    pub auto_redrive: Vec<AutoRedrive>,
    /// Services that the server calls for jobs.
    pub push: Vec<PushConfig>,
    /// How people are told.
    pub escalate: EscalateSettings,
    /// What output has to be like where it is reviewed.
    pub review: ReviewPlan,
    /// The requests that are done once however often they come; nothing when the file does not say.
    pub idempotency: Option<Guarded>,
    /// What the proxy would otherwise be told each time.
    pub proxy: ProxySettings,
    /// Where the server listens, whom it lets in, and what work that came in over the API may do.
    pub server: ServerConfig,
    /// How targets are protected.
    pub targets: TargetSettings,
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
    /// The file with the keys of an encrypted store.
    pub key_file: Option<String>,
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

/// What was noticed on the way: what is wrong, and what is only odd.
#[derive(Debug, Default)]
struct Notes {
    wrong: Problems,
    odd: Problems,
}

/// Compares a file with its shape, now that it has been read: its warnings, or everything that is wrong.
fn checked(
    node: &Node,
    table: &'static Table,
    mut notes: Notes,
    file: &str,
) -> Result<Vec<Problem>, ConfigError> {
    check::check(node, &Shape::Table(table), &Path::Top, &mut notes.wrong);
    if notes.wrong.is_empty() {
        Ok(notes.odd.in_file_order())
    } else {
        Err(ConfigError { file: file.to_owned(), problems: notes.wrong.in_file_order() })
    }
}

/// The same, each problem with its place in the text that the nodes came from.
fn checked_in(
    (source, format): (&str, Format),
    node: &Node,
    table: &'static Table,
    mut notes: Notes,
    file: &str,
) -> Result<Vec<Problem>, ConfigError> {
    check::check(node, &Shape::Table(table), &Path::Top, &mut notes.wrong);
    if notes.wrong.is_empty() {
        Ok(notes.odd.placed(source, format))
    } else {
        Err(ConfigError { file: file.to_owned(), problems: notes.wrong.placed(source, format) })
    }
}

/// Reads one policy, written as an entry of `policies` is. It may extend a preset.
pub fn policy_from_json(name: &str, json: &serde_json::Value) -> Result<Policy, ConfigError> {
    let mut notes = Notes::default();
    let node = Node::from_json(json);
    let spec = inherit::read_alone(name, &node, &mut notes);
    checked(&node, &file::POLICY, notes, name).map(|_| Policy::from(spec))
}

impl Config {
    /// Reads a configuration. `file` is the name that errors blame.
    ///
    /// ```
    /// use redrive_policy::{Config, Format};
    ///
    /// let error = Config::parse("[retry.backoff]\nmultiplier = 0.5", Format::Toml, "redrive.toml").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "redrive.toml: retry.backoff.multiplier: 0.5 is too small; allowed: a number from 1 to 1000000"
    /// );
    /// ```
    pub fn parse(source: &str, format: Format, file: &str) -> Result<Config, ConfigError> {
        match Node::parse(source, format) {
            Ok(Some(node)) => Config::read(&node, file, None),
            Ok(None) => Ok(Config::default()),
            Err(problem) => Err(ConfigError { file: file.to_owned(), problems: vec![*problem] }),
        }
    }

    /// The same for whoever shows the text: every problem and every warning says its line and its column.
    pub fn parse_placed(source: &str, format: Format, file: &str) -> Result<Config, ConfigError> {
        match Node::parse(source, format) {
            Ok(Some(node)) => Config::read(&node, file, Some((source, format))),
            Ok(None) => Ok(Config::default()),
            Err(problem) => Err(ConfigError { file: file.to_owned(), problems: vec![*problem] }),
        }
    }

    fn read(node: &Node, file: &str, text: Option<(&str, Format)>) -> Result<Config, ConfigError> {
        let mut notes = Notes::default();
        let mut config = Config {
            policies: inherit::read_policies(node, &mut notes),
            rules: read_rules::read_rules(node, &mut notes),
            recovery: read_recovery(node),
            alerts: read_alert::read(node, &mut notes),
            auto_redrive: read_auto_redrive::read(node, &mut notes),
            push: read_push::read(node, &mut notes),
            escalate: read_escalate(node),
            review: node.get("review").map(read_review::read).unwrap_or_default(),
            idempotency: read_idempotency::read(node, &mut notes),
            proxy: read_idempotency::read_proxy(node, &mut notes),
            server: read_server::read(node, &mut notes),
            targets: read_target::read(node),
            settings: Settings {
                store: node.get("store").and_then(Node::text).map(str::to_owned),
                key_file: node.get("key_file").and_then(Node::text).map(str::to_owned),
                lang: read_policy::named(node, "lang"),
                policy: node.get("policy").and_then(Node::text).map(str::to_owned),
            },
            warnings: Vec::new(),
        };
        let [alerts, proxy] = ["alerts", "proxy"].map(|section| Path::Top.field(section));
        let sections = [(Some(node), Path::Top), (node.get("alerts"), alerts), (node.get("proxy"), proxy)];
        for (table, path) in sections {
            let Some(field) = table.and_then(|table| table.get("policy")) else { continue };
            let Some(name) = field.text().filter(|name| config.policy(name).is_none()) else { continue };
            let known = config.policy_names();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let (kind, expected) = inherit::unknown_policy(name, &known, None);
            notes.wrong.add(field.at, &path.field("policy"), kind, expected);
        }
        config.warnings = match text {
            Some(text) => checked_in(text, node, &file::FILE, notes, file)?,
            None => checked(node, &file::FILE, notes, file)?,
        };
        Ok(config)
    }

    /// The JSON Schema (draft 2020-12) of a configuration file.
    pub fn schema() -> serde_json::Value {
        schema::schema_of(&file::FILE, "redrive configuration")
    }

    /// The policy of that name: the file's own, or a preset. Where the file has its own `standard`, `command`
    /// follows it.
    pub fn policy(&self, name: &str) -> Option<Policy> {
        let follow_standard = || {
            let standard = self.policies.get("standard").filter(|_| name == "command")?;
            let also = CauseSet::of(&[Cause::Unknown]).minus(standard.never);
            let retry_on = standard.retry_on.union(also);
            Some(Policy::from(PolicySpec { name: name.to_owned(), retry_on, ..(**standard).clone() }))
        };
        self.policies.get(name).cloned().or_else(follow_standard).or_else(|| Policy::preset(name))
    }

    /// The names of all policies, presets first.
    pub fn policy_names(&self) -> Vec<String> {
        let own = self.policies.keys().map(String::as_str).filter(|name| !PRESETS.contains(name));
        PRESETS.iter().copied().chain(own).map(str::to_owned).collect()
    }

    /// A classifier that asks the file's rules first.
    pub fn classifier(&self) -> Classifier {
        Classifier::with_user_rules(self.rules.clone())
    }
}

fn read_recovery(file: &Node) -> RecoverySettings {
    let default = RecoverySettings::default();
    let field = |name: &str| file.get("recovery")?.get(name);
    let hours = field("snapshot_retention_hours").and_then(Node::whole);
    RecoverySettings {
        enable_snapshots: field("enable_snapshots").and_then(Node::bool).unwrap_or(default.enable_snapshots),
        snapshot_retention_hours: hours
            .and_then(|hours| u32::try_from(hours).ok())
            .unwrap_or(default.snapshot_retention_hours),
        partial_commit_enabled: field("partial_commit_enabled")
            .and_then(Node::bool)
            .unwrap_or(default.partial_commit_enabled),
    }
}

fn read_escalate(file: &Node) -> EscalateSettings {
    let default = EscalateSettings::default();
    let field = |name: &str| file.get("escalate")?.get(name);
    let length = field("max_message_length").and_then(Node::whole);
    EscalateSettings {
        notify_immediately: field("notify_immediately")
            .and_then(Node::bool)
            .unwrap_or(default.notify_immediately),
        include_trace_link: field("include_trace_link")
            .and_then(Node::bool)
            .unwrap_or(default.include_trace_link),
        max_message_length: length
            .and_then(|length| usize::try_from(length).ok())
            .unwrap_or(default.max_message_length),
    }
}
