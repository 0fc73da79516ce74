//! Work that is lent to workers elsewhere. It has its place under its lease: whichever process lent it, any may extend it and end it, and a
//! server that goes takes no place along that is still needed.
//!
//! Whoever hears of an end says so, and the place is free at once. Who was to say so may be killed or outrun; so it is looked in the store,
//! soon and again and again, whether the leases that have a place last. Only there it is known.

use std::sync::Arc;
use std::time::Duration;

use redrive_policy::protection::{CallResult, TargetState, lease_lasts, lease_over};
use redrive_store::{JobId, JobState, LeaseToken, StoreError, Timestamp};

use super::{LAPSED_FOR, LOOK_AFTER, LOOK_EVERY};
use crate::engine::Engine;

/// How many leases are looked at at a time.
const LOOK_AT: usize = 64;

/// A lease of a worker elsewhere, and where its work goes.
#[derive(Debug)]
pub(in crate::engine) struct Lent<'a> {
    pub(in crate::engine) token: LeaseToken,
    pub(in crate::engine) queue: &'a str,
    pub(in crate::engine) key: Option<&'a str>,
}

/// What is new of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) enum News {
    /// It lasts: somebody has just extended it.
    Lasts,
    /// It is over; what came of it, if anybody knows.
    Over(Option<CallResult>),
}

/// How a lease is called on the board.
pub(super) fn place_of(token: LeaseToken) -> String {
    format!("{:x}.{}", token.job.0, token.fence)
}

/// The lease that is called so.
fn lease_of(place: &str) -> Option<LeaseToken> {
    let (job, fence) = place.split_once('.')?;
    Some(LeaseToken { job: JobId(i64::from_str_radix(job, 16).ok()?), fence: fence.parse().ok()? })
}

/// When it should be looked whether a lease lasts that has so much time left, beside so many others.
pub(super) fn next_look(now: Timestamp, left: Duration, beside: usize) -> i64 {
    let each = LOOK_EVERY.saturating_mul(u32::try_from(beside).unwrap_or(u32::MAX));
    now.after(LOOK_AFTER.max(each).min(left.saturating_add(LAPSED_FOR))).millis()
}

impl Engine {
    /// What of this goes to a protected target, as far as can be told at a glance: of the rest nobody need hear anything.
    pub(in crate::engine) async fn protected_elsewhere<'a, T>(
        &self,
        some: &'a [T],
        lent: impl Fn(&'a T) -> Lent<'a>,
    ) -> Vec<(usize, Lent<'a>)> {
        if self.targets_known().rules().read_at.is_none()
            && let Err(error) = self.read_limits(true).await
        {
            tracing::warn!(%error, "limits cannot be read: those of the configuration hold");
        }
        let rules = self.targets_known().rules();
        let all = some.iter().map(lent).enumerate();
        all.filter(|(_, lent)| !rules.is_free_elsewhere(lent.queue, lent.key)).collect()
    }

    /// Hears what is new of work that was lent, here or by another process, and tells the others. It is known here before anything is
    /// waited for: whoever asked may go away.
    pub(in crate::engine) async fn hear_of_lent(&self, heard: Vec<(Lent<'_>, News)>) {
        if heard.is_empty() || !self.take_in(heard) {
            return;
        }
        let due = self.targets_to_tell(true);
        if !due.is_empty() {
            self.tell_targets(&due).await;
        }
    }

    /// Whether the others should hear of it now.
    fn take_in(&self, heard: Vec<(Lent<'_>, News)>) -> bool {
        let rules = self.targets_known().rules();
        let mut local = self.targets_known().local();
        let mut urgent = false;
        for (lent, news) in heard {
            for name in rules.targets_elsewhere(lent.queue, lent.key) {
                let settings = rules.of(&name);
                let place = place_of(lent.token);
                let known = local.entry(Arc::from(name)).or_default();
                let has_a_place = known.state.leases.contains_key(&place);
                match news {
                    // Lent while nobody asked for a place, or taken for over. An end that was heard of stays one.
                    News::Lasts if settings.concurrency.is_some() && !has_a_place => {
                        known.untold.urgent |= !known.untold.leases.contains_key(&place);
                        known.untold.leases.entry(place).or_insert(true);
                    }
                    News::Lasts => {}
                    News::Over(result) => {
                        if settings.concurrency.is_some() || has_a_place {
                            known.untold.leases.insert(place, false);
                            known.untold.urgent = true;
                        }
                        if let Some(result) = result {
                            known.add(&settings, result);
                        }
                    }
                }
                urgent |= known.untold.urgent;
            }
        }
        urgent
    }

    /// Looks whether leases last whose time to be looked at has come: what is over has no place in what becomes of the state.
    pub(super) async fn look_at_leases(
        &self,
        state: &mut TargetState,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let due = state.leases.iter().filter(|(_, look_at)| **look_at <= now.millis());
        let due: Vec<String> = due.map(|(place, _)| place.clone()).take(LOOK_AT).collect();
        for place in due {
            match self.time_left(&place, now).await? {
                Some(left) => {
                    let again = next_look(now, left, state.leases.len());
                    lease_lasts(state, &place, again);
                }
                None => lease_over(state, &place),
            }
        }
        Ok(())
    }

    /// How long a lease lasts. One whose time has come lasts until somebody has noticed: till then it can be extended.
    async fn time_left(&self, place: &str, now: Timestamp) -> Result<Option<Duration>, StoreError> {
        let Some(token) = lease_of(place) else { return Ok(None) };
        let record = self.store().job(token.job).await?;
        Ok(record.and_then(|record| match record.state {
            JobState::Leased { expires_at, fence, .. } if fence == token.fence => Some(expires_at.since(now)),
            _ => None,
        }))
    }
}
