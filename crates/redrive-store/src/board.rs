//! The board: small facts that every process on the store shares, such as tokens, schedules, alerts and the state of targets.
//!
//! A notice is a JSON text under a space and a name, with a version. Whoever changes one says which version it has seen; what
//! another has changed meanwhile stays as it is. Jobs and events may go into the same transaction, so that a tick of a schedule
//! and its job, or an alert and its message, are there together or not at all. What a notice means is the engine's business.

use crate::Answer;
use crate::event::NewEvent;
use crate::job::{Enqueued, NewJob};
use crate::time::Timestamp;

/// The most bytes in a notice.
pub const MAX_NOTICE_BYTES: usize = 256 * 1024;

/// A notice on the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is about: `token`, `schedule`, `alert`, `target` and the like.
    pub space: String,
    /// Its name there.
    pub name: String,
    /// Grows with every change, and never returns: a notice that was taken down and put up again has a new one.
    pub version: i64,
    /// What it says, as JSON. Sealed where the store has a key.
    pub value: String,
    /// When somebody must look at it again.
    pub due_at: Option<Timestamp>,
    /// When it was changed last.
    pub changed_at: Timestamp,
}

/// A change of one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeChange {
    /// The space.
    pub space: String,
    /// The name.
    pub name: String,
    /// The version that was seen; absent: there was none.
    pub seen: Option<i64>,
    /// What it says from now on; absent: it is taken down.
    pub value: Option<String>,
    /// When somebody must look at it again.
    pub due_at: Option<Timestamp>,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// Everything is done.
    Done {
        /// The new versions, in the order of the changes; nothing for what was taken down.
        versions: Vec<Option<i64>>,
        /// The jobs.
        jobs: Vec<Enqueued>,
    },
    /// Somebody was faster: nothing at all is done.
    Outrun,
}

/// Reading and changing the board.
pub trait Board: Send + Sync {
    /// One notice.
    fn notice(&self, space: String, name: String) -> Answer<'_, Option<Notice>>;

    /// The notices of a space by name, after this name, at most `limit`.
    fn notices(&self, space: String, after: Option<String>, limit: u32) -> Answer<'_, Vec<Notice>>;

    /// The notices of a space that somebody must look at by now, the most urgent first.
    fn due_notices(&self, now: Timestamp, space: String, limit: u32) -> Answer<'_, Vec<Notice>>;

    /// Changes notices, if each still has the version that was seen, and adds jobs and events in the same transaction. All of it
    /// or nothing.
    fn post(
        &self,
        now: Timestamp,
        changes: Vec<NoticeChange>,
        jobs: Vec<NewJob>,
        events: Vec<NewEvent>,
    ) -> Answer<'_, Posted>;
}
