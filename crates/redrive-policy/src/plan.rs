//! A plan: a task as dependent subtasks (R-T1), as a person writes it down and as the store keeps it.
//!
//! [`Plan`] is what a file says, checked: ids are unique, dependencies exist, nothing waits for itself. It is plain data,
//! written and read as JSON without loss; who runs it is the engine's business.

pub(crate) mod roots;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cause::named_enum;

pub use roots::conflicts;

/// How many subtasks of a plan run at a time, unless it says otherwise.
pub const DEFAULT_PARALLEL: u32 = 4;

/// The most subtasks that a plan may have.
pub const MAX_SUBTASKS: usize = 100_000;

named_enum! {
    /// What is done about a task of which a part has failed (002 §5.1).
    RecoveryStrategy {
        /// Only what failed is done again.
        RetryFailedOnly = "RETRY_FAILED_ONLY",
        /// What failed and everything that depends on it and has started is undone, then done again.
        RollbackAndRetry = "ROLLBACK_AND_RETRY",
        /// What succeeded is kept; what failed is told to a person.
        PartialCommit = "PARTIAL_COMMIT",
        /// A person takes over.
        Escalate = "ESCALATE",
    }
}

named_enum! {
    /// What becomes of what succeeded when a person has to take over.
    OnEscalate {
        /// It stays as it is.
        Keep = "keep",
        /// It is undone, the last first: all or nothing.
        Rollback = "rollback",
    }
}

named_enum! {
    /// How an attempt is told what to do better. `REDRIVE_HINT` is set in any case.
    HintBy {
        /// By the variable, and where the command says `{hint}`.
        Env = "env",
        /// On stdin as well, after what the plan puts there.
        Stdin = "stdin",
    }
}

/// A task of dependent subtasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What people call it.
    pub name: String,
    /// How many subtasks run at a time.
    pub parallel: u32,
    /// The queue of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What is done when a part of it fails.
    #[serde(default)]
    pub recovery: Recovery,
    /// The parts. What they depend on comes by number.
    pub subtasks: Vec<Subtask>,
}

impl Plan {
    /// What a subtask is called within its plan: its id, or `sub-<n>`, counted from 1.
    pub fn name_of(&self, i: u32) -> String {
        let named = self.subtasks.get(i as usize).and_then(|subtask| subtask.id.clone());
        named.unwrap_or_else(|| Plan::unnamed(i))
    }

    /// What an unnamed subtask is called within its plan.
    pub(crate) fn unnamed(i: u32) -> String {
        format!("sub-{}", u64::from(i) + 1)
    }
}

/// What is done when a part of a task fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Fixed, or chosen from what depended on what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RecoveryStrategy>,
    /// How often a task is recovered by itself once the policy of a subtask has given up: after a rollback, or as a fixed
    /// strategy says.
    pub rounds: u32,
    /// What becomes of what succeeded when a person has to take over.
    pub on_escalate: OnEscalate,
}

impl Default for Recovery {
    fn default() -> Recovery {
        Recovery { strategy: None, rounds: 1, on_escalate: OnEscalate::Keep }
    }
}

/// A part of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subtask {
    /// Its name, unique in the plan. Absent: `<task>-sub-<n>`, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is done.
    pub work: Work,
    /// By number: what must have succeeded before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<u32>,
    /// By number: where the fault lies when this fails. Always something that it depends on, also from afar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blames: Vec<u32>,
    /// How long one attempt may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The name of its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What it overrides in its policy: the `overrides` object of 002 §7.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Value>,
    /// The files that are put back when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotPlan>,
    /// What its output has to be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<crate::review::ReviewPlan>,
    /// What is done when it fails for good; the plan's strategy unless something is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryStrategy>,
}

/// What a subtask does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A command.
    Command(CommandWork),
    /// An HTTP call, in the form of an `http` job's payload.
    Http(Value),
    /// A registered handler.
    Handler {
        /// The kind of job.
        kind: String,
        /// What the handler gets.
        payload: Value,
    },
}

/// A command as a subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandWork {
    /// The program and its arguments; `{hint}` in them is what the last attempt taught. A command that was written as one
    /// text is `["/bin/sh", "-c", text]`.
    pub argv: Vec<String>,
    /// Where it runs, from where the plan is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are set for it. No secrets: a plan is stored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads from stdin; `{hint}` as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How it is told what to do better.
    pub hint: HintBy,
}

/// Files that are put back when a subtask fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SnapshotPlan {
    /// Directories, from where the plan is; no `..` in them.
    pub roots: Vec<String>,
    /// What is left alone, in the manner of .gitignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// The most bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The most entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_entries: Option<u64>,
}
