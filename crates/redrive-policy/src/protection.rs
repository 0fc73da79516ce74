//! Protection of a target: what keeps many jobs from hurting one host, queue or key together (R-P15).
//!
//! A target has a circuit breaker, a budget for trying again, a rate and a number of calls at a time. Who wants to call asks
//! [`admit`]; what came of it is told to [`observe`]. Both are pure: time and chance are arguments, and the [`TargetState`] is
//! small data that whoever calls keeps where everybody sees it. Work that may not go now is parked until a time of its own, so
//! that it comes back spread and never as a second wave.

mod admit;
mod key;
mod observe;
mod rate;
mod state;
#[cfg(test)]
mod tests;
mod why;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use admit::{Admission, Ask, Place, admit};
pub use key::{key_of_queue, queue_of_key};
pub use observe::{CallResult, Health, deposit, hold, lease_lasts, lease_over, observe, reset};
pub use rate::{BadRate, Rate};
pub use state::{Holder, Phase, Standing, TargetState};
pub use why::ParkedWhy;

/// The longest that work is parked at once; then it asks again.
pub const LONGEST_PARK: Duration = Duration::from_hours(1);

/// How one target is protected. What is absent does not hold anybody up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Protection {
    /// Stops calling a target that is sick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// How much of the traffic may be retries and redriven work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// How many calls may begin in a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many of them may come at once; 1 unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// How many calls may run at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Protection {
    /// What a host has when nobody says otherwise: a breaker and a budget.
    pub fn of_a_host() -> Protection {
        Protection {
            breaker: Some(Breaker::default()),
            budget: Some(Budget::default()),
            ..Protection::default()
        }
    }

    /// Whether nothing is ever held up.
    pub fn is_nothing(&self) -> bool {
        *self == Protection::default()
    }

    /// Whether each call must be asked about: otherwise a healthy target lets all first attempts pass.
    pub fn is_narrow(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }
}

/// When a target counts as sick, and how it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Breaker {
    /// It opens when so many of a hundred calls failed (50) …
    pub failures: u32,
    /// … of at least so many (20) …
    pub of_at_least: u32,
    /// … in this time (30 s), in milliseconds.
    pub within_ms: u64,
    /// How long nobody calls, the first time (5 s); twice as long each time that it is still sick …
    pub open_for_ms: u64,
    /// … but never longer than this (5 min).
    pub open_for_at_most_ms: u64,
    /// So many calls must succeed before the rest may come back (3).
    pub probes: u32,
    /// How long it takes from the first of the rest to all of it (30 s).
    pub ramp_ms: u64,
    /// How fast parked work comes back (100/s).
    pub pace: Rate,
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker {
            failures: 50,
            of_at_least: 20,
            within_ms: 30_000,
            open_for_ms: 5_000,
            open_for_at_most_ms: 300_000,
            probes: 3,
            ramp_ms: 30_000,
            pace: Rate::per_second(100),
        }
    }
}

/// How much of the traffic may be retries and redriven work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// For a hundred first attempts so many others may be made (10).
    pub percent: u32,
    /// So many may be made in any case (10/s); those of ten such times may gather.
    pub at_least: Rate,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { percent: 10, at_least: Rate::per_second(10) }
    }
}

impl Budget {
    /// The most that can gather, in thousandths.
    fn most(&self) -> i64 {
        i64::from(self.at_least.count).saturating_mul(10).max(1).saturating_mul(1_000)
    }
}
