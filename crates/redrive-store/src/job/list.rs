//! Looking through the living jobs, a page at a time.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, WorkerId};
use crate::job::{MAX_BATCH, Origin};
use crate::row::count;
use crate::time::Timestamp;

/// The most jobs that one call looks at, however few of them are wanted.
pub const JOBS_LOOKED_AT: u32 = 10_000;

/// Where a living job stands, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStateName {
    /// It is due, and waits for a worker.
    Ready,
    /// It waits for its time.
    Scheduled,
    /// A worker has it.
    Leased,
    /// It was set aside.
    Dead,
}

impl JobStateName {
    /// Every state.
    pub const ALL: [JobStateName; 4] =
        [JobStateName::Ready, JobStateName::Scheduled, JobStateName::Leased, JobStateName::Dead];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            JobStateName::Ready => "ready",
            JobStateName::Scheduled => "scheduled",
            JobStateName::Leased => "leased",
            JobStateName::Dead => "dead",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<JobStateName> {
        JobStateName::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Which jobs are wanted. Nothing said: all that live.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only in this state.
    pub state: Option<JobStateName>,
    /// Only with this id of the caller's.
    pub caller_id: Option<String>,
    /// Behind this one: what `next` of the page before said.
    pub after: Option<JobId>,
    /// At most so many.
    pub limit: u32,
    /// At most so many are looked at; absent, or more: [`JOBS_LOOKED_AT`].
    pub look_at: Option<u32>,
}

/// A living job without what its handler gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHead {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Where it stands.
    pub state: JobStateName,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it is due; while it waits.
    pub run_at: Option<Timestamp>,
    /// Its priority.
    pub priority: i32,
    /// The name of its policy.
    pub policy: Option<String>,
    /// The caller's own id for it.
    pub caller_id: Option<String>,
    /// Its unique key.
    pub unique_key: Option<String>,
    /// What its work goes to, where whoever enqueued it said so.
    pub target: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    /// Attempts so far.
    pub attempts: u32,
    /// Retries among them that count against `max_retries`.
    pub retries: u32,
    /// Crashes among them.
    pub crashes: u32,
    /// The worker that it is reserved for; while it waits.
    pub held_for: Option<WorkerId>,
    /// The worker that has it.
    pub leased_by: Option<WorkerId>,
    /// Until when, unless it is extended.
    pub lease_expires_at: Option<Timestamp>,
    /// When its execution began, if it has.
    pub begun_at: Option<Timestamp>,
    /// Whether somebody wants it cancelled.
    pub cancel_requested: bool,
}

/// Jobs, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPage {
    /// The jobs, the newest first.
    pub jobs: Vec<JobHead>,
    /// Where to go on; absent: there are no more. A page may be short, or empty, and yet not be the last: see [`JOBS_LOOKED_AT`].
    pub next: Option<JobId>,
}

/// A job that is looked at: its number and its lane.
pub(crate) type Candidate = (i64, i64);

impl JobQuery {
    /// The number below which the jobs are looked for.
    pub(crate) fn below(&self) -> i64 {
        self.after.map_or(i64::MAX, |after| after.0)
    }

    /// The most jobs of a page.
    pub(crate) fn most(&self) -> usize {
        (self.limit as usize).clamp(1, MAX_BATCH)
    }

    /// How many are looked at.
    pub(crate) fn look_at(&self) -> u32 {
        self.look_at.unwrap_or(JOBS_LOOKED_AT).clamp(1, JOBS_LOOKED_AT)
    }

    /// Whether a job of this lane may be wanted.
    pub(crate) fn wants_lane(&self, queue: &str, kind: &str) -> bool {
        self.queue.as_deref().is_none_or(|wanted| wanted == queue)
            && self.kind.as_deref().is_none_or(|wanted| wanted == kind)
    }

    /// Whether this job is wanted. Its lane and its caller's id have been looked at.
    pub(crate) fn wants(&self, head: &JobHead) -> bool {
        self.state.is_none_or(|state| state == head.state)
            && (self.caller_id.is_none() || self.caller_id == head.caller_id)
    }

    /// The page that these jobs are, of the numbers that were to be looked at.
    pub(crate) fn page(&self, jobs: Vec<JobHead>, candidates: &[Candidate]) -> JobPage {
        let whole = candidates.len() >= self.look_at() as usize;
        let last = candidates.last().map(|(id, _)| JobId(*id));
        let next = match jobs.last() {
            // What is behind the last one was not looked at.
            Some(job) if jobs.len() >= self.most() => (whole || last != Some(job.id)).then_some(job.id),
            _ => last.filter(|_| whole),
        };
        JobPage { jobs, next }
    }
}

/// The columns of `job_head.sql`.
pub(crate) struct StoredHead {
    pub(crate) id: i64,
    pub(crate) enqueued_at: i64,
    pub(crate) run_at: i64,
    pub(crate) is_scheduled: bool,
    pub(crate) rank: i64,
    pub(crate) policy: Option<String>,
    pub(crate) caller_id: Option<String>,
    pub(crate) unique_key: Option<String>,
    pub(crate) origin: i64,
    pub(crate) attempts: i64,
    pub(crate) retries: i64,
    pub(crate) crashes: i64,
    pub(crate) held_for: Option<i64>,
    pub(crate) leased_by: Option<i64>,
    pub(crate) lease_expires_at: Option<i64>,
    pub(crate) begun_at: Option<i64>,
    pub(crate) cancel_requested: bool,
    pub(crate) is_dead: bool,
    pub(crate) target: Option<String>,
}

impl StoredHead {
    pub(crate) fn into_head(self, queue: &str, kind: &str) -> JobHead {
        let state = match (self.leased_by, self.is_dead, self.is_scheduled) {
            (Some(_), ..) => JobStateName::Leased,
            (None, true, _) => JobStateName::Dead,
            (None, false, true) => JobStateName::Scheduled,
            (None, false, false) => JobStateName::Ready,
        };
        let waits = matches!(state, JobStateName::Ready | JobStateName::Scheduled);
        JobHead {
            id: JobId(self.id),
            queue: queue.to_owned(),
            kind: kind.to_owned(),
            state,
            enqueued_at: Timestamp::from_millis(self.enqueued_at),
            run_at: waits.then(|| Timestamp::from_millis(self.run_at)),
            priority: i32::try_from(-self.rank).unwrap_or_default(),
            policy: self.policy,
            caller_id: self.caller_id,
            unique_key: self.unique_key,
            target: self.target,
            origin: if self.origin == 0 { Origin::Local } else { Origin::Api },
            attempts: count(self.attempts),
            retries: count(self.retries),
            crashes: count(self.crashes),
            held_for: self.held_for.filter(|_| waits).map(WorkerId),
            leased_by: self.leased_by.map(WorkerId),
            lease_expires_at: self.lease_expires_at.map(Timestamp::from_millis),
            begun_at: self.begun_at.map(Timestamp::from_millis),
            cancel_requested: self.cancel_requested,
        }
    }
}
