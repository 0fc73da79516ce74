//! Where redrive's jobs, leases, dead letters and events live, durably.
//!
//! A method is one domain transition and one transaction; the state change and its event commit together
//! (ARCHITECTURE.md, invariant 2). The traits know no database: [`Sqlite`] is the embedded store, and PostgreSQL is its
//! twin. The store never computes a delay and never judges a failure; it is told (invariant 4).

mod board;
mod check;
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod copy;
mod dead_letter;
// Without a back end nothing has effects.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
mod effects;
mod error;
mod event;
pub mod filter;
mod id;
mod idempotency;
mod job;
mod lease;
mod letter_group;
mod metric;
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
pub mod protocol;
mod queue;
mod redrive;
mod row;
// Without a back end nobody seals anything.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, unused_imports))]
mod seal;
mod settle;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod task;
mod time;
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
mod told;
mod worker;

use std::future::Future;
use std::pin::Pin;

pub use board::{Board, MAX_NOTICE_BYTES, Notice, NoticeChange, Posted};
pub use check::{CheckReport, Violation};
#[cfg(all(feature = "sqlite", feature = "postgres"))]
pub use copy::{Copied, CopyEnd, CopyOptions, CopyOutcome, CopyStep, copy_store};
pub use dead_letter::{
    DeadLetter, DeadLetters, Edited, Heads, ImportedLetter, LetterFilter, LetterHead, LetterTest,
    PayloadVersion, Redriven,
};
pub use error::{Refusal, StoreError, Trouble};
pub use event::{
    Aside, ErrorInfo, Event, EventFilter, EventId, EventStatus, Events, ImportedEvent, NewEvent, Order,
    RecoveryAction, RetryInfo, Scrap,
};
pub use id::{EventSeq, JobId, WorkerId};
pub use idempotency::{
    AnswerOf, Claimed, Finish, Idempotency, KeyClaim, KeyCounts, KeyHold, KeyQuery, KeyRecord, KeyState,
    KeyedRequest, KeysSwept, MAX_HEADER_BYTES, MAX_RESPONSE_BYTES, Meeting, Standing, StoredResponse,
};
pub use job::list::{JOBS_LOOKED_AT, JobHead, JobPage, JobQuery, JobStateName};
pub use job::{
    DEFAULT_QUEUE, Enqueued, Job, JobRecord, JobState, Jobs, MAX_BATCH, MAX_NAME_BYTES, MAX_OVERRIDES_BYTES,
    MAX_PAYLOAD_BYTES, NewJob, Origin, PRIORITIES, RunNow,
};
pub use lease::{LeaseRequest, LeaseToken, LeasedJob, Leases, MOST_LEASED_BYTES, Renewal, Seized};
pub use letter_group::{Group, GroupCounts, GroupQuery, GroupState, Groups};
pub use metric::{MOST_RETRIES, Metric, MetricCount, Metrics, MetricsQuery, bucket_end, bucket_of, hour_of};
pub use outbox::{Added, ItemQuery, ItemState, NewItem, NextSend, Outbox, OutboxItem, SendEnd};
/// The driver whose transactions [`Sqlite::enqueue_in`] and its like take.
#[cfg(feature = "sqlite")]
pub use rusqlite;
/// The driver whose transactions [`Postgres::enqueue_in`] and its like take.
#[cfg(feature = "postgres")]
pub use tokio_postgres;

#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresOptions, enqueue_in as enqueue_in_postgres};
pub use queue::{Queue, Queues};
pub use redrive::{FirstAttempt, Judged, NewRun, OpenRun, Redrives, Run, RunId, RunState, RunStep, Stepped};
pub use seal::{KEY_BYTES, KeyRing, KeyTrouble, LineTrouble};
pub use settle::{
    DecidedOn, Ending, FailedAttempt, LetterReason, NewLetter, Output, Parked, Settled, Settlement,
    StoredDecision,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, Sqlite, SqliteOptions, enqueue_in};
pub use status::{LaneCounts, StoreStatus};
pub use task::{
    Acknowledged, Begun, JobStanding, MAX_PLACE_BYTES, MAX_PLAN_BYTES, NewTask, OpenTask, Subtask,
    SubtaskState, Task, TaskEnd, TaskId, TaskState, TaskStep, TaskStepped, Tasks, ToldTask,
};
pub use time::Timestamp;
pub use worker::{Takes, WorkerPresence, Workers};

/// What every method of a store answers with.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A whole store.
///
/// It is [`Any`](std::any::Any), so that whoever needs more of a store than any store has can ask which one it is.
pub trait Store:
    std::any::Any
    + Jobs
    + Leases
    + DeadLetters
    + Groups
    + Redrives
    + Tasks
    + Idempotency
    + Outbox
    + Queues
    + Board
    + Events
    + Metrics
    + Workers
    + Housekeeping
{
}

impl<S> Store for S where
    S: std::any::Any
        + Jobs
        + Leases
        + DeadLetters
        + Groups
        + Redrives
        + Tasks
        + Idempotency
        + Outbox
        + Queues
        + Board
        + Events
        + Metrics
        + Workers
        + Housekeeping
{
}

/// What a round of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Events that went.
    pub events: u64,
    /// Letters that went.
    pub letters: u64,
    /// Whether there may be more that is old enough: the round ended at its limit.
    pub more: bool,
}

/// How far sealing a store anew has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resealed {
    /// The key that everything is to be under.
    pub key: String,
    /// How many values were sealed anew since that began.
    pub cells: u64,
    /// How many numbers of rows are still to be looked at; many of them may belong to no row.
    pub left: u64,
    /// Whether nothing is left to do.
    pub over: bool,
    /// Keys that nothing is under any more, since this round.
    pub retired: Vec<String>,
}

/// Keeping the store in order.
pub trait Housekeeping: Send + Sync {
    /// A number that no other store has, from which keys for the outside world are made.
    fn store_id(&self) -> u64;

    /// Where it is, for people; without a password.
    fn location(&self) -> String;

    /// Whether it answers, as far as is known without asking.
    fn answers(&self) -> bool {
        true
    }

    /// What its own clock shows, by which it decides what is due and what has expired; absent: it has none, and the clock of who asks
    /// decides.
    fn clock(&self) -> Answer<'_, Option<Timestamp>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Counts of everything, from counters.
    fn status(&self, now: Timestamp) -> Answer<'_, StoreStatus>;

    /// Looks for broken invariants and a damaged file.
    fn check(&self) -> Answer<'_, CheckReport>;

    /// Writes a consistent copy of the whole store into a new file.
    fn backup<'a>(&'a self, to: &'a std::path::Path) -> Answer<'a, ()>;

    /// Deletes events older than `events_before` (never those of a living job or letter) and letters that died before
    /// `letters_before`. Looks at no more than `limit` of each, so that nobody waits for it; each round goes on where the
    /// last one ended.
    fn prune(
        &self,
        now: Timestamp,
        events_before: Timestamp,
        letters_before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Pruned>;

    /// Encrypts what is not under the first of our keys yet, plain values included, so that older keys are no longer
    /// needed (R-D7). From the first round on everybody seals with that key. A round looks at no more than `limit` rows, so that
    /// nobody waits for it, and goes on where the last one ended, also after a crash; call it until it is over. The last round
    /// wipes what deleted rows left behind, for which writers wait.
    fn reseal(&self, now: Timestamp, limit: u32) -> Answer<'_, Resealed>;

    /// Finishes what is under way and closes. Dropping a store does the same without waiting.
    fn close(&self) -> Answer<'_, ()>;
}
