//! The numbers as Prometheus reads them (R-C4).
//!
//! Hours are not kept for ever, so a counter that added up all of them would sometimes shrink a little, which Prometheus
//! takes for a restart and everything that is left for new. Counters here begin anew every four weeks instead: that is what
//! it takes it for, and rates stay right. Labels are bounded: causes and states are few, queues and types beyond a bound
//! are one, `other`.

use std::collections::BTreeMap;

use redrive_policy::Cause;
use redrive_store::{
    GroupQuery, GroupState, LaneCounts, Metric, MetricCount, MetricsQuery, StoreStatus, bucket_end,
    bucket_of, hour_of,
};

use super::exposition::{Exposition, Kind};
use super::keys::{KeyUse, is_of_keys};
use super::{ALERT_QUEUE, GROUPS, Sums};
use crate::engine::{Engine, EngineError};

/// Counters begin anew with each of these periods; the store keeps at least sixty days.
const COUNTED_HOURS: i64 = 28 * 24;
/// How many queues have samples of their own.
const QUEUES: usize = 50;
/// What the rest is called.
const OTHER: &str = "other";
/// The bounds that a reader expects; each is moved up to the end of its bucket, so that the count is exact.
const BOUNDS_MS: [u64; 17] = [
    1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000,
    3_600_000,
];

/// Counters by queue: name, what is counted, help.
const BY_QUEUE: [(&str, Metric, &str); 11] = [
    ("redrive_jobs_succeeded_total", Metric::Succeeded, "Jobs that succeeded."),
    ("redrive_jobs_dead_total", Metric::Died, "Jobs that were set aside as dead letters."),
    ("redrive_jobs_cancelled_total", Metric::Cancelled, "Jobs that were cancelled."),
    ("redrive_attempts_retried_total", Metric::Retried, "Attempts that failed and were tried again."),
    (
        "redrive_jobs_succeeded_after_retry_total",
        Metric::SucceededAfterRetry,
        "Jobs that succeeded after at least one retry.",
    ),
    (
        "redrive_jobs_dead_after_retry_total",
        Metric::DiedAfterRetry,
        "Jobs that were set aside after at least one retry.",
    ),
    ("redrive_letters_redriven_total", Metric::Redriven, "Dead letters put back by a redrive or a rule."),
    (
        "redrive_manual_retries_total",
        Metric::ManualRetries,
        "Letters and waiting jobs that a person retried.",
    ),
    ("redrive_letters_recovered_total", Metric::Recovered, "Redriven jobs that succeeded."),
    ("redrive_letters_died_again_total", Metric::DiedAgain, "Redriven jobs that were set aside again."),
    (
        "redrive_letters_discarded_total",
        Metric::Discarded,
        "Dead letters that went for good, by age or by hand.",
    ),
];

impl Engine {
    /// All numbers as Prometheus reads them, in the text format.
    ///
    /// ```
    /// # use redrive::engine::Engine;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("redrive.db");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let engine = Engine::open(&path)?;
    /// let text = engine.prometheus().await?;
    /// assert!(text.contains("# TYPE redrive_dead_letters gauge\n"));
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub async fn prometheus(&self) -> Result<String, EngineError> {
        let mut text = Exposition::default();
        self.expose(&mut text).await?;
        Ok(text.into_text())
    }

    /// Writes all numbers into a text that others may write into as well.
    pub async fn expose(&self, text: &mut Exposition) -> Result<(), EngineError> {
        let now = self.now();
        let to_hour = hour_of(now);
        let from_hour = to_hour - to_hour.rem_euclid(COUNTED_HOURS);
        let query = MetricsQuery { from_hour, to_hour, queue: None, by_hour: false, by_queue: true };
        let counts = self.store().metrics(query).await?;
        let mut status = self.store().status(now).await?;
        status.workers = crate::engine::status::working(&self.store().workers(now).await?);
        text.family("redrive_build_info", Kind::Gauge, "The version of redrive; always 1.");
        text.sample("redrive_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1_u64);
        counters(text, &counts, &status);
        histograms(text, &counts);
        lanes(text, &status);
        letters(text, &status);
        let oldest = self.oldest_letter(None).await?;
        // Without letters there is no oldest one; nought would be a letter that died just now.
        text.family(
            "redrive_dead_letter_oldest_age_seconds",
            Kind::Gauge,
            "How long the oldest dead letter has been dead; absent without letters.",
        );
        if let Some(at) = oldest {
            text.sample("redrive_dead_letter_oldest_age_seconds", &[], now.since(at).as_secs_f64());
        }
        self.groups_and_types(text).await?;
        self.recovery(text).await?;
        self.queues_and_runs(text).await?;
        self.expose_targets(text).await?;
        if let Some(keys) = KeyUse::of(&Sums::of(&counts), self.store().key_standing().await?) {
            keys.expose(text);
        }
        Ok(())
    }

    async fn groups_and_types(&self, text: &mut Exposition) -> Result<(), EngineError> {
        let groups = self.store().groups(GroupQuery::default(), GROUPS).await?;
        text.family("redrive_groups", Kind::Gauge, "Groups of dead letters by where they stand.");
        for state in GroupState::ALL {
            let n = groups.iter().filter(|group| group.state == state).count() as u64;
            text.sample("redrive_groups", &[("state", state.name())], n);
        }
        let unattended = self.unattended(GROUPS).await?;
        text.family(
            "redrive_dead_letters_unacknowledged",
            Kind::Gauge,
            "Dead letters of groups that nobody has acknowledged, but for messages of alerts.",
        );
        text.sample("redrive_dead_letters_unacknowledged", &[], unattended.letters);
        let name = "redrive_dead_letter_unacknowledged_oldest_age_seconds";
        text.family(name, Kind::Gauge, "How long the oldest of those has been dead; absent without one.");
        if let Some(at) = unattended.oldest {
            text.sample(name, &[], self.now().since(at).as_secs_f64());
        }
        text.family(
            "redrive_dead_letters_by_type",
            Kind::Gauge,
            "Dead letters by the type of their error; beyond a bound they are other.",
        );
        let mut other = 0;
        for one in super::by_type(groups) {
            match &one.error_type {
                Some(name) if name != OTHER => {
                    text.sample("redrive_dead_letters_by_type", &[("error_type", name)], one.letters);
                }
                _ => other += one.letters,
            }
        }
        text.sample("redrive_dead_letters_by_type", &[("error_type", OTHER)], other);
        Ok(())
    }

    /// Over the last 24 hours (001).
    async fn recovery(&self, text: &mut Exposition) -> Result<(), EngineError> {
        let now = self.now();
        let counts = self.counts(super::hours_of(now, super::RECOVERY_PERIOD), None).await?;
        let recovery = Sums::of(&counts).recovery(now);
        text.family(
            "redrive_recovery_success_ratio",
            Kind::Gauge,
            "Redriven jobs that succeeded, of those that ended in the last 24 hours; absent when none did.",
        );
        let ended = recovery.recovered.saturating_add(recovery.died_again);
        if let Some(ratio) = super::ratio(recovery.recovered, ended) {
            text.sample("redrive_recovery_success_ratio", &[], ratio);
        }
        Ok(())
    }

    async fn queues_and_runs(&self, text: &mut Exposition) -> Result<(), EngineError> {
        let paused = self.store().queues().await?.iter().filter(|queue| queue.paused_at.is_some()).count();
        text.family("redrive_queues_paused", Kind::Gauge, "Queues whose work is not handed out.");
        text.sample("redrive_queues_paused", &[], paused as u64);
        let most = u32::try_from(QUEUES).unwrap_or(u32::MAX);
        let runs = self.store().open_runs(self.now(), 0, None, most).await?.len();
        text.family("redrive_redrives_running", Kind::Gauge, "Redrives that are under way.");
        text.sample("redrive_redrives_running", &[], runs as u64);
        Ok(())
    }
}

/// The names that have samples of their own: those with the most, so that the set seldom changes.
fn named<'a>(weights: impl Iterator<Item = (&'a str, u64)>) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, weight) in weights {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(weight);
    }
    // A queue that is called like the rest is counted with it: two samples with the same labels cannot be read.
    sums.remove(OTHER);
    let mut names: Vec<(&str, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    names.truncate(QUEUES);
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn counters(text: &mut Exposition, counts: &[MetricCount], status: &StoreStatus) {
    let of_queues = counts.iter().filter(|count| !is_of_keys(count.metric));
    let counted = of_queues.filter_map(|count| Some((count.queue.as_deref()?, count.n)));
    let known = status.lanes.iter().map(|lane| (lane.queue.as_str(), 0));
    let names = named(counted.chain(known));
    for (name, metric, help) in BY_QUEUE {
        text.family(name, Kind::Counter, help);
        let mut by_queue: BTreeMap<&str, u64> = names.iter().map(|name| (name.as_str(), 0)).collect();
        by_queue.insert(OTHER, 0);
        for count in counts.iter().filter(|count| count.metric == metric) {
            let queue = count.queue.as_deref().filter(|queue| by_queue.contains_key(queue)).unwrap_or(OTHER);
            let sum = by_queue.entry(queue).or_default();
            *sum = sum.saturating_add(count.n);
        }
        for (queue, n) in by_queue {
            text.sample(name, &[("queue", queue)], n);
        }
    }
    let by_cause = Sums::of(counts).by_cause();
    text.family("redrive_attempts_failed_total", Kind::Counter, "Attempts that failed, by cause.");
    for cause in Cause::ALL {
        let n = by_cause.get(cause).copied().unwrap_or(0);
        text.sample("redrive_attempts_failed_total", &[("cause", cause.name())], n);
    }
}

fn histograms(text: &mut Exposition, counts: &[MetricCount]) {
    // They have no label that tells them apart, and are about the work: deliveries of alerts are our own.
    let own = |count: &&MetricCount| count.queue.as_deref() != Some(ALERT_QUEUE);
    let sums = Sums::of(&counts.iter().filter(own).cloned().collect::<Vec<_>>());
    let latency = |metric: &Metric| match metric {
        Metric::Latency(bucket) => Some(*bucket),
        _ => None,
    };
    text.family(
        "redrive_attempt_duration_seconds",
        Kind::Histogram,
        "How long attempts took, but for messages of alerts.",
    );
    histogram(text, "redrive_attempt_duration_seconds", &sums, latency, Metric::LatencySum);
    let recovery = |metric: &Metric| match metric {
        Metric::Recovery(bucket) => Some(*bucket),
        _ => None,
    };
    let help = "From putting a dead letter back to its success or its next death.";
    text.family("redrive_recovery_duration_seconds", Kind::Histogram, help);
    histogram(text, "redrive_recovery_duration_seconds", &sums, recovery, Metric::RecoverySum);
}

fn histogram(
    text: &mut Exposition,
    name: &str,
    sums: &Sums,
    bucket: impl Fn(&Metric) -> Option<u16>,
    sum: Metric,
) {
    let buckets: Vec<(u16, u64)> =
        sums.0.iter().filter_map(|(metric, n)| Some((bucket(metric)?, *n))).collect();
    let up_to = |last: u16| {
        let below = buckets.iter().filter(|(bucket, _)| *bucket <= last);
        below.fold(0_u64, |sum, (_, n)| sum.saturating_add(*n))
    };
    let bounds = BOUNDS_MS.map(bucket_of).map(|last| (bucket_end(last), up_to(last)));
    text.histogram(name, &[], &bounds, up_to(u16::MAX), sums.get(sum));
}

fn lanes(text: &mut Exposition, status: &StoreStatus) {
    let weight = |lane: &LaneCounts| lane.ready.saturating_add(lane.leased).saturating_add(lane.dead);
    let names = named(status.lanes.iter().map(|lane| (lane.queue.as_str(), weight(lane))));
    let mut jobs: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for lane in &status.lanes {
        let queue = names.iter().find(|name| **name == lane.queue).map_or(OTHER, String::as_str);
        let sums = jobs.entry(queue).or_default();
        let counts = [lane.ready.saturating_sub(lane.scheduled), lane.scheduled, lane.leased, lane.dead];
        for (sum, n) in sums.iter_mut().zip(counts) {
            *sum = sum.saturating_add(n);
        }
    }
    text.family("redrive_jobs", Kind::Gauge, "Jobs that are not over, by queue and state.");
    for (queue, counts) in &jobs {
        for (state, n) in ["ready", "scheduled", "running"].into_iter().zip(counts) {
            text.sample("redrive_jobs", &[("queue", queue), ("state", state)], *n);
        }
    }
    text.family("redrive_dead_letters", Kind::Gauge, "Dead letters by queue.");
    for (queue, [_, _, _, dead]) in &jobs {
        text.sample("redrive_dead_letters", &[("queue", queue)], *dead);
    }
}

fn letters(text: &mut Exposition, status: &StoreStatus) {
    text.family("redrive_dead_letters_by_cause", Kind::Gauge, "Dead letters by cause.");
    for cause in Cause::ALL {
        let n = status.by_cause.get(cause).copied().unwrap_or(0);
        text.sample("redrive_dead_letters_by_cause", &[("cause", cause.name())], n);
    }
    let single = [
        (
            "redrive_retry_candidates",
            "Dead letters that may well succeed when they are put back.",
            status.retry_candidates,
        ),
        (
            "redrive_failed_events",
            "Work that finally failed without a dead letter, as far as events are kept.",
            status.failed_events,
        ),
        ("redrive_workers", "Workers that are present and take work.", status.workers),
    ];
    for (name, help, n) in single {
        text.family(name, Kind::Gauge, help);
        text.sample(name, &[], n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C4: however many queues there are, the samples are bounded, and nothing is counted twice or lost.
    #[test]
    fn queues_beyond_the_bound_are_one() {
        let counts: Vec<MetricCount> = (0..200_u64)
            .map(|n| {
                let queue = Some(if n == 7 { OTHER.to_owned() } else { format!("q{n}") });
                MetricCount { hour: None, queue, metric: Metric::Succeeded, n: n + 1 }
            })
            .collect();
        let mut text = Exposition::default();
        counters(&mut text, &counts, &StoreStatus::default());
        let text = text.into_text();
        let values: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with("redrive_jobs_succeeded_total{"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(values.len(), QUEUES + 1);
        assert_eq!(values.iter().sum::<u64>(), 200 * 201 / 2);
        assert_eq!(text.matches("queue=\"other\"").count(), BY_QUEUE.len());
        assert!(text.contains("redrive_jobs_succeeded_total{queue=\"q199\"} 200\n"));
    }

    /// R-C4: the bounds of a histogram are ends of buckets, so that no count is a guess.
    #[test]
    fn a_histogram_counts_exactly_and_grows() {
        let counts = [(bucket_of(3), 2), (bucket_of(1_000), 3), (bucket_of(9_000_000), 1)];
        let counts: Vec<MetricCount> = counts
            .into_iter()
            .map(|(bucket, n)| MetricCount { hour: None, queue: None, metric: Metric::Latency(bucket), n })
            .collect();
        let mut text = Exposition::default();
        histograms(&mut text, &counts);
        let text = text.into_text();
        for line in [
            "redrive_attempt_duration_seconds_bucket{le=\"0.001\"} 0\n",
            "redrive_attempt_duration_seconds_bucket{le=\"0.005\"} 2\n",
            "redrive_attempt_duration_seconds_bucket{le=\"1.023\"} 5\n",
            "redrive_attempt_duration_seconds_bucket{le=\"+Inf\"} 6\n",
            "redrive_attempt_duration_seconds_count 6\n",
            "redrive_recovery_duration_seconds_count 0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
