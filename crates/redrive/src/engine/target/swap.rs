//! Changing what the board says of targets: read, compute, compare and swap, a bounded number of times.
//!
//! Whoever is outrun reads again. When it does not come through in time the caller fails safe: a limit is not passed, and what
//! was to be told is told later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::Rng;
use redrive_policy::protection::TargetState;
use redrive_store::{NoticeChange, Posted, StoreError, Timestamp};

use super::local::{Local, Untold};
use super::{Engine, FORGET_AFTER, MOST, Rules, STATES};

/// How often a swap is tried.
const TRIES: u32 = 8;
/// How long to wait before the next try, at the most, counted up.
const WAIT: Duration = Duration::from_millis(4);

/// The states of some targets, as the board says and as they become.
pub(super) struct Swap {
    pub(super) rules: Arc<Rules>,
    /// By the store's clock.
    pub(super) now: Timestamp,
    states: BTreeMap<Arc<str>, Seen>,
}

struct Seen {
    version: Option<i64>,
    before: TargetState,
    after: TargetState,
    /// What is in `after` already.
    told: Untold,
}

impl Swap {
    pub(super) fn state(&mut self, name: &str) -> Option<&mut TargetState> {
        self.states.get_mut(name).map(|seen| &mut seen.after)
    }
}

impl Engine {
    /// Lets `change` loose on the states of these targets until what comes of it is on the board. Answers what it said last, and
    /// whether that is what everybody sees.
    pub(super) async fn swap_targets<T>(
        &self,
        names: &[Arc<str>],
        change: impl FnMut(&mut Swap, &mut Rng) -> T,
    ) -> Result<(T, bool), StoreError> {
        let turn = self.targets_known().turn.lock().await;
        self.swap_in_turn(&turn, names, change).await
    }

    /// The same for who has the turn, and keeps it until what follows from the answer is known here.
    pub(super) async fn swap_in_turn<T>(
        &self,
        _turn: &tokio::sync::MutexGuard<'_, ()>,
        names: &[Arc<str>],
        mut change: impl FnMut(&mut Swap, &mut Rng) -> T,
    ) -> Result<(T, bool), StoreError> {
        let mut attempt = 1;
        loop {
            let last = attempt == TRIES;
            match self.see(names, attempt == 1).await {
                Ok(mut swap) => {
                    let said = change(&mut swap, &mut self.rng());
                    match self.put_target(&swap).await {
                        Ok(true) => return Ok((said, true)),
                        Ok(false) => {}
                        // Whether it came through shows when it is read again.
                        Err(error) if error.may_pass() || error.outcome_is_unknown() => {
                            tracing::warn!(%error, "the state of targets waits for the store");
                        }
                        Err(error) => return Err(error),
                    }
                    self.forget_read(names);
                    if last {
                        return Ok((said, false));
                    }
                }
                Err(error) if error.may_pass() && !last => {}
                Err(error) => return Err(error),
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    async fn pause(&self, attempt: u32) {
        let most = u64::try_from(WAIT.as_micros()).unwrap_or(u64::MAX).saturating_mul(u64::from(attempt));
        tokio::time::sleep(Duration::from_micros(self.rng().between(most / 4, most))).await;
    }

    /// What the board says of these targets, with what this process has to tell of them.
    async fn see(&self, names: &[Arc<str>], may_remember: bool) -> Result<Swap, StoreError> {
        let targets = self.targets_known();
        let rules = targets.rules();
        let mut states = BTreeMap::new();
        for name in names {
            let known = targets.local().get(name).cloned().unwrap_or_default();
            let steady = self.clock().steady();
            // Places of leases are freed where they stand: what is remembered may not know them all.
            let all_there = known.untold.leases.keys().all(|lease| known.state.leases.contains_key(lease));
            let by_heart = may_remember && all_there;
            let (version, before) = if by_heart && known.is_fresh(steady) {
                (known.version, known.state.clone())
            } else {
                self.read_target(name).await?
            };
            let mut after = before.clone();
            let now = self.store_now().await?;
            known.tell(&rules.of(name), &mut after, now, &targets.holder, &mut self.rng());
            self.look_at_leases(&mut after, now).await?;
            states.insert(Arc::clone(name), Seen { version, before, after, told: known.untold });
        }
        Ok(Swap { rules, now: self.store_now().await?, states })
    }

    /// One state, which is remembered as well. One that cannot be read is as none: whoever writes next mends it.
    async fn read_target(&self, name: &Arc<str>) -> Result<(Option<i64>, TargetState), StoreError> {
        let notice = self.store().notice(STATES.to_owned(), name.to_string()).await?;
        let steady = self.clock().steady();
        let version = notice.as_ref().map(|notice| notice.version);
        let state = notice.map(|notice| {
            let read = serde_json::from_str::<TargetState>(&notice.value);
            let read = read.inspect_err(|error| tracing::warn!(target = %name, %error, "a target's state cannot be read; it begins anew"));
            read.unwrap_or_default()
        });
        let mut local = self.targets_known().local();
        make_room(&mut local);
        let known = local.entry(Arc::clone(name)).or_default();
        let state = match state {
            Some(state) => state,
            // Never written: nothing but success was known, and that is remembered here.
            None if known.version.is_none() => known.state.clone(),
            None => TargetState::default(),
        };
        (known.version, known.state, known.read_at) = (version, state.clone(), Some(steady));
        Ok((version, state))
    }

    /// Reads what was not read just now.
    pub(super) async fn refresh_targets(&self, names: &[Arc<str>]) -> Result<(), StoreError> {
        let steady = self.clock().steady();
        for name in names {
            let fresh = self.targets_known().local().get(name).is_some_and(|known| known.is_fresh(steady));
            if !fresh {
                self.read_target(name).await?;
            }
        }
        Ok(())
    }

    /// What was read is not what is there.
    fn forget_read(&self, names: &[Arc<str>]) {
        let mut local = self.targets_known().local();
        for name in names {
            if let Some(known) = local.get_mut(name) {
                known.read_at = None;
            }
        }
    }

    /// Puts what has become of the states on the board; `false` if somebody was faster. A target of which nothing but success is known
    /// is not written down: whoever names ever new hosts must not fill the board.
    async fn put_target(&self, swap: &Swap) -> Result<bool, StoreError> {
        let moved = swap.states.iter().filter(|(_, seen)| seen.before != seen.after);
        let unwritten = |(name, seen): &(&Arc<str>, &Seen)| {
            seen.version.is_none() && seen.after.is_unblemished(&swap.rules.of(name))
        };
        let (well, moved): (Vec<_>, Vec<_>) = moved.partition(unwritten);
        let mut changes = Vec::with_capacity(moved.len());
        for (name, seen) in &moved {
            let value = serde_json::to_string(&seen.after).map_err(|error| {
                StoreError::from(redrive_store::Trouble::Database(format!("a state is no JSON: {error}")))
            })?;
            changes.push(NoticeChange {
                space: STATES.to_owned(),
                name: name.to_string(),
                seen: seen.version,
                value: Some(value),
                due_at: Some(look_at(&seen.after, swap.now)),
            });
        }
        let versions = if changes.is_empty() {
            Vec::new()
        } else {
            match self.store().post(swap.now, changes, Vec::new(), Vec::new()).await? {
                Posted::Done { versions, .. } => versions,
                Posted::Outrun => return Ok(false),
            }
        };
        let steady = self.clock().steady();
        let mut local = self.targets_known().local();
        for (name, seen) in well {
            let known = local.entry(Arc::clone(name)).or_default();
            (known.version, known.state) = (None, seen.after.clone());
        }
        for ((name, seen), version) in moved.into_iter().zip(versions) {
            let known = local.entry(Arc::clone(name)).or_default();
            (known.version, known.state) = (version, seen.after.clone());
            known.read_at = Some(steady);
        }
        for (name, seen) in &swap.states {
            if let Some(known) = local.get_mut(name) {
                known.told_at = steady;
                known.forget_told(&seen.told);
            }
        }
        Ok(true)
    }
}

impl Local {
    /// Takes away what has been told; what came since stays.
    fn forget_told(&mut self, told: &Untold) {
        if self.untold == *told {
            self.untold = Untold::default();
            return;
        }
        self.untold.first_attempts = self.untold.first_attempts.saturating_sub(told.first_attempts);
        for gone in &told.results {
            let same = |known: &&mut redrive_policy::protection::CallResult| {
                known.health == gone.health && known.wait_ms == gone.wait_ms
            };
            if let Some(known) = self.untold.results.iter_mut().find(same) {
                known.times = known.times.saturating_sub(gone.times);
            }
        }
        self.untold.results.retain(|result| result.times > 0);
        self.untold.leases.retain(|lease, until| told.leases.get(lease) != Some(until));
    }
}

/// When somebody should look at a state: at once while there is trouble, so that those who look for trouble find it without a look at all
/// the others; else when it may be forgotten.
pub(super) fn look_at(state: &TargetState, now: Timestamp) -> Timestamp {
    if state.is_troubled(now.millis()) { now } else { now.after(FORGET_AFTER) }
}

/// A process that calls ever new hosts does not fill its memory: those that it has nothing to tell of go.
fn make_room(local: &mut std::collections::HashMap<Arc<str>, Local>) {
    if local.len() >= MOST {
        local.retain(|_, known| known.running > 0 || !known.untold.is_empty());
    }
}
