//! Holders are still there: one task renews all of them, and most requests are over before their turn comes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{Finish, KeyHold};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Guard;

/// How many renewals go together: a store writes them at once, and one after the other would take too long on a slow disk.
const AT_ONCE: usize = 256;

/// Who is renewed, and when.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<KeyHold, Renewal>,
    /// Whether the task that renews is there.
    running: bool,
}

#[derive(Debug, Clone, Copy)]
struct Renewal {
    due: Instant,
    hold_for: Duration,
    /// Its holder is saying that it holds it no more: a renewal would say otherwise.
    ending: bool,
}

/// A third of the time a holder may be silent: two renewals may be lost.
fn next_due(hold_for: Duration) -> Instant {
    Instant::now() + hold_for / 3
}

impl Guard {
    fn renewals(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.renewals.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn renew(&self, hold: KeyHold, hold_for: Duration) {
        let mut state = self.renewals();
        state.held.insert(hold, Renewal { due: next_due(hold_for), hold_for, ending: false });
        if state.running {
            return;
        }
        state.running = true;
        drop(state);
        tokio::spawn(self.clone().keep_renewing());
    }

    /// It is still being ended, but not renewed any more.
    pub(super) fn let_go(&self, hold: KeyHold) {
        if let Some(renewal) = self.renewals().held.get_mut(&hold) {
            renewal.ending = true;
        }
    }

    pub(super) fn no_longer_renew(&self, hold: KeyHold) {
        self.renewals().held.remove(&hold);
    }

    /// How many requests are being run.
    pub fn held(&self) -> usize {
        self.renewals().held.len()
    }

    async fn keep_renewing(self) {
        loop {
            let soonest = {
                let mut state = self.renewals();
                let soonest = state.held.values().map(|renewal| renewal.due).min();
                if soonest.is_none() {
                    state.running = false;
                }
                soonest
            };
            let Some(soonest) = soonest else { return };
            // A holder that comes meanwhile with a shorter time is seen in time all the same.
            let look_again = Instant::now() + Duration::from_millis(100);
            tokio::time::sleep_until(soonest.min(look_again)).await;
            let now = Instant::now();
            let due: Vec<(KeyHold, Duration)> = {
                let state = self.renewals();
                let due = state.held.iter().filter(|(_, renewal)| renewal.due <= now && !renewal.ending);
                due.map(|(hold, renewal)| (*hold, renewal.hold_for)).collect()
            };
            for some in due.chunks(AT_ONCE) {
                let mut renewing = JoinSet::new();
                for (hold, hold_for) in some {
                    renewing.spawn(self.clone().renew_one(*hold, *hold_for));
                }
                renewing.join_all().await;
            }
        }
    }

    fn was_let_go(&self, hold: KeyHold) -> bool {
        self.renewals().held.get(&hold).is_none_or(|renewal| renewal.ending)
    }

    async fn renew_one(self, hold: KeyHold, hold_for: Duration) {
        let engine = &self.0.engine;
        let renewed = engine.store().renew_key(engine.now(), hold, hold_for).await;
        if matches!(renewed, Ok(Finish::Done)) && self.was_let_go(hold) {
            // Given up while we renewed it, so that it may be held again and nobody is there. What was completed stays so.
            let (why, keep_for) = ("its holder was gone when it was renewed".to_owned(), self.longest_keep());
            if let Err(error) = engine.store().give_up_key(engine.now(), hold, why, keep_for).await {
                tracing::warn!(%error, record = hold.record, "an idempotency key could not be given up; its lease will run out");
            }
            return;
        }
        let mut state = self.renewals();
        match renewed {
            Ok(Finish::Done) => {
                if let Some(renewal) = state.held.get_mut(&hold) {
                    renewal.due = next_due(hold_for);
                }
            }
            Ok(Finish::Lost) => {
                // One that ended meanwhile has lost nothing.
                if state.held.remove(&hold).is_some() {
                    tracing::warn!(
                        record = hold.record,
                        "an idempotency key was lost while its request was running"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(%error, record = hold.record, "an idempotency key could not be renewed; it is tried again");
                if let Some(renewal) = state.held.get_mut(&hold) {
                    renewal.due = Instant::now() + (hold_for / 10).max(Duration::from_millis(50));
                }
            }
        }
    }
}
