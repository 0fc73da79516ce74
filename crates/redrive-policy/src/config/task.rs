//! What one task has otherwise (002 §7.2, R-P8).

use std::time::Duration;

use serde_json::Value;

use super::file::TASK;
use super::node::Node;
use super::path::Path;
use super::problem::{ConfigError, Problem};
use super::read_backoff::BackoffFields;
use super::read_policy::{causes, lay_over, read_entries, retries};
use super::{Format, Notes, checked, inherit, schema};
use crate::cause::CauseSet;
use crate::policy::{Entry, Override, Policy, PolicySpec};

/// Stands for a cap that is the policy's, which nobody knows while reading; no file can write one so long.
const CAP_OF_POLICY: Duration = Duration::MAX;

/// What one task has otherwise: a part of a policy that beats the policy's own.
///
/// ```
/// use redrive_policy::{Policy, TaskRetryOverride};
/// use serde_json::json;
///
/// let task = TaskRetryOverride::from_json(
///     &json!({"task_id": "critical-task-001", "overrides": {"max_retries": 0}}), "task").unwrap();
/// assert_eq!(task.task_id, "critical-task-001");
/// assert_eq!(task.apply_to(&Policy::standard()).forced_max_retries, Some(0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRetryOverride {
    /// The task.
    pub task_id: String,
    /// The fields that beat the policy's for every cause.
    pub overrides: Override,
    /// The causes that are retried, in place of the policy's.
    pub retryable_failures: Option<CauseSet>,
    /// What this task has otherwise for some causes. Within an override the particular beats the general,
    /// as it does within a policy. A cap of [`Duration::MAX`] stands for the policy's.
    pub cause_specific: Vec<Entry>,
    /// What is odd without being wrong.
    pub warnings: Vec<Problem>,
}

impl TaskRetryOverride {
    /// Reads `{task_id, overrides}`. `file` is the name that errors blame.
    pub fn parse(source: &str, format: Format, file: &str) -> Result<TaskRetryOverride, ConfigError> {
        match Node::parse(source, format) {
            Ok(Some(node)) => TaskRetryOverride::read(&node, file),
            // Nothing at all is a table with nothing in it, whose fields are then missed by name.
            Ok(None) => TaskRetryOverride::read(&Node::from_json(&serde_json::json!({})), file),
            Err(problem) => Err(ConfigError { file: file.to_owned(), problems: vec![*problem] }),
        }
    }

    /// The same from JSON that has been read already.
    pub fn from_json(json: &Value, file: &str) -> Result<TaskRetryOverride, ConfigError> {
        TaskRetryOverride::read(&Node::from_json(json), file)
    }

    /// The JSON Schema of an override.
    pub fn schema() -> Value {
        schema::schema_of(&TASK, "redrive task retry override")
    }

    fn read(node: &Node, file: &str) -> Result<TaskRetryOverride, ConfigError> {
        let mut notes = Notes::default();
        let wish = node.get("overrides");
        let path = Path::Top.field("overrides");
        let mut task = TaskRetryOverride::read_wish(wish, &path, &mut notes);
        node.get("task_id").and_then(Node::text).unwrap_or_default().clone_into(&mut task.task_id);
        let warnings = checked(node, &TASK, notes, file)?;
        Ok(TaskRetryOverride { warnings, ..task })
    }

    /// The object `overrides` alone, wherever it stands; of whom it is, nobody has said yet.
    pub(super) fn read_wish(wish: Option<&Node>, path: &Path<'_>, notes: &mut Notes) -> TaskRetryOverride {
        let backoff = wish.and_then(|wish| wish.get("backoff").or_else(|| wish.get("default_backoff")));
        let overrides = Override {
            max_retries: wish.and_then(retries),
            ..backoff.map(BackoffFields::read).unwrap_or_default().to_override()
        };
        let mut around: Box<PolicySpec> = inherit::bare("");
        around.backoff.cap = CAP_OF_POLICY;
        let cause_specific = wish
            .and_then(|wish| wish.get("cause_specific"))
            .map(|entries| read_entries(entries, &around, &path.field("cause_specific"), notes));
        TaskRetryOverride {
            task_id: String::new(),
            overrides,
            retryable_failures: wish.and_then(|wish| wish.get("retryable_failures")).map(causes),
            cause_specific: cause_specific.unwrap_or_default(),
            warnings: Vec::new(),
        }
    }

    /// The policy as this task has it.
    pub fn apply_to(&self, policy: &Policy) -> Policy {
        let policy = policy.with_override(&self.overrides);
        if self.retryable_failures.is_none() && self.cause_specific.is_empty() {
            return policy;
        }
        let mut spec: PolicySpec = (*policy).clone();
        if let Some(retried) = self.retryable_failures {
            spec.retry_on = retried;
            spec.never = spec.never.minus(retried);
        }
        // A forced limit would silence the entries that came with it; every older number is replaced already.
        if self.cause_specific.iter().any(|entry| entry.max_retries.is_some()) {
            spec.forced_max_retries = None;
        }
        let mut own = self.cause_specific.clone();
        for backoff in own.iter_mut().filter_map(|entry| entry.backoff.as_mut()) {
            if backoff.cap == CAP_OF_POLICY {
                backoff.cap = spec.backoff.cap;
            }
        }
        spec.entries = lay_over(own, spec.entries);
        Policy::from(spec)
    }
}
