//! What is known about targets: when they were seen to answer, and when to fail.
//!
//! An observation is an attempt, of any job, at the moment when it began. Between two observations that agree the target
//! is taken to have been the same. Between two that differ nothing is known. After the last one a target that answered
//! is taken to go on answering; of one that failed nothing is known.

use std::time::Duration;

use super::record::{Moment, TargetId};

/// What a target would have done at some moment, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It would have answered.
    Answers {
        /// How long an attempt took that was answered at about that time.
        took: Duration,
        /// The widest stretch without an observation that this bridges; nothing if it lies behind the last one.
        gap: Option<Duration>,
    },
    /// It would have failed.
    Fails {
        /// How long an attempt took that failed at about that time.
        took: Duration,
        /// The widest stretch without an observation that this bridges.
        gap: Duration,
    },
    /// Nothing is known.
    Unknown,
}

/// A stretch in which every observation was the same.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: Moment,
    last: Moment,
    answered: bool,
    took: Duration,
    widest_gap: Duration,
}

/// After so many observations those that add nothing are dropped.
const ROOM: usize = 1 << 16;

#[derive(Debug, Default)]
struct Target {
    stretches: Vec<Stretch>,
    /// How many of them are in order and merged.
    merged: usize,
}

impl Target {
    fn merge(&mut self) {
        if self.merged == self.stretches.len() {
            return;
        }
        self.stretches.sort_by_key(|stretch| (stretch.first, stretch.last, stretch.answered));
        let mut merged: Vec<Stretch> = Vec::new();
        for next in self.stretches.drain(..) {
            match merged.last_mut() {
                Some(last) if last.answered == next.answered => {
                    let gap = next.first.since(last.last);
                    last.widest_gap = last.widest_gap.max(next.widest_gap).max(gap);
                    last.last = last.last.max(next.last);
                }
                // Recorded so late that the stretch it lies in was merged already: only the ends of that are sure.
                Some(around) if next.first < around.last => {
                    let tail = Stretch { first: around.last, widest_gap: Duration::ZERO, ..*around };
                    *around = Stretch { last: around.first, widest_gap: Duration::ZERO, ..*around };
                    merged.extend([next, tail]);
                }
                _ => merged.push(next),
            }
        }
        merged.sort_by_key(|stretch| (stretch.first, stretch.last, stretch.answered));
        self.merged = merged.len();
        self.stretches = merged;
    }
}

/// Everything that was seen of each target.
#[derive(Debug, Default)]
pub struct Targets(Vec<Target>);

impl Targets {
    /// A target that nothing is known about yet.
    pub fn add(&mut self) -> TargetId {
        self.0.push(Target::default());
        TargetId(self.0.len() - 1)
    }

    /// An attempt that began then was answered, or failed in a way that says something about the target.
    pub fn observe(&mut self, target: TargetId, started_at: Moment, took: Duration, answered: bool) {
        let Some(target) = self.0.get_mut(target.0) else { return };
        let widest_gap = Duration::ZERO;
        target.stretches.push(Stretch { first: started_at, last: started_at, answered, took, widest_gap });
        if target.stretches.len() >= target.merged + ROOM {
            target.merge();
        }
    }

    /// Puts the observations in order; to be called when all have been made.
    pub fn finish(&mut self) {
        self.0.iter_mut().for_each(Target::merge);
    }

    /// What a target would have done then.
    pub fn outlook(&self, target: TargetId, at: Moment) -> Outlook {
        let Some(target) = self.0.get(target.0) else { return Outlook::Unknown };
        let behind = target.stretches.partition_point(|stretch| stretch.first <= at);
        let Some(before) = behind.checked_sub(1).and_then(|i| target.stretches.get(i)) else {
            return Outlook::Unknown;
        };
        let Stretch { took, widest_gap, .. } = *before;
        match (before.answered, at <= before.last) {
            (true, true) => Outlook::Answers { took, gap: Some(widest_gap) },
            (false, true) => Outlook::Fails { took, gap: widest_gap },
            (true, false) if target.stretches.get(behind).is_none() => Outlook::Answers { took, gap: None },
            (true | false, false) => Outlook::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen(observations: &[(i64, bool)]) -> (Targets, TargetId) {
        let mut targets = Targets::default();
        let target = targets.add();
        for (at, answered) in observations {
            targets.observe(target, Moment(at * 1_000), SECOND, *answered);
        }
        targets.finish();
        (targets, target)
    }

    /// Issue 5, item 5: known between two that agree, unknown between two that differ, good stays good.
    #[test]
    fn between_two_that_agree_it_is_known() {
        // Out of order on purpose: attempts are recorded as they end.
        let (targets, target) =
            seen(&[(0, true), (30, false), (10, true), (60, false), (100, true), (40, false)]);
        let at = |second: i64| targets.outlook(target, Moment(second * 1_000));
        assert_eq!(at(-1), Outlook::Unknown);
        assert_eq!(at(5), Outlook::Answers { took: SECOND, gap: Some(10 * SECOND) });
        assert_eq!(at(10), Outlook::Answers { took: SECOND, gap: Some(10 * SECOND) });
        assert_eq!(at(20), Outlook::Unknown, "between the last answer and the first failure");
        assert_eq!(at(30), Outlook::Fails { took: SECOND, gap: 20 * SECOND });
        assert_eq!(at(55), Outlook::Fails { took: SECOND, gap: 20 * SECOND });
        assert_eq!(at(61), Outlook::Unknown, "between the last failure and the first answer");
        assert_eq!(at(100), Outlook::Answers { took: SECOND, gap: Some(Duration::ZERO) });
        assert_eq!(at(9_999), Outlook::Answers { took: SECOND, gap: None });
        assert_eq!(targets.outlook(TargetId(7), Moment(0)), Outlook::Unknown);
    }

    /// Issue 5, item 5: a target that was last seen failing is not known to go on failing.
    #[test]
    fn behind_the_last_failure_nothing_is_known() {
        let (targets, target) = seen(&[(0, true), (30, false)]);
        assert_eq!(targets.outlook(target, Moment(31_000)), Outlook::Unknown);
    }

    /// Issue 5, item 5: memory is bounded, and what was dropped changes no answer to the worse.
    #[test]
    fn a_million_observations_of_one_kind_are_one_stretch() {
        let mut targets = Targets::default();
        let target = targets.add();
        for at in 0..300_000 {
            targets.observe(target, Moment(at), SECOND, true);
        }
        assert!(targets.0[0].stretches.len() < 2 * ROOM);
        targets.observe(target, Moment(1_000), SECOND, false);
        targets.finish();
        assert_eq!(targets.0[0].stretches.len(), 3, "one failure in the middle splits it");
    }
}
