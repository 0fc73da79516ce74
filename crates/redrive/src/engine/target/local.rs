//! What a process knows of one target beside the board: what it read last, what it has not told yet, what it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::Rng;
use redrive_policy::protection::{
    CallResult, Health, Holder, Phase, Protection, TargetState, deposit, hold, lease_lasts, lease_over,
    observe,
};
use redrive_store::Timestamp;

use super::lent::next_look;
use super::{FRESH_FOR, HOLD_FOR, LOOK_AFTER, TELL_EVERY};

/// The most results that wait to be told one by one; more are told together.
const MOST_RESULTS: usize = 256;

/// What a process knows of one target.
#[derive(Debug, Clone, Default)]
pub(super) struct Local {
    /// What the board said, under which version.
    pub(super) state: TargetState,
    pub(super) version: Option<i64>,
    pub(super) read_at: Option<Duration>,
    pub(super) told_at: Duration,
    pub(super) running: u32,
    pub(super) untold: Untold,
}

/// What the others have not heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Untold {
    pub(super) first_attempts: u32,
    pub(super) results: Vec<CallResult>,
    /// Leases of workers elsewhere, and whether they last: those that are over, and those without a place, as far as is known here.
    pub(super) leases: BTreeMap<String, bool>,
    /// The number of calls that run has changed.
    pub(super) running_changed: bool,
    /// Somebody should hear of it soon.
    pub(super) urgent: bool,
}

impl Untold {
    pub(super) fn is_empty(&self) -> bool {
        self.first_attempts == 0 && self.results.is_empty() && self.leases.is_empty() && !self.running_changed
    }

    pub(super) fn add(&mut self, result: CallResult) {
        let alike =
            |known: &&mut CallResult| known.health == result.health && known.wait_ms == result.wait_ms;
        // Successes are told by their number; what says more is told one by one while there is room.
        let together = result.health == Health::Well || self.results.len() >= MOST_RESULTS;
        let known =
            self.results.iter_mut().find(|known| alike(known) && (together || known.began == result.began));
        match known {
            Some(known) => {
                known.times = known.times.saturating_add(result.times);
                known.began = known.began.min(result.began);
                known.took_ms = known.took_ms.midpoint(result.took_ms);
            }
            None if result.health != Health::Nothing => self.results.push(result),
            None => self.running_changed = true,
        }
    }
}

impl Local {
    pub(super) fn is_fresh(&self, steady: Duration) -> bool {
        self.read_at.is_some_and(|read_at| steady.saturating_sub(read_at) < FRESH_FOR)
    }

    /// Whether first attempts pass without asking.
    pub(super) fn is_quiet(&self, settings: &Protection, now: Timestamp, steady: Duration) -> bool {
        self.is_fresh(steady) && !self.untold.urgent && self.state.is_quiet(settings, now.millis())
    }

    /// Whether the others should hear something now.
    pub(super) fn must_tell(&self, settings: &Protection, steady: Duration) -> bool {
        let passed = steady.saturating_sub(self.told_at);
        let running = self.running > 0 || !self.state.leases.is_empty();
        let runs = settings.concurrency.is_some() && running && passed >= HOLD_FOR / 3;
        self.untold.urgent || runs || (!self.untold.is_empty() && passed >= TELL_EVERY)
    }

    /// Takes in what became of a call.
    pub(super) fn add(&mut self, settings: &Protection, result: CallResult) {
        let news = result.health != Health::Well || self.state.phase != Phase::Closed;
        self.untold.urgent |= news && settings.breaker.is_some();
        self.untold.add(result);
    }

    /// Adds what the others have not heard to what the board says.
    pub(super) fn tell(
        &self,
        settings: &Protection,
        state: &mut TargetState,
        now: Timestamp,
        holder: &str,
        rng: &mut Rng,
    ) {
        let at = now.millis();
        deposit(settings, state, at, self.untold.first_attempts);
        observe(settings, state, at, &self.untold.results, rng);
        for (lease, lasts) in &self.untold.leases {
            if !lasts {
                lease_over(state, lease);
            } else if !state.leases.contains_key(lease) {
                let look_at = next_look(now, LOOK_AFTER, state.leases.len());
                lease_lasts(state, lease, look_at);
            }
        }
        if settings.concurrency.is_some() {
            let held = Holder { calls: self.running, until: now.after(HOLD_FOR).millis() };
            hold(settings, state, at, holder, held);
        }
    }
}
