//! The clock by which all processes on a store agree: the store's own, where it has one.
//!
//! What one process writes down and another judges must not depend on whose machine is ahead: how long calls count, when a tick is
//! due, until when a breaker is open. The store is asked now and then; in between it is counted on from its answer with the steady
//! reading, which nobody sets. A store without a clock, such as a file, is shared by one machine, and that machine's clock holds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{StoreError, Timestamp};

use super::Engine;

/// For how long it is counted on before the store is asked again: another server may have taken its place, or this machine slept.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// What is known of the store's clock.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<Reading>>);

#[derive(Debug, Clone, Copy)]
enum Reading {
    /// It has none.
    Ours,
    /// It said this, and our steady reading was that when the answer came: what is counted on is never ahead.
    Theirs(Timestamp, Duration),
}

impl StoreClock {
    fn get(&self) -> Option<Reading> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reading: Reading) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    }
}

impl Engine {
    /// The time by the clock that everybody on the store shares.
    pub(super) async fn store_now(&self) -> Result<Timestamp, StoreError> {
        let clock = &self.0.store_clock;
        let counted = |at: Timestamp, steady: Duration| {
            let passed = self.clock().steady().saturating_sub(steady);
            (at.after(passed), passed)
        };
        let known = match clock.get() {
            Some(Reading::Ours) => return Ok(self.now()),
            Some(Reading::Theirs(at, steady)) => Some(counted(at, steady)),
            None => None,
        };
        if let Some((now, passed)) = known
            && passed < FRESH_FOR
        {
            return Ok(now);
        }
        match (self.store().clock().await, known) {
            (Ok(Some(at)), _) => {
                clock.set(Reading::Theirs(at, self.clock().steady()));
                Ok(at)
            }
            (Ok(None), _) => {
                clock.set(Reading::Ours);
                Ok(self.now())
            }
            // The steady reading is good for much longer than a store is away.
            (Err(error), Some((now, _))) if error.may_pass() => {
                tracing::debug!(%error, "the store's clock is counted on");
                Ok(now)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// What our own clock shows when the store's shows `at`; the store's shows `now`. Whatever is handed to the store is counted
    /// from our own.
    pub(super) fn by_own_clock(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        let ahead = self.now().millis().saturating_sub(now.millis());
        Timestamp::from_millis(at.millis().saturating_add(ahead))
    }
}
