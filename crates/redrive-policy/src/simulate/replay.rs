//! One job walked through again under a policy.
//!
//! As long as every decision is the recorded one the walk is *in step*: the next attempt is the recorded one, whatever
//! made it begin. From the first decision that differs, an attempt is observed only if the job had one that was due at
//! that very moment; every other attempt is estimated. Where nothing is known of the target the walk goes on as if the
//! attempt had failed: what recovers even so recovers either way, and what does not is unknown.

mod outlook;

use std::time::Duration;

use super::record::{CameTo, Decided, Did, Fact, Moment, RecordedFailure, RecordedJob};
use super::target::{Outlook, Targets};
use crate::decide::{Action, Decision, DelaySource, History, Why, decide, round_to_millis};
use crate::jitter::Jitter;
use crate::policy::Policy;
use crate::rng::Rng;

/// A job that is tried more often than this is not followed further: its ending is unknown.
pub const MAX_ATTEMPTS: usize = 10_000;

/// The policy that a job is replayed under.
#[derive(Debug, Clone, Copy)]
pub struct Ruling<'a> {
    /// The policy, with what the job itself overrides.
    pub policy: &'a Policy,
    /// Its version. Decisions of the same version keep their recorded delay.
    pub version: &'a str,
    /// The policy that the job runs under today and its version, where it is known. If that is the recorded version and
    /// its delays are those of the policy above, a recorded delay is kept, too: the dice need not be thrown again.
    pub today: Option<(&'a Policy, &'a str)>,
}

/// What is known besides the job.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// What was seen of the targets.
    pub targets: &'a Targets,
    /// Nothing is known of what lies behind this.
    pub ends_at: Moment,
}

/// How an attempt is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// It happened.
    Observed,
    /// It lies between two observations that agree, at most so far apart.
    Bridged(Duration),
    /// Its target answered when it was last seen, before.
    Carried,
    /// The failure is the job's own and permanent: it would have come again.
    Permanent,
    /// Nothing is known; it is followed as if it had failed.
    Unknown,
}

/// An attempt of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayedAttempt {
    /// When it begins.
    pub started_at: Moment,
    /// When it ends.
    pub ended_at: Moment,
    /// How long the job waited for it after a failure; nothing for the first of a run.
    pub waited: Option<Duration>,
    /// The delay that was decided after it, if it is tried again.
    pub delay: Option<Duration>,
    /// How it is known.
    pub basis: Basis,
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is done.
    Recovered(Moment),
    /// It is a dead letter.
    Lost(Moment),
    /// Somebody ended it.
    Cancelled(Moment),
    /// It still waits or runs when the record ends.
    Open,
    /// It depends on what nobody has seen.
    Unknown,
}

impl Ending {
    /// Whether both are of one kind, whenever they come.
    pub fn is_like(self, other: Ending) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// A job's way under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Its attempts, the oldest first.
    pub attempts: Vec<ReplayedAttempt>,
    /// How it ends.
    pub ending: Ending,
    /// How often it is set aside on the way, at most.
    pub set_aside: u32,
    /// How often it is before the first attempt that nothing is known of.
    pub set_aside_at_least: u32,
    /// When it first failed.
    pub first_failed_at: Option<Moment>,
    /// Decisions of the same version that the policy does not explain.
    pub unexplained: u32,
}

impl Replayed {
    /// Whether every attempt happened.
    pub fn is_observed(&self) -> bool {
        self.attempts.iter().all(|attempt| attempt.basis == Basis::Observed)
    }

    /// How many attempts are made at least: up to the first that nothing is known of, which may succeed.
    pub fn least(&self) -> &[ReplayedAttempt] {
        let first = self.attempts.iter().position(|attempt| attempt.basis == Basis::Unknown);
        &self.attempts[..first.map_or(self.attempts.len(), |first| first + 1)]
    }
}

/// A job's way as it is recorded, in the same terms.
pub fn recorded(job: &RecordedJob) -> Replayed {
    let mut way = Way::new();
    let mut ending = Ending::Open;
    for (i, attempt) in job.attempts.iter().enumerate() {
        let delay = match &attempt.came_to {
            CameTo::Failed(failed) => {
                way.failed(attempt.ended_at);
                match failed.decided {
                    Decided::Retry { delay, .. } => Some(delay),
                    Decided::SetAside => None,
                }
            }
            _ => None,
        };
        let first_of_run = i == 0 || job.attempts[i - 1].run != attempt.run;
        way.push(attempt.started_at, attempt.ended_at, !first_of_run, delay, Basis::Observed);
        ending = match &attempt.came_to {
            CameTo::Succeeded => Ending::Recovered(attempt.ended_at),
            CameTo::Cancelled => Ending::Cancelled(attempt.ended_at),
            CameTo::Failed(RecordedFailure { decided: Decided::SetAside, .. }) => {
                way.set_aside();
                Ending::Lost(attempt.ended_at)
            }
            CameTo::Failed(_) | CameTo::Snoozed { .. } | CameTo::Released | CameTo::Running => Ending::Open,
        };
    }
    for fact in job.facts.iter().filter(|fact| fact.attempts_before == job.attempts.len()) {
        ending = match (fact.what, ending) {
            (Did::Cancelled, _) => Ending::Cancelled(fact.at),
            (Did::PutBack, Ending::Lost(_)) => Ending::Open,
            (Did::PutBack | Did::RanNow, ending) => ending,
        };
    }
    way.replayed.ending = ending;
    way.replayed
}

/// A job's way under another policy.
pub fn replay(job: &RecordedJob, ruling: &Ruling<'_>, world: &World<'_>, seed: u64) -> Replayed {
    // Mixed, so that neighbours do not draw alike.
    let rng = Rng::seeded(Rng::seeded(seed ^ job.number.rotate_left(32)).next_u64());
    Walk { job, ruling, world, rng, history: History::default(), next: 0, fact: 0, in_step: true, last: None }
        .walk()
}

/// The attempts so far.
struct Way {
    replayed: Replayed,
}

impl Way {
    fn new() -> Way {
        Way {
            replayed: Replayed {
                attempts: Vec::new(),
                ending: Ending::Open,
                set_aside: 0,
                set_aside_at_least: 0,
                first_failed_at: None,
                unexplained: 0,
            },
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.replayed.attempts.iter().any(|attempt| attempt.basis == Basis::Unknown)
    }

    fn set_aside(&mut self) {
        self.replayed.set_aside += 1;
        self.replayed.set_aside_at_least += u32::from(!self.is_in_doubt());
    }

    fn failed(&mut self, at: Moment) {
        self.replayed.first_failed_at.get_or_insert(at);
    }

    fn push(
        &mut self,
        started_at: Moment,
        ended_at: Moment,
        again: bool,
        delay: Option<Duration>,
        basis: Basis,
    ) {
        let before = self.replayed.attempts.last().filter(|_| again);
        let waited = before.map(|before| started_at.since(before.ended_at));
        self.replayed.attempts.push(ReplayedAttempt { started_at, ended_at, waited, delay, basis });
    }
}

/// What follows an attempt.
enum After {
    Over(Ending),
    Waits { since: Moment, due_at: Moment },
    SetAside(Moment),
}

/// Where the next attempt comes from.
enum Next {
    /// The recorded one of this number.
    Recorded { number: usize, again: bool },
    /// One that was never made.
    Never { due_at: Moment, again: bool },
}

struct Walk<'a> {
    job: &'a RecordedJob,
    ruling: &'a Ruling<'a>,
    world: &'a World<'a>,
    rng: Rng,
    history: History,
    /// The first recorded attempt that has not been used.
    next: usize,
    /// The first fact that has not been used.
    fact: usize,
    in_step: bool,
    /// What it failed of last.
    last: Option<&'a RecordedFailure>,
}

impl Walk<'_> {
    fn walk(mut self) -> Replayed {
        let mut way = Way::new();
        let mut next = if self.job.attempts.is_empty() {
            Err(Ending::Open)
        } else {
            Ok(Next::Recorded { number: 0, again: false })
        };
        let ending = loop {
            let attempt = match next {
                Ok(attempt) if way.replayed.attempts.len() < MAX_ATTEMPTS => attempt,
                Ok(_) => break Ending::Unknown,
                Err(ending) => break ending,
            };
            let after = match attempt {
                Next::Recorded { number, again } => self.observed(&mut way, number, again),
                Next::Never { due_at, again } => self.estimated(&mut way, due_at, again),
            };
            next = match after {
                After::Over(ending) => Err(ending),
                After::Waits { since, due_at } => self.waits(since, due_at),
                After::SetAside(at) => {
                    way.set_aside();
                    self.set_aside(at)
                }
            };
        };
        let in_doubt = way.is_in_doubt();
        way.replayed.ending = match ending {
            Ending::Lost(_) | Ending::Open if in_doubt => Ending::Unknown,
            ending => ending,
        };
        way.replayed
    }

    /// An attempt that happened.
    fn observed(&mut self, way: &mut Way, number: usize, again: bool) -> After {
        let attempt = &self.job.attempts[number];
        self.next = number + 1;
        let (started, ended) = (attempt.started_at, attempt.ended_at);
        let (delay, after) = match &attempt.came_to {
            CameTo::Succeeded => (None, After::Over(Ending::Recovered(ended))),
            CameTo::Cancelled => (None, After::Over(Ending::Cancelled(ended))),
            CameTo::Running => (None, After::Over(Ending::Open)),
            CameTo::Snoozed { until } => (None, self.put_back(ended, *until)),
            CameTo::Released => (None, self.put_back(ended, ended)),
            CameTo::Failed(failed) => {
                way.failed(ended);
                self.last = Some(failed);
                let decided = self.decide_again(failed, ended, &mut way.replayed.unexplained);
                follow(decided, ended)
            }
        };
        way.push(started, ended, again, delay, Basis::Observed);
        after
    }

    /// An attempt that never was.
    fn estimated(&mut self, way: &mut Way, due_at: Moment, again: bool) -> After {
        if due_at >= self.world.ends_at {
            return After::Over(Ending::Open);
        }
        self.in_step = false;
        let (outlook, permanent) = outlook::of(self.job, self.world.targets, due_at);
        let (took, basis) = match outlook {
            Outlook::Answers { took, gap } => {
                let ended = due_at.after(took);
                let basis = gap.map_or(Basis::Carried, Basis::Bridged);
                way.push(due_at, ended, again, None, basis);
                return After::Over(Ending::Recovered(ended));
            }
            Outlook::Fails { took, .. } if permanent => (took, Basis::Permanent),
            Outlook::Fails { took, gap } => (took, Basis::Bridged(gap)),
            Outlook::Unknown => (outlook::last_took(self.job, due_at), Basis::Unknown),
        };
        let ended = due_at.after(took);
        way.failed(ended);
        let decided = match self.last {
            // It fails as it failed last.
            Some(failed) => self.decide_anew(failed, ended),
            None => Decided::SetAside,
        };
        let (delay, after) = follow(decided, ended);
        way.push(due_at, ended, again, delay, basis);
        after
    }

    /// Nothing was counted, and the delay before it is forgotten.
    fn put_back(&mut self, since: Moment, due_at: Moment) -> After {
        self.history.previous_delay = None;
        After::Waits { since, due_at }
    }

    /// What the policy says about a failure that happened.
    fn decide_again(&mut self, failed: &RecordedFailure, ended: Moment, unexplained: &mut u32) -> Decided {
        let same_version = self.ruling.version == &*failed.policy_version;
        if self.in_step && same_version {
            // Asked all the same: a record that the policy does not explain must not go unnoticed.
            let decision = decide(self.ruling.policy, &failed.failure, &self.history, &mut Rng::seeded(0));
            *unexplained += u32::from(!self.explains(&decision, failed));
            self.count(&decision, failed.decided);
            return failed.decided;
        }
        let decided = self.ruled(failed, ended, Some(failed.decided).filter(|_| self.in_step));
        self.in_step &= decided == failed.decided;
        decided
    }

    /// What the policy says about a failure that came again.
    fn decide_anew(&mut self, failed: &RecordedFailure, ended: Moment) -> Decided {
        self.ruled(failed, ended, None)
    }

    fn ruled(&mut self, failed: &RecordedFailure, ended: Moment, recorded: Option<Decided>) -> Decided {
        let decision = decide(self.ruling.policy, &failed.failure, &self.history, &mut self.rng);
        let Some(drawn) = decision.delay().filter(|_| !failed.forced) else { return Decided::SetAside };
        let decided = match recorded {
            Some(Decided::Retry { delay, due_at })
                if round_to_millis(delay) == round_to_millis(drawn)
                    || self.is_same_draw(&decision, failed) =>
            {
                Decided::Retry { delay, due_at }
            }
            _ => Decided::Retry { delay: drawn, due_at: ended.after(drawn) },
        };
        if let Decided::Retry { due_at, .. } = decided
            && self.job.deadline_at.is_some_and(|deadline| due_at >= deadline)
        {
            return Decided::SetAside;
        }
        self.count(&decision, decided);
        decided
    }

    /// Whether the recorded delay was drawn from the very backoff that this decision draws from.
    fn is_same_draw(&self, decision: &Decision, failed: &RecordedFailure) -> bool {
        let from_curve = matches!(decision.why, Why::Retried { delay: DelaySource::Curve { .. }, .. });
        from_curve
            && self.ruling.today.is_some_and(|(today, version)| {
                version == &*failed.policy_version
                    && today.backoff_for(&failed.failure) == self.ruling.policy.backoff_for(&failed.failure)
            })
    }

    /// Enters a retry into the history, with the delay that is really waited.
    fn count(&mut self, decision: &Decision, decided: Decided) {
        let Decided::Retry { delay, .. } = decided else { return };
        let mut waited = decision.clone();
        waited.action = Action::Retry { delay };
        self.history.record(&waited);
    }

    /// Whether a decision of the same policy is the one that is recorded, as far as chance allows.
    fn explains(&self, decision: &Decision, failed: &RecordedFailure) -> bool {
        match (failed.decided, decision.delay()) {
            (Decided::Retry { delay, .. }, Some(drawn)) => {
                let by_chance = matches!(
                    decision.why,
                    Why::Retried { delay: DelaySource::Curve { jitter, .. }, .. } if jitter != Jitter::None
                );
                by_chance || round_to_millis(delay) == round_to_millis(drawn)
            }
            (Decided::SetAside, Some(_)) => failed.forced || self.job.deadline_at.is_some(),
            (Decided::SetAside, None) => true,
            (Decided::Retry { .. }, None) => false,
        }
    }

    /// The next attempt of a job that waits.
    fn waits(&mut self, since: Moment, due_at: Moment) -> Result<Next, Ending> {
        if self.in_step {
            return self.next_in_step(Ending::Open);
        }
        let mut due_at = due_at;
        while let Some(fact) = self.next_fact(|fact| fact.at <= due_at) {
            match fact.what {
                Did::Cancelled => return Err(Ending::Cancelled(fact.at.max(since))),
                Did::RanNow if fact.at >= since => {
                    due_at = fact.at;
                    self.history.previous_delay = None;
                }
                // It came while the attempt ran, or the job is no letter here: there is nothing to do.
                Did::RanNow | Did::PutBack => {}
            }
        }
        Ok(self.due(due_at, true))
    }

    /// What comes of a job that is set aside: a letter, until somebody puts it back.
    fn set_aside(&mut self, at: Moment) -> Result<Next, Ending> {
        if self.in_step {
            return self.next_in_step(Ending::Lost(at));
        }
        while let Some(fact) = self.next_fact(|_| true) {
            match fact.what {
                Did::Cancelled => return Err(Ending::Cancelled(fact.at.max(at))),
                Did::PutBack | Did::RanNow if fact.at >= at => {
                    self.history = History::default();
                    let next = self.due(fact.at, false);
                    self.in_step = matches!((fact.what, &next), (Did::PutBack, Next::Recorded { .. }));
                    return Ok(next);
                }
                // Nothing was dead yet.
                Did::PutBack | Did::RanNow => {}
            }
        }
        Err(Ending::Lost(at))
    }

    /// In step, the next attempt is the one that is recorded next, whatever made it begin. Without one, the job ends so.
    fn next_in_step(&mut self, mut ending: Ending) -> Result<Next, Ending> {
        let number = self.next;
        while let Some(fact) = self.next_fact(|fact| fact.attempts_before <= number) {
            match fact.what {
                Did::Cancelled => ending = Ending::Cancelled(fact.at),
                Did::RanNow => self.history.previous_delay = None,
                Did::PutBack => {
                    self.history = History::default();
                    ending = Ending::Open;
                }
            }
        }
        let run = number.checked_sub(1).map(|before| self.job.attempts[before].run);
        match self.job.attempts.get(number) {
            Some(next) => Ok(Next::Recorded { number, again: run == Some(next.run) }),
            None => Err(ending),
        }
    }

    /// An attempt that is due then: one that was recorded as due at the very moment, or one that never was.
    fn due(&self, due_at: Moment, again: bool) -> Next {
        let recorded = self
            .job
            .attempts
            .iter()
            .enumerate()
            .skip(self.next)
            .find(|(_, attempt)| attempt.due_at == due_at);
        match recorded {
            Some((number, _)) => Next::Recorded { number, again },
            None => Next::Never { due_at, again },
        }
    }

    /// The next thing that somebody did, if it is one of these.
    fn next_fact(&mut self, is_next: impl Fn(&Fact) -> bool) -> Option<Fact> {
        let fact = *self.job.facts.get(self.fact).filter(|fact| is_next(fact))?;
        self.fact += 1;
        Some(fact)
    }
}

/// What a decision leads to, and its delay.
fn follow(decided: Decided, ended: Moment) -> (Option<Duration>, After) {
    match decided {
        Decided::Retry { delay, due_at } => (Some(delay), After::Waits { since: ended, due_at }),
        Decided::SetAside => (None, After::SetAside(ended)),
    }
}
