//! The answer for machines: `redrive/simulation.v1`.

use std::collections::BTreeMap;

use redrive_policy::simulate::{Between, Tally};
use redrive_policy::{Cause, Lang};
use redrive_store::{JobId, Timestamp};
use serde::{Serialize, Serializer};

use super::{MINUTE_MS, SimulationView, as_millis, assumed, ending_name, in_millis, per_minute};

#[derive(Serialize)]
struct Contract<'a> {
    schema: &'static str,
    since: Timestamp,
    until: Timestamp,
    seed: u64,
    /// The policies that decided in the record.
    policies: Vec<&'a str>,
    recorded: Figures,
    simulated: Vec<Candidate<'a>>,
    /// The minute that every `load_per_minute` begins with.
    load_from: Option<Timestamp>,
    beyond_limit: u64,
    without_beginning: u64,
    acted_on: u64,
    assumptions: Vec<String>,
}

#[derive(Serialize)]
struct Candidate<'a> {
    policy: &'a str,
    #[serde(flatten)]
    figures: Figures,
    departing: u64,
    differing: u64,
    differences: Vec<Ended>,
    missing_policies: Vec<&'a str>,
}

#[derive(Serialize)]
struct Range {
    least: u64,
    most: u64,
}

impl From<Between<u64>> for Range {
    fn from(between: Between<u64>) -> Range {
        Range { least: between.least, most: between.most }
    }
}

#[derive(Serialize)]
struct Figures {
    jobs: u64,
    attempts: Range,
    attempts_estimated: u64,
    attempts_unknown: u64,
    attempts_carried: u64,
    widest_gap_ms: u64,
    retries: Range,
    waited_ms: Range,
    recovered: u64,
    recovered_estimated: u64,
    lost: u64,
    lost_estimated: u64,
    unknown: u64,
    open: u64,
    cancelled: u64,
    set_aside: Range,
    unexplained: u64,
    recovery_ms_p50: Option<Range>,
    recovery_ms_p95: Option<Range>,
    by_cause: BTreeMap<Cause, OfCause>,
    peak_per_minute: u64,
    load_per_minute: Vec<u64>,
}

#[derive(Serialize)]
struct OfCause {
    jobs: u64,
    attempts: Range,
    recovered: u64,
    lost: u64,
    unknown: u64,
}

#[derive(Serialize)]
struct Ended {
    job_id: JobId,
    cause: Cause,
    recorded: &'static str,
    simulated: &'static str,
    recorded_attempts: usize,
    simulated_attempts: usize,
    estimated: bool,
}

fn figures(tally: &Tally, minutes: Option<(i64, i64)>) -> Figures {
    let of_cause = |one: &redrive_policy::simulate::CauseTally| OfCause {
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
        waited_ms: in_millis(tally.waited).into(),
        recovered: tally.recovered + tally.recovered_estimated,
        recovered_estimated: tally.recovered_estimated,
        lost: tally.lost + tally.lost_estimated,
        lost_estimated: tally.lost_estimated,
        unknown: tally.unknown,
        open: tally.open,
        cancelled: tally.cancelled,
        set_aside: tally.set_aside.into(),
        unexplained: tally.unexplained,
        recovery_ms_p50: tally.recovery(50).map(|time| in_millis(time).into()),
        recovery_ms_p95: tally.recovery(95).map(|time| in_millis(time).into()),
        by_cause: tally.causes.iter().map(|(cause, one)| (*cause, of_cause(one))).collect(),
        peak_per_minute: tally.peak(),
        load_per_minute: minutes.map(|minutes| per_minute(tally, minutes)).unwrap_or_default(),
    }
}

impl Serialize for SimulationView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let minutes = self.minutes();
        let simulation = &self.simulation;
        let candidates = simulation.simulated.iter().map(|one| Candidate {
            policy: &one.label,
            figures: figures(&one.tally, minutes),
            departing: one.departing,
            differing: one.differing,
            differences: one
                .differences
                .iter()
                .map(|ended| Ended {
                    job_id: ended.job,
                    cause: ended.cause,
                    recorded: ending_name(ended.recorded),
                    simulated: ending_name(ended.simulated),
                    recorded_attempts: ended.recorded_attempts,
                    simulated_attempts: ended.simulated_attempts,
                    estimated: ended.estimated,
                })
                .collect(),
            missing_policies: one.missing.iter().map(String::as_str).collect(),
        });
        Contract {
            schema: "redrive/simulation.v1",
            since: self.since,
            until: self.until,
            seed: self.seed,
            policies: simulation.policies.iter().map(String::as_str).collect(),
            recorded: figures(&simulation.recorded, minutes),
            simulated: candidates.collect(),
            load_from: minutes.map(|(first, _)| Timestamp::from_millis(first.saturating_mul(MINUTE_MS))),
            beyond_limit: simulation.beyond_limit,
            without_beginning: simulation.without_beginning,
            acted_on: simulation.acted_on,
            assumptions: assumed::sentences(simulation, self.seed, Lang::En),
        }
        .serialize(serializer)
    }
}
