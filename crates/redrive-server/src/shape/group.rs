//! Groups as JSON. `dlq groups --json` writes the same.

use redrive_policy::Cause;
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::letter::Letter;
use super::{Time, name};

/// Letters with one fingerprint.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Group {
    /// What they share.
    pub fingerprint: String,
    /// Dead now; for a token of some queues, in these.
    pub count: i64,
    /// What the failures were found to be.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// The error's type.
    pub error_type: String,
    /// The words of one of them.
    pub sample: String,
    /// Where the group stands.
    #[schemars(with = "name::State")]
    pub state: &'static str,
    /// Since when.
    #[schemars(with = "Time")]
    pub state_since: Timestamp,
    /// What the person said who set the state; for tokens of all queues.
    pub note: Option<String>,
    /// When the first letter was written; for a token of some queues, of those that are dead in these.
    #[schemars(with = "Time")]
    pub first_seen: Timestamp,
    /// When the last letter was written; for a token of some queues, of those that are dead in these.
    #[schemars(with = "Time")]
    pub last_seen: Timestamp,
    /// Letters ever written. This and what follows is told to tokens of all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// Redriven, and not over yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_way: Option<i64>,
    /// Redriven, and succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<i64>,
    /// Attempts that failed in the same way after a redrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relapsed: Option<i64>,
}

impl From<redrive_store::Group> for Group {
    fn from(group: redrive_store::Group) -> Group {
        Group {
            fingerprint: group.fingerprint,
            count: group.counts.letters,
            cause: group.cause,
            error_type: group.error_type,
            sample: group.sample,
            state: group.state.name(),
            state_since: group.state_since,
            note: group.note,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
            failures: Some(group.counts.failures),
            under_way: Some(group.counts.under_way),
            recovered: Some(group.counts.recovered),
            relapsed: Some(group.counts.relapsed),
        }
    }
}

/// A group and its newest letters.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GroupWhole {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// The newest letters of it.
    pub letters: Vec<Letter>,
}
