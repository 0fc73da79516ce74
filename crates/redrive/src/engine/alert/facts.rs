//! The numbers that the rules look at, from what the store counts. What belongs to messages of our own is left out.

use std::time::Duration;

use redrive_store::{Group, Metric, MetricsQuery, Timestamp, hour_of};

use super::ALERT_QUEUE;
use crate::engine::metrics::Unattended;
use crate::engine::{Engine, EngineError};

/// How many groups are looked at.
const GROUPS: u32 = 2_000;
const HOUR_MS: i64 = 3_600_000;

/// What the rules look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Letters of groups that nobody has acknowledged.
    pub(super) letters: u64,
    /// Those groups, the largest first.
    pub(super) groups: Vec<Group>,
    /// How long the oldest of those letters has been dead.
    pub(super) oldest: Option<Duration>,
    pub(super) last_hour: LastHour,
}

/// What happened within the last hour. Counts are kept by whole hours: of the one before this, as much counts as lies within sixty
/// minutes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastHour {
    pub(super) died: f64,
    pub(super) recovered: f64,
    pub(super) died_again: f64,
    pub(super) recovery_ms: f64,
    pub(super) recoveries: f64,
    pub(super) succeeded_after_retry: f64,
    pub(super) died_after_retry: f64,
    pub(super) keys_used: f64,
    pub(super) keys_again: f64,
    pub(super) attempt_ms: f64,
    pub(super) attempts: f64,
}

impl LastHour {
    fn add(&mut self, metric: Metric, n: f64) {
        match metric {
            Metric::Died => self.died += n,
            Metric::Recovered => self.recovered += n,
            Metric::DiedAgain => self.died_again += n,
            Metric::RecoverySum => self.recovery_ms += n,
            Metric::Recovery(_) => self.recoveries += n,
            Metric::SucceededAfterRetry => self.succeeded_after_retry += n,
            Metric::DiedAfterRetry => self.died_after_retry += n,
            Metric::KeysUsed => self.keys_used += n,
            Metric::KeysReplayed | Metric::KeysInFlight => self.keys_again += n,
            Metric::LatencySum => self.attempt_ms += n,
            Metric::Latency(_) => self.attempts += n,
            _ => {}
        }
    }
}

impl Engine {
    pub(super) async fn alert_facts(&self, now: Timestamp) -> Result<Facts, EngineError> {
        let Unattended { letters, groups, oldest } = self.unattended(GROUPS).await?;
        let last_hour = self.last_hour(now).await?;
        Ok(Facts { letters, groups, oldest: oldest.map(|at| now.since(at)), last_hour })
    }

    async fn last_hour(&self, now: Timestamp) -> Result<LastHour, EngineError> {
        let this = hour_of(now);
        let query =
            MetricsQuery { from_hour: this - 1, to_hour: this, queue: None, by_hour: true, by_queue: true };
        #[allow(clippy::cast_precision_loss)]
        let before = 1.0 - now.millis().rem_euclid(HOUR_MS) as f64 / HOUR_MS as f64;
        let mut hour = LastHour::default();
        for count in self.store().metrics(query).await? {
            if count.queue.as_deref() == Some(ALERT_QUEUE) {
                continue;
            }
            #[allow(clippy::cast_precision_loss)]
            let n = count.n as f64;
            hour.add(count.metric, if count.hour == Some(this) { n } else { n * before });
        }
        Ok(hour)
    }
}
