//! The shortest way to what does not hold, as a story.

use std::fmt;

use crate::explore::Trace;
use crate::state::{Doing, Says, State, Token};
use crate::step::Action;

const WORKER: [&str; 3] = ["Ann", "Ben", "Cid"];
const JOB: [&str; 2] = ["job A", "job B"];

impl fmt::Display for Trace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (before, action)) in self.steps.iter().enumerate() {
            writeln!(to, "{:3}. {}", number + 1, sentence(before, *action))?;
        }
        write!(to, "     {:?}", self.broken)
    }
}

fn sentence(before: &State, action: Action) -> String {
    let shown = |token: Token| format!("{} with fence {}", JOB[usize::from(token.job)], token.fence);
    let has = |worker: usize| before.workers[worker].token().map(shown).unwrap_or_default();
    let unheard = |heard: bool| if heard { "" } else { "; the answer is lost" };
    let counts = |job: usize| before.jobs[job].counts;
    match action {
        Action::Lease { worker, job, begin } => {
            let how = if begin { "leases and begins" } else { "leases" };
            format!("{} {how} {} with fence {}", WORKER[worker], JOB[job], counts(job).fence + 1)
        }
        Action::Begin { worker, heard } => {
            format!("{} begins {}{}", WORKER[worker], has(worker), unheard(heard))
        }
        Action::Renew { worker, heard } => {
            format!("{} sends a heartbeat for {}{}", WORKER[worker], has(worker), unheard(heard))
        }
        Action::Finish { worker, says } => {
            let how = match says {
                Says::Succeeded => "has done",
                Says::GivesBack => "wants to give back",
                _ => "fails at",
            };
            format!("{} {how} {}", WORKER[worker], has(worker))
        }
        Action::Kill { worker } => format!("{} takes its worker {} down", has(worker), WORKER[worker]),
        Action::Settle { worker, heard } => {
            let Doing::Settles(_, says) = before.workers[worker].doing else { return String::new() };
            format!("{} settles {} as {says:?}{}", WORKER[worker], has(worker), unheard(heard))
        }
        Action::Seize { worker, job } => {
            let fence = counts(job).fence;
            format!("{} takes over {}, which expired under fence {fence}", WORKER[worker], JOB[job])
        }
        Action::Crash { worker } => format!("{} crashes and comes back without memory", WORKER[worker]),
        Action::Pause { worker } => format!("{} stands still", WORKER[worker]),
        Action::Resume { worker } => format!("{} goes on, with {}", WORKER[worker], has(worker)),
        Action::Copy { worker } => {
            format!("the network keeps {}'s settlement of {}", WORKER[worker], has(worker))
        }
        Action::Deliver => {
            let what = before.wire.map(|(token, says)| format!("{} as {says:?}", shown(token)));
            format!("the network delivers the settlement of {}", what.unwrap_or_default())
        }
        Action::Vanish => "what was on the wire is lost".to_owned(),
        Action::Tick { lags, late } => {
            let lags = lags.map(|worker| format!(", {}'s clock stands", WORKER[worker])).unwrap_or_default();
            let late = if late > 0 { ", heartbeats are lost" } else { "" };
            format!("a tick goes by{lags}{late}")
        }
        Action::RunsAhead { worker } => format!("{}'s clock runs ahead by a tick", WORKER[worker]),
        Action::Cancel { job } => format!("a person cancels {}", JOB[job]),
        Action::Redrive { job } => format!("a person puts {} back", JOB[job]),
    }
}
