//! What people and alerts want to know in numbers (R-C4), computed from what the store counted by the hour.
//!
//! Nothing is scanned and nothing is guessed: a rate of nothing is absent, not zero. Times come from buckets, so that a
//! percentile is at most an eighth too large. Hours are whole: a period begins with the hour that it begins in.

mod exposition;
mod keys;
mod prometheus;
mod spread;
mod targets;
mod unattended;

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{Group, GroupQuery, LetterFilter, Metric, MetricCount, MetricsQuery, Timestamp, hour_of};
use serde::Serialize;

use super::{Engine, EngineError};
pub use exposition::{Exposition, Kind, Labels, Number, TextForm};
pub use keys::KeyUse;
pub use spread::Spread;
pub use unattended::ALERT_QUEUE;
#[cfg(feature = "alerts")]
pub(super) use unattended::Unattended;

/// The period over which recovery is judged (001).
const RECOVERY_PERIOD: Duration = Duration::from_hours(24);
/// How many groups are added up by their error's type.
const GROUPS: u32 = 10_000;
/// How many types are named; the rest is counted together.
const TYPES: usize = 20;
/// Beyond so many hours, those before the first that has something are left out.
const ALL_HOURS: i64 = 31 * 24;
const HOUR_MS: i64 = 3_600_000;

/// What the numbers of a period say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricsReport {
    /// The whole hour that the period begins with.
    pub from: Timestamp,
    /// When it was asked.
    pub to: Timestamp,
    /// Only of this queue.
    pub queue: Option<String>,
    /// How much there was.
    pub totals: Totals,
    /// In percent; absent where there was nothing.
    pub rates: Rates,
    /// Failed attempts by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Letters by the error's type, the most first; absent for a single queue, since groups span queues.
    pub by_type: Option<Vec<TypeCount>>,
    /// How long attempts took.
    pub latency_ms: Option<Spread>,
    /// Retries of jobs that ended.
    pub retries: RetryCounts,
    /// The letters that are there now.
    pub dead_letters: LetterCounts,
    /// What was put back, over the last 24 hours.
    pub recovery: Recovery,
    /// What retrying by itself achieved.
    pub automatic_retry: AutomaticRetry,
    /// Letters and waiting jobs that a person retried.
    pub manual_retries: u64,
    /// How idempotency keys were used; absent where none ever was, and for a single queue, since keys belong to none.
    pub idempotency: Option<KeyUse>,
    /// Hour by hour, the oldest first.
    pub hourly: Vec<Hour>,
}

/// How much there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Jobs that succeeded or died.
    pub ended: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that were set aside.
    pub dead: u64,
    /// Jobs that were cancelled; they count for no rate.
    pub cancelled: u64,
    /// Attempts that ended: succeeded, retried or dead.
    pub attempts: u64,
    /// Attempts that failed and were tried again.
    pub retried: u64,
}

/// In percent, to two decimals; absent where there was nothing to divide by.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Jobs that succeeded, of those that ended.
    pub success: Option<f64>,
    /// Jobs that died, of those that ended.
    pub error: Option<f64>,
    /// Attempts that were tried again, of all.
    pub retry: Option<f64>,
}

/// Letters whose error has this type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    /// The type; absent: all others together.
    pub error_type: Option<String>,
    /// Dead now.
    pub letters: u64,
    /// Ever written, of the groups that are kept.
    pub failures: u64,
}

/// Retries of jobs that ended.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RetryCounts {
    /// All of them.
    pub total: u64,
    /// Jobs that were retried at all.
    pub jobs: u64,
    /// Of a job that was retried at all; absent: none was.
    pub avg: Option<f64>,
    /// The most of one job; beyond 99 it says 99.
    pub max: u64,
}

/// The letters that are there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LetterCounts {
    /// Dead now (001's `ApproximateNumberOfMessagesVisible`, 004's backlog).
    pub visible: u64,
    /// How long the oldest has been dead.
    pub oldest_age_ms: Option<u64>,
    /// Written in the period.
    pub died: u64,
    /// Let go for good in the period, by age or by hand.
    pub discarded: u64,
}

/// What was put back, over the last 24 hours.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Recovery {
    /// The whole hour that those 24 hours begin with.
    pub from: Timestamp,
    /// Letters that were put back by a redrive or a rule; those that a person retried are counted apart.
    pub redriven: u64,
    /// Of what was put back at any time: succeeded.
    pub recovered: u64,
    /// Of what was put back at any time: died again.
    pub died_again: u64,
    /// In percent of those that ended (001's `RecoverySuccessRate`).
    pub success_rate: Option<f64>,
    /// From being put back to the end.
    pub duration_ms: Option<Spread>,
}

/// What retrying by itself achieved.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct AutomaticRetry {
    /// Jobs that succeeded after a retry.
    pub succeeded: u64,
    /// Jobs that died after a retry.
    pub died: u64,
    /// In percent of retried jobs that ended.
    pub success_rate: Option<f64>,
    /// In percent of retried jobs that ended.
    pub failure_rate: Option<f64>,
}

/// One hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Hour {
    /// When it began.
    pub hour: Timestamp,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that were set aside.
    pub dead: u64,
    /// Attempts that were tried again.
    pub retried: u64,
}

impl Engine {
    /// The numbers of a period up to now, of all queues or of one.
    ///
    /// ```
    /// # use redrive::engine::Engine;
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("redrive.db");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let engine = Engine::open(&path)?;
    /// let report = engine.metrics(Duration::from_secs(3600), None).await?;
    /// assert_eq!((report.totals.ended, report.rates.success), (0, None));
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub async fn metrics(&self, since: Duration, queue: Option<&str>) -> Result<MetricsReport, EngineError> {
        let now = self.now();
        let counts = self.counts(hours_of(now, since), queue).await?;
        let recovery = self.counts(hours_of(now, RECOVERY_PERIOD), queue).await?;
        let mut report = MetricsReport::of_counts(&counts, &recovery, now, since, queue);
        report.dead_letters.visible = self.visible_letters(queue, now).await?;
        let oldest = self.oldest_letter(queue.map(str::to_owned)).await?;
        report.dead_letters.oldest_age_ms = oldest.map(|at| millis(now.since(at)));
        if queue.is_none() {
            report.by_type = Some(by_type(self.store().groups(GroupQuery::default(), GROUPS).await?));
            report.idempotency = KeyUse::of(&Sums::of(&counts), self.store().key_standing().await?);
        }
        Ok(report)
    }

    async fn counts(
        &self,
        (from_hour, to_hour): (i64, i64),
        queue: Option<&str>,
    ) -> Result<Vec<MetricCount>, EngineError> {
        let queue = queue.map(str::to_owned);
        let query = MetricsQuery { from_hour, to_hour, queue, by_hour: true, by_queue: false };
        Ok(self.store().metrics(query).await?)
    }

    async fn visible_letters(&self, queue: Option<&str>, now: Timestamp) -> Result<u64, EngineError> {
        let status = self.store().status(now).await?;
        Ok(match queue {
            None => status.dead_letters,
            Some(queue) => status.lanes.iter().filter(|lane| lane.queue == queue).map(|lane| lane.dead).sum(),
        })
    }

    /// When the oldest letter died.
    async fn oldest_letter(&self, queue: Option<String>) -> Result<Option<Timestamp>, EngineError> {
        let oldest = LetterFilter { queue, oldest_first: true, ..LetterFilter::default() };
        Ok(self.store().letter_heads(oldest, 1, 1).await?.heads.first().map(|head| head.died_at))
    }
}

/// The most frequent types, and all others together.
fn by_type(groups: Vec<Group>) -> Vec<TypeCount> {
    let mut types: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for group in groups {
        let (letters, failures) = types.entry(group.error_type).or_default();
        *letters += u64::try_from(group.counts.letters).unwrap_or(0);
        *failures += u64::try_from(group.counts.failures).unwrap_or(0);
    }
    let mut types: Vec<TypeCount> = types
        .into_iter()
        .map(|(name, (letters, failures))| TypeCount { error_type: Some(name), letters, failures })
        .collect();
    types.sort_by_key(|one| std::cmp::Reverse((one.letters, one.failures)));
    if types.len() > TYPES {
        let others = types.split_off(TYPES);
        let letters = others.iter().map(|one| one.letters).sum();
        let failures = others.iter().map(|one| one.failures).sum();
        types.push(TypeCount { error_type: None, letters, failures });
    }
    types
}

impl MetricsReport {
    /// The numbers of a store in which nothing has happened, such as one that is not there yet.
    pub fn of_nothing(now: Timestamp, since: Duration, queue: Option<&str>) -> MetricsReport {
        let report = MetricsReport::of_counts(&[], &[], now, since, queue);
        MetricsReport { by_type: queue.is_none().then(Vec::new), ..report }
    }

    /// What follows from counts alone: those of the period, and those of the last 24 hours.
    fn of_counts(
        counts: &[MetricCount],
        recovery: &[MetricCount],
        now: Timestamp,
        since: Duration,
        queue: Option<&str>,
    ) -> MetricsReport {
        let (from_hour, to_hour) = hours_of(now, since);
        let sums = Sums::of(counts);
        MetricsReport {
            from: hour_at(from_hour),
            to: now,
            queue: queue.map(str::to_owned),
            totals: sums.totals(),
            rates: sums.totals().rates(),
            by_cause: sums.by_cause(),
            by_type: None,
            latency_ms: sums.latency(),
            retries: sums.retries(),
            dead_letters: LetterCounts {
                died: sums.get(Metric::Died),
                discarded: sums.get(Metric::Discarded),
                ..LetterCounts::default()
            },
            recovery: Sums::of(recovery).recovery(hour_at(hours_of(now, RECOVERY_PERIOD).0)),
            automatic_retry: sums.automatic_retry(),
            manual_retries: sums.get(Metric::ManualRetries),
            idempotency: None,
            hourly: hourly(counts, from_hour, to_hour),
        }
    }
}

/// The first and the last hour of a period up to now.
fn hours_of(now: Timestamp, since: Duration) -> (i64, i64) {
    let last = hour_of(now);
    (hour_of(now.before(since)).min(last), last)
}

/// What was counted, added up.
struct Sums(BTreeMap<Metric, u64>);

impl Sums {
    fn of(counts: &[MetricCount]) -> Sums {
        let mut sums: BTreeMap<Metric, u64> = BTreeMap::new();
        for count in counts {
            let sum = sums.entry(count.metric).or_default();
            *sum = sum.saturating_add(count.n);
        }
        Sums(sums)
    }

    fn get(&self, metric: Metric) -> u64 {
        self.0.get(&metric).copied().unwrap_or(0)
    }

    fn totals(&self) -> Totals {
        let (succeeded, dead) = (self.get(Metric::Succeeded), self.get(Metric::Died));
        let retried = self.get(Metric::Retried);
        let ended = succeeded.saturating_add(dead);
        Totals {
            ended,
            succeeded,
            dead,
            cancelled: self.get(Metric::Cancelled),
            attempts: ended.saturating_add(retried),
            retried,
        }
    }

    fn by_cause(&self) -> BTreeMap<Cause, u64> {
        let of = |(metric, n): (&Metric, &u64)| match metric {
            Metric::FailedWith(place) => Cause::ALL.get(usize::from(*place)).map(|cause| (*cause, *n)),
            _ => None,
        };
        self.0.iter().filter_map(of).filter(|(_, n)| *n > 0).collect()
    }

    fn latency(&self) -> Option<Spread> {
        let of = |(metric, n): (&Metric, &u64)| match metric {
            Metric::Latency(bucket) => Some((*bucket, *n)),
            _ => None,
        };
        Spread::of(self.0.iter().filter_map(of), self.get(Metric::LatencySum))
    }

    fn retries(&self) -> RetryCounts {
        let mut counts = RetryCounts::default();
        for (metric, n) in &self.0 {
            if let Metric::Retries(retries @ 1..) = metric
                && *n > 0
            {
                counts.total = counts.total.saturating_add(u64::from(*retries).saturating_mul(*n));
                counts.jobs = counts.jobs.saturating_add(*n);
                counts.max = counts.max.max(u64::from(*retries));
            }
        }
        counts.avg = ratio(counts.total, counts.jobs).map(two_decimals);
        counts
    }

    fn recovery(&self, from: Timestamp) -> Recovery {
        let (recovered, died_again) = (self.get(Metric::Recovered), self.get(Metric::DiedAgain));
        let of = |(metric, n): (&Metric, &u64)| match metric {
            Metric::Recovery(bucket) => Some((*bucket, *n)),
            _ => None,
        };
        Recovery {
            from,
            redriven: self.get(Metric::Redriven),
            recovered,
            died_again,
            success_rate: percent(recovered, recovered.saturating_add(died_again)),
            duration_ms: Spread::of(self.0.iter().filter_map(of), self.get(Metric::RecoverySum)),
        }
    }

    fn automatic_retry(&self) -> AutomaticRetry {
        let (succeeded, died) = (self.get(Metric::SucceededAfterRetry), self.get(Metric::DiedAfterRetry));
        let ended = succeeded.saturating_add(died);
        AutomaticRetry {
            succeeded,
            died,
            success_rate: percent(succeeded, ended),
            failure_rate: percent(died, ended),
        }
    }
}

impl Totals {
    fn rates(&self) -> Rates {
        Rates {
            success: percent(self.succeeded, self.ended),
            error: percent(self.dead, self.ended),
            retry: percent(self.retried, self.attempts),
        }
    }
}

fn hourly(counts: &[MetricCount], from_hour: i64, to_hour: i64) -> Vec<Hour> {
    let mut hours: BTreeMap<i64, Hour> = BTreeMap::new();
    for count in counts {
        let Some(hour) = count.hour else { continue };
        let entry = hours.entry(hour).or_default();
        match count.metric {
            Metric::Succeeded => entry.succeeded += count.n,
            Metric::Died => entry.dead += count.n,
            Metric::Retried => entry.retried += count.n,
            _ => {}
        }
    }
    let first = if to_hour.saturating_sub(from_hour) < ALL_HOURS {
        from_hour
    } else {
        hours.keys().next().copied().unwrap_or(to_hour).max(from_hour)
    };
    (first..=to_hour)
        .map(|hour| Hour { hour: hour_at(hour), ..hours.get(&hour).copied().unwrap_or_default() })
        .collect()
}

fn hour_at(hour: i64) -> Timestamp {
    Timestamp::from_millis(hour.saturating_mul(HOUR_MS))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    ratio(part, whole).map(|ratio| two_decimals(ratio * 100.0))
}

fn two_decimals(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_store::bucket_of;

    fn counted(hour: i64, metric: Metric, n: u64) -> MetricCount {
        MetricCount { hour: Some(hour), queue: None, metric, n }
    }

    /// R-C4: every number is what its words say.
    #[test]
    fn numbers_follow_from_the_counts() {
        let network =
            u8::try_from(Cause::ALL.iter().position(|cause| *cause == Cause::Network).unwrap()).unwrap();
        let counts = [
            counted(10, Metric::Succeeded, 6),
            counted(11, Metric::Succeeded, 1),
            counted(11, Metric::Died, 3),
            counted(11, Metric::Retried, 10),
            counted(11, Metric::Cancelled, 2),
            counted(11, Metric::FailedWith(network), 13),
            counted(11, Metric::Retries(0), 5),
            counted(11, Metric::Retries(1), 2),
            counted(11, Metric::Retries(3), 3),
            counted(11, Metric::SucceededAfterRetry, 2),
            counted(11, Metric::DiedAfterRetry, 3),
            counted(11, Metric::Recovered, 3),
            counted(11, Metric::DiedAgain, 1),
            counted(11, Metric::Redriven, 4),
            counted(11, Metric::ManualRetries, 1),
            counted(11, Metric::Latency(bucket_of(5)), 9),
            counted(11, Metric::Latency(bucket_of(1_000)), 1),
            counted(11, Metric::LatencySum, 1_045),
        ];
        let sums = Sums::of(&counts);
        let totals = sums.totals();
        assert_eq!(
            totals,
            Totals { ended: 10, succeeded: 7, dead: 3, cancelled: 2, attempts: 20, retried: 10 }
        );
        assert_eq!(totals.rates(), Rates { success: Some(70.0), error: Some(30.0), retry: Some(50.0) });
        assert_eq!(sums.by_cause(), BTreeMap::from([(Cause::Network, 13)]));
        assert_eq!(sums.retries(), RetryCounts { total: 11, jobs: 5, avg: Some(2.2), max: 3 });
        let recovery = sums.recovery(Timestamp::from_millis(0));
        assert_eq!((recovery.redriven, recovery.success_rate), (4, Some(75.0)));
        assert_eq!(recovery.duration_ms, None);
        let automatic = sums.automatic_retry();
        assert_eq!((automatic.success_rate, automatic.failure_rate), (Some(40.0), Some(60.0)));
        let latency = sums.latency().unwrap();
        assert_eq!((latency.count, latency.min, latency.p50, latency.p95), (10, 5, 5, 1_023));
        assert!((latency.avg - 104.5).abs() < 1e-9);
        let hours = hourly(&counts, 9, 12);
        assert_eq!(hours.iter().map(|hour| hour.succeeded).collect::<Vec<_>>(), [0, 6, 1, 0]);
        assert_eq!((hours[2].dead, hours[2].retried), (3, 10));
        assert_eq!(hours[0].hour.millis(), 9 * HOUR_MS);
    }

    /// R-C4: nothing was measured, so nothing is claimed.
    #[test]
    fn a_rate_of_nothing_is_absent() {
        let sums = Sums::of(&[]);
        assert_eq!(sums.totals().rates(), Rates::default());
        assert_eq!((sums.latency(), sums.retries().avg), (None, None));
        assert_eq!(sums.recovery(Timestamp::from_millis(0)).success_rate, None);
        assert_eq!(sums.automatic_retry(), AutomaticRetry::default());
        assert_eq!(hourly(&[], 0, 100_000).len(), 1);
    }
}
