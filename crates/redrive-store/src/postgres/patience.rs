//! How long we go on with a database that has trouble: redrive's own policy, for redrive's own work.

use std::time::{Duration, Instant};

use redrive_policy::{
    Backoff, Cause, CauseSet, Curve, Entry, Factor, Failure, History, Jitter, LongRetryAfter, Policy,
    PolicySpec, Rng, decide,
};

use super::fault::Fault;

/// Nobody waits longer for a database that is gone.
const AT_MOST: Duration = Duration::from_secs(30);

/// A lost connection is waited for from 50 ms up to 2 s apart; a transaction that was undone for others' sake goes again
/// five times.
fn policy() -> Policy {
    let doubling = |first: u64, cap: u64| {
        Backoff::new(Curve::exponential(Duration::from_millis(first)))
            .with_jitter(Jitter::PlusMinus(Factor::percent(20)))
            .with_cap(Duration::from_millis(cap))
    };
    PolicySpec {
        name: "store".to_owned(),
        max_retries: 40,
        backoff: doubling(50, 2_000),
        retry_on: CauseSet::of(&[Cause::Network, Cause::Contention]),
        never: CauseSet::NONE,
        entries: vec![Entry {
            causes: CauseSet::of(&[Cause::Contention]),
            max_retries: Some(5),
            backoff: Some(doubling(10, 500)),
            ..Entry::default()
        }],
        crash_budget: 0,
        max_retry_after: AT_MOST,
        on_long_retry_after: LongRetryAfter::Escalate,
        forced_max_retries: None,
    }
    .into()
}

/// One piece of work's patience.
#[derive(Debug)]
pub(super) struct Patience {
    policy: Policy,
    history: History,
    rng: Rng,
    began: Instant,
    most: Duration,
}

impl Patience {
    /// For work on a database that has been down since then: who comes late to an outage waits for what is left of it.
    pub(super) fn new(down_since: Option<Instant>) -> Patience {
        // Only spreads the delays of many processes; a clock is random enough for that.
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |since| u64::from(since.subsec_nanos()) ^ u64::from(std::process::id()) << 32);
        Patience {
            policy: policy(),
            history: History::default(),
            rng: Rng::seeded(seed),
            began: down_since.unwrap_or_else(Instant::now),
            most: AT_MOST,
        }
    }

    /// For opening a store: no longer than so much.
    pub(super) fn within(most: Duration) -> Patience {
        Patience { most: most.min(AT_MOST), ..Patience::new(None) }
    }

    /// How long to wait before the same is tried again; nothing when that is enough.
    pub(super) fn after(&mut self, fault: &Fault) -> Option<Duration> {
        let cause = match fault {
            Fault::Lost(_) => Cause::Network,
            Fault::Again(_) => Cause::Contention,
            Fault::Final(_) => return None,
        };
        let decision = decide(&self.policy, &Failure::of(cause), &self.history, &mut self.rng);
        let delay = decision.delay()?;
        if self.began.elapsed() + delay > self.most {
            return None;
        }
        self.history.record(&decision);
        Some(delay)
    }
}
