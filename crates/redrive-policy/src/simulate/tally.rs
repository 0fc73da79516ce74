//! What many jobs come to: sums, times to recovery, and the load on the target per minute.

use std::collections::BTreeMap;
use std::time::Duration;

use super::record::Moment;
use super::replay::{Basis, Ending, Replayed, ReplayedAttempt};
use crate::cause::Cause;

/// A number that is known to lie between two; both are the same where nothing is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Between<T> {
    /// At least.
    pub least: T,
    /// At most.
    pub most: T,
}

impl Between<u64> {
    fn add(&mut self, least: usize, most: usize) {
        self.least += least as u64;
        self.most += most as u64;
    }
}

/// What the jobs of one cause come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CauseTally {
    /// Jobs.
    pub jobs: u64,
    /// Attempts.
    pub attempts: Between<u64>,
    /// Jobs that recover.
    pub recovered: u64,
    /// Jobs that end as letters.
    pub lost: u64,
    /// Jobs whose ending depends on what nobody has seen.
    pub unknown: u64,
}

/// What a number of jobs comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Jobs.
    pub jobs: u64,
    /// Attempts.
    pub attempts: Between<u64>,
    /// Attempts that were never made, of the most.
    pub estimated_attempts: u64,
    /// Of those: attempts of which nothing is known.
    pub unknown_attempts: u64,
    /// Attempts after a failure.
    pub retries: Between<u64>,
    /// How long all jobs together wait for their retries.
    pub waited: Between<Duration>,
    /// Jobs that recover, by attempts that happened.
    pub recovered: u64,
    /// Jobs that recover, by estimate.
    pub recovered_estimated: u64,
    /// Jobs that end as letters, by attempts that happened.
    pub lost: u64,
    /// Jobs that end as letters, by estimate.
    pub lost_estimated: u64,
    /// Jobs whose ending depends on what nobody has seen.
    pub unknown: u64,
    /// Jobs that somebody ended.
    pub cancelled: u64,
    /// Jobs that still wait or run when the record ends.
    pub open: u64,
    /// How often jobs are set aside, put back or not.
    pub set_aside: Between<u64>,
    /// By the cause of each job's first failure.
    pub causes: BTreeMap<Cause, CauseTally>,
    /// Attempts that begin in each minute since 1970.
    pub load: BTreeMap<i64, u64>,
    /// Estimates for moments after the target was last seen.
    pub carried: u64,
    /// Estimates of a permanent failure coming again.
    pub permanent: u64,
    /// The widest stretch without an observation that an estimate bridges.
    pub widest_gap: Duration,
    /// Decisions of the same version that the policy does not explain.
    pub unexplained: u64,
    /// From the first failure to the end, of each job that recovers, in milliseconds; sorted by [`Tally::finish`]. At least:
    /// up to the first attempt that nothing is known of.
    recovery_ms: Between<Vec<u64>>,
}

impl Tally {
    /// Adds one job, which first failed of this cause.
    pub fn add(&mut self, job: &Replayed, cause: Cause) {
        let least = job.least();
        let retries =
            |attempts: &[ReplayedAttempt]| attempts.iter().filter(|one| one.waited.is_some()).count();
        let waited =
            |attempts: &[ReplayedAttempt]| attempts.iter().filter_map(|one| one.waited).sum::<Duration>();
        self.jobs += 1;
        self.attempts.add(least.len(), job.attempts.len());
        self.retries.add(retries(least), retries(&job.attempts));
        self.waited.least = self.waited.least.saturating_add(waited(least));
        self.waited.most = self.waited.most.saturating_add(waited(&job.attempts));
        self.set_aside.least += u64::from(job.set_aside_at_least);
        self.set_aside.most += u64::from(job.set_aside);
        self.unexplained += u64::from(job.unexplained);
        for attempt in &job.attempts {
            self.begins(attempt.started_at);
            match attempt.basis {
                Basis::Observed => continue,
                Basis::Bridged(gap) => self.widest_gap = self.widest_gap.max(gap),
                Basis::Carried => self.carried += 1,
                Basis::Permanent => self.permanent += 1,
                Basis::Unknown => self.unknown_attempts += 1,
            }
            self.estimated_attempts += 1;
        }
        let of_cause = self.causes.entry(cause).or_default();
        of_cause.jobs += 1;
        of_cause.attempts.add(least.len(), job.attempts.len());
        let observed = job.is_observed();
        match job.ending {
            Ending::Recovered(at) => {
                of_cause.recovered += 1;
                *(if observed { &mut self.recovered } else { &mut self.recovered_estimated }) += 1;
                let failed_at = job.first_failed_at.unwrap_or(at);
                let took = |at: Moment| u64::try_from(at.since(failed_at).as_millis()).unwrap_or(u64::MAX);
                self.recovery_ms.least.push(took(least.last().map_or(at, |last| last.ended_at.min(at))));
                self.recovery_ms.most.push(took(at));
            }
            Ending::Lost(_) => {
                of_cause.lost += 1;
                *(if observed { &mut self.lost } else { &mut self.lost_estimated }) += 1;
            }
            Ending::Unknown => {
                of_cause.unknown += 1;
                self.unknown += 1;
            }
            Ending::Cancelled(_) => self.cancelled += 1,
            Ending::Open => self.open += 1,
        }
    }

    /// An attempt begins; also one of a job that never failed, which is the same under every policy.
    pub fn begins(&mut self, at: Moment) {
        self.begin_in(at.0.div_euclid(60_000), 1);
    }

    /// So many attempts begin in that minute.
    pub fn begin_in(&mut self, minute: i64, attempts: u64) {
        *self.load.entry(minute).or_default() += attempts;
    }

    /// Sorts what is asked for by rank; to be called when all jobs have been added.
    pub fn finish(&mut self) {
        self.recovery_ms.least.sort_unstable();
        self.recovery_ms.most.sort_unstable();
    }

    /// The time from first failure to recovery that so many percent of the recovered jobs do not exceed; nothing if none
    /// recovers.
    pub fn recovery(&self, percent: usize) -> Option<Between<Duration>> {
        let rank = (self.recovery_ms.most.len() * percent).div_ceil(100).max(1) - 1;
        let at = |sorted: &[u64]| sorted.get(rank).map(|ms| Duration::from_millis(*ms));
        Some(Between { least: at(&self.recovery_ms.least)?, most: at(&self.recovery_ms.most)? })
    }

    /// The most attempts that begin in one minute.
    pub fn peak(&self) -> u64 {
        self.load.values().copied().max().unwrap_or(0)
    }
}
