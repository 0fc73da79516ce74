//! A task as somebody sees it who looks at it: where each subtask stands, how often it was tried, and what went wrong.

use std::collections::HashMap;

use redrive_policy::plan::Plan;
use redrive_store::{
    Begun, DeadLetter, Event, EventFilter, JobId, JobStanding, JobState, Subtask, SubtaskState, Task, TaskId,
};

use super::Stored;
use crate::engine::{Engine, EngineError};

/// How many ends of attempts are looked at.
const REMEMBERED: u32 = 1_000;
/// How many subtasks that failed are looked at closely.
const CLOSELY: usize = 200;

/// A task, its plan, and where each of its subtasks stands.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStory {
    /// The task.
    pub task: Task,
    /// Its plan.
    pub plan: Plan,
    /// The subtasks that were begun, or are marked otherwise, by number.
    pub subtasks: Vec<Subtask>,
    /// How the jobs of those stand that are begun and not over.
    pub begun: Vec<Begun>,
    /// How many attempts it took those that succeeded, by their jobs; of the latest ones, if there are very many.
    pub attempts: HashMap<JobId, u32>,
    /// The letters of those that failed, by number; of the first ones, if there are very many.
    pub letters: Vec<(u32, DeadLetter)>,
}

impl TaskStory {
    /// How the job of a subtask stands, if it is begun and not over.
    pub fn standing(&self, number: u32) -> Option<JobStanding> {
        let at = self.begun.binary_search_by_key(&number, |one| one.number).ok()?;
        Some(self.begun[at].standing)
    }
}

impl Engine {
    /// A task with everything that there is to see of it.
    pub async fn task_story(&self, id: TaskId) -> Result<TaskStory, EngineError> {
        let task = self.store().task(id).await?.ok_or(EngineError::UnknownTask(id))?;
        let plan = Stored::read(&task)?.plan;
        let subtasks = self.store().subtasks(id).await?;
        let begun = self.store().begun(id).await?;
        let mut letters = Vec::new();
        let failed = subtasks.iter().filter(|subtask| subtask.state == SubtaskState::Failed);
        for (number, job) in failed.filter_map(|one| Some((one.number, one.job?))).take(CLOSELY) {
            if let Some(record) = self.store().job(job).await?
                && let JobState::Dead(letter) = record.state
            {
                letters.push((number, *letter));
            }
        }
        let attempts = self.attempts_of(id).await?;
        Ok(TaskStory { task, plan, subtasks, begun, attempts, letters })
    }

    async fn attempts_of(&self, id: TaskId) -> Result<HashMap<JobId, u32>, EngineError> {
        let filter = EventFilter {
            caller_id: Some(id.to_string()),
            types: vec!["attempt_succeeded".to_owned()],
            ..EventFilter::default()
        };
        let events = self.store().events(filter, REMEMBERED).await?;
        let attempt = |event: &Event| {
            let number = event.data.get("attempt")?.as_u64()?;
            Some((event.job?, u32::try_from(number).ok()?))
        };
        Ok(events.iter().filter_map(attempt).collect())
    }
}
