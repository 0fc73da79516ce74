//! Everything that can happen next. What the protocol decides is asked of the protocol; what the policy decides, of the
//! policy; the rest is the world around them.
//!
//! A step at the store is one transaction. Its answer may be lost: then whoever asked asks again. Whoever never asks again
//! has crashed.

use redrive_store::protocol::{After, Claim};

use crate::rules::{Broken, CRASH_BUDGET, MAX_RETRIES, Model, Mutation};
use crate::state::{
    Counts, Doing, JOBS, Job, LEASE, Nature, Place, Says, State, Sure, Token, WAIT, WORKERS, Worker,
};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Lease { worker: usize, job: usize, begin: bool },
    Begin { worker: usize, heard: bool },
    Renew { worker: usize, heard: bool },
    Finish { worker: usize, says: Says },
    Kill { worker: usize },
    Settle { worker: usize, heard: bool },
    Seize { worker: usize, job: usize },
    Crash { worker: usize },
    Pause { worker: usize },
    Resume { worker: usize },
    Copy { worker: usize },
    Deliver,
    Vanish,
    Tick { lags: Option<usize>, late: u8 },
    RunsAhead { worker: usize },
    Cancel { job: usize },
    Redrive { job: usize },
}

impl Action {
    /// What is counted.
    pub(crate) const NAMES: [&str; 17] = [
        "leases",
        "begins",
        "heartbeats",
        "ends of handlers",
        "handlers that kill",
        "settlements",
        "takeovers",
        "crashes",
        "pauses",
        "resumptions",
        "copies",
        "repeated deliveries",
        "losses on the wire",
        "ticks",
        "clocks that run ahead",
        "cancels",
        "redrives",
    ];

    /// Its place among the names.
    pub(crate) fn kind(self) -> usize {
        match self {
            Action::Lease { .. } => 0,
            Action::Begin { .. } => 1,
            Action::Renew { .. } => 2,
            Action::Finish { .. } => 3,
            Action::Kill { .. } => 4,
            Action::Settle { .. } => 5,
            Action::Seize { .. } => 6,
            Action::Crash { .. } => 7,
            Action::Pause { .. } => 8,
            Action::Resume { .. } => 9,
            Action::Copy { .. } => 10,
            Action::Deliver => 11,
            Action::Vanish => 12,
            Action::Tick { .. } => 13,
            Action::RunsAhead { .. } => 14,
            Action::Cancel { .. } => 15,
            Action::Redrive { .. } => 16,
        }
    }

    /// Whether it is a settlement by somebody who has lost the lease, or a second time.
    pub(crate) fn is_stale(self, before: &State) -> bool {
        let token = match self {
            Action::Settle { worker, .. } => before.workers[worker].token(),
            Action::Deliver => before.wire.map(|(token, _)| token),
            _ => None,
        };
        token.is_some_and(|token| {
            let claim = before.jobs[usize::from(token.job)].claim();
            claim.is_none_or(|claim| claim.standing.fence != i64::from(token.fence))
        })
    }

    /// Whether it may be counted on: nothing goes wrong, and no person does anything.
    pub(crate) fn is_ordinary(self) -> bool {
        match self {
            Action::Lease { .. } | Action::Seize { .. } | Action::Resume { .. } | Action::Finish { .. } => {
                true
            }
            Action::Begin { heard, .. } | Action::Renew { heard, .. } | Action::Settle { heard, .. } => heard,
            Action::Tick { lags, late } => lags.is_none() && late == 0,
            Action::Kill { .. }
            | Action::Crash { .. }
            | Action::Pause { .. }
            | Action::Copy { .. }
            | Action::Deliver
            | Action::Vanish
            | Action::RunsAhead { .. }
            | Action::Cancel { .. }
            | Action::Redrive { .. } => false,
        }
    }
}

/// What comes next: the step, and the moment after it or what it broke.
pub(crate) type Next = (Action, Result<State, Broken>);

impl Model {
    /// Everything that can happen next.
    pub(crate) fn successors(&self, state: &State, next: &mut Vec<Next>) {
        next.clear();
        for worker in 0..WORKERS {
            // Who does the same as another has the same future.
            if !state.workers[..worker].contains(&state.workers[worker]) {
                self.by_worker(state, worker, next);
            }
        }
        self.by_the_network(state, next);
        self.by_the_clocks(state, next);
        self.by_people(state, next);
        next.retain(|(_, after)| *after != Ok(*state));
    }

    fn by_worker(&self, state: &State, number: usize, next: &mut Vec<Next>) {
        let worker = state.workers[number];
        let mut push = |action| next.push((action, self.apply(state, action)));
        if worker.paused {
            push(Action::Resume { worker: number });
            if state.left.faults > 0 {
                push(Action::Crash { worker: number });
            }
            return;
        }
        match worker.doing {
            Doing::Nothing => {
                for job in 0..JOBS {
                    match state.jobs[job].place {
                        Place::Ready { wait: 0 } => {
                            push(Action::Lease { worker: number, job, begin: true });
                            push(Action::Lease { worker: number, job, begin: false });
                        }
                        Place::Leased { left, .. }
                            if (left == 0 || self.has(Mutation::ReaperTrustsItsOwnClock))
                                && !self.has(Mutation::NobodyReaps) =>
                        {
                            push(Action::Seize { worker: number, job });
                        }
                        _ => {}
                    }
                }
                return;
            }
            Doing::Holds(..) => {
                push(Action::Begin { worker: number, heard: true });
                push(Action::Begin { worker: number, heard: false });
                if state.left.give_backs > 0 {
                    push(Action::Finish { worker: number, says: Says::GivesBack });
                }
            }
            Doing::Runs(token, sure) if sure.left > 0 => {
                push(Action::Finish { worker: number, says: Says::Succeeded });
                if state.left.give_backs > 0 {
                    push(Action::Finish { worker: number, says: Says::GivesBack });
                }
                let nature = self.natures[usize::from(token.job)];
                if matches!(nature, Nature::Failing | Nature::Wild) {
                    let says = if sure.may_retry { Says::Failed } else { Says::FailedForGood };
                    push(Action::Finish { worker: number, says });
                }
                if nature == Nature::Wild {
                    push(Action::Kill { worker: number });
                }
            }
            // It is not sure of its lease: it acts no further before a heartbeat is answered.
            Doing::Runs(..) => {}
            Doing::Settles(..) => {
                push(Action::Settle { worker: number, heard: true });
                push(Action::Settle { worker: number, heard: false });
                if state.left.copies > 0 && state.wire.is_none() {
                    push(Action::Copy { worker: number });
                }
            }
        }
        if !matches!(worker.doing, Doing::Settles(..)) {
            push(Action::Renew { worker: number, heard: true });
            push(Action::Renew { worker: number, heard: false });
        }
        if state.left.faults > 0 {
            push(Action::Crash { worker: number });
            push(Action::Pause { worker: number });
        }
    }

    fn by_the_network(&self, state: &State, next: &mut Vec<Next>) {
        if state.wire.is_some() {
            for action in [Action::Deliver, Action::Vanish] {
                next.push((action, self.apply(state, action)));
            }
        }
    }

    fn by_the_clocks(&self, state: &State, next: &mut Vec<Next>) {
        // A lease that lapses under somebody who lives and is not paused: its heartbeats were lost.
        let lapses = |number: usize, job: &Job| {
            let fence = job.counts.fence;
            let has = |worker: &Worker| {
                let token = worker.token();
                !worker.paused
                    && token.is_some_and(|token| (token.job as usize, token.fence) == (number, fence))
            };
            matches!(job.place, Place::Leased { left: 1, .. }) && state.workers.iter().any(has)
        };
        let late = state.jobs.iter().enumerate().filter(|(number, job)| lapses(*number, job)).count();
        let late = u8::try_from(late).unwrap_or(u8::MAX);
        if late <= state.left.faults {
            for lags in std::iter::once(None).chain((0..WORKERS).map(Some)) {
                let action = Action::Tick { lags, late };
                if lags.is_none_or(|worker| own_clock(state.workers[worker]).is_some_and(|left| left > 0)) {
                    next.push((action, self.apply(state, action)));
                }
            }
        }
        for worker in 0..WORKERS {
            if own_clock(state.workers[worker]).is_some_and(|left| left > 0) {
                let action = Action::RunsAhead { worker };
                next.push((action, self.apply(state, action)));
            }
        }
    }

    fn by_people(&self, state: &State, next: &mut Vec<Next>) {
        for (job, is) in state.jobs.iter().enumerate() {
            let over = matches!(is.place, Place::Succeeded | Place::Cancelled);
            if state.left.cancels > 0 && !over {
                next.push((Action::Cancel { job }, self.apply(state, Action::Cancel { job })));
            }
            if state.left.redrives > 0 && is.place == Place::Dead {
                next.push((Action::Redrive { job }, self.apply(state, Action::Redrive { job })));
            }
        }
    }

    /// The moment after a step.
    pub(crate) fn apply(&self, before: &State, action: Action) -> Result<State, Broken> {
        let mut state = *before;
        match action {
            Action::Lease { worker, job, begin } => self.lease(&mut state, worker, job, begin)?,
            Action::Begin { worker, heard } => self.begin(&mut state, worker, heard)?,
            Action::Renew { worker, heard } => renew(&mut state, worker, heard)?,
            Action::Finish { worker, says } => {
                let (Doing::Holds(token, _) | Doing::Runs(token, _)) = state.workers[worker].doing else {
                    return Ok(state);
                };
                state.jobs[usize::from(token.job)].truth.done |= says == Says::Succeeded;
                state.left.give_backs -= u8::from(says == Says::GivesBack);
                state.workers[worker].doing = Doing::Settles(token, says);
            }
            Action::Kill { worker } => state.workers[worker].doing = Doing::Nothing,
            Action::Settle { worker, heard } => {
                let Doing::Settles(token, says) = state.workers[worker].doing else { return Ok(state) };
                self.settle(&mut state, token, says)?;
                if heard {
                    state.workers[worker].doing = Doing::Nothing;
                }
            }
            Action::Seize { worker, job } => self.seize(&mut state, worker, job)?,
            Action::Crash { worker } => {
                state.left.faults -= 1;
                state.workers[worker] = Worker { paused: false, doing: Doing::Nothing };
            }
            Action::Pause { worker } => {
                state.left.faults -= 1;
                state.workers[worker].paused = true;
            }
            Action::Resume { worker } => state.workers[worker].paused = false,
            Action::Copy { worker } => {
                let Doing::Settles(token, says) = state.workers[worker].doing else { return Ok(state) };
                state.left.copies -= 1;
                state.wire = Some((token, says));
            }
            Action::Deliver => {
                let Some((token, says)) = state.wire else { return Ok(state) };
                self.settle(&mut state, token, says)?;
            }
            Action::Vanish => state.wire = None,
            Action::Tick { lags, late } => {
                state.left.faults -= late;
                for job in &mut state.jobs {
                    if let Place::Leased { left, .. } | Place::Ready { wait: left } = &mut job.place {
                        *left = left.saturating_sub(1);
                    }
                }
                for (number, worker) in state.workers.iter_mut().enumerate() {
                    if lags != Some(number) {
                        run_on(worker);
                    }
                }
            }
            Action::RunsAhead { worker } => run_on(&mut state.workers[worker]),
            Action::Cancel { job } => {
                state.left.cancels -= 1;
                let job = &mut state.jobs[job];
                job.truth.unwanted = true;
                match &mut job.place {
                    Place::Leased { cancel, .. } => *cancel = true,
                    Place::Ready { .. } | Place::Dead => job.place = Place::Cancelled,
                    Place::Succeeded | Place::Cancelled => {}
                }
            }
            Action::Redrive { job } => {
                state.left.redrives -= 1;
                let job = &mut state.jobs[job];
                job.counts = Counts::of(job.counts.standing().redriven());
                if self.has(Mutation::RedriveResetsTheFence) {
                    job.counts.fence = 0;
                }
                job.place = Place::Ready { wait: 0 };
                job.truth.unwanted = false;
                (job.truth.attempts, job.truth.failed, job.truth.lost) = (0, 0, 0);
            }
        }
        self.check(&state)?;
        Ok(state)
    }

    fn lease(&self, state: &mut State, worker: usize, number: usize, begin: bool) -> Result<(), Broken> {
        let may_retry = self.may_retry(&state.jobs[number]);
        let job = &mut state.jobs[number];
        let claim = job.counts.standing().leased(begin || self.has(Mutation::CountsAtLease));
        job.counts = Counts::of(claim.standing);
        job.place = Place::Leased { begun: claim.begun && begin, left: LEASE, cancel: false };
        job.truth.leases += 1;
        job.truth.began = begin;
        job.truth.attempts += u8::from(begin);
        grows(job)?;
        let token = token(number, job);
        let sure = Sure { left: LEASE, may_retry };
        state.workers[worker].doing =
            if begin { Doing::Runs(token, sure) } else { Doing::Holds(token, sure) };
        Ok(())
    }

    fn begin(&self, state: &mut State, worker: usize, heard: bool) -> Result<(), Broken> {
        let Doing::Holds(token, sure) = state.workers[worker].doing else { return Ok(()) };
        let job = &mut state.jobs[usize::from(token.job)];
        let held = job.claim().filter(|claim| claim.holds(token.fence.into()));
        let Some(claim) = held else {
            if heard {
                state.workers[worker].doing = Doing::Nothing;
            }
            return Ok(());
        };
        must_hold(token, claim)?;
        let again = Claim { begun: claim.begun && !self.has(Mutation::CountsEveryBegin), ..claim };
        job.counts = Counts::of(again.begun().standing);
        job.truth.attempts += u8::from(!job.truth.began);
        job.truth.began = true;
        if let Place::Leased { begun, .. } = &mut job.place {
            *begun = true;
        }
        if heard {
            state.workers[worker].doing = Doing::Runs(token, sure);
        }
        Ok(())
    }

    /// The one door.
    fn settle(&self, state: &mut State, token: Token, says: Says) -> Result<(), Broken> {
        let job = &mut state.jobs[usize::from(token.job)];
        let Some(claim) = job.claim().filter(|claim| claim.holds(token.fence.into())) else { return Ok(()) };
        if job.truth.settled & (1 << token.lease) != 0 {
            return Err(Broken::SettledTwice);
        }
        must_hold(token, claim)?;
        job.truth.settled |= 1 << token.lease;
        let Place::Leased { cancel, .. } = job.place else { return Ok(()) };
        let wish = cancel && !self.has(Mutation::ForgetsTheWish);
        let after = claim.settled(says.verdict(), wish);
        let mut standing = after.standing(claim);
        if says == Says::GivesBack && self.has(Mutation::KeepsGivenBackCounted) {
            standing = claim.standing;
        }
        job.counts = Counts::of(standing);
        ended(job, says, after)
    }

    fn seize(&self, state: &mut State, worker: usize, number: usize) -> Result<(), Broken> {
        let survives = self.survives_a_loss(&state.jobs[number]);
        let job = &mut state.jobs[number];
        let (Some(claim), Place::Leased { begun, cancel, .. }) = (job.claim(), job.place) else {
            return Ok(());
        };
        if cancel && !self.has(Mutation::ForgetsTheWish) {
            // As the store does it: nobody need judge what it left.
            let token = token(number, job);
            return self.settle(state, token, Says::GivesBack);
        }
        if !self.has(Mutation::ReaperKeepsTheFence) {
            job.counts = Counts::of(claim.seized().standing);
            grows(job)?;
        }
        job.place = Place::Leased { begun, left: LEASE, cancel };
        let says = match begun || self.has(Mutation::ReaperChargesTheUnbegun) {
            false => Says::GivesBack,
            true if survives => Says::WorkerDied,
            true => Says::WorkerDiedForGood,
        };
        state.workers[worker].doing = Doing::Settles(token(number, job), says);
        Ok(())
    }
}

fn token(number: usize, job: &Job) -> Token {
    Token { job: u8::from(number == 1), fence: job.counts.fence, lease: job.truth.leases }
}

/// A heartbeat.
fn renew(state: &mut State, number: usize, heard: bool) -> Result<(), Broken> {
    let worker = &mut state.workers[number];
    let Some(token) = worker.token() else { return Ok(()) };
    let job = &mut state.jobs[usize::from(token.job)];
    let Some(claim) = job.claim().filter(|claim| claim.holds(token.fence.into())) else {
        if heard {
            worker.doing = Doing::Nothing;
        }
        return Ok(());
    };
    must_hold(token, claim)?;
    let Place::Leased { left, cancel, .. } = &mut job.place else { return Ok(()) };
    *left = LEASE;
    if heard && *cancel {
        worker.doing = Doing::Settles(token, Says::Cancelled);
    } else if heard && let Doing::Holds(_, sure) | Doing::Runs(_, sure) = &mut worker.doing {
        sure.left = LEASE;
    }
    Ok(())
}

/// What the end of an attempt makes of the job, against what really happened.
fn ended(job: &mut Job, says: Says, after: After) -> Result<(), Broken> {
    let truth = &mut job.truth;
    let lost = matches!(says, Says::WorkerDied | Says::WorkerDiedForGood);
    if lost && !truth.began {
        return Err(Broken::Miscounted);
    }
    truth.lost_ever += u8::from(lost);
    job.place = match after {
        After::Waits(_) if truth.unwanted => return Err(Broken::CancelledPutBack),
        After::Waits(_) => {
            match says {
                Says::Failed => truth.failed += 1,
                Says::WorkerDied => truth.lost += 1,
                Says::GivesBack => truth.attempts -= u8::from(truth.began),
                Says::Succeeded | Says::FailedForGood | Says::WorkerDiedForGood | Says::Cancelled => {}
            }
            Place::Ready { wait: if says == Says::GivesBack { 0 } else { WAIT } }
        }
        After::Dead(_) => {
            let deserved = match says {
                Says::FailedForGood => truth.failed >= MAX_RETRIES,
                Says::WorkerDiedForGood => truth.lost >= CRASH_BUDGET,
                _ => false,
            };
            if !deserved {
                return Err(Broken::InnocentDead);
            }
            Place::Dead
        }
        After::Succeeded if truth.done => Place::Succeeded,
        After::Cancelled if truth.unwanted => Place::Cancelled,
        After::Succeeded | After::Cancelled => return Err(Broken::Lost),
    };
    Ok(())
}

/// Whoever is let in must be who has the lease, however that was found out.
fn must_hold(token: Token, claim: Claim) -> Result<(), Broken> {
    if claim.standing.fence == i64::from(token.fence) { Ok(()) } else { Err(Broken::ChangedByALoser) }
}

/// A new fence is higher than every one before it.
fn grows(job: &mut Job) -> Result<(), Broken> {
    if job.counts.fence <= job.truth.highest {
        return Err(Broken::FenceShared);
    }
    job.truth.highest = job.counts.fence;
    Ok(())
}

/// For how long a worker is sure, by its own clock.
fn own_clock(worker: Worker) -> Option<u8> {
    match worker.doing {
        Doing::Runs(_, sure) | Doing::Holds(_, sure) => Some(sure.left),
        Doing::Nothing | Doing::Settles(..) => None,
    }
}

fn run_on(worker: &mut Worker) {
    if let Doing::Runs(_, sure) | Doing::Holds(_, sure) = &mut worker.doing {
        sure.left = sure.left.saturating_sub(1);
    }
}
