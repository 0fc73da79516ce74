//! The board: small facts that every process on the store shares, such as tokens, schedules, alerts and the state of targets.
//!
//! A notice is a JSON text under a space and a name, with a version. Whoever changes one says which version it has seen; what
//! another has changed meanwhile stays as it is. Jobs and events may go into the same transaction, so that a tick of a schedule
//! and its job, or an alert and its message, are there together or not at all. What a notice means is the engine's business.

use std::collections::HashSet;

use crate::Answer;
use crate::effects::sample_row;
use crate::error::{Refusal, StoreError, Trouble};
use crate::event::{NewEvent, must_be_name};
use crate::job::{Enqueued, MAX_BATCH, NewJob, few_enough};
use crate::seal::{Cell, Seals};
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
///
/// Times on the board are those of who posts: `due_at` is read back as it was said, and compared with the time that is asked for. Who
/// wants servers with different clocks to agree says both by the store's own ([`Housekeeping::clock`](crate::Housekeeping::clock)).
pub trait Board: Send + Sync {
    /// One notice.
    fn notice(&self, space: String, name: String) -> Answer<'_, Option<Notice>>;

    /// The notices of a space by name, byte by byte, after this name, at most `limit`.
    fn notices(&self, space: String, after: Option<String>, limit: u32) -> Answer<'_, Vec<Notice>>;

    /// The notices of a space that somebody must look at by now, the most urgent first; of two that are due at the same time, the one
    /// that was put up first.
    fn due_notices(&self, now: Timestamp, space: String, limit: u32) -> Answer<'_, Vec<Notice>>;

    /// Changes notices, if each still has the version that was seen, and adds jobs and events in the same transaction. All of it
    /// or nothing. Who takes down what is not there, and has seen that, changes nothing. A job whose unique key is taken is not
    /// added, which is no reason against the rest.
    fn post(
        &self,
        now: Timestamp,
        changes: Vec<NoticeChange>,
        jobs: Vec<NewJob>,
        events: Vec<NewEvent>,
    ) -> Answer<'_, Posted>;
}

/// The most notices that are read at once.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) fn most(limit: u32) -> i64 {
    i64::from(limit).min(i64::try_from(MAX_BATCH).unwrap_or(i64::MAX))
}

/// Whether all of it can be stored.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) fn validate(
    changes: &[NoticeChange],
    jobs: &[NewJob],
    events: &[NewEvent],
) -> Result<(), StoreError> {
    few_enough(changes.len().saturating_add(jobs.len()).saturating_add(events.len()))?;
    let mut seen = HashSet::new();
    for NoticeChange { space, name, value, .. } in changes {
        must_be_name("space", space)?;
        must_be_name("name", name)?;
        let refuse = |refusal| Err(StoreError::from(Trouble::Refused(refusal)));
        let named = || (space.clone(), name.clone());
        if !seen.insert((space, name)) {
            let (space, name) = named();
            return refuse(Refusal::ChangedTwice { space, name });
        }
        let Some(value) = value else { continue };
        if value.len() > MAX_NOTICE_BYTES {
            let (what, bytes) = ("the notice", value.len());
            return refuse(Refusal::TooLarge { what, bytes, most: MAX_NOTICE_BYTES });
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(value).is_err() {
            let (space, name) = named();
            return refuse(Refusal::NotJson { space, name });
        }
    }
    jobs.iter().try_for_each(NewJob::validate)?;
    events.iter().try_for_each(NewEvent::validate)
}

/// The number to which what a notice says is bound, so that nobody moves it to another name. No name has the character in between.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) fn bound_row(space: &str, name: &str) -> i64 {
    sample_row(&format!("{space}\u{1f}{name}"))
}

/// A notice as it is stored.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) struct StoredNotice {
    pub(crate) space: String,
    pub(crate) name: String,
    pub(crate) version: i64,
    pub(crate) value: String,
    pub(crate) due_at: Option<i64>,
    pub(crate) changed_at: i64,
}

impl StoredNotice {
    #[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
    pub(crate) fn into_notice(self, seals: &Seals) -> Result<Notice, StoreError> {
        let StoredNotice { space, name, version, value, due_at, changed_at } = self;
        let value = seals.open_text(Cell::NoticeValue, bound_row(&space, &name), value)?;
        let (due_at, changed_at) = (due_at.map(Timestamp::from_millis), Timestamp::from_millis(changed_at));
        Ok(Notice { space, name, version, value, due_at, changed_at })
    }
}
