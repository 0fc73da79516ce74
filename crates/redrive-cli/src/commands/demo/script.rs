//! The show worked out beforehand, in the policy's own time: who fails when, and what is decided.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_policy::{Cause, Classifier, DecisionRecord, Explanation, History, Lang, Policy, Rng, decide};
use serde::Serialize;

use super::world::Work;

/// No piece of work is tried more often than this, whatever a configured policy says.
const MAX_ATTEMPTS: u32 = 12;

/// One attempt that ended.
pub(super) struct Event {
    /// When, in the policy's time.
    pub(super) at: Duration,
    pub(super) work: usize,
    pub(super) attempt: u32,
    pub(super) happened: Happened,
}

pub(super) enum Happened {
    Succeeded,
    Failed { said: &'static str, found: Box<Explanation>, record: Box<DecisionRecord> },
}

/// An event as a line of JSON.
#[derive(Serialize)]
pub(super) struct EventLine<'a> {
    at_ms: u64,
    work: &'a str,
    attempt: u32,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'a DecisionRecord>,
}

impl Event {
    pub(super) fn as_json<'a>(&'a self, work: &'a str) -> EventLine<'a> {
        let (outcome, text, rule, decision) = match &self.happened {
            Happened::Succeeded => ("succeeded", None, None, None),
            Happened::Failed { said, found, record } => {
                ("failed", Some(*said), Some(found.failure.rule.as_str()), Some(&**record))
            }
        };
        let at_ms = redrive_policy::round_to_millis(self.at);
        EventLine { at_ms, work, attempt: self.attempt, outcome, text, rule, decision }
    }
}

/// Plays every piece of work to its end. Waits overlap, as they do in a worker.
pub(super) fn play_out(
    works: &[Work],
    classifier: &Classifier,
    policy: &Policy,
    seed: u64,
    lang: Lang,
) -> Vec<Event> {
    let mut rng = Rng::seeded(seed ^ 0x5eed);
    let mut histories = vec![History::default(); works.len()];
    let mut due: BTreeSet<(Duration, usize, u32)> =
        (0..works.len()).map(|work| (start_of(work), work, 1)).collect();
    let mut events = Vec::new();
    while let Some((start, work, attempt)) = due.pop_first() {
        let at = start + Duration::from_millis(rng.between(80, 400));
        let tried = usize::try_from(attempt - 1).unwrap_or(usize::MAX);
        let mishap = match works[work].mishaps.get(tried) {
            Some(mishap) => *mishap,
            None if works[work].heals || works[work].mishaps.is_empty() => {
                events.push(Event { at, work, attempt, happened: Happened::Succeeded });
                continue;
            }
            // What never heals goes on failing in the same way.
            None => works[work].mishaps[works[work].mishaps.len() - 1],
        };
        let found = classifier.explain(&mishap.report());
        let decision = decide(policy, &found.failure, &histories[work], &mut rng);
        histories[work].record(&decision);
        if let Some(delay) = decision.delay().filter(|_| attempt < MAX_ATTEMPTS) {
            due.insert((at + delay, work, attempt + 1));
        }
        let record = Box::new(decision.record(lang));
        let happened = Happened::Failed { said: mishap.text, found: Box::new(found), record };
        events.push(Event { at, work, attempt, happened });
    }
    events.sort_by_key(|event| event.at);
    events
}

fn start_of(work: usize) -> Duration {
    Duration::from_millis(600) * u32::try_from(work).unwrap_or(0)
}

/// What became of one piece of work.
pub(super) struct Ending {
    pub(super) attempts: u32,
    pub(super) waited: Duration,
    pub(super) cause: Option<Cause>,
    pub(super) succeeded: bool,
    pub(super) set_aside: bool,
}

impl Ending {
    pub(super) fn of(work: usize, events: &[Event]) -> Ending {
        let mut ending =
            Ending { attempts: 0, waited: Duration::ZERO, cause: None, succeeded: false, set_aside: false };
        for event in events.iter().filter(|event| event.work == work) {
            ending.attempts = event.attempt;
            match &event.happened {
                Happened::Succeeded => ending.succeeded = true,
                Happened::Failed { found, record, .. } => {
                    ending.cause = Some(found.failure.cause);
                    match record.delay_ms {
                        Some(delay) => ending.waited += Duration::from_millis(delay),
                        None => ending.set_aside = true,
                    }
                }
            }
        }
        ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::world;

    /// The show is honest: whatever the seed, what can heal gets done, and what cannot is set aside.
    #[test]
    fn what_heals_is_done_and_the_rest_is_set_aside() {
        for seed in 0..200 {
            let works = world::works(seed);
            let events = play_out(&works, Classifier::built_in(), &Policy::standard(), seed, Lang::En);
            assert!(events.is_sorted_by_key(|event| event.at));
            for (i, work) in works.iter().enumerate() {
                let ending = Ending::of(i, &events);
                assert_eq!(ending.succeeded, work.heals, "{} with seed {seed}", work.id);
                assert_eq!(ending.set_aside, !work.heals, "{} with seed {seed}", work.id);
            }
            // A wrong password is not tried twice, nor is a bad value whose text speaks of a timeout.
            let attempts = |id: &str| {
                let i = works.iter().position(|work| work.id == id).unwrap();
                Ending::of(i, &events).attempts
            };
            assert_eq!((attempts("payment"), attempts("import"), attempts("report")), (1, 1, 4));
        }
    }

    #[test]
    fn a_seed_repeats_its_show() {
        let show = || {
            let works = world::works(3);
            let events = play_out(&works, Classifier::built_in(), &Policy::standard(), 3, Lang::Ja);
            events.iter().map(|event| (event.at, event.work, event.attempt)).collect::<Vec<_>>()
        };
        assert_eq!(show(), show());
    }
}
