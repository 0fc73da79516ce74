//! Tasks of dependent subtasks (R-T1): a plan becomes jobs, in the order that their dependencies allow.
//!
//! Nothing here retries: each subtask is a job, and its policy decides. `begin` makes jobs out of subtasks, `drive` moves a
//! task on turn by turn, `recover` is what happens when a policy has given up on a part of it. Whoever moves a task on may
//! die at any time: the task row has a version, and a step counts only for who knows it.

mod begin;
mod drive;
mod progress;
mod recover;
mod standing;
mod story;

use std::path::PathBuf;

use redrive_policy::one_line;
use redrive_policy::plan::{Plan, RecoveryStrategy};
use redrive_store::{
    JobId, JobState, MAX_NAME_BYTES, NewTask, Origin, SubtaskState, Task, TaskId, TaskState, TaskStep,
};
use serde::{Deserialize, Serialize};

use super::overrides::JobOverrides;
use super::{Engine, EngineError};
use crate::bounded::both_ends;
use crate::packed::PackedPath;
pub use drive::{Driver, TaskTurn};
use progress::Progress;
pub use standing::{Standing, SubtaskLine};
pub use story::TaskStory;

/// The queue of a task's jobs, unless the plan names another: whoever runs a task takes from it.
pub const TASK_QUEUE: &str = "tasks";

/// A task to be started.
#[derive(Debug, Clone)]
pub struct TaskRequest {
    /// What is to be done.
    pub plan: Plan,
    /// Where the plan was read from, so that a person can name the task by it.
    pub place: Option<String>,
    /// The directory that the plan's paths are meant from.
    pub base: PathBuf,
    /// The umask of its commands; the worker's when nothing is said.
    pub umask: Option<u32>,
    /// Where it came from: its jobs may do no more than that allows.
    pub origin: Origin,
}

/// A plan as the store keeps it: with what it takes to run it from anywhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) plan: Plan,
    pub(super) base: PackedPath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) umask: Option<u32>,
    /// Whether it came in through the API, which allows its jobs less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) from_api: bool,
}

impl Stored {
    pub(super) fn read(task: &Task) -> Result<Stored, EngineError> {
        Stored::deserialize(&task.plan).map_err(EngineError::Payload)
    }
}

/// Something that happened while a task was moved on, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskNews {
    /// Somebody else moves it on; or did, a moment ago.
    Elsewhere,
    /// A subtask began, for the first time or again.
    Begun {
        /// Which.
        subtask: String,
    },
    /// A subtask is over, or will not be begun.
    Over {
        /// Which.
        subtask: String,
        /// How.
        state: SubtaskState,
    },
    /// A part failed for good, and this is done about it.
    Recovering {
        /// What.
        strategy: RecoveryStrategy,
        /// About these.
        failed: Vec<String>,
        /// These are undone, in this order.
        undone: Vec<String>,
        /// Why, in English and in Japanese.
        why: [String; 2],
    },
    /// Files of a subtask were put back.
    Restored {
        /// Whose.
        subtask: String,
        /// Files that are as they were.
        restored: usize,
        /// Files that were moved aside.
        aside: usize,
    },
    /// Files of a subtask could not be put back.
    NotRestored {
        /// Whose.
        subtask: String,
        /// Why.
        why: String,
    },
}

/// What people call a subtask: its own name, or its place in its task.
///
/// ```
/// use redrive::engine::subtask_id;
/// use redrive::engine::store::TaskId;
///
/// let plan: redrive_policy::plan::Plan = serde_json::from_value(serde_json::json!({
///     "name": "demo", "parallel": 1,
///     "subtasks": [{"id": "write", "work": {"handler": {"kind": "w", "payload": null}}},
///                  {"work": {"handler": {"kind": "w", "payload": null}}}],
/// })).unwrap();
/// assert_eq!(subtask_id(TaskId(7), &plan, 0), "write");
/// assert_eq!(subtask_id(TaskId(7), &plan, 1), "task-7-sub-2");
/// ```
pub fn subtask_id(task: TaskId, plan: &Plan, number: u32) -> String {
    let named = plan.subtasks.get(number as usize).and_then(|subtask| subtask.id.clone());
    named.unwrap_or_else(|| format!("{task}-sub-{}", u64::from(number) + 1))
}

/// Whether every subtask of a plan can be a job, before anything is stored: the number of the first that cannot, and why.
pub fn check_plan(plan: &Plan) -> Result<(), (u32, Box<EngineError>)> {
    let base = PackedPath(PathBuf::from("/"));
    let stored = Stored { plan: plan.clone(), base, umask: None, from_api: false };
    begin::fits(&stored)
}

impl Engine {
    /// Starts a task. Nothing is begun until somebody moves it on: a worker, or a [`Driver`].
    pub async fn start_task(&self, request: TaskRequest) -> Result<TaskId, EngineError> {
        let TaskRequest { plan, place, base, umask, origin } = request;
        let policies = self.policies();
        for subtask in &plan.subtasks {
            policies.named(subtask.policy.as_deref())?;
            if let Some(overrides) = &subtask.overrides {
                JobOverrides::parse(&overrides.to_string())?;
            }
        }
        let subtasks = u32::try_from(plan.subtasks.len()).unwrap_or(u32::MAX);
        // People read it on one line; the plan keeps it as it was written.
        let name = both_ends(&one_line(&plan.name), MAX_NAME_BYTES).into_owned();
        let stored = Stored { plan, base: PackedPath(base), umask, from_api: origin == Origin::Api };
        // Refused now rather than in the middle.
        begin::fits(&stored).map_err(|(_, error)| *error)?;
        let plan = serde_json::to_value(&stored).map_err(EngineError::Payload)?;
        let task = NewTask { name, place, plan, subtasks, progress: Progress::default().to_json() };
        let id = self.store().start_task(self.now(), task).await?;
        self.task_wanted(id);
        Ok(id)
    }

    /// The plan of a task.
    pub fn plan_of(&self, task: &Task) -> Result<Plan, EngineError> {
        Ok(Stored::read(task)?.plan)
    }

    /// Whoever moves a task on, in the name of this holder. Jobs that it begins are held for this worker, if there is one.
    pub fn task_driver(&self, id: TaskId, holder: i64, held_for: Option<redrive_store::WorkerId>) -> Driver {
        Driver::new(self.clone(), id, holder, held_for)
    }

    /// Asks that a task end: what runs is cancelled, nothing more is begun. It is over once somebody has moved it on.
    /// Answers whether it was under way.
    pub async fn cancel_task(&self, id: TaskId, why: &str) -> Result<bool, EngineError> {
        loop {
            let task = self.store().task(id).await?.ok_or(EngineError::UnknownTask(id))?;
            if task.state != TaskState::Running {
                return Ok(false);
            }
            let progress =
                Progress { cancelled: Some(super::settle::bounded_why(why)), ..Progress::read(&task)? };
            let step = TaskStep {
                task: id,
                version: task.version,
                begin: Vec::new(),
                mark: Vec::new(),
                progress: Some(progress.to_json()),
                end: None,
                events: Vec::new(),
            };
            if self.store().advance_task(self.now(), step).await?.is_some() {
                self.task_wanted(id);
                return Ok(true);
            }
        }
    }

    /// Goes on with a task that is over and did not succeed: what failed is done again, with a fresh budget, and what was
    /// skipped for it gets its turn. Answers whether there was anything to go on with.
    pub async fn resume_task(&self, id: TaskId) -> Result<bool, EngineError> {
        let task = self.store().task(id).await?.ok_or(EngineError::UnknownTask(id))?;
        if !matches!(task.state, TaskState::Partial | TaskState::Escalated | TaskState::Cancelled) {
            return Ok(task.state == TaskState::Running);
        }
        let progress = Progress::read(&task)?.resumed();
        let mut mark = Vec::new();
        for row in self.store().subtasks(id).await? {
            let to = match row.state {
                SubtaskState::Skipped | SubtaskState::Cancelled => SubtaskState::Waiting,
                // Somebody may have put its letter back by hand, or away: then its job says where it stands.
                SubtaskState::Failed if self.is_letter_no_more(row.job).await? => SubtaskState::Started,
                SubtaskState::Waiting
                | SubtaskState::Started
                | SubtaskState::Succeeded
                | SubtaskState::Failed => continue,
            };
            mark.push((row.number, to));
        }
        let reopened =
            self.store().reopen_task(self.now(), id, task.version, progress.to_json(), mark).await?;
        self.task_wanted(id);
        Ok(reopened.is_some())
    }

    /// Whether a job that was a letter is known, and none any more.
    async fn is_letter_no_more(&self, job: Option<JobId>) -> Result<bool, EngineError> {
        let Some(job) = job else { return Ok(false) };
        let record = self.store().job(job).await?;
        Ok(record.is_some_and(|record| !matches!(record.state, JobState::Dead(_))))
    }
}
