//! What is remembered of a task between two turns, beside where its subtasks stand.

use redrive_policy::plan::RecoveryStrategy;
use redrive_store::Task;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::EngineError;

/// How far a task is with its recoveries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    /// How often it was recovered by itself.
    pub(super) rounds: u32,
    /// A person wants what failed to be done again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) resumed: bool,
    /// What is being undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undoing: Option<Undoing>,
    /// What failed while something else was being undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failed_meanwhile: Vec<u32>,
    /// What was undone, or failed, and is under way again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redoing: Option<Redoing>,
    /// What succeeded is kept, and these failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) given_up: Vec<u32>,
    /// A person has to take over: nothing more is begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopping: Option<Stopping>,
    /// Somebody wants it to end, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancelled: Option<String>,
    /// What subtasks are told that are at fault for another one's failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) told: Vec<(u32, String)>,
}

/// Subtasks that are being undone, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Undoing {
    pub(super) strategy: RecoveryStrategy,
    pub(super) failed: Vec<u32>,
    /// In this order.
    pub(super) undo: Vec<u32>,
    /// How many of them are.
    pub(super) done: usize,
    /// What waits again afterwards.
    pub(super) redo: Vec<u32>,
    /// What will not be begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) skip: Vec<u32>,
}

/// Subtasks that are done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Redoing {
    pub(super) strategy: RecoveryStrategy,
    pub(super) redo: Vec<u32>,
}

/// Why a person has to take over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stopping {
    /// What failed.
    pub(super) failed: Vec<u32>,
    /// Files that could not be put back, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) not_restored: Option<String>,
    /// Whether nothing is left to be undone.
    #[serde(default)]
    pub(super) rolled_back: bool,
}

impl Progress {
    pub(super) fn read(task: &Task) -> Result<Progress, EngineError> {
        Progress::deserialize(&task.progress).map_err(EngineError::Payload)
    }

    pub(super) fn to_json(&self) -> Value {
        // Numbers, texts and lists of them: nothing in it could fail.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The same for a task that goes on because a person wants it to.
    pub(super) fn resumed(self) -> Progress {
        Progress { resumed: true, told: self.told, ..Progress::default() }
    }
}
