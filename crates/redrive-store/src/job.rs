//! Jobs: what is enqueued, and what is known of one at any time.

// Without a back end nobody looks through them.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) mod list;

use std::time::Duration;

use serde::Serialize;

use crate::Answer;
use crate::dead_letter::DeadLetter;
use crate::error::{Refusal, StoreError, Trouble};
use crate::id::{EventSeq, JobId, WorkerId};
use crate::time::Timestamp;
use list::{JobPage, JobQuery};

/// The queue of a job that names none.
pub const DEFAULT_QUEUE: &str = "default";
/// The most that a payload may hold.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// The most bytes in the name of a queue or a kind, in a key or an id of the caller's.
pub const MAX_NAME_BYTES: usize = 255;
/// The most jobs, leases or settlements in one call.
pub const MAX_BATCH: usize = 10_000;
/// The most bytes of what a job overrides in its policy.
pub const MAX_OVERRIDES_BYTES: usize = 64 * 1024;
/// What a priority may be; higher comes first.
pub const PRIORITIES: std::ops::RangeInclusive<i32> = -100..=100;

/// Where a job came from. What came through the API may do less than what the machine's own user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The library or the command line on this machine.
    #[default]
    Local,
    /// The API or the SQS door.
    Api,
}

/// A job to be enqueued.
#[derive(Debug, Clone, Default)]
pub struct NewJob {
    /// The queue; empty is [`DEFAULT_QUEUE`].
    pub queue: String,
    /// What kind of work it is, by which workers choose.
    pub kind: String,
    /// What the handler gets.
    pub payload: Vec<u8>,
    /// When it is due first; absent: now.
    pub run_at: Option<Timestamp>,
    /// Higher comes first, −100 to 100.
    pub priority: i32,
    /// While an unfinished job of the queue has this key, enqueuing answers with that one.
    pub unique_key: Option<String>,
    /// The caller's own id for it.
    pub caller_id: Option<String>,
    /// The name of its policy; absent: the worker's choice.
    pub policy: Option<String>,
    /// What it overrides in that policy, as JSON.
    pub overrides: Option<String>,
    /// The key that its effects carry; absent: one made from its id.
    pub idempotency_key: Option<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// When it must be over.
    pub deadline_at: Option<Timestamp>,
    /// Where it came from.
    pub origin: Origin,
    /// What its events name as their source; empty: the kind.
    pub source: String,
    /// Only this worker leases it, while its presence lasts.
    pub held_for: Option<WorkerId>,
    /// The work is a closure of the process that enqueues it: when that dies, nobody can run it again.
    pub inline: bool,
    /// The event that led to it.
    pub parent: Option<EventSeq>,
    /// What it goes to, by which it is protected together with everything else that goes there.
    pub target: Option<String>,
}

impl NewJob {
    /// A job of this kind in the default queue, due now.
    pub fn new(kind: impl Into<String>, payload: impl Into<Vec<u8>>) -> NewJob {
        NewJob { kind: kind.into(), payload: payload.into(), ..NewJob::default() }
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        if self.queue.is_empty() { DEFAULT_QUEUE } else { &self.queue }
    }

    /// The source that its events name.
    pub fn source(&self) -> &str {
        if self.source.is_empty() { &self.kind } else { &self.source }
    }

    /// Whether it can be stored at all.
    pub fn validate(&self) -> Result<(), StoreError> {
        let refuse = |refusal| Err(StoreError::from(Trouble::Refused(refusal)));
        fits(&self.payload)?;
        let bytes = self.overrides.as_ref().map_or(0, String::len);
        if bytes > MAX_OVERRIDES_BYTES {
            let (what, most) = ("overrides", MAX_OVERRIDES_BYTES);
            return refuse(Refusal::TooLarge { what, bytes, most });
        }
        if !PRIORITIES.contains(&self.priority) {
            return refuse(Refusal::BadPriority(self.priority));
        }
        for (what, name) in [
            ("queue", Some(self.queue())),
            ("kind", Some(&*self.kind)),
            ("source", Some(self.source())),
            ("unique key", self.unique_key.as_deref()),
            ("caller id", self.caller_id.as_deref()),
            ("policy", self.policy.as_deref()),
            ("idempotency key", self.idempotency_key.as_deref()),
            ("target", self.target.as_deref()),
        ] {
            if let Some(name) = name.filter(|name| !is_name(name)) {
                return refuse(Refusal::BadName { what, name: name.chars().take(80).collect() });
            }
        }
        Ok(())
    }
}

/// Whether a text may name something: it is printed, compared and interned.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// What enqueuing answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The job.
    pub id: JobId,
    /// Whether it was there already, under the same unique key; then nothing was added.
    pub existing: bool,
}

/// A job as it was enqueued.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// What the handler gets.
    pub payload: Vec<u8>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// Its priority.
    pub priority: i32,
    /// The source that its events name.
    pub source: String,
    /// The name of its policy.
    pub policy: Option<String>,
    /// What it overrides in that policy, as JSON.
    pub overrides: Option<String>,
    /// The caller's own id for it.
    pub caller_id: Option<String>,
    /// The key given for its effects.
    pub idempotency_key: Option<String>,
    /// Its unique key.
    pub unique_key: Option<String>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// When it must be over.
    pub deadline_at: Option<Timestamp>,
    /// Where it came from.
    pub origin: Origin,
    /// Whether its work is a closure of the process that enqueued it.
    pub inline: bool,
    /// What it goes to.
    pub target: Option<String>,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// It waits for a worker, or for its time.
    Ready {
        /// When it is due.
        run_at: Timestamp,
        /// The worker it is reserved for.
        held_for: Option<WorkerId>,
    },
    /// A worker has it.
    Leased {
        /// Who.
        worker: WorkerId,
        /// Until when, unless it is extended.
        expires_at: Timestamp,
        /// When its execution began, if it has.
        begun_at: Option<Timestamp>,
        /// Whether somebody wants it cancelled.
        cancel_requested: bool,
        /// Which of the job's leases it is: each has its own.
        fence: i64,
    },
    /// It was set aside.
    Dead(Box<DeadLetter>),
    /// It is over, and only its events are left.
    Ended,
}

/// Everything about one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// As it was enqueued; gone when it is over.
    pub job: Option<Job>,
    /// Where it stands.
    pub state: JobState,
    /// Attempts so far.
    pub attempts: u32,
    /// Retries among them that count against `max_retries`.
    pub retries: u32,
    /// Crashes among them.
    pub crashes: u32,
    /// Its latest event.
    pub event: EventSeq,
}

/// What came of asking that a waiting job run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunNow {
    /// It is due now.
    Due,
    /// It is running already.
    Running,
    /// It is a dead letter: redrive it.
    Dead,
    /// It is over.
    Ended,
    /// There is no such job.
    Unknown,
}

/// The life of jobs outside a lease.
pub trait Jobs: Send + Sync {
    /// Adds jobs, each with its event. Either all of them are added or none.
    fn enqueue(&self, now: Timestamp, jobs: Vec<NewJob>) -> Answer<'_, Vec<Enqueued>>;

    /// Everything about a job; nothing when there is no such job.
    fn job(&self, id: JobId) -> Answer<'_, Option<JobRecord>>;

    /// The living jobs that are wanted, the newest first, without their payloads. A call looks at no more than
    /// [`JOBS_LOOKED_AT`](crate::JOBS_LOOKED_AT) jobs (those of a caller's id, those that are leased or those that are dead, where that is
    /// asked for; otherwise any), and says where to go on.
    fn list_jobs(&self, now: Timestamp, query: JobQuery) -> Answer<'_, JobPage>;

    /// Makes a waiting job due at once, with a `manual_retry` event.
    fn run_now(&self, now: Timestamp, id: JobId) -> Answer<'_, RunNow>;

    /// Ends a waiting job without a letter, or asks the worker that has it to stop. Answers whether it is over.
    fn cancel(&self, now: Timestamp, id: JobId, why: String) -> Answer<'_, Option<bool>>;

    /// Whether any job of these queues (empty: all) and kinds (empty: all) waits, is scheduled or is leased. What waits in a
    /// paused queue is nobody's to finish, and does not count.
    fn unfinished(&self, queues: Vec<String>, kinds: Vec<String>) -> Answer<'_, bool>;
}

/// Whether these jobs can be enqueued by one call.
pub(crate) fn validate(jobs: &[NewJob]) -> Result<(), StoreError> {
    few_enough(jobs.len())?;
    jobs.iter().try_for_each(NewJob::validate)
}

/// Whether a payload can be stored at all.
pub(crate) fn fits(payload: &[u8]) -> Result<(), StoreError> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        let refusal = Refusal::PayloadTooLarge { bytes: payload.len(), most: MAX_PAYLOAD_BYTES };
        return Err(Trouble::Refused(refusal).into());
    }
    Ok(())
}

/// One call is one transaction, in which nobody else gets a turn: it must not be without bounds.
pub(crate) fn few_enough(count: usize) -> Result<(), StoreError> {
    if count > MAX_BATCH {
        return Err(Trouble::Refused(Refusal::TooMany { count, most: MAX_BATCH }).into());
    }
    Ok(())
}
