//! What came of calls: whether they say that the target is sick, and what follows from it.

use super::state::{Holder, MOST_HOLDERS, MOST_LEASES, Part, Phase, TargetState, part_number, signed};
use super::why::ParkedWhy;
use super::{Breaker, Protection};
use crate::cause::Cause;
use crate::rng::Rng;

/// How many stretches of those are remembered who were parked before a reset.
const MOST_PUT_OFF: usize = 8;

/// What a call says about its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered, if only to refuse this one request.
    Well,
    /// It could not be reached, was too slow, failed by itself, or wants to be left alone.
    Sick,
    /// It refused for want of a right: one caller's trouble, unless nobody gets through.
    Refused,
    /// Nothing: the trouble was on our side.
    Nothing,
}

impl Health {
    /// What a failure of this cause says about the target.
    ///
    /// A wrong right is counted apart. One job's bad credentials must not stop the others; but where nobody has got through,
    /// the credentials of all are wrong, and every further call only makes a letter of a job that would succeed an hour later.
    pub const fn of(cause: Cause) -> Health {
        match cause {
            Cause::Network | Cause::Timeout | Cause::RateLimit | Cause::ApiError => Health::Sick,
            Cause::AuthError => Health::Refused,
            Cause::ValidationError | Cause::Integrity | Cause::NotFound | Cause::Contention => Health::Well,
            Cause::Crashed
            | Cause::Incomplete
            | Cause::Quality
            | Cause::Configuration
            | Cause::ResourceExhausted
            | Cause::HumanJudgment
            | Cause::Cancelled
            | Cause::Unknown => Health::Nothing,
        }
    }
}

/// What came of calls that went alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallResult {
    /// When they began, in milliseconds since 1970.
    pub began: i64,
    /// How long one took.
    pub took_ms: u64,
    /// What they say.
    pub health: Health,
    /// How long the target asked to be left alone.
    pub wait_ms: Option<u64>,
    /// How many.
    pub times: u32,
}

/// Takes in what came of calls.
pub fn observe(
    settings: &Protection,
    state: &mut TargetState,
    now_ms: i64,
    results: &[CallResult],
    rng: &mut Rng,
) {
    state.mend(settings, now_ms);
    for result in results {
        if result.health != Health::Nothing {
            let took = u32::try_from(result.took_ms).unwrap_or(u32::MAX);
            // An eighth of what is new: one slow call is no slow target.
            let usual = u64::from(state.usual_ms) * 7 + u64::from(took);
            state.usual_ms =
                if state.usual_ms == 0 { took } else { u32::try_from(usual / 8).unwrap_or(u32::MAX) };
        }
        if let Some(breaker) = &settings.breaker {
            take_in(breaker, state, now_ms, result, rng);
        }
    }
}

fn take_in(breaker: &Breaker, state: &mut TargetState, now_ms: i64, result: &CallResult, rng: &mut Rng) {
    // What began before the phase did tells of what is known already.
    let old_news = result.began < state.phase.since();
    match &mut state.phase {
        Phase::Open { .. } => {}
        _ if old_news => {}
        Phase::HalfOpen { since: _, times, why, probes, passed } => {
            probes.pop();
            match result.health {
                Health::Well => {
                    *passed = passed.saturating_add(result.times);
                    if *passed >= breaker.probes.max(1) {
                        state.phase = Phase::Ramp { since: now_ms, times: *times };
                        state.window.clear();
                        state.pace_us = 0;
                    }
                }
                Health::Sick | Health::Refused => {
                    let (times, why) = (*times, why.clone());
                    open(breaker, state, now_ms, times, why, result.wait_ms, rng);
                }
                Health::Nothing => {}
            }
        }
        Phase::Closed | Phase::Ramp { .. } => {
            count(breaker, state, now_ms, result);
            let (least, times) = match state.phase {
                Phase::Ramp { times, .. } => ((breaker.of_at_least / 4).max(3), times),
                _ => (breaker.of_at_least.max(1), 0),
            };
            if let Some(why) = is_sick(breaker, state.sums(), least) {
                open(breaker, state, now_ms, times, why, result.wait_ms, rng);
            }
        }
    }
}

fn count(breaker: &Breaker, state: &mut TargetState, now_ms: i64, result: &CallResult) {
    if result.health == Health::Nothing {
        return;
    }
    let number = part_number(breaker, now_ms);
    if state.window.last().is_none_or(|part| part.number < number) {
        state.window.push(Part { number, ..Part::default() });
    }
    if let Some(part) = state.window.last_mut() {
        let counter = match result.health {
            Health::Well => &mut part.ok,
            Health::Sick => &mut part.sick,
            Health::Refused | Health::Nothing => &mut part.refused,
        };
        *counter = counter.saturating_add(result.times);
    }
}

fn is_sick(breaker: &Breaker, sums: Part, least: u32) -> Option<ParkedWhy> {
    let calls = sums.ok.saturating_add(sums.sick).saturating_add(sums.refused);
    if calls < least {
        return None;
    }
    let part = u64::from(sums.sick) * 100;
    if sums.sick > 0 && part >= u64::from(calls) * u64::from(breaker.failures.clamp(1, 100)) {
        return Some(ParkedWhy::Open { failed: sums.sick, calls });
    }
    (sums.ok == 0).then_some(ParkedWhy::Refused { calls })
}

fn open(
    breaker: &Breaker,
    state: &mut TargetState,
    now_ms: i64,
    times: u32,
    why: ParkedWhy,
    wait_ms: Option<u64>,
    rng: &mut Rng,
) {
    let most = breaker.open_for_at_most_ms.max(breaker.open_for_ms);
    let doubled = breaker.open_for_ms.max(1).saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX));
    let wait = doubled.max(wait_ms.unwrap_or(0)).min(most);
    // A tenth of chance, so that targets which fell together are not tried together.
    let wait = wait.saturating_add(rng.between(0, wait / 10));
    let until = now_ms.saturating_add(signed(wait));
    state.phase = Phase::Open { since: now_ms, until, times: times.saturating_add(1), why };
    state.opened_total = state.opened_total.saturating_add(1);
    state.window.clear();
    state.pace_us = 0;
}

/// What `holder` runs now, and until when that counts unless it says so again. It is the whole number, so that telling it
/// twice changes nothing.
pub fn hold(settings: &Protection, state: &mut TargetState, now_ms: i64, holder: &str, held: Holder) {
    state.mend(settings, now_ms);
    if state.holders.get(holder).is_some_and(|before| before.calls > held.calls) {
        state.full_since = None;
    }
    if held.calls == 0 {
        state.holders.remove(holder);
    } else if settings.concurrency.is_some()
        && (state.holders.contains_key(holder) || state.holders.len() < MOST_HOLDERS)
    {
        state.holders.insert(holder.to_owned(), held);
    }
}

/// The call under this lease is over, and its place free. Told twice, or by several, it changes nothing more.
pub fn lease_over(state: &mut TargetState, lease: &str) {
    if state.leases.remove(lease).is_some() {
        state.full_since = None;
    }
}

/// The call under this lease goes on, and has its place, also where there was none for it; somebody should look again at that time.
pub fn lease_lasts(state: &mut TargetState, lease: &str, look_at: i64) {
    if let Some(known) = state.leases.get_mut(lease) {
        *known = look_at;
    } else if state.leases.len() < MOST_LEASES {
        state.leases.insert(lease.to_owned(), look_at);
    }
}

/// Forgets what was held against a target: its breaker closes, its lines and its budget begin anew. What runs still runs, and what is
/// parked keeps its time.
pub fn reset(state: &mut TargetState) {
    let TargetState {
        holders,
        leases,
        usual_ms,
        parked_total,
        opened_total,
        line,
        retry_line,
        mut put_off,
        ..
    } = std::mem::take(state);
    put_off.extend([line, retry_line].into_iter().flat_map(|line| [Some(line.end), line.before]).flatten());
    // Whoever resets again and again leaves no more than what there is to count.
    put_off.retain(|stretch| stretch.count > 0);
    put_off.drain(..put_off.len().saturating_sub(MOST_PUT_OFF));
    *state = TargetState {
        put_off,
        holders,
        leases,
        usual_ms,
        parked_total,
        opened_total,
        ..TargetState::default()
    };
}

/// First attempts that went without asking, because the target was known to be well: they pay into the budget all the same.
pub fn deposit(settings: &Protection, state: &mut TargetState, now_ms: i64, first_attempts: u32) {
    if let Some(budget) = &settings.budget {
        let (held, at) = state.refilled(budget, now_ms);
        let paid = i64::from(budget.percent).saturating_mul(10).saturating_mul(i64::from(first_attempts));
        state.budget = Some((held.saturating_add(paid).min(budget.most()), at));
    }
}
