//! Tasks (to be replaced).
use std::time::Duration;

use redrive::engine::{TaskStory, subtask_id};
use redrive_policy::plan::Plan;
use redrive_store::{SubtaskState, Task, TaskId, TaskState, Timestamp};
use serde::Serialize;

use super::{Block, Page, Reader, Span};

#[derive(Debug, Serialize)]
pub(crate) struct SubtaskItem {
    id: String,
    state: SubtaskState,
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskView {
    schema: &'static str,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: TaskState,
    pub(crate) subtasks: Vec<SubtaskItem>,
    #[serde(skip)]
    pub(crate) took: Option<Duration>,
    pub(crate) message: Option<String>,
}

impl TaskView {
    pub(crate) fn new(story: &TaskStory, _now: Timestamp) -> TaskView {
        let mut subtasks: Vec<SubtaskItem> = (0..story.task.subtasks)
            .map(|n| SubtaskItem {
                id: subtask_id(story.task.id, &story.plan, n),
                state: SubtaskState::Waiting,
            })
            .collect();
        for row in &story.subtasks {
            subtasks[row.number as usize].state = row.state;
        }
        let message =
            story.task.report.as_ref().and_then(|r| r.get("user_message")?.as_str().map(str::to_owned));
        TaskView {
            schema: "redrive/task.v1",
            id: story.task.id.to_string(),
            name: story.task.name.clone(),
            state: story.task.state,
            subtasks,
            took: story.task.ended_at.map(|at| at.since(story.task.created_at)),
            message,
        }
    }

    pub(crate) fn of_plan(plan: &Plan) -> TaskView {
        TaskView {
            schema: "redrive/task.v1",
            id: String::new(),
            name: plan.name.clone(),
            state: TaskState::Running,
            subtasks: Vec::new(),
            took: None,
            message: None,
        }
    }

    pub(crate) fn done(&self) -> usize {
        self.subtasks.iter().filter(|s| s.state == SubtaskState::Succeeded).count()
    }

    pub(crate) fn total(&self) -> usize {
        self.subtasks.len()
    }
}

impl Page for TaskView {
    fn blocks(&self, _reader: Reader) -> Vec<Block> {
        let line = |s: &SubtaskItem| Block::Text(vec![Span::plain(format!("{} {}", s.id, s.state.name()))]);
        self.subtasks.iter().map(line).collect()
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TasksView {
    schema: &'static str,
    items: Vec<String>,
}

impl TasksView {
    pub(crate) fn new(tasks: Vec<Task>, _now: Timestamp) -> TasksView {
        TasksView { schema: "redrive/tasks.v1", items: tasks.into_iter().map(|t| t.id.to_string()).collect() }
    }
}

impl Page for TasksView {
    fn blocks(&self, _reader: Reader) -> Vec<Block> {
        self.items.iter().map(|i| Block::Text(vec![Span::plain(i.clone())])).collect()
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskChangedView {
    schema: &'static str,
    id: String,
    state: TaskState,
}

impl TaskChangedView {
    pub(crate) fn new(id: TaskId, state: TaskState) -> TaskChangedView {
        TaskChangedView { schema: "redrive/task_changed.v1", id: id.to_string(), state }
    }
}

impl Page for TaskChangedView {
    fn blocks(&self, _reader: Reader) -> Vec<Block> {
        vec![Block::Text(vec![Span::plain(self.id.clone())])]
    }
}
