//! What other policies would have made of a period, as JSON. `policy simulate --json` writes the same.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::engine::Simulated;
use redrive_policy::Cause;
use redrive_policy::simulate::{Between, CauseTally, Ending, Tally};
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Time, name};

const MINUTE_MS: i64 = 60_000;

/// The record of a period, and what each candidate would have made of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Simulation {
    /// Jobs that failed at this time or later …
    #[schemars(with = "Time")]
    pub since: Timestamp,
    /// … and before this.
    #[schemars(with = "Time")]
    pub until: Timestamp,
    /// What other delays were drawn with.
    pub seed: u64,
    /// The policies that decided in the record.
    pub policies: Vec<String>,
    /// What is recorded.
    pub recorded: Figures,
    /// What each candidate would have made of it.
    pub simulated: Vec<Candidate>,
    /// The minute that every `load_per_minute` begins with.
    #[schemars(with = "Option<Time>")]
    pub load_from: Option<Timestamp>,
    /// Jobs beyond the limit.
    pub beyond_limit: u64,
    /// Jobs whose story no longer begins in the store.
    pub without_beginning: u64,
    /// Jobs that people acted on.
    pub acted_on: u64,
}

/// What one candidate would have made of the record.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Candidate {
    /// What it is called.
    pub policy: String,
    /// What the jobs come to.
    #[serde(flatten)]
    pub figures: Figures,
    /// How many jobs go another way than recorded.
    pub departing: u64,
    /// How many jobs end otherwise than recorded.
    pub differing: u64,
    /// Some of them: the worst for the candidate first.
    pub differences: Vec<Difference>,
    /// Policies of jobs that the candidate does not have; its default stands in.
    pub missing_policies: Vec<String>,
}

/// A number, or the two that it lies between.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Range {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

impl From<Between<u64>> for Range {
    fn from(between: Between<u64>) -> Range {
        Range { least: between.least, most: between.most }
    }
}

impl From<Between<Duration>> for Range {
    fn from(between: Between<Duration>) -> Range {
        Range { least: as_millis(between.least), most: as_millis(between.most) }
    }
}

fn as_millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// What the jobs of a period come to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Figures {
    /// Jobs.
    pub jobs: u64,
    /// Attempts.
    pub attempts: Range,
    /// Attempts that were never made.
    pub attempts_estimated: u64,
    /// Attempts of which nothing is known.
    pub attempts_unknown: u64,
    /// Attempts whose outcome was carried over from before or after.
    pub attempts_carried: u64,
    /// The widest gap over which something was carried.
    pub widest_gap_ms: u64,
    /// Retries.
    pub retries: Range,
    /// Time spent waiting.
    pub waited_ms: Range,
    /// Jobs that recovered.
    pub recovered: u64,
    /// Of these, by estimate.
    pub recovered_estimated: u64,
    /// Jobs that were lost.
    pub lost: u64,
    /// Of these, by estimate.
    pub lost_estimated: u64,
    /// Jobs of whose end nothing is known.
    pub unknown: u64,
    /// Jobs that go on.
    pub open: u64,
    /// Jobs that somebody ended.
    pub cancelled: u64,
    /// Letters.
    pub set_aside: Range,
    /// Jobs whose decisions nobody can explain.
    pub unexplained: u64,
    /// The median time to recovery.
    pub recovery_ms_p50: Option<Range>,
    /// The time to recovery of 95 %.
    pub recovery_ms_p95: Option<Range>,
    /// The same by what failed first.
    #[schemars(with = "BTreeMap<String, CauseFigures>")]
    pub by_cause: BTreeMap<Cause, CauseFigures>,
    /// The most attempts in a minute.
    pub peak_per_minute: u64,
    /// The attempts of every minute.
    pub load_per_minute: Vec<u64>,
}

/// What the jobs of one cause come to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CauseFigures {
    /// Jobs.
    pub jobs: u64,
    /// Attempts.
    pub attempts: Range,
    /// Jobs that recovered.
    pub recovered: u64,
    /// Jobs that were lost.
    pub lost: u64,
    /// Jobs of whose end nothing is known.
    pub unknown: u64,
}

/// A job that ends otherwise.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Difference {
    /// The job.
    pub job_id: String,
    /// What it failed of first.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// How it ended.
    pub recorded: &'static str,
    /// How it would have ended.
    pub simulated: &'static str,
    /// How many attempts it had.
    pub recorded_attempts: usize,
    /// How many it would have had, at most.
    pub simulated_attempts: usize,
    /// Whether that rests on attempts that never were.
    pub estimated: bool,
}

/// The name of an ending in JSON.
pub const fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Recovered(_) => "recovered",
        Ending::Lost(_) => "lost",
        Ending::Cancelled(_) => "cancelled",
        Ending::Open => "open",
        Ending::Unknown => "unknown",
    }
}

/// The first and the last minute in which anything began, under whatever policy.
pub fn minutes(simulation: &redrive::engine::Simulation) -> Option<(i64, i64)> {
    let tallies =
        std::iter::once(&simulation.recorded).chain(simulation.simulated.iter().map(|one| &one.tally));
    let of = |tally: &Tally| Some((*tally.load.keys().next()?, *tally.load.keys().next_back()?));
    tallies.filter_map(of).reduce(|(low, high), (first, last)| (low.min(first), high.max(last)))
}

/// The attempts of every minute between two.
pub fn per_minute(tally: &Tally, (first, last): (i64, i64)) -> Vec<u64> {
    (first..=last).map(|minute| tally.load.get(&minute).copied().unwrap_or(0)).collect()
}

impl Simulation {
    /// What came of it.
    pub fn new(
        simulation: &redrive::engine::Simulation,
        since: Timestamp,
        until: Timestamp,
        seed: u64,
    ) -> Simulation {
        let minutes = minutes(simulation);
        Simulation {
            since,
            until,
            seed,
            policies: simulation.policies.iter().cloned().collect(),
            recorded: Figures::new(&simulation.recorded, minutes),
            simulated: simulation.simulated.iter().map(|one| Candidate::new(one, minutes)).collect(),
            load_from: minutes.map(|(first, _)| Timestamp::from_millis(first.saturating_mul(MINUTE_MS))),
            beyond_limit: simulation.beyond_limit,
            without_beginning: simulation.without_beginning,
            acted_on: simulation.acted_on,
        }
    }
}

impl Candidate {
    fn new(one: &Simulated, minutes: Option<(i64, i64)>) -> Candidate {
        let difference = |ended: &redrive::engine::Difference| Difference {
            job_id: ended.job.to_string(),
            cause: ended.cause,
            recorded: ending_name(ended.recorded),
            simulated: ending_name(ended.simulated),
            recorded_attempts: ended.recorded_attempts,
            simulated_attempts: ended.simulated_attempts,
            estimated: ended.estimated,
        };
        Candidate {
            policy: one.label.clone(),
            figures: Figures::new(&one.tally, minutes),
            departing: one.departing,
            differing: one.differing,
            differences: one.differences.iter().map(difference).collect(),
            missing_policies: one.missing.iter().cloned().collect(),
        }
    }
}

impl Figures {
    fn new(tally: &Tally, minutes: Option<(i64, i64)>) -> Figures {
        let of_cause = |one: &CauseTally| CauseFigures {
            jobs: one.jobs,
            attempts: one.attempts.into(),
            recovered: one.recovered,
            lost: one.lost,
            unknown: one.unknown,
        };
        Figures {
            jobs: tally.jobs,
            attempts: tally.attempts.into(),
            attempts_estimated: tally.estimated_attempts,
            attempts_unknown: tally.unknown_attempts,
            attempts_carried: tally.carried,
            widest_gap_ms: as_millis(tally.widest_gap),
            retries: tally.retries.into(),
            waited_ms: tally.waited.into(),
            recovered: tally.recovered + tally.recovered_estimated,
            recovered_estimated: tally.recovered_estimated,
            lost: tally.lost + tally.lost_estimated,
            lost_estimated: tally.lost_estimated,
            unknown: tally.unknown,
            open: tally.open,
            cancelled: tally.cancelled,
            set_aside: tally.set_aside.into(),
            unexplained: tally.unexplained,
            recovery_ms_p50: tally.recovery(50).map(Range::from),
            recovery_ms_p95: tally.recovery(95).map(Range::from),
            by_cause: tally.causes.iter().map(|(cause, one)| (*cause, of_cause(one))).collect(),
            peak_per_minute: tally.peak(),
            load_per_minute: minutes.map(|minutes| per_minute(tally, minutes)).unwrap_or_default(),
        }
    }
}
