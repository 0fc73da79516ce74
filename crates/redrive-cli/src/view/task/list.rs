//! The list of tasks, and what was done to one.

use std::collections::BTreeMap;

use redrive_policy::Lang;
use redrive_store::{SubtaskState, Task, TaskId, TaskState, Timestamp};
use serde::Serialize;

use super::super::moment::{rough, when};
use super::super::{Block, Column, Listing, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// The colour of a state: red wants somebody, yellow is done in part, green is over.
pub(super) const fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Running => Tone::Heading,
        TaskState::Succeeded => Tone::Good,
        TaskState::Partial => Tone::Warn,
        TaskState::Escalated => Tone::Bad,
        TaskState::Cancelled => Tone::Dim,
    }
}

/// The word for a state, in its colour.
pub(super) fn state_span(state: TaskState, lang: Lang) -> Span {
    Span::new(say(lang, &format!("task-view.state.{}", state.name())), tone(state))
}

/// One task.
#[derive(Debug, Serialize)]
struct TaskLine {
    id: String,
    name: String,
    state: TaskState,
    place: Option<String>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
    why: Option<String>,
    total: u32,
    /// How many subtasks stand where.
    counts: BTreeMap<&'static str, u32>,
}

impl TaskLine {
    fn new(task: Task) -> TaskLine {
        TaskLine {
            id: task.id.to_string(),
            name: task.name,
            state: task.state,
            place: task.place,
            created_at: task.created_at,
            ended_at: task.ended_at,
            why: task.why,
            total: task.subtasks,
            counts: SubtaskState::ALL.map(SubtaskState::name).into_iter().zip(task.counts).collect(),
        }
    }

    fn count(&self, state: SubtaskState) -> u32 {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }
}

/// The newest first. JSON: `redrive/tasks.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TasksView {
    schema: &'static str,
    items: Vec<TaskLine>,
    #[serde(skip)]
    now: Timestamp,
}

impl TasksView {
    pub(crate) fn new(tasks: Vec<Task>, now: Timestamp) -> TasksView {
        let items = tasks.into_iter().map(TaskLine::new).collect();
        TasksView { schema: "redrive/tasks.v1", items, now }
    }
}

impl Page for TasksView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("task-view.{key}"));
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(word("none"))])];
        }
        let columns = vec![
            Column::left(word("id")),
            Column::left(word("name")).cut_to(12),
            Column::left(word("stands")),
            Column::right(word("steps")),
            Column::right(word("failed")).rank(2),
            Column::right(word("started")).rank(1),
            Column::right(word("lasted")).rank(3),
        ];
        let row = |task: &TaskLine| {
            let failed = task.count(SubtaskState::Failed);
            let lasted = task.ended_at.unwrap_or(self.now).since(task.created_at);
            vec![
                Span::new(task.id.clone(), Tone::Strong),
                Span::plain(task.name.clone()),
                state_span(task.state, lang),
                Span::plain(format!("{}/{}", task.count(SubtaskState::Succeeded), task.total)),
                Span::new(failed.to_string(), if failed == 0 { Tone::Dim } else { Tone::Bad }),
                Span::new(when(task.created_at, self.now, reader), Tone::Dim),
                Span::plain(rough(lasted)),
            ]
        };
        let rows = self.items.iter().map(row).collect();
        vec![
            Block::Listing(Listing { columns, rows }),
            Block::Text(vec![Span::new(word("next-list"), Tone::Dim)]),
        ]
    }
}

/// What a task was made to be. JSON: `redrive/task_changed.v1`.
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
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = match self.state {
            TaskState::Cancelled => text(reader.lang, "task-view.cancelled", &[("id", &self.id)]),
            // What was only started is its id, for whoever goes on with it.
            _ => self.id.clone(),
        };
        vec![Block::Text(vec![Span::plain(line)])]
    }
}
