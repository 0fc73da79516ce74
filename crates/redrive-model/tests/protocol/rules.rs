//! What is true of every step, and the ways in which the model can be made wrong on purpose.

use redrive_policy::{Cause, Failure, History, Policy, PolicySpec, Rng, decide};

use crate::state::{Budget, JOBS, Job, Nature, Place, State, Worker};

/// Of the policy in the model. A handler may fail once more than that.
pub(crate) const MAX_RETRIES: u8 = 1;
/// Of every policy (R-D2). A job may lose one worker more than that.
pub(crate) const CRASH_BUDGET: u8 = 3;

/// More of one kind never happens to a job.
const COUNTS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Broken {
    /// I1: a job is over, though it was neither done nor unwanted.
    Lost,
    /// I2: one attempt was settled twice.
    SettledTwice,
    /// I2: who had lost the lease changed something.
    ChangedByALoser,
    /// I3: a fence did not grow, or two have the same.
    FenceShared,
    /// I3: attempts, retries or crashes are not what happened.
    Miscounted,
    /// I4: a job died that neither failed nor lost its workers often enough.
    InnocentDead,
    /// I4: a job that killed more workers than it may is to be run again.
    PoisonRunsOn,
    /// I4: a good job was charged with the loss of a worker that nothing had happened to.
    ChargedForNothing,
    /// I5: from here no job can come to its end any more, though nothing else goes wrong.
    Stuck,
    /// I6: a job that somebody had cancelled was put back.
    CancelledPutBack,
}

/// A rule that the model forgets or gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The attempt is counted when the lease is given, not when it begins.
    CountsAtLease,
    /// Beginning again counts again.
    CountsEveryBegin,
    /// What is given back stays counted.
    KeepsGivenBackCounted,
    /// The reaper settles under the fence of the worker that lost the lease.
    ReaperKeepsTheFence,
    /// The reaper judges by its own clock, which may be ahead.
    ReaperTrustsItsOwnClock,
    /// The reaper charges what never began.
    ReaperChargesTheUnbegun,
    /// Nobody looks for leases that expired.
    NobodyReaps,
    /// The reaper tries again for ever.
    NoCrashBudget,
    /// Whoever lost a worker is set aside at once.
    NoSecondChance,
    /// A wish to cancel goes with the worker that should have heard it.
    ForgetsTheWish,
    /// Putting a letter back begins the fences again.
    RedriveResetsTheFence,
}

/// The system with its bounds.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) natures: [Nature; JOBS],
    pub(crate) budget: Budget,
    pub(crate) mutation: Option<Mutation>,
    retries: [bool; 8],
    survives: [bool; 8],
}

impl Model {
    pub(crate) fn new(natures: [Nature; JOBS], budget: Budget) -> Model {
        let spec = PolicySpec { max_retries: MAX_RETRIES.into(), ..(*Policy::standard()).clone() };
        let policy = Policy::from(spec);
        // Asked once for each count: what the policy says depends on nothing else here.
        let ask = |failure: &Failure, history: &History| {
            decide(&policy, failure, history, &mut Rng::seeded(1)).delay().is_some()
        };
        let network = Failure::of(Cause::Network);
        let crashed = |crash_count| History { crash_count, ..History::retries(0) };
        Model {
            natures,
            budget,
            mutation: None,
            retries: COUNTS.map(|count| ask(&network, &History::retries(count))),
            survives: COUNTS.map(|count| ask(&Failure::worker_died(), &crashed(count))),
        }
    }

    pub(crate) fn with(self, mutation: Mutation) -> Model {
        Model { mutation: Some(mutation), ..self }
    }

    pub(crate) fn initial(&self) -> State {
        State::initial(self.natures, self.budget)
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// What the policy says when the handler fails.
    pub(crate) fn may_retry(&self, job: &Job) -> bool {
        self.retries[usize::from(job.counts.retries)]
    }

    /// What the policy says when the worker is lost.
    pub(crate) fn survives_a_loss(&self, job: &Job) -> bool {
        match self.mutation {
            Some(Mutation::NoCrashBudget) => true,
            Some(Mutation::NoSecondChance) => false,
            _ => self.survives[usize::from(job.counts.crashes)],
        }
    }

    /// Looks at a whole moment.
    pub(crate) fn check(&self, state: &State) -> Result<(), Broken> {
        for (number, worker) in state.workers.iter().enumerate() {
            let Some(token) = worker.token() else { continue };
            let same = |other: Worker| {
                other.token().is_some_and(|other| (other.job, other.fence) == (token.job, token.fence))
            };
            if state.workers[number + 1..].iter().copied().any(same) {
                return Err(Broken::FenceShared);
            }
        }
        let faults = self.budget.faults - state.left.faults;
        for (job, nature) in state.jobs.iter().zip(self.natures) {
            let (counts, truth) = (job.counts, job.truth);
            if (counts.attempts, counts.retries, counts.crashes) != (truth.attempts, truth.failed, truth.lost)
            {
                return Err(Broken::Miscounted);
            }
            if counts.crashes > CRASH_BUDGET && matches!(job.place, Place::Ready { .. }) {
                return Err(Broken::PoisonRunsOn);
            }
            // Each worker that was lost over a job that kills nobody is paid for by something that happened to a worker.
            if nature != Nature::Wild && truth.lost_ever > faults {
                return Err(Broken::ChargedForNothing);
            }
        }
        Ok(())
    }
}
