//! What is counted by the hour, in the transactions in which it happens (R-C4), so that nobody ever scans the stream for it.
//!
//! Times are kept as counts in buckets: up to 16 ms exactly, above that eight buckets for each doubling, so that a
//! percentile is at most an eighth too large.

use crate::Answer;
use crate::time::Timestamp;

/// What happened, and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Jobs that succeeded.
    Succeeded,
    /// Attempts that failed, and are tried again.
    Retried,
    /// Jobs that were set aside.
    Died,
    /// Jobs that were cancelled.
    Cancelled,
    /// Letters that were put back, by whomever.
    Redriven,
    /// Letters and waiting jobs that a person retried.
    ManualRetries,
    /// Jobs that were redriven and succeeded.
    Recovered,
    /// Jobs that were redriven and died again.
    DiedAgain,
    /// Jobs that succeeded after a retry.
    SucceededAfterRetry,
    /// Jobs that were set aside after a retry.
    DiedAfterRetry,
    /// Letters that went for good, by age or by hand.
    Discarded,
    /// Milliseconds that attempts took, together.
    LatencySum,
    /// Milliseconds from a redrive to its end, together.
    RecoverySum,
    /// Requests to routes that are guarded by idempotency keys, with or without one.
    KeysGuarded,
    /// Requests that came with a key.
    KeysUsed,
    /// Requests with a key that were run.
    KeysTaken,
    /// Requests that were answered from a record.
    KeysReplayed,
    /// Keys that came with another request.
    KeysMismatched,
    /// Requests that were refused while the first was running.
    KeysInFlight,
    /// Requests that were refused because nobody knows how the first ended.
    KeysUnknown,
    /// Keys that became free again because their answer is not kept.
    KeysReleased,
    /// Attempts that failed with this cause, by its place in [`redrive_policy::Cause::ALL`].
    FailedWith(u8),
    /// Attempts that took a time in this bucket.
    Latency(u16),
    /// Redriven jobs whose end came after a time in this bucket.
    Recovery(u16),
    /// Jobs that ended after so many retries; the last counts all above.
    Retries(u8),
}

/// More retries than these are counted as these.
pub const MOST_RETRIES: u8 = 99;
/// Below this, each millisecond is a bucket.
const EXACT: u64 = 16;
/// Buckets for each doubling above.
const IN_A_DOUBLING: u64 = 8;
/// The last bucket: more than ten thousand years.
const LAST_BUCKET: u64 = 16 + 8 * 45;

impl Metric {
    /// Its number in the store, which never changes.
    pub const fn code(self) -> i64 {
        match self {
            Metric::Succeeded => 0,
            Metric::Retried => 1,
            Metric::Died => 2,
            Metric::Cancelled => 3,
            Metric::Redriven => 4,
            Metric::ManualRetries => 5,
            Metric::Recovered => 6,
            Metric::DiedAgain => 7,
            Metric::SucceededAfterRetry => 8,
            Metric::DiedAfterRetry => 9,
            Metric::Discarded => 10,
            Metric::LatencySum => 11,
            Metric::RecoverySum => 12,
            Metric::KeysGuarded => 13,
            Metric::KeysUsed => 14,
            Metric::KeysTaken => 15,
            Metric::KeysReplayed => 16,
            Metric::KeysMismatched => 17,
            Metric::KeysInFlight => 18,
            Metric::KeysUnknown => 19,
            Metric::KeysReleased => 20,
            Metric::FailedWith(cause) => 100 + cause as i64,
            Metric::Retries(retries) => 500 + retries as i64,
            Metric::Latency(bucket) => 1_000 + bucket as i64,
            Metric::Recovery(bucket) => 2_000 + bucket as i64,
        }
    }

    /// The one of that number, if there is one.
    pub fn from_code(code: i64) -> Option<Metric> {
        let plain = [
            Metric::Succeeded,
            Metric::Retried,
            Metric::Died,
            Metric::Cancelled,
            Metric::Redriven,
            Metric::ManualRetries,
            Metric::Recovered,
            Metric::DiedAgain,
            Metric::SucceededAfterRetry,
            Metric::DiedAfterRetry,
            Metric::Discarded,
            Metric::LatencySum,
            Metric::RecoverySum,
            Metric::KeysGuarded,
            Metric::KeysUsed,
            Metric::KeysTaken,
            Metric::KeysReplayed,
            Metric::KeysMismatched,
            Metric::KeysInFlight,
            Metric::KeysUnknown,
            Metric::KeysReleased,
        ];
        match code {
            0..=99 => plain.get(usize::try_from(code).ok()?).copied(),
            100..=355 => u8::try_from(code - 100).ok().map(Metric::FailedWith),
            500..=599 => u8::try_from(code - 500).ok().map(Metric::Retries),
            1_000..=1_999 => u16::try_from(code - 1_000).ok().map(Metric::Latency),
            2_000..=2_999 => u16::try_from(code - 2_000).ok().map(Metric::Recovery),
            _ => None,
        }
    }
}

/// The bucket of a time in milliseconds.
pub fn bucket_of(millis: u64) -> u16 {
    let bucket = if millis < EXACT {
        millis
    } else {
        let doubling = u64::from(millis.ilog2()) - 4;
        EXACT + doubling * IN_A_DOUBLING + ((millis >> (doubling + 1)) - IN_A_DOUBLING)
    };
    u16::try_from(bucket.min(LAST_BUCKET)).unwrap_or(u16::MAX)
}

/// The longest time, in milliseconds, that is in this bucket.
pub fn bucket_end(bucket: u16) -> u64 {
    let bucket = u64::from(bucket).min(LAST_BUCKET);
    if bucket < EXACT {
        return bucket;
    }
    let (doubling, place) = ((bucket - EXACT) / IN_A_DOUBLING, (bucket - EXACT) % IN_A_DOUBLING);
    ((IN_A_DOUBLING + place + 1) << (doubling + 1)) - 1
}

/// The hour that a time is in, since 1970.
pub fn hour_of(at: Timestamp) -> i64 {
    at.millis().div_euclid(3_600_000)
}

/// Which counts, and how they are put together.
#[derive(Debug, Clone, Default)]
pub struct MetricsQuery {
    /// From this hour on, it included.
    pub from_hour: i64,
    /// Up to this hour, it included.
    pub to_hour: i64,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Each hour apart, or all of them together.
    pub by_hour: bool,
    /// Each queue apart, or all of them together.
    pub by_queue: bool,
}

/// How often something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCount {
    /// In this hour, where hours stand apart.
    pub hour: Option<i64>,
    /// In this queue, where queues stand apart.
    pub queue: Option<String>,
    /// What.
    pub metric: Metric,
    /// How often, or how much.
    pub n: u64,
}

/// Reading what was counted.
pub trait Metrics: Send + Sync {
    /// The counts of these hours, in the order of hours, queues and numbers.
    fn metrics(&self, query: MetricsQuery) -> Answer<'_, Vec<MetricCount>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C4: a percentile is at most an eighth too large.
    #[test]
    fn a_bucket_is_narrow_and_buckets_follow_each_other() {
        let mut last = 0;
        for millis in (0..5_000).chain([100_000, 3_600_000, 1 << 40, u64::MAX >> 20]) {
            let bucket = bucket_of(millis);
            assert!(bucket >= last, "{millis}");
            last = bucket;
            let end = bucket_end(bucket);
            assert!(end >= millis && end - millis <= millis / 8, "{millis} is in {bucket}, up to {end}");
            assert_eq!(bucket_of(end), bucket);
            assert_eq!(bucket_of(end + 1), bucket + 1);
        }
        assert_eq!(u64::from(bucket_of(u64::MAX)), LAST_BUCKET);
    }

    /// R-C4: every number leads back to what it counts, and no two share one.
    #[test]
    fn numbers_lead_back() {
        let mut seen = std::collections::HashSet::new();
        let causes =
            (0..redrive_policy::Cause::ALL.len()).map(|at| Metric::FailedWith(u8::try_from(at).unwrap()));
        let buckets = [0, 15, 16, 300].map(Metric::Latency).into_iter().chain([0, 300].map(Metric::Recovery));
        let all = (0..21).filter_map(Metric::from_code).chain(causes).chain(buckets);
        for metric in all.chain([0, MOST_RETRIES].map(Metric::Retries)) {
            assert_eq!(Metric::from_code(metric.code()), Some(metric));
            assert!(seen.insert(metric.code()));
        }
        assert_eq!(seen.len(), 21 + 17 + 6 + 2);
        assert_eq!((Metric::from_code(21), Metric::from_code(-1)), (None, None));
    }
}
