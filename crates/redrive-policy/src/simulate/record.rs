//! What is known about a job: its attempts as they happened, and what people did to it.

use std::sync::Arc;
use std::time::Duration;

use crate::cause::Cause;
use crate::failure::Failure;

/// A point in time: milliseconds since the beginning of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub i64);

impl Moment {
    /// This much later. A part of a millisecond is rounded up, as the engine does with what it schedules.
    pub fn after(self, delay: Duration) -> Moment {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        Moment(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Which target a job calls; an index into [`Targets`](super::Targets).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub usize);

/// A job that failed at least once, as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedJob {
    /// Its number; chance is drawn for each job apart, so that a replay of few jobs gives them the same.
    pub number: u64,
    /// What it calls.
    pub target: TargetId,
    /// No attempt begins at or after this.
    pub deadline_at: Option<Moment>,
    /// Its attempts, the oldest first.
    pub attempts: Vec<RecordedAttempt>,
    /// What people did to it, the oldest first.
    pub facts: Vec<Fact>,
}

/// One attempt that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedAttempt {
    /// When it was due: what the decision before it said, or when a person put it back.
    pub due_at: Moment,
    /// When it began.
    pub started_at: Moment,
    /// When it ended; when the record ends, if it had not.
    pub ended_at: Moment,
    /// How often the job had been put back with a fresh budget before.
    pub run: u32,
    /// What it came to.
    pub came_to: CameTo,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq)]
pub enum CameTo {
    /// The job was done.
    Succeeded,
    /// It failed, and something was decided.
    Failed(RecordedFailure),
    /// The handler wanted it later; nothing was counted.
    Snoozed {
        /// When.
        until: Moment,
    },
    /// Its worker gave it back; nothing was counted.
    Released,
    /// Somebody ended the job.
    Cancelled,
    /// It ran when the record ended.
    Running,
}

/// A failure, and what was decided about it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedFailure {
    /// What it was found to be.
    pub failure: Arc<Failure>,
    /// It ends the run whatever a policy says: the handler said so, or the deadline had passed.
    pub forced: bool,
    /// What was decided.
    pub decided: Decided,
    /// Which version of the policy decided.
    pub policy_version: Arc<str>,
}

impl RecordedFailure {
    /// Whether it says something about the target, and not about the job or its worker alone.
    pub fn says_of_target(&self) -> bool {
        let failure = &self.failure;
        failure.is_retryable() && !failure.worker_died && failure.cause != Cause::Crashed
    }
}

/// What was decided about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It was to be tried again.
    Retry {
        /// After this delay.
        delay: Duration,
        /// Which made it due then.
        due_at: Moment,
    },
    /// It was set aside.
    SetAside,
}

/// What somebody did to a job. It is kept as it was: whether a person would have acted otherwise is not for us to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// When.
    pub at: Moment,
    /// How many of the recorded attempts came before it.
    pub attempts_before: usize,
    /// What.
    pub what: Did,
}

/// What can be done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// A letter was put back, with a fresh budget.
    PutBack,
    /// A job that waited was made due at once.
    RanNow,
    /// The job was ended.
    Cancelled,
}
