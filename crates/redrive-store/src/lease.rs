//! Leases: the exclusive, expiring claim under which one attempt runs (R-D2).
//!
//! A lease has a fence, which grows with each lease of the job. Whoever settles shows it, and it is compared inside the
//! settling transaction: a worker that lost its lease changes nothing.

use std::time::Duration;

use crate::Answer;
use crate::id::{EventSeq, JobId, WorkerId};
use crate::job::Job;
use crate::settle::{Settled, Settlement};
use crate::time::Timestamp;

/// Proof of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    /// The job.
    pub job: JobId,
    /// Which of its leases, from 1. The far side of an effect may refuse a fence lower than one it has seen.
    pub fence: i64,
}

/// Nobody gets more bytes of payload at once, but for the last job that begins below this: what is handed out is in memory, here and
/// there, and goes over a line before the first heartbeat can come.
pub const MOST_LEASED_BYTES: usize = 8 << 20;

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// From these queues; empty: all of them.
    pub queues: Vec<String>,
    /// Only these kinds, which it can run; empty: all of them.
    pub kinds: Vec<String>,
    /// Only what is reserved for this worker.
    pub reserved_only: bool,
    /// At most so many; fewer when they are large ([`MOST_LEASED_BYTES`]).
    pub max: usize,
    /// For so long, unless it is extended.
    pub lease_for: Duration,
    /// Whether execution begins at once: the attempt is counted in the same transaction. Otherwise see [`Leases::begin`].
    pub begin: bool,
    /// How long to wait when nothing is due. The answer comes in the transaction in which something becomes so.
    pub wait: Duration,
}

/// A job under a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct LeasedJob {
    /// The proof.
    pub token: LeaseToken,
    /// The job.
    pub job: Job,
    /// The number of the attempt, from 1. When it has not begun, the one that would.
    pub attempt: u32,
    /// Retries before this attempt that count against `max_retries`.
    pub retries: u32,
    /// Crashes before this attempt.
    pub crashes: u32,
    /// What was waited before this attempt.
    pub last_delay: Option<Duration>,
    /// What the last decision tells this attempt.
    pub hint: Option<String>,
    /// Whether it was dead before, and put back.
    pub redriven: bool,
    /// Whether the attempt is counted already. A job whose deadline has passed is handed out without it.
    pub begun: bool,
    /// Until when.
    pub expires_at: Timestamp,
    /// The job's latest event.
    pub event: EventSeq,
}

/// A lease that expired and was taken over, to be settled through the one door.
#[derive(Debug, Clone, PartialEq)]
pub struct Seized {
    /// The job, under the new lease.
    pub leased: LeasedJob,
    /// Whether its execution had begun; otherwise nothing is counted.
    pub begun: bool,
    /// The worker that lost it.
    pub from: WorkerId,
}

/// What became of a heartbeat for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lasts longer now.
    Extended,
    /// It lasts longer, but somebody wants the job cancelled.
    CancelRequested,
    /// It is lost: stop, and settle nothing.
    Lost,
}

/// Taking, keeping and ending leases.
pub trait Leases: Send + Sync {
    /// Leases what is due. Dropping the answer gives everything back, uncounted.
    fn lease(&self, now: Timestamp, request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>>;

    /// Marks that the execution begins: from here on the attempt counts. `false` for a lease that is lost, and for a job
    /// whose deadline has passed: whoever has the lease sets it aside.
    fn begin(&self, now: Timestamp, tokens: Vec<LeaseToken>) -> Answer<'_, Vec<bool>>;

    /// Heartbeat: extends these leases and the worker's presence.
    fn renew(
        &self,
        now: Timestamp,
        worker: WorkerId,
        presence_for: Duration,
        tokens: Vec<LeaseToken>,
    ) -> Answer<'_, Vec<Renewal>>;

    /// The one door: ends attempts, each with its event in the same transaction.
    fn settle(&self, now: Timestamp, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>>;

    /// Takes over at most `max` leases that expired, and inline jobs whose process is gone, under new fences; puts jobs
    /// that were reserved for a worker that is gone where every worker sees them. A job that somebody wanted cancelled
    /// is over with its lease.
    ///
    /// What seems to have expired long ago lasts once more for its own length, counted from now: after a jump of the clock
    /// that is how the living keep what they have.
    fn seize_expired(
        &self,
        now: Timestamp,
        reaper: WorkerId,
        lease_for: Duration,
        max: usize,
    ) -> Answer<'_, Vec<Seized>>;
}
