//! What the guard counts (004 §6): gathered in memory, and added to the store's hours about once a second, so that a replay costs no
//! write. A crash loses a second of counts, and nothing else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redrive_store::{KeyCounts, KeysSwept, StoreError};

use super::Guard;

/// How long counts are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// After so many gatherings keys are looked after as well.
const SWEEP_EVERY: u64 = 30;
/// How many records one round of sweeping looks at, and how long it rests before the next.
const SWEEP_ROUND: u32 = 25;
const SWEEP_REST: Duration = Duration::from_millis(25);

/// Something that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Guarded,
    Keyed,
    Taken,
    Replayed,
    Mismatched,
    InFlight,
    Unknown,
    Released,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    counts: [AtomicU64; 8],
    /// Whether somebody will add them up.
    gathering: AtomicBool,
    gathered: AtomicU64,
}

impl Guard {
    pub(super) fn count(&self, what: Counted) {
        let counters = &self.0.counters;
        counters.counts[what as usize].fetch_add(1, Ordering::Relaxed);
        if counters.gathering.load(Ordering::Relaxed) || counters.gathering.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            counters.gathering.store(false, Ordering::Release);
            return;
        };
        let guard = self.clone();
        runtime.spawn(async move {
            tokio::time::sleep(GATHER).await;
            // What is counted from here on finds somebody new.
            guard.0.counters.gathering.store(false, Ordering::Release);
            if let Err(error) = guard.write_counts().await {
                tracing::warn!(%error, "what idempotency keys were used for could not be counted; it is tried again");
            }
            if guard.0.counters.gathered.fetch_add(1, Ordering::Relaxed).is_multiple_of(SWEEP_EVERY)
                && let Err(error) = guard.sweep().await
            {
                tracing::warn!(%error, "expired idempotency keys could not be swept; it is tried again");
            }
        });
    }

    /// Counts a request without a key that somebody else let pass.
    pub(crate) fn passed_by(&self) {
        self.count(Counted::Guarded);
    }

    /// Adds what was counted to the store; also done by itself about once a second, and to be called at the end.
    pub async fn write_counts(&self) -> Result<(), StoreError> {
        let taken: [u64; 8] = std::array::from_fn(|at| self.0.counters.counts[at].swap(0, Ordering::AcqRel));
        let [guarded, keyed, taken_keys, replayed, mismatched, in_flight, unknown, released] = taken;
        let counts = KeyCounts {
            guarded,
            keyed,
            taken: taken_keys,
            replayed,
            mismatched,
            in_flight,
            unknown,
            released,
        };
        if counts == KeyCounts::default() {
            return Ok(());
        }
        let engine = &self.0.engine;
        let written = engine.store().count_keys(engine.now(), counts).await;
        if written.is_err() {
            for (counter, count) in self.0.counters.counts.iter().zip(taken) {
                counter.fetch_add(count, Ordering::AcqRel);
            }
        }
        written
    }

    /// Finds holders that fell silent and forgets what has expired, in small rounds, until there is nothing more. Done by itself while
    /// requests come, and by every worker.
    pub async fn sweep(&self) -> Result<KeysSwept, StoreError> {
        let engine = &self.0.engine;
        let mut sum = KeysSwept::default();
        loop {
            let keep_for = self.longest_keep();
            let swept = engine.store().sweep_keys(engine.now(), keep_for, SWEEP_ROUND).await?;
            sum.lapsed += swept.lapsed;
            sum.expired += swept.expired;
            if !swept.more {
                return Ok(sum);
            }
            tokio::time::sleep(SWEEP_REST).await;
        }
    }

    pub(super) fn longest_keep(&self) -> Duration {
        let kept = self.0.rules.iter().map(|rules| rules.keep_for);
        kept.max().unwrap_or(redrive_policy::idempotency::DEFAULT_KEEP_FOR)
    }
}
