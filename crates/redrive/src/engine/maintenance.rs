//! What keeps the store in order: expired leases are reaped, old things pruned. Every worker does it; nobody must.
//!
//! A wall clock that jumped makes every lease look expired, or none. Then nothing is reaped for the time of one lease,
//! so that workers that live can renew theirs. Schedules and alerts wait for a fixed time, whatever leases there are.

mod prune;
mod reap;
pub(super) mod recover;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive_store::{NewEvent, Timestamp, WorkerId};
use serde_json::json;

use super::{Clock, Engine, EngineError};

/// How far the wall clock may run apart from the steady one before it counts as a jump.
const JUMP: Duration = Duration::from_secs(5);
/// The lease that the reaper takes over what it settles.
const REAPER_LEASE: Duration = Duration::from_secs(30);
/// How long nothing is reaped after a jump, at the least: the time of a lease, in which those who live renew theirs. Schedules
/// and alerts wait so long, too.
const CALM_FOR: Duration = Duration::from_secs(30);
/// How much of a lease counts that a worker elsewhere asked for: whoever may ask for hours must not stop the reaper for hours.
const MOST_ELSEWHERE: Duration = Duration::from_mins(2);
/// How often rules of automatic recovery are looked at.
const RECOVER_EVERY: Duration = Duration::from_secs(5);
/// How often old things are looked for.
const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// How often keys are looked for whose holder fell silent, or whose time is over.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// What one round of maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Maintained {
    /// Leases that expired with a begun attempt, and in-process jobs whose process is gone.
    pub reaped: u64,
    /// Leases that expired before their attempt began; nothing was counted.
    pub released: u64,
    /// Events that were too old.
    pub events_pruned: u64,
    /// Letters that were too old.
    pub letters_pruned: u64,
    /// Keys whose holder fell silent: nobody knows how their requests ended.
    pub keys_lapsed: u64,
    /// Keys that were forgotten in their time.
    pub keys_forgotten: u64,
    /// Items of the outbox that were sent long ago, and keys of saves that no item has.
    pub items_forgotten: u64,
    /// Redrives that a rule of automatic recovery began.
    pub recoveries_begun: u64,
    /// Messages of alerts.
    pub alerts_told: u64,
    /// Jobs that schedules enqueued.
    pub scheduled: u64,
    /// How far the wall clock was found to have jumped, in milliseconds.
    pub clock_jumped_ms: Option<i64>,
}

/// Compares the two readings of a clock.
#[derive(Debug)]
pub(super) struct ClockWatch {
    wall: Timestamp,
    steady: Duration,
    jumped_at: Option<Duration>,
    pruned_at: Option<Duration>,
    recovered_at: Option<Duration>,
    swept_at: Option<Duration>,
}

impl ClockWatch {
    pub(super) fn new(clock: &dyn Clock) -> ClockWatch {
        ClockWatch {
            wall: clock.now(),
            steady: clock.steady(),
            jumped_at: None,
            pruned_at: None,
            recovered_at: None,
            swept_at: None,
        }
    }

    /// By how many milliseconds the wall clock has jumped since the last look, if it has.
    fn look(&mut self, now: Timestamp, steady: Duration) -> Option<i64> {
        let passed = steady.saturating_sub(self.steady);
        let expected = self.wall.after(passed);
        let jumped = now.millis().saturating_sub(expected.millis());
        (self.wall, self.steady) = (now, steady);
        if u128::from(jumped.unsigned_abs()) < JUMP.as_millis() {
            return None;
        }
        self.jumped_at = Some(steady);
        Some(jumped)
    }

    /// Whether the last jump, if there was one, is so long ago.
    fn is_calm(&self, steady: Duration, calm_for: Duration) -> bool {
        self.jumped_at.is_none_or(|jumped_at| steady.saturating_sub(jumped_at) >= calm_for)
    }

    fn chores(&mut self, steady: Duration) -> Chores {
        Chores {
            recovers: is_time(&mut self.recovered_at, steady, RECOVER_EVERY),
            prunes: is_time(&mut self.pruned_at, steady, PRUNE_EVERY),
            sweeps: is_time(&mut self.swept_at, steady, SWEEP_EVERY),
        }
    }
}

/// What a round does beside reaping.
#[derive(Debug, Clone, Copy, Default)]
struct Chores {
    recovers: bool,
    prunes: bool,
    sweeps: bool,
}

/// Whether the last time is so long ago; if so, this is the last time.
fn is_time(last: &mut Option<Duration>, steady: Duration, every: Duration) -> bool {
    let due = last.is_none_or(|last| steady.saturating_sub(last) >= every);
    if due {
        *last = Some(steady);
    }
    due
}

impl Engine {
    pub(super) fn remember_lease(&self, lease_for: Duration) {
        let millis = u64::try_from(lease_for.as_millis()).unwrap_or(u64::MAX);
        self.0.longest_lease_ms.fetch_max(millis, Ordering::Relaxed);
    }

    /// The same for a lease that is held elsewhere.
    pub(super) fn remember_lease_elsewhere(&self, lease_for: Duration) {
        self.remember_lease(lease_for.min(MOST_ELSEWHERE));
    }

    fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.0.longest_lease_ms.load(Ordering::Relaxed))
    }

    /// One round of maintenance, in the name of this worker.
    pub async fn maintain(&self, worker: WorkerId) -> Result<Maintained, EngineError> {
        let (now, steady) = (self.now(), self.clock().steady());
        let mut maintained = Maintained::default();
        #[cfg_attr(not(any(feature = "schedules", feature = "alerts")), allow(unused_variables))]
        let (jumped, calm, timely, chores) = {
            let mut watch = self.0.clock_watch.lock().unwrap_or_else(PoisonError::into_inner);
            let jumped = watch.look(now, steady);
            let calm = watch.is_calm(steady, CALM_FOR.max(self.longest_lease()));
            // What a wrong clock calls old would be gone for good.
            let chores = if calm { watch.chores(steady) } else { Chores::default() };
            (jumped, calm, watch.is_calm(steady, CALM_FOR), chores)
        };
        if let Some(millis) = jumped {
            maintained.clock_jumped_ms = Some(millis);
            tracing::warn!(millis, "the wall clock jumped; nothing is reaped for the time of a lease");
            let event = NewEvent {
                event_type: "clock_jumped".to_owned(),
                source: "redrive".to_owned(),
                data: json!({ "jumped_ms": millis, "worker": worker.to_string() }),
                importance: Some(4),
                status: Some(redrive_store::EventStatus::Success),
                ..NewEvent::default()
            };
            self.store().append(now, vec![event]).await?;
        }
        self.tell_gathered();
        if calm {
            reap::reap(self, worker, &mut maintained).await?;
        }
        // What a wrong clock calls due would be a job that nobody wanted.
        #[cfg(feature = "schedules")]
        if timely {
            maintained.scheduled = self.fire_schedules().await?;
        }
        #[cfg(feature = "alerts")]
        if timely {
            maintained.alerts_told = self.look_at_alerts().await?;
        }
        if chores.recovers {
            recover::recover(self, &mut maintained).await?;
        }
        self.tend_targets(chores.prunes).await?;
        if chores.prunes {
            prune::prune(self, &mut maintained).await?;
        }
        if chores.sweeps {
            prune::sweep_keys(self, &mut maintained).await?;
        }
        Ok(maintained)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ManualClock;
    use super::*;

    /// Reliability rows 15 and 16: a jump either way is noticed once, and then there is calm for one lease.
    #[test]
    fn a_jump_of_the_wall_clock_is_noticed_either_way() {
        let clock = ManualClock::at(Timestamp::from_millis(1_000_000_000));
        let mut watch = ClockWatch::new(&clock);
        let mut look = |clock: &ManualClock| {
            let jumped = watch.look(clock.now(), clock.steady());
            (jumped, watch.is_calm(clock.steady(), CALM_FOR))
        };
        clock.advance(Duration::from_hours(1));
        assert_eq!(look(&clock), (None, true), "time that passes is no jump");
        clock.jump_to(clock.now().after(Duration::from_hours(24 * 365)));
        assert_eq!(look(&clock), (Some(31_536_000_000), false));
        clock.advance(Duration::from_secs(29));
        assert_eq!(look(&clock), (None, false));
        clock.advance(Duration::from_secs(1));
        assert_eq!(look(&clock), (None, true));
        clock.jump_to(clock.now().before(Duration::from_hours(1)));
        assert_eq!(look(&clock), (Some(-3_600_000), false));
    }
}
