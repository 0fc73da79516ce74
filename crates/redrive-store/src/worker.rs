//! Workers: every start of one is a new incarnation, whose presence must be renewed (R-D2).

use std::time::Duration;

use crate::Answer;
use crate::id::WorkerId;
use crate::time::Timestamp;

/// A worker that is or was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPresence {
    /// Its number.
    pub id: WorkerId,
    /// What it calls itself: host and process.
    pub label: String,
    /// When it came.
    pub started_at: Timestamp,
    /// When it was seen last.
    pub seen_at: Timestamp,
    /// When it counts as gone.
    pub expires_at: Timestamp,
    /// What it takes, if it has said.
    pub takes: Option<Takes>,
}

/// What a worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Takes {
    /// Work of these queues; none here: of all.
    pub queues: Vec<String>,
    /// Work of these kinds; none here: of all.
    pub kinds: Vec<String>,
}

impl Takes {
    /// What a process that only keeps the store in order takes: messages to people, if anything.
    pub fn no_work() -> Takes {
        Takes { queues: vec!["redrive-alerts".to_owned()], kinds: vec!["alert".to_owned()] }
    }

    /// Whether it takes work of this kind in this queue.
    pub fn takes(&self, queue: &str, kind: &str) -> bool {
        let has = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
        has(&self.queues, queue) && has(&self.kinds, kind)
    }
}

/// Who is there.
pub trait Workers: Send + Sync {
    /// A fresh incarnation.
    fn register(&self, now: Timestamp, label: String, presence_for: Duration) -> Answer<'_, WorkerId>;

    /// It says what it takes, so that people can be told when nobody takes something.
    fn takes(&self, worker: WorkerId, takes: Takes) -> Answer<'_, ()>;

    /// It leaves: what is reserved for it is everybody's.
    fn unregister(&self, now: Timestamp, worker: WorkerId) -> Answer<'_, ()>;

    /// Those whose presence lasts.
    fn workers(&self, now: Timestamp) -> Answer<'_, Vec<WorkerPresence>>;
}
