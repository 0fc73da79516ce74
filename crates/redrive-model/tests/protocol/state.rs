//! One moment of the whole system: two jobs in a store, three workers, one message on the wire, and the truth that only
//! the model knows.
//!
//! Time is counted in ticks that are left, so that a clock may run for ever in finitely many states.

use redrive_store::protocol::{Claim, Standing, Verdict};

pub(crate) const JOBS: usize = 2;
pub(crate) const WORKERS: usize = 3;
/// How many ticks a lease lasts.
pub(crate) const LEASE: u8 = 2;
/// How many ticks a retry waits.
pub(crate) const WAIT: u8 = 1;

/// A job as the store has it, in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Job {
    pub(crate) place: Place,
    pub(crate) counts: Counts,
    pub(crate) truth: Truth,
}

/// Where a job is. There is no other place, and it is never in two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Ready { wait: u8 },
    Leased { begun: bool, left: u8, cancel: bool },
    Dead,
    Succeeded,
    Cancelled,
}

/// A [`Standing`], packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Counts {
    pub(crate) fence: u8,
    pub(crate) attempts: u8,
    pub(crate) retries: u8,
    pub(crate) crashes: u8,
}

/// What really happened, which nobody in the system sees. The invariants compare with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Truth {
    /// Leases that were given out; what takes over one of them goes on with its number.
    pub(crate) leases: u8,
    /// Which of them were settled.
    pub(crate) settled: u32,
    /// The highest fence that anybody was given.
    pub(crate) highest: u8,
    /// Whether the execution under the present lease has begun.
    pub(crate) began: bool,
    /// Executions that began and were not given back, since a person last put it back.
    pub(crate) attempts: u8,
    /// Executions that failed by the handler's own doing, since then.
    pub(crate) failed: u8,
    /// Executions whose worker was lost, since then.
    pub(crate) lost: u8,
    /// The same, ever.
    pub(crate) lost_ever: u8,
    /// Whether a handler has done the work.
    pub(crate) done: bool,
    /// Whether somebody asked for its end.
    pub(crate) unwanted: bool,
}

/// What a worker holds: a token, and which lease it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) job: u8,
    pub(crate) fence: u8,
    pub(crate) lease: u8,
}

/// One run of a worker. Who crashes is another from then on, and knows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Worker {
    pub(crate) paused: bool,
    pub(crate) doing: Doing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Doing {
    Nothing,
    /// It has a lease and has not begun.
    Holds(Token, Sure),
    /// The handler runs.
    Runs(Token, Sure),
    /// It settles, and does so until it is answered.
    Settles(Token, Says),
}

/// What a worker knows about its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sure {
    /// For how many ticks of its own clock the lease certainly holds.
    pub(crate) left: u8,
    /// Whether the policy gives this job another try when the handler fails.
    pub(crate) may_retry: bool,
}

/// How an attempt ended, as whoever settles it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Says {
    Succeeded,
    Failed,
    FailedForGood,
    WorkerDied,
    WorkerDiedForGood,
    GivesBack,
    Cancelled,
}

impl Says {
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Says::Succeeded => Verdict::Succeeded,
            Says::Failed => Verdict::Retry { crash: false },
            Says::WorkerDied => Verdict::Retry { crash: true },
            Says::FailedForGood | Says::WorkerDiedForGood => Verdict::Dead,
            Says::GivesBack => Verdict::Uncounted,
            Says::Cancelled => Verdict::Cancelled,
        }
    }
}

/// What a job does to those who run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// There is no such job.
    Absent,
    /// Its handler always succeeds.
    Good,
    /// Its handler may fail.
    Failing,
    /// Its handler may fail, and may take its worker down.
    Wild,
}

/// What may still go wrong, and what people may still do. It makes the space finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Crashes, pauses, and leases that lapse under the living because their heartbeats are lost.
    pub(crate) faults: u8,
    /// Settlements that the network keeps and delivers again.
    pub(crate) copies: u8,
    /// Jobs that a worker gives back.
    pub(crate) give_backs: u8,
    pub(crate) cancels: u8,
    pub(crate) redrives: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) jobs: [Job; JOBS],
    pub(crate) workers: [Worker; WORKERS],
    /// A settlement on its way, which may arrive any number of times, or never.
    pub(crate) wire: Option<(Token, Says)>,
    pub(crate) left: Budget,
}

impl State {
    pub(crate) fn initial(natures: [Nature; JOBS], budget: Budget) -> State {
        let jobs = natures.map(|nature| {
            let absent = nature == Nature::Absent;
            let place = if absent { Place::Cancelled } else { Place::Ready { wait: 0 } };
            Job { place, counts: Counts::default(), truth: Truth::default() }
        });
        let worker = Worker { paused: false, doing: Doing::Nothing };
        State { jobs, workers: [worker; WORKERS], wire: None, left: budget }
    }

    /// The same moment, whichever way the workers are numbered: the store does not care who they are.
    pub(crate) fn canonical(mut self) -> State {
        self.workers.sort_unstable();
        self
    }

    /// Whether every job is over or set aside.
    pub(crate) fn is_settled(&self) -> bool {
        self.jobs.iter().all(|job| !matches!(job.place, Place::Ready { .. } | Place::Leased { .. }))
    }
}

impl Counts {
    pub(crate) fn of(standing: Standing) -> Counts {
        let few = |number: i64| u8::try_from(number).expect("counts stay small and never fall below zero");
        Counts {
            fence: few(standing.fence),
            attempts: few(standing.attempts),
            retries: few(standing.retries),
            crashes: few(standing.crashes),
        }
    }

    pub(crate) fn standing(self) -> Standing {
        Standing {
            fence: self.fence.into(),
            attempts: self.attempts.into(),
            retries: self.retries.into(),
            crashes: self.crashes.into(),
        }
    }
}

impl Job {
    /// The job as the protocol sees it, under its lease.
    pub(crate) fn claim(&self) -> Option<Claim> {
        match self.place {
            Place::Leased { begun, .. } => Some(Claim { standing: self.counts.standing(), begun }),
            Place::Ready { .. } | Place::Dead | Place::Succeeded | Place::Cancelled => None,
        }
    }
}

impl Worker {
    pub(crate) fn token(self) -> Option<Token> {
        match self.doing {
            Doing::Nothing => None,
            Doing::Holds(token, _) | Doing::Runs(token, _) | Doing::Settles(token, _) => Some(token),
        }
    }
}
