//! What everybody must know of a target: how its calls went lately, who runs how many, what is handed out already.
//!
//! It is bounded and forgets by itself. Times are milliseconds since 1970, or microseconds where a name says so. A clock that
//! went back leaves times far ahead; they are cut to what a forward clock could have written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::why::ParkedWhy;
use super::{Breaker, Budget, LONGEST_PARK, Protection};

/// The most parts that a window of time is kept in.
const PARTS: i64 = 6;
/// How long calls of a process count at the most after it was heard of: nobody says that they count for longer.
const LONGEST_HOLD_MS: i64 = 60_000;
/// How long nobody has looked whether a lease lasts when nobody needs its place any more.
const FORGOTTEN_MS: i64 = 24 * 3_600_000;
/// The most processes whose running calls are kept, and the most leases: no further one has a place.
pub(super) const MOST_HOLDERS: usize = 1_024;
pub(super) const MOST_LEASES: usize = 10_000;

/// Where a breaker stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// The target is well: calls pass.
    #[default]
    Closed,
    /// The target is sick: nobody calls before that time.
    Open {
        /// Since when.
        since: i64,
        /// Until when.
        until: i64,
        /// How often in a row.
        times: u32,
        /// What it did.
        why: ParkedWhy,
    },
    /// A few calls try whether it is well again.
    HalfOpen {
        /// Since when.
        since: i64,
        /// How often in a row it was open before.
        times: u32,
        /// What it had done.
        why: ParkedWhy,
        /// When each of those that are under way counts as lost.
        probes: Vec<i64>,
        /// How many have succeeded.
        passed: u32,
    },
    /// It is well again, and more calls pass from moment to moment.
    Ramp {
        /// Since when.
        since: i64,
        /// How often in a row it was open before.
        times: u32,
    },
}

impl Phase {
    /// Its name in JSON and in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Phase::Closed => "closed",
            Phase::Open { .. } => "open",
            Phase::HalfOpen { .. } => "half_open",
            Phase::Ramp { .. } => "ramp",
        }
    }

    pub(super) fn since(&self) -> i64 {
        match self {
            Phase::Closed => i64::MIN,
            Phase::Open { since, .. } | Phase::HalfOpen { since, .. } | Phase::Ramp { since, .. } => *since,
        }
    }
}

/// How calls went in a part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    pub(super) number: i64,
    pub(super) ok: u32,
    pub(super) sick: u32,
    pub(super) refused: u32,
}

/// Calls that one process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// How many.
    pub calls: u32,
    /// When they no longer count: the process has fallen silent.
    pub until: i64,
}

/// Those who were parked, each behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    /// Its end, where the next one joins.
    #[serde(flatten)]
    pub(super) end: Stretch,
    /// Those whose turn comes long before: without them the others would be counted wrongly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Stretch>,
}

/// Some who wait, about as far from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Stretch {
    /// From when on the rest of it waits, in microseconds.
    pub(super) from_us: i64,
    /// The next free place.
    pub(super) next_us: i64,
    /// How many wait between the two.
    pub(super) count: u32,
}

/// What everybody must know of a target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetState {
    /// Where its breaker stands.
    #[serde(flatten)]
    pub phase: Phase,
    /// How calls went lately.
    pub(super) window: Vec<Part>,
    /// When the rate has room for exactly one more, in microseconds.
    pub(super) rate_us: i64,
    /// The same for work that comes back after an outage.
    pub(super) pace_us: i64,
    /// What the budget holds, in thousandths, and when it was looked at.
    pub(super) budget: Option<(i64, i64)>,
    /// Who is parked, but for the budget.
    pub(super) line: Line,
    /// Who is parked for the budget.
    pub(super) retry_line: Line,
    /// Who was parked before somebody reset it: they keep their times, and nobody goes behind them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) put_off: Vec<Stretch>,
    /// Which process runs how many calls.
    pub holders: BTreeMap<String, Holder>,
    /// Calls of workers elsewhere: the lease of each, and when somebody should look whether it lasts. It has its place until it is told
    /// or seen that it is over: whether a lease lasts is known where leases are, and no time here decides it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub leases: BTreeMap<String, i64>,
    /// How long a call takes, as a rule.
    pub(super) usual_ms: u32,
    /// Since when every place has been taken and none came free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) full_since: Option<i64>,
    /// Jobs that were parked so far, again and again counted.
    pub parked_total: u64,
    /// How often it opened.
    pub opened_total: u64,
}

/// A target as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Calls of late.
    pub calls: u32,
    /// Those that say the target is sick.
    pub failed: u32,
    /// Those that it refused for want of a right.
    pub refused: u32,
    /// Calls that run now; known only where they are limited.
    pub running: u32,
    /// Jobs that are parked now, about.
    pub parked: u32,
    /// Those of them who were parked before somebody reset it, and only wait for their time.
    pub put_off: u32,
    /// What the budget holds, in retries.
    pub budget: Option<u32>,
    /// When it is tried again, or the next of the parked comes.
    pub next_at: Option<i64>,
}

impl TargetState {
    /// A target as people see it.
    pub fn standing(&self, settings: &Protection, now_ms: i64) -> Standing {
        let mut seen = self.clone();
        seen.mend(settings, now_ms);
        let sums = seen.sums();
        let put_off = seen.put_off(now_ms);
        let parked = seen.line.waiting(now_ms).saturating_add(seen.retry_line.waiting(now_ms));
        let parked = parked.saturating_add(put_off);
        // As it was written: whoever looks may not know how it is protected.
        let next_at = match self.phase {
            Phase::Open { until, .. } if until > now_ms => Some(until),
            Phase::Open { .. } | Phase::Closed | Phase::HalfOpen { .. } | Phase::Ramp { .. } => None,
        };
        // While nobody calls it, what it did before is what is known.
        let (calls, failed, refused) = match &self.phase {
            Phase::Open { why: ParkedWhy::Open { failed, calls }, .. } => (*calls, *failed, 0),
            Phase::Open { why: ParkedWhy::Refused { calls }, .. } => (*calls, 0, *calls),
            _ => (sums.ok.saturating_add(sums.sick).saturating_add(sums.refused), sums.sick, sums.refused),
        };
        Standing {
            calls,
            failed,
            refused,
            running: seen.running(now_ms),
            parked,
            put_off,
            budget: settings.budget.map(|budget| {
                let (held, _) = seen.refilled(&budget, now_ms);
                u32::try_from(held.max(0) / 1_000).unwrap_or(u32::MAX)
            }),
            next_at,
        }
    }

    /// Whether first attempts pass without asking: it is well, nobody waits, and nothing is limited.
    pub fn is_quiet(&self, settings: &Protection, now_ms: i64) -> bool {
        !settings.is_narrow() && self.phase == Phase::Closed && self.line.waiting(now_ms) == 0
    }

    /// Whether there is nothing in it that anybody would miss.
    pub fn is_idle(&self, settings: &Protection, now_ms: i64) -> bool {
        let mut seen = self.clone();
        seen.mend(settings, now_ms);
        seen.phase == Phase::Closed
            && seen.window.is_empty()
            && seen.holders.is_empty()
            && seen.leases.values().all(|look_at| now_ms.saturating_sub(*look_at) > FORGOTTEN_MS)
            && seen.line.waiting(now_ms) == 0
            && seen.retry_line.waiting(now_ms) == 0
            && seen.put_off(now_ms) == 0
    }

    /// How many only wait for the time that they were given before somebody reset it, about.
    fn put_off(&self, now_ms: i64) -> u32 {
        self.put_off.iter().fold(0, |sum, stretch| sum.saturating_add(stretch.waiting(now_ms)))
    }

    /// Whether nothing but success is known of it: calls went well, nobody waited, and nothing was drawn from its budget. Nobody else
    /// need hear of that.
    pub fn is_unblemished(&self, settings: &Protection) -> bool {
        let full = |(held, _): (i64, i64)| settings.budget.is_none_or(|budget| held >= budget.most());
        let blank = TargetState {
            window: self.window.iter().map(|part| Part { sick: 0, refused: 0, ..*part }).collect(),
            usual_ms: self.usual_ms,
            budget: self.budget.filter(|held| full(*held)),
            ..TargetState::default()
        };
        *self == blank
    }

    /// Whether nobody has called it for so long after its breaker would have let a call pass, and nobody runs or waits. Then nothing in
    /// it helps the next one.
    pub fn is_left_alone(&self, now_ms: i64, for_ms: i64) -> bool {
        let last = match self.phase {
            Phase::Closed => return false,
            Phase::Open { until, .. } => until,
            Phase::HalfOpen { since, .. } | Phase::Ramp { since, .. } => since,
        };
        now_ms.saturating_sub(last) >= for_ms
            && self.running(now_ms) == 0
            && self.line.waiting(now_ms) == 0
            && self.retry_line.waiting(now_ms) == 0
    }

    /// Whether somebody should look at it now: nobody calls it, few do, or work waits for it.
    pub fn is_troubled(&self, now_ms: i64) -> bool {
        self.phase != Phase::Closed || self.line.waiting(now_ms) > 0 || self.retry_line.waiting(now_ms) > 0
    }

    /// How its calls went within the window.
    pub(super) fn sums(&self) -> Part {
        self.window.iter().fold(Part::default(), |sum, part| Part {
            number: 0,
            ok: sum.ok.saturating_add(part.ok),
            sick: sum.sick.saturating_add(part.sick),
            refused: sum.refused.saturating_add(part.refused),
        })
    }

    /// Calls that run, but for those of processes that fell silent.
    pub(super) fn running(&self, now_ms: i64) -> u32 {
        let leases = u32::try_from(self.leases.len()).unwrap_or(u32::MAX);
        let living = self.holders.values().filter(|holder| holder.until > now_ms);
        living.fold(leases, |sum, holder| sum.saturating_add(holder.calls))
    }

    /// What time has changed: parts of the window that are over, holders that fell silent, a breaker whose time has come,
    /// and whatever a clock that went back has left ahead.
    pub(super) fn mend(&mut self, settings: &Protection, now_ms: i64) {
        self.holders.retain(|_, holder| holder.until > now_ms && settings.concurrency.is_some());
        let longest = now_ms.saturating_add(LONGEST_HOLD_MS);
        self.holders.values_mut().for_each(|holder| holder.until = holder.until.min(longest));
        // The first of a line never waits so long, and nothing comes back so late: a clock has gone back.
        let far_us = micros(now_ms).saturating_add(micros(millis(LONGEST_PARK)).saturating_mul(2));
        for line in [&mut self.line, &mut self.retry_line] {
            if line.end.from_us > far_us {
                *line = Line::default();
            }
        }
        self.put_off.retain(|stretch| stretch.waiting(now_ms) > 0 && stretch.from_us <= far_us);
        self.pace_us = self.pace_us.min(far_us);
        let Some(breaker) = &settings.breaker else {
            (self.phase, self.window) = (Phase::Closed, Vec::new());
            return;
        };
        let newest = part_number(breaker, now_ms);
        self.window.retain(|part| part.number <= newest && part.number > newest.saturating_sub(PARTS));
        let longest = signed(breaker.open_for_at_most_ms.max(breaker.open_for_ms)).saturating_mul(2);
        match &mut self.phase {
            Phase::Open { since, until, times, why } => {
                *until = (*until).min(now_ms.saturating_add(longest));
                *since = (*since).min(now_ms);
                if *until <= now_ms {
                    let (times, why) = (*times, why.clone());
                    self.phase = Phase::HalfOpen { since: now_ms, times, why, probes: Vec::new(), passed: 0 };
                }
            }
            Phase::HalfOpen { since, probes, .. } => {
                *since = (*since).min(now_ms);
                probes.retain(|until| *until > now_ms);
            }
            Phase::Ramp { since, .. } => {
                *since = (*since).min(now_ms);
                if now_ms.saturating_sub(*since) >= signed(breaker.ramp_ms) {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Closed => {}
        }
    }

    /// What the budget holds by now, in thousandths.
    pub(super) fn refilled(&self, budget: &Budget, now_ms: i64) -> (i64, i64) {
        let most = budget.most();
        let Some((held, at)) = self.budget else { return (most, now_ms) };
        let passed_us = micros(now_ms.saturating_sub(at).max(0));
        let every_us = budget.at_least.every_us();
        // Thousandths that have come since, and the moment that they had come at: what is over stays for the next time.
        let came = i128::from(passed_us) * 1_000 / i128::from(every_us);
        let came = i64::try_from(came).unwrap_or(i64::MAX);
        let took_ms = i64::try_from(i128::from(came) * i128::from(every_us) / 1_000_000).unwrap_or(i64::MAX);
        let at = if at > now_ms { now_ms } else { at.saturating_add(took_ms).min(now_ms) };
        (held.saturating_add(came).min(most), at)
    }
}

impl Line {
    /// How many wait, about.
    pub(super) fn waiting(&self, now_ms: i64) -> u32 {
        let before = self.before.map_or(0, |stretch| stretch.waiting(now_ms));
        self.end.waiting(now_ms).saturating_add(before)
    }

    /// A place at the end of the line, not before `earliest_us`; the one behind it is so much later.
    pub(super) fn join(&mut self, now_ms: i64, earliest_us: i64, every_us: i64) -> i64 {
        let (here_us, every_us) = (micros(now_ms), every_us.max(1));
        let Stretch { from_us, next_us, .. } = self.end;
        let place = next_us.max(earliest_us).max(here_us);
        let mut count = self.end.waiting(now_ms);
        if count > 0 && place.saturating_sub(next_us) > every_us.saturating_mul(2) {
            // Nobody waits in between: those before are counted for themselves.
            let mut before = Stretch { from_us: from_us.max(here_us), next_us, count };
            if let Some(first) = self.before.filter(|first| first.waiting(now_ms) > 0) {
                before.from_us = before.from_us.min(first.from_us.max(here_us));
                before.count = before.count.saturating_add(first.waiting(now_ms));
            }
            (self.before, count) = (Some(before), 0);
        }
        self.before = self.before.filter(|before| before.waiting(now_ms) > 0);
        self.end = Stretch {
            from_us: if count == 0 { place } else { from_us.max(here_us) },
            next_us: place.saturating_add(every_us),
            count: count.saturating_add(1),
        };
        place
    }
}

impl Stretch {
    /// How many wait, about.
    pub(super) fn waiting(&self, now_ms: i64) -> u32 {
        let here_us = micros(now_ms);
        let (whole, left) = (
            self.next_us.saturating_sub(self.from_us),
            self.next_us.saturating_sub(here_us.max(self.from_us)),
        );
        if left <= 0 || whole <= 0 {
            return 0;
        }
        let count = i128::from(self.count) * i128::from(left);
        u32::try_from((count + i128::from(whole) - 1) / i128::from(whole)).unwrap_or(u32::MAX)
    }
}

/// The number of the part of the window that a moment is in.
pub(super) fn part_number(breaker: &Breaker, now_ms: i64) -> i64 {
    now_ms.div_euclid((signed(breaker.within_ms) / PARTS).max(1))
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn micros(ms: i64) -> i64 {
    ms.saturating_mul(1_000)
}
