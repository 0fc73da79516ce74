//! How often somebody may show a token that does not hold (reliability 65).
//!
//! A table of fixed size: addresses and ids are hashed into it under a key of this process, so that memory is bounded and nobody can
//! choose whose slot he shares. Two who share one wait together. A token that holds is never kept waiting: else whoever stands
//! behind the same proxy could lock out everybody.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const SLOTS: usize = 4_096;

/// Counts what is shown in vain.
pub(crate) struct Throttle {
    began: Instant,
    hasher: RandomState,
    /// For each slot the nanosecond at which it would be empty again.
    slots: Box<[AtomicU64]>,
    every: Duration,
    burst: u32,
}

impl Throttle {
    /// One in so long, after so many at once.
    pub(crate) fn new(every: Duration, burst: u32) -> Throttle {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Throttle { began: Instant::now(), hasher: RandomState::new(), slots, every, burst }
    }

    /// Counts one; how long to wait when there were too many.
    pub(crate) fn count(&self, whose: impl Hash) -> Result<(), Duration> {
        let now = nanos(self.began.elapsed());
        let (every, most) = (nanos(self.every), nanos(self.every * self.burst));
        // The remainder is below the number of slots.
        let index = usize::try_from(self.hasher.hash_one(whose) % SLOTS as u64).unwrap_or_default();
        let slot = &self.slots[index];
        let mut waits = 0;
        let counted = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |empty_at| {
            let next = empty_at.max(now) + every;
            waits = (next - now).saturating_sub(most);
            (waits == 0).then_some(next)
        });
        counted.map(drop).map_err(|_| Duration::from_nanos(waits))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 65: so many at once, then one in so long; another is not kept waiting, and what was counted is forgotten.
    #[tokio::test(start_paused = true)]
    async fn many_at_once_then_one_by_one() {
        let throttle = Throttle::new(Duration::from_secs(1), 10);
        let passed = (0..10_000).filter(|_| throttle.count("192.0.2.1").is_ok()).count();
        assert_eq!(passed, 10);
        assert!(throttle.count("192.0.2.1").unwrap_err() <= Duration::from_secs(1));
        // One slot in 4,096 is taken: one of a few others is elsewhere.
        assert!((0..3).any(|other| throttle.count(other).is_ok()));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!((0..100).filter(|_| throttle.count("192.0.2.1").is_ok()).count(), 3);
    }
}
