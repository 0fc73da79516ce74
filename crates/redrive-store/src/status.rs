//! How much of everything there is, from counters.

use std::collections::BTreeMap;

use redrive_policy::Cause;

use crate::time::Timestamp;

/// The jobs of one kind in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneCounts {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Waiting, those whose time has not come included.
    pub ready: u64,
    /// Of these, waiting for their time; counted up to a bound.
    pub scheduled: u64,
    /// Under a lease.
    pub leased: u64,
    /// Dead letters.
    pub dead: u64,
    /// Succeeded so far.
    pub succeeded: u64,
    /// Cancelled so far.
    pub cancelled: u64,
    /// When the oldest one that is due became so.
    pub oldest_due: Option<Timestamp>,
    /// Since when none of its queue's work is handed out; absent: it is.
    pub paused_at: Option<Timestamp>,
}

/// The whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreStatus {
    /// Work that finally failed without a letter.
    pub failed_events: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Dead letters whose class is transient.
    pub retry_candidates: u64,
    /// Dead letters by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Every lane.
    pub lanes: Vec<LaneCounts>,
    /// Events so far.
    pub events: u64,
    /// Workers that are present.
    pub workers: u64,
    /// Idempotency keys of which nobody knows how their request ended; counted up to a bound.
    pub unknown_outcomes: u64,
    /// Calls of the outbox that failed; counted up to a bound.
    pub outbox_failed: u64,
}
