//! Tasks: jobs that depend on one another (R-T1), as durable as a single job is.
//!
//! The engine reads a plan, decides which subtasks are ready and what is done about those that failed; the store writes
//! each step together with the jobs that it starts, and only for whoever knows the task's version. So no subtask is
//! started twice, whoever moves the task on and whenever one of them dies.

// Without a back end nobody moves anything.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) mod step;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Answer;
use crate::event::NewEvent;
use crate::id::{BadId, EventSeq, JobId};
use crate::job::NewJob;
use crate::time::Timestamp;

/// The most that a plan may hold, in bytes of JSON.
pub const MAX_PLAN_BYTES: usize = 16 << 20;
/// The most bytes in the place of a plan: it is looked for, so a database must be able to index it.
pub const MAX_PLACE_BYTES: usize = 2_000;

/// A task. Written `task-3`.
///
/// ```
/// use redrive_store::TaskId;
/// assert_eq!("task-3".parse(), Ok(TaskId(3)));
/// assert_eq!(TaskId(3).to_string(), "task-3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub i64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task-{}", self.0)
    }
}

impl FromStr for TaskId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<TaskId, BadId> {
        let digits = text.strip_prefix("task-").ok_or(BadId)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadId);
        }
        digits.parse().map(TaskId).map_err(|_| BadId)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It goes on.
    Running,
    /// Everything succeeded.
    Succeeded,
    /// What succeeded is kept; the rest failed, or was never begun.
    Partial,
    /// It cannot go on without a person.
    Escalated,
    /// Somebody ended it.
    Cancelled,
}

impl TaskState {
    /// Every state.
    pub const ALL: [TaskState; 5] = [
        TaskState::Running,
        TaskState::Succeeded,
        TaskState::Partial,
        TaskState::Escalated,
        TaskState::Cancelled,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Succeeded => "succeeded",
            TaskState::Partial => "partial",
            TaskState::Escalated => "escalated",
            TaskState::Cancelled => "cancelled",
        }
    }

    /// Its number in the store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            TaskState::Running => 0,
            TaskState::Succeeded => 1,
            TaskState::Partial => 2,
            TaskState::Escalated => 3,
            TaskState::Cancelled => 4,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> TaskState {
        TaskState::ALL.into_iter().find(|state| state.number() == number).unwrap_or(TaskState::Escalated)
    }
}

/// Where a subtask stands. One without a row has not been begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubtaskState {
    /// It waits: for what it depends on, or for its turn. After an undoing it is here again.
    Waiting,
    /// Its job is there, and not over.
    Started,
    /// It is done.
    Succeeded,
    /// Its job became a letter.
    Failed,
    /// It will not be begun: something that it depends on failed.
    Skipped,
    /// Its job was ended by somebody.
    Cancelled,
}

impl SubtaskState {
    /// Every state.
    pub const ALL: [SubtaskState; 6] = [
        SubtaskState::Waiting,
        SubtaskState::Started,
        SubtaskState::Succeeded,
        SubtaskState::Failed,
        SubtaskState::Skipped,
        SubtaskState::Cancelled,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SubtaskState::Waiting => "waiting",
            SubtaskState::Started => "started",
            SubtaskState::Succeeded => "succeeded",
            SubtaskState::Failed => "failed",
            SubtaskState::Skipped => "skipped",
            SubtaskState::Cancelled => "cancelled",
        }
    }

    /// Its number in the store.
    pub(crate) const fn number(self) -> i64 {
        match self {
            SubtaskState::Waiting => 0,
            SubtaskState::Started => 1,
            SubtaskState::Succeeded => 2,
            SubtaskState::Failed => 3,
            SubtaskState::Skipped => 4,
            SubtaskState::Cancelled => 5,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> SubtaskState {
        SubtaskState::ALL.into_iter().find(|state| state.number() == number).unwrap_or(SubtaskState::Failed)
    }
}

/// A task to be started.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// What people call it.
    pub name: String,
    /// Where its plan was read from; the newest task of a place is what a person means by it.
    pub place: Option<String>,
    /// The plan, as JSON. Inputs are kept verbatim, so it is sealed where there is a key.
    pub plan: Value,
    /// How many subtasks the plan has.
    pub subtasks: u32,
    /// How far it is, which is nowhere.
    pub progress: Value,
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// When it was started.
    pub created_at: Timestamp,
    /// What people call it.
    pub name: String,
    /// Where its plan was read from.
    pub place: Option<String>,
    /// The plan, as JSON.
    pub plan: Value,
    /// How many subtasks the plan has.
    pub subtasks: u32,
    /// How many of them stand where, in the order of [`SubtaskState::ALL`]. Those without a row wait.
    pub counts: [u32; 6],
    /// What the engine remembers of it.
    pub progress: Value,
    /// Where it stands.
    pub state: TaskState,
    /// Why it is over, for people.
    pub why: Option<String>,
    /// The escalation report of 002 §4.2, as JSON, when a person was told.
    pub report: Option<Value>,
    /// Grows with each change.
    pub version: i64,
    /// Until when somebody moves it on.
    pub held_until: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// Its latest event.
    pub event: EventSeq,
}

/// A task that a person was told of: it is partial, or it cannot go on. Without what may be long and nobody asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldTask {
    /// Its number.
    pub id: TaskId,
    /// What people call it.
    pub name: String,
    /// [`TaskState::Partial`] or [`TaskState::Escalated`].
    pub state: TaskState,
    /// When it was over.
    pub ended_at: Timestamp,
    /// Why it is over, for people.
    pub why: Option<String>,
    /// The escalation report of 002 §4.2, as JSON.
    pub report: Option<Value>,
}

/// A subtask that was begun once, or is marked otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Subtask {
    /// Its number in the plan, from 0.
    pub number: u32,
    /// Where it stands.
    pub state: SubtaskState,
    /// Its job; a subtask that was undone gets another one.
    pub job: Option<JobId>,
    /// How often it was begun.
    pub rounds: u32,
    /// When it was begun last.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
}

/// How a subtask's job stands, looked up where jobs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStanding {
    /// It is due, or waits for its time; so many attempts have failed since it was enqueued or redriven.
    Ready {
        /// Attempts so far.
        attempts: u32,
        /// When it is due.
        run_at: Timestamp,
    },
    /// Somebody runs it.
    Leased {
        /// Which attempt this is.
        attempt: u32,
    },
    /// It is a letter.
    Dead,
    /// It is done.
    Succeeded,
    /// Somebody ended it: cancelled, or its letter was discarded.
    Cancelled,
    /// Nothing is known of it any more.
    Gone,
}

/// A subtask that is begun and not over, and how its job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Its number in the plan.
    pub number: u32,
    /// Its job.
    pub job: JobId,
    /// How that stands.
    pub standing: JobStanding,
}

/// One step of a task: what is begun, what is marked, and how far the task is then.
#[derive(Debug, Clone)]
pub struct TaskStep {
    /// The task.
    pub task: TaskId,
    /// The version that this step was thought out for.
    pub version: i64,
    /// Subtasks to begin: their jobs are enqueued, and they are [`SubtaskState::Started`]. At most [`crate::MAX_BATCH`].
    pub begin: Vec<(u32, NewJob)>,
    /// Subtasks that stand elsewhere now, before anything is begun. A `Started` one keeps its job, so that a letter that was put
    /// back counts again.
    pub mark: Vec<(u32, SubtaskState)>,
    /// How far the task is; absent: as before.
    pub progress: Option<Value>,
    /// Where it stands then, and why; absent: it goes on.
    pub end: Option<TaskEnd>,
    /// What there is to tell, in this order, after the events of the jobs that begin. Each that names no other parent is led to
    /// by the task's last event, and is the last one then.
    pub events: Vec<NewEvent>,
}

/// The end of a task.
#[derive(Debug, Clone)]
pub struct TaskEnd {
    /// How. Never [`TaskState::Running`].
    pub state: TaskState,
    /// Why, for people.
    pub why: String,
    /// The escalation report, when a person is told.
    pub report: Option<Value>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStepped {
    /// The task's version now.
    pub version: i64,
    /// The jobs that were begun, in the order of the step.
    pub jobs: Vec<JobId>,
}

/// That somebody has seen an escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// The task or job, as people write its id.
    pub subject: String,
    /// When. An escalation after that is a new one.
    pub at: Timestamp,
    /// What the person said.
    pub note: Option<String>,
}

/// A task that goes on, as it looks to who might move it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTask {
    /// Which.
    pub id: TaskId,
    /// Its version.
    pub version: i64,
    /// Whether somebody else has it.
    pub held: bool,
    /// Whether something of it is begun and none of that is over: there is nothing to do until then.
    pub waits: bool,
}

/// Tasks of dependent subtasks.
pub trait Tasks: Send + Sync {
    /// A new task, with a `task_started` event whose caller's id is the task's. Nothing is begun by this.
    fn start_task(&self, now: Timestamp, task: NewTask) -> Answer<'_, TaskId>;

    /// Tasks, the newest first; only those that go on, or only those of a place, if asked.
    fn tasks(&self, open_only: bool, place: Option<&str>, limit: u32) -> Answer<'_, Vec<Task>>;

    /// A page of the tasks that go on, by id, behind this one: this is asked often, and costs what the page holds.
    fn open_tasks(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<TaskId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenTask>>;

    /// One task.
    fn task(&self, id: TaskId) -> Answer<'_, Option<Task>>;

    /// Every subtask with a row, by number.
    fn subtasks(&self, id: TaskId) -> Answer<'_, Vec<Subtask>>;

    /// The subtasks that are [`SubtaskState::Started`], each with how its job stands, by number. It costs what is begun, not
    /// what the plan holds.
    fn begun(&self, id: TaskId) -> Answer<'_, Vec<Begun>>;

    /// The task and the number of the subtask that a job belongs to.
    fn subtask_of(&self, job: JobId) -> Answer<'_, Option<(TaskId, u32)>>;

    /// Takes the task to move it on, for so long; nothing when it is over or somebody else (another `holder`) has it. Whoever
    /// has it may take it again, which lengthens the time.
    fn hold_task(
        &self,
        now: Timestamp,
        id: TaskId,
        holder: i64,
        hold_for: Duration,
    ) -> Answer<'_, Option<Task>>;

    /// One step, in one transaction: enqueues jobs, marks subtasks, tells events, and writes how far the task is. Nothing
    /// happens, and nothing is answered, when the version is another one or the task is over. Events of the step carry the
    /// task's id as their caller's id, and so do jobs that name no other. When the task is over with this step, a `task_ended` event
    /// tells so (status success, or `dead_letter` when a person is told: the failure itself is counted where its letter is; its
    /// data names state and why).
    fn advance_task(&self, now: Timestamp, step: TaskStep) -> Answer<'_, Option<TaskStepped>>;

    /// Goes on with a task that is over and did not succeed: it is running again, with this progress and these subtasks
    /// marked, and a `task_resumed` event. Nothing is answered when it runs, has succeeded, or has another version.
    fn reopen_task(
        &self,
        now: Timestamp,
        id: TaskId,
        version: i64,
        progress: Value,
        mark: Vec<(u32, SubtaskState)>,
    ) -> Answer<'_, Option<i64>>;

    /// Writes that somebody has seen the escalation of a task or a letter, with an `escalation_acknowledged` event.
    fn acknowledge(&self, now: Timestamp, subject: String, note: Option<String>) -> Answer<'_, ()>;

    /// Tasks that a person was told of, those that ended last first, at most `limit`; behind this one, if one is named.
    fn told_tasks(&self, after: Option<(Timestamp, TaskId)>, limit: u32) -> Answer<'_, Vec<ToldTask>>;

    /// What is known to be seen, of these subjects.
    fn acknowledged(&self, subjects: Vec<String>) -> Answer<'_, Vec<Acknowledged>>;
}
