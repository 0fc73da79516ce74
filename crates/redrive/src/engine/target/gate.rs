//! Between a lease and its attempt: what may go, what is parked, and what became of that which went.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::Rng;
use redrive_policy::protection::{
    Admission, Ask, CallResult, Health, ParkedWhy, Phase, Place, Protection, TargetState, admit, lease_over,
};
use redrive_store::{
    Ending, JobState, LeaseToken, LeasedJob, Parked, Settled, Settlement, StoreError, Timestamp, WorkerId,
};

use super::lent::{next_look, place_of};
use super::name::MadeBy;
use super::swap::Swap;
use super::{Admitted, HOLD_FOR, Rules};
use crate::engine::{Engine, EngineError};

/// How long work waits when nobody could make out in time whether it may go, at the most.
const CONTENDED: Duration = Duration::from_secs(1);
/// How many targets are told of at a time.
const AT_A_TIME: usize = 200;
/// How many leases that seem to be over are looked at in one round.
const LOOK_AT: usize = 64;

/// A job at the gate, and where it goes.
struct Comer<'a> {
    leased: &'a LeasedJob,
    targets: Vec<Arc<str>>,
    /// A worker elsewhere gets it: the name of its lease, and how long it lasts.
    lent: Option<(String, Duration)>,
}

impl Comer<'_> {
    fn ask(&self) -> Ask {
        let leased = self.leased;
        Ask {
            again: leased.attempt > 1 || leased.redriven,
            // Leased more often than tried: it has been sent away before.
            waited: leased.token.fence > i64::from(leased.attempt),
        }
    }
}

/// What was said to one who came.
enum Word {
    Go,
    Park { target: Arc<str>, until: i64, why: ParkedWhy },
}

impl Engine {
    /// What of this may go now: the rest is parked, uncounted, until its target can bear it. Whoever leases jobs asks before an
    /// attempt of theirs begins; what comes of it is heard when it is settled through this engine.
    pub async fn admit(&self, leased: Vec<LeasedJob>) -> Result<Vec<LeasedJob>, EngineError> {
        self.admit_to(leased, None).await
    }

    /// The same for work that also goes to this target, such as the [host](super::host_target) of an endpoint.
    pub async fn admit_to(
        &self,
        leased: Vec<LeasedJob>,
        target: Option<&str>,
    ) -> Result<Vec<LeasedJob>, EngineError> {
        let endings = self.gate(&leased, MadeBy::Us(target), None).await?;
        let mut parked = Vec::new();
        let mut goes = Vec::with_capacity(leased.len());
        for (leased, ending) in leased.into_iter().zip(endings) {
            match ending {
                Some(ending) => parked.push(Settlement { token: leased.token, ending }),
                None => goes.push(leased),
            }
        }
        if !parked.is_empty() {
            self.settle(parked).await?;
        }
        Ok(goes)
    }

    /// Whether nothing of this is protected, as far as can be told without looking anything up.
    pub(in crate::engine) fn passes_freely(&self, leased: &[LeasedJob], by: MadeBy<'_>) -> bool {
        let rules = self.targets_known().rules();
        rules.read_at.is_some() && leased.iter().all(|leased| rules.is_free(&leased.job, by))
    }

    /// How each of these ends that may not go now; nothing for who may.
    pub(in crate::engine) async fn gate(
        &self,
        leased: &[LeasedJob],
        by: MadeBy<'_>,
        held_for: Option<WorkerId>,
    ) -> Result<Vec<Option<Ending>>, EngineError> {
        if self.targets_known().rules().read_at.is_none() {
            self.read_limits(true).await?;
        }
        let rules = self.targets_known().rules();
        let mut comers: Vec<Comer<'_>> = Vec::with_capacity(leased.len());
        for leased in leased {
            // What has not begun is past its deadline, and goes nowhere.
            let names = if leased.begun { rules.targets_of(&leased.job, by) } else { Vec::new() };
            let lent = match by {
                MadeBy::Us(_) => None,
                // How long a lease lasts is told by our own clock.
                MadeBy::Elsewhere => Some((place_of(leased.token), leased.expires_at.since(self.now()))),
            };
            comers.push(Comer { leased, targets: names.into_iter().map(Arc::from).collect(), lent });
        }
        if comers.iter().all(|comer| comer.targets.is_empty()) {
            return Ok(leased.iter().map(|_| None).collect());
        }
        let names: BTreeSet<Arc<str>> =
            comers.iter().flat_map(|comer| comer.targets.iter().cloned()).collect();
        let names: Vec<Arc<str>> = names.into_iter().collect();
        self.refresh_targets(&names).await?;
        let now = self.store_now().await?;
        if self.all_quiet(&rules, &comers, now) {
            return Ok(leased.iter().map(|_| None).collect());
        }
        let holder = self.targets_known().holder.clone();
        // Until those who go are counted here nobody else of this process may tell how many there are.
        let turn = self.targets_known().turn.lock().await;
        let (mut words, sure) =
            self.swap_in_turn(&turn, &names, |swap, rng| decide_all(swap, &comers, &holder, rng)).await?;
        let now = self.store_now().await?;
        if !sure {
            self.fail_safe(&rules, &comers, &mut words, now);
        }
        Ok(self.let_go(&comers, words, held_for, now))
    }

    /// Lets everybody pass if all targets are well, were read just now, and nobody needs a budget.
    fn all_quiet(&self, rules: &Rules, comers: &[Comer<'_>], now: Timestamp) -> bool {
        let steady = self.clock().steady();
        let mut local = self.targets_known().local();
        let quiet = comers.iter().all(|comer| {
            let again = comer.ask().again;
            comer.targets.iter().all(|name| {
                let settings = rules.of(name);
                let known = local.get(name);
                !(again && settings.budget.is_some())
                    && known.is_some_and(|known| known.is_quiet(&settings, now, steady))
            })
        });
        if !quiet {
            return false;
        }
        for comer in comers {
            let again = comer.ask().again;
            for name in &comer.targets {
                let Some(known) = local.get_mut(name) else { continue };
                known.running = known.running.saturating_add(u32::from(comer.lent.is_none()));
                known.untold.first_attempts = known.untold.first_attempts.saturating_add(u32::from(!again));
            }
        }
        drop(local);
        self.remember(comers.iter(), now);
        true
    }

    fn remember<'a>(&self, comers: impl Iterator<Item = &'a Comer<'a>>, now: Timestamp) {
        let (own, steady) = (self.now(), self.clock().steady());
        let mut admitted = self.targets_known().admitted();
        for comer in comers.filter(|comer| comer.lent.is_none() && !comer.targets.is_empty()) {
            let one = Admitted {
                targets: comer.targets.clone(),
                began: now.millis(),
                // How long a lease lasts is told by our own clock.
                look_at: steady.saturating_add(comer.leased.expires_at.since(own)),
            };
            admitted.insert(comer.leased.token, one);
        }
    }

    /// What the others do could not be made out: whoever would pass a limit, or call what is not known to be well, waits a
    /// moment. Others go: a target that was well when it was read last is no worse for it.
    fn fail_safe(&self, rules: &Rules, comers: &[Comer<'_>], words: &mut [Word], now: Timestamp) {
        let mut rng = self.rng();
        let mut local = self.targets_known().local();
        for (comer, word) in comers.iter().zip(words) {
            let narrow = comer.targets.iter().find(|name| {
                let settings = rules.of(name);
                let well = local.get(*name).is_none_or(|known| known.state.phase == Phase::Closed);
                settings.is_narrow() || !well || (comer.ask().again && settings.budget.is_some())
            });
            if let (Word::Go, Some(target)) = (&*word, narrow) {
                let most = u64::try_from(CONTENDED.as_millis()).unwrap_or(u64::MAX);
                let wait = Duration::from_millis(rng.between(most / 5, most));
                let until = now.after(wait).millis();
                *word = Word::Park { target: Arc::clone(target), until, why: ParkedWhy::Contended };
            }
            // One of the tries may have come through, and others see that it has a place: it has none.
            if let (Word::Park { .. }, Some((lease, _))) = (&*word, &comer.lent) {
                for name in comer.targets.iter().filter(|name| rules.of(name).concurrency.is_some()) {
                    let known = local.entry(Arc::clone(name)).or_default();
                    known.untold.leases.insert(lease.clone(), false);
                }
            }
        }
    }

    fn let_go(
        &self,
        comers: &[Comer<'_>],
        words: Vec<Word>,
        held_for: Option<WorkerId>,
        now: Timestamp,
    ) -> Vec<Option<Ending>> {
        let goes = comers.iter().zip(&words).filter(|(_, word)| matches!(word, Word::Go));
        let goes: Vec<&Comer<'_>> = goes.map(|(comer, _)| comer).collect();
        {
            let mut local = self.targets_known().local();
            let ours = goes.iter().filter(|comer| comer.lent.is_none());
            for name in ours.flat_map(|comer| &comer.targets) {
                let known = local.entry(Arc::clone(name)).or_default();
                known.running = known.running.saturating_add(1);
            }
        }
        self.remember(goes.into_iter(), now);
        let ending = |(comer, word): (&Comer<'_>, Word)| match word {
            Word::Go => None,
            Word::Park { target, until, why } => {
                let until = self.by_own_clock(Timestamp::from_millis(until), now);
                // Past its deadline it is nobody's to try: it is told then.
                let run_at = comer.leased.job.deadline_at.map_or(until, |deadline| until.min(deadline));
                let parked = Parked { target: target.to_string(), why };
                Some(Ending::Parked { run_at, held_for, parked: Box::new(parked) })
            }
        };
        comers.iter().zip(words).map(ending).collect()
    }

    /// Hears what became of attempts that were let through here.
    pub(in crate::engine) async fn observe_settled(&self, settlements: &[Settlement], settled: &[Settled]) {
        let targets = self.targets_known();
        if targets.admitted().is_empty() {
            return;
        }
        let rules = targets.rules();
        for (settlement, settled) in settlements.iter().zip(settled) {
            let Some(one) = targets.admitted().remove(&settlement.token) else { continue };
            let counts = *settled != Settled::Stale;
            self.hear(&rules, &one, counts.then(|| result_of(&settlement.ending, one.began)));
        }
        let due = self.targets_to_tell(true);
        if !due.is_empty() {
            self.tell_targets(&due).await;
        }
    }

    fn hear(&self, rules: &Rules, one: &Admitted, result: Option<CallResult>) {
        let mut local = self.targets_known().local();
        for name in &one.targets {
            let settings = rules.of(name);
            let known = local.entry(Arc::clone(name)).or_default();
            known.running = known.running.saturating_sub(1);
            known.untold.running_changed |= settings.concurrency.is_some();
            known.untold.urgent |= settings.concurrency.is_some();
            if let Some(result) = result {
                known.add(&settings, result);
            }
        }
    }

    /// The targets of which the others should hear something; only what is urgent, where that is asked for.
    pub(super) fn targets_to_tell(&self, urgent: bool) -> Vec<Arc<str>> {
        let (rules, steady) = (self.targets_known().rules(), self.clock().steady());
        let local = self.targets_known().local();
        let due = local.iter().filter(|(name, known)| {
            if urgent { known.untold.urgent } else { known.must_tell(&rules.of(name), steady) }
        });
        due.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Tells the others. What does not come through is told the next time: nobody's work waits for it.
    pub(super) async fn tell_targets(&self, names: &[Arc<str>]) {
        for some in names.chunks(AT_A_TIME) {
            match self.swap_targets(some, |_, _| ()).await {
                Ok(((), true)) => {}
                Ok(((), false)) => tracing::debug!("what became of calls is told later: others are faster"),
                Err(error) => tracing::warn!(%error, "what became of calls is told later"),
            }
        }
    }

    /// Forgets calls whose lease is over although nobody here has ended it: it lapsed, and somebody has noticed.
    pub(super) async fn drop_lost_calls(&self) -> Result<(), EngineError> {
        let steady = self.clock().steady();
        let over = self.admitted_that(|one| one.look_at <= steady);
        Ok(self.look_whether_they_last(over).await?)
    }

    /// Some of what was let through here. Whoever has waited longest for a look comes first: in the end everybody has a turn.
    fn admitted_that(&self, is: impl Fn(&Admitted) -> bool) -> Vec<LeaseToken> {
        let mut some: Vec<(Duration, LeaseToken)> = {
            let admitted = self.targets_known().admitted();
            let some = admitted.iter().filter(|(_, one)| is(one));
            some.map(|(token, one)| (one.look_at, *token)).collect()
        };
        some.sort_unstable_by_key(|(look_at, _)| *look_at);
        some.truncate(LOOK_AT);
        some.into_iter().map(|(_, token)| token).collect()
    }

    async fn look_whether_they_last(&self, some: Vec<LeaseToken>) -> Result<(), StoreError> {
        for token in some {
            let record = self.store().job(token.job).await?;
            let now = self.store_now().await?;
            let lasts = record.and_then(|record| match record.state {
                // With another fence it is another lease of the same job. Until when it lasts is said by the store's clock.
                JobState::Leased { expires_at, fence, .. } if fence == token.fence && expires_at > now => {
                    Some(expires_at.since(now))
                }
                _ => None,
            });
            let steady = self.clock().steady();
            let mut admitted = self.targets_known().admitted();
            if let Some(left) = lasts {
                if let Some(one) = admitted.get_mut(&token) {
                    one.look_at = steady.saturating_add(left);
                }
                continue;
            }
            let gone = admitted.remove(&token);
            drop(admitted);
            if let Some(one) = gone {
                self.hear(&self.targets_known().rules(), &one, None);
            }
        }
        Ok(())
    }
}

/// Asks for everybody who came, in their order. Who needs several targets goes only if all of them agree.
fn decide_all(swap: &mut Swap, comers: &[Comer<'_>], holder: &str, rng: &mut Rng) -> Vec<Word> {
    comers.iter().map(|comer| decide(swap, comer, holder, rng)).collect()
}

fn decide(swap: &mut Swap, comer: &Comer<'_>, holder: &str, rng: &mut Rng) -> Word {
    let now = swap.now;
    let beside =
        comer.targets.first().and_then(|name| swap.state(name)).map_or(0, |state| state.leases.len());
    let place = match &comer.lent {
        Some((lease, left)) => Place::Lease(lease, next_look(now, *left, beside)),
        None => Place::Process(holder, now.after(HOLD_FOR).millis()),
    };
    let ask = comer.ask();
    let mut before: Vec<(&Arc<str>, TargetState)> = Vec::new();
    for (number, name) in comer.targets.iter().enumerate() {
        let settings: Protection = swap.rules.of(name);
        let Some(state) = swap.state(name) else { continue };
        if number + 1 < comer.targets.len() {
            before.push((name, state.clone()));
        }
        match admit(&settings, state, now.millis(), place, &[ask], rng).pop() {
            Some(Admission::Park { until, why }) => {
                // Its place in this line is taken; what the others have given is given back.
                before.retain(|(agreed, _)| *agreed != name);
                for (name, before) in before {
                    swap.state(name).into_iter().for_each(|state| state.clone_from(&before));
                }
                for name in &comer.targets {
                    if let (Some((lease, _)), Some(state)) = (&comer.lent, swap.state(name)) {
                        lease_over(state, lease);
                    }
                }
                return Word::Park { target: Arc::clone(name), until, why };
            }
            Some(Admission::Go) | None => {}
        }
    }
    Word::Go
}

/// What an ending says about the target.
pub(in crate::engine) fn result_of(ending: &Ending, began: i64) -> CallResult {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (health, took, wait_ms) = match ending {
        Ending::Succeeded { latency, .. } => (Health::Well, millis(*latency), None),
        Ending::Retry { failure, .. } | Ending::Dead { failure, .. } => {
            (Health::of(failure.cause), failure.latency.map_or(0, millis), failure.decided_on.retry_after_ms)
        }
        Ending::Snoozed { .. }
        | Ending::Parked { .. }
        | Ending::Cancelled { .. }
        | Ending::Released { .. } => (Health::Nothing, 0, None),
    };
    CallResult { began, took_ms: took, health, wait_ms, times: 1 }
}
