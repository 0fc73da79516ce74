//! May this call go? If not: until when is it parked, and why.

use super::state::{Holder, MOST_HOLDERS, MOST_LEASES, Phase, TargetState, micros, millis, signed};
use super::why::ParkedWhy;
use super::{Breaker, LONGEST_PARK, Protection};
use crate::rng::Rng;

/// How long a probe may be under way before another may take its place.
const PROBE_MS: i64 = 60_000;
/// How soon work that came while others try is looked at again, at the least.
const SOON_MS: i64 = 1_000;
/// The part of the pace with which a ramp begins, in hundredths.
const RAMP_FROM: i64 = 25;
/// How far behind their turns those may be who were parked for a rate.
const CATCH_UP_US: i64 = 1_000_000;
/// What a turn may be short of, in thousandths: turns are given out in whole milliseconds.
const SHORT_BY: i64 = 100;

/// The part of the time without a free place for which work waits until it asks again, and the most of it: calls that last long
/// are asked about seldom.
const PATIENCE: i64 = 8;
const MOST_PATIENCE_MS: i64 = 30_000;

/// Somebody who wants to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ask {
    /// It is a retry, or was redriven: the budget pays for it.
    pub again: bool,
    /// It has been parked before, and has come in its turn.
    pub waited: bool,
}

/// Where a call that goes is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// Among those of this process, until then, a minute at the most, unless it tells of itself again.
    Process(&'a str, i64),
    /// Under this lease of a worker elsewhere, until it is over, whichever process let it through; somebody should look at that time. One
    /// lease has one place.
    Lease(&'a str, i64),
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Go.
    Go,
    /// Not now.
    Park {
        /// Until when, in milliseconds since 1970.
        until: i64,
        /// Why.
        why: ParkedWhy,
    },
}

impl Admission {
    /// Whether it may go.
    pub fn goes(&self) -> bool {
        *self == Admission::Go
    }
}

/// May these calls go? They are asked for in this order, and those that go are counted at this place.
///
/// ```
/// use redrive_policy::{Rng, protection::{Admission, Ask, Place, Protection, TargetState, admit}};
///
/// let settings = Protection { rate: Some("10/s".parse().unwrap()), ..Protection::default() };
/// let mut state = TargetState::default();
/// let asks = [Ask::default(); 3];
/// let answers = admit(&settings, &mut state, 1_000, Place::Process("me", 31_000), &asks, &mut Rng::seeded(1));
/// assert!(answers[0].goes());
/// assert!(matches!(answers[1], Admission::Park { until: 1_100, .. }));
/// assert!(matches!(answers[2], Admission::Park { until: 1_200, .. }));
/// ```
pub fn admit(
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    place: Place<'_>,
    asks: &[Ask],
    rng: &mut Rng,
) -> Vec<Admission> {
    state.mend(settings, now_ms);
    if let Place::Lease(lease, _) = place {
        // It was asked for before, and nobody knows whether that was heard: it is not in its own way.
        state.leases.remove(lease);
    }
    asks.iter()
        .map(|ask| {
            let answer = one(settings, state, now_ms, place, *ask);
            match answer {
                Ok(()) => Admission::Go,
                Err((until_us, why)) => {
                    state.parked_total = state.parked_total.saturating_add(1);
                    Admission::Park { until: bounded(now_ms, until_us, rng), why }
                }
            }
        })
        .collect()
}

/// A line may be longer than anybody should be parked at once: its end is spread over the last quarter of that.
fn bounded(now_ms: i64, until_us: i64, rng: &mut Rng) -> i64 {
    let until = until_us.div_euclid(1_000).saturating_add(i64::from(until_us.rem_euclid(1_000) > 0));
    let longest = millis(LONGEST_PARK);
    if until.saturating_sub(now_ms) < longest {
        return until.max(now_ms.saturating_add(1));
    }
    let quarter = longest.unsigned_abs() / 4;
    now_ms.saturating_add(longest).saturating_sub(signed(rng.between(0, quarter)))
}

type Parked = (i64, ParkedWhy);

fn one(
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    place: Place<'_>,
    ask: Ask,
) -> Result<(), Parked> {
    if let Some(breaker) = &settings.breaker
        && asked_the_breaker(breaker, settings, state, now_ms, ask)?
    {
        // A probe is let through by nothing but the number of calls at a time, and pays for nothing.
        has_a_place(settings, state, now_ms, place)?;
        if let Phase::HalfOpen { probes, .. } = &mut state.phase {
            probes.push(now_ms.saturating_add(PROBE_MS));
        }
        takes_a_place(settings, state, place);
        return Ok(());
    }
    has_a_place(settings, state, now_ms, place)?;
    let pays = can_pay(settings, state, now_ms, ask)?;
    in_time(settings, state, now_ms, ask)?;
    if let Some(paid) = pays {
        state.budget = Some(paid);
    }
    takes_a_place(settings, state, place);
    Ok(())
}

/// What the breaker says; whether it is a probe.
fn asked_the_breaker(
    breaker: &Breaker,
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    ask: Ask,
) -> Result<bool, Parked> {
    let every_us = pace_us(breaker, settings, 100);
    match &mut state.phase {
        Phase::Closed => {
            // What waits for its turn comes before who has just arrived.
            if !ask.waited && !settings.is_narrow() && state.line.waiting(now_ms) > 0 {
                let place = state.line.join(now_ms, micros(now_ms), every_us);
                return Err((place, ParkedWhy::Recovering));
            }
            Ok(false)
        }
        Phase::Open { until, why, .. } => {
            let (until, why) = (*until, why.clone());
            Err((state.line.join(now_ms, micros(until), every_us), why))
        }
        Phase::HalfOpen { probes, passed, .. } => {
            let under_way = u32::try_from(probes.len()).unwrap_or(u32::MAX);
            if under_way.saturating_add(*passed) < breaker.probes.max(1) {
                return Ok(true);
            }
            let soon = SOON_MS.max(i64::from(state.usual_ms).saturating_mul(2)).min(PROBE_MS);
            let place = state.line.join(now_ms, micros(now_ms.saturating_add(soon)), every_us);
            Err((place, ParkedWhy::Probing))
        }
        Phase::Ramp { since, .. } => {
            let passed = now_ms.saturating_sub(*since).max(0);
            let share = i128::from(passed) * i128::from(100 - RAMP_FROM) / i128::from(breaker.ramp_ms.max(1));
            let percent = RAMP_FROM.saturating_add(i64::try_from(share).unwrap_or(100)).min(100);
            let every_us = pace_us(breaker, settings, percent);
            let here_us = micros(now_ms);
            let free = state.pace_us.max(here_us);
            // A small lead: who was parked comes at a whole millisecond, and not always in order.
            let lead = if ask.waited { every_us.saturating_mul(4).max(20_000) } else { 0 };
            let behind = !ask.waited && state.line.waiting(now_ms) > 0;
            if behind || free > here_us.saturating_add(lead) {
                return Err((state.line.join(now_ms, free, every_us), ParkedWhy::Recovering));
            }
            state.pace_us = free.saturating_add(every_us);
            Ok(false)
        }
    }
}

/// How far apart parked work comes back at so many hundredths of the pace; a rate that is slower counts.
fn pace_us(breaker: &Breaker, settings: &Protection, percent: i64) -> i64 {
    let every_us = breaker.pace.every_us().saturating_mul(100) / percent.max(1);
    settings.rate.map_or(every_us, |rate| every_us.max(rate.every_us())).max(1)
}

/// Whether one more may run.
fn has_a_place(
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    place: Place<'_>,
) -> Result<(), Parked> {
    let Some(limit) = settings.concurrency else { return Ok(()) };
    let (can_be_counted, most) = match place {
        Place::Process(name, _) => {
            (state.holders.len() < MOST_HOLDERS || state.holders.contains_key(name), MOST_HOLDERS)
        }
        Place::Lease(..) => (state.leases.len() < MOST_LEASES, MOST_LEASES),
    };
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    if can_be_counted && state.running(now_ms) < limit {
        return Ok(());
    }
    // Places come free about so often; but where none has for long, none will soon, whatever was usual.
    let since = state.full_since.unwrap_or(now_ms).min(now_ms);
    state.full_since = Some(since);
    let usual_ms = i64::from(state.usual_ms.clamp(20, 10_000));
    let full_us = micros(now_ms.saturating_sub(since));
    let limit_or_one = i64::from(limit.max(1));
    let all = i64::from(state.line.waiting(now_ms)).saturating_add(1);
    // All who wait ask once in about that time: when places come free after all, nobody waits for much longer than there was none.
    let seldom_us = (full_us / PATIENCE / limit_or_one).min(full_us / all);
    let each_us = seldom_us.max(micros(usual_ms) / limit_or_one).min(micros(MOST_PATIENCE_MS));
    let place = state.line.join(now_ms, micros(now_ms).saturating_add(each_us), each_us);
    let limit = if can_be_counted { limit } else { limit.min(most) };
    Err((place, ParkedWhy::Concurrency { limit }))
}

fn takes_a_place(settings: &Protection, state: &mut TargetState, place: Place<'_>) {
    if settings.concurrency.is_none() {
        return;
    }
    state.full_since = None;
    match place {
        Place::Process(name, until) => {
            let held = state.holders.entry(name.to_owned()).or_insert(Holder { calls: 0, until });
            *held = Holder { calls: held.calls.saturating_add(1), until: until.max(held.until) };
        }
        Place::Lease(lease, look_at) => {
            state.leases.insert(lease.to_owned(), look_at);
        }
    }
}

/// The rate has room, and this call takes it.
fn in_time(settings: &Protection, state: &mut TargetState, now_ms: i64, ask: Ask) -> Result<(), Parked> {
    let Some(rate) = settings.rate else { return Ok(()) };
    let every_us = rate.every_us();
    let burst = i64::from(settings.burst.unwrap_or(1).max(1)).saturating_sub(1);
    let here_us = micros(now_ms);
    // Beyond this nobody was let; it is there because the rate was changed or a clock went back.
    let room = every_us.saturating_mul(burst);
    let most = here_us.saturating_add(room).saturating_add(CATCH_UP_US).saturating_add(every_us);
    let free = state.rate_us.clamp(here_us, most);
    // Turns were given out at this rate: some that come late, and together, only catch up.
    let lead = if ask.waited { CATCH_UP_US } else { 0 };
    let behind = !ask.waited && state.line.waiting(now_ms) > 0;
    if behind || free > here_us.saturating_add(room).saturating_add(lead) {
        let place = state.line.join(now_ms, free.saturating_sub(room), every_us);
        return Err((place, ParkedWhy::Rate { rate }));
    }
    state.rate_us = free.saturating_add(every_us);
    Ok(())
}

/// What the budget holds afterwards.
fn can_pay(
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    ask: Ask,
) -> Result<Option<(i64, i64)>, Parked> {
    let Some(budget) = &settings.budget else { return Ok(None) };
    let (held, at) = state.refilled(budget, now_ms);
    if !ask.again {
        let deposit = i64::from(budget.percent).saturating_mul(10);
        return Ok(Some((held.saturating_add(deposit).min(budget.most()), at)));
    }
    let needs = if ask.waited { 1_000 - SHORT_BY } else { 1_000 };
    if held >= needs && (ask.waited || state.retry_line.waiting(now_ms) == 0) {
        return Ok(Some((held - 1_000, at)));
    }
    let every_us = budget.at_least.every_us();
    let short = i64::try_from(i128::from((1_000 - held).max(0)) * i128::from(every_us) / 1_000);
    let free = micros(now_ms).saturating_add(short.unwrap_or(i64::MAX));
    Err((state.retry_line.join(now_ms, free, every_us), ParkedWhy::Budget))
}
