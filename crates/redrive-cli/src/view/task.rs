//! A task as people see it: how far it is, what depends on what, what runs, waits and failed, and why; and the list of
//! tasks (R-T1).
//!
//! A few subtasks are drawn as the graph that they are. Of many, those are shown that ask for a look, and the rest is
//! counted, so that ten thousand stay one page.

mod list;
mod subtask;

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::engine::TaskStory;
use redrive_policy::plan::{Plan, Work};
use redrive_policy::{EscalateSettings, EscalationReport, Lang};
use redrive_store::{TaskState, Timestamp};
use serde::Serialize;

use super::moment::{rough, when};
use super::{Block, Column, Graph, GraphNode, Listing, Page, Progress, Reader, Share, Span, Tone};
use crate::escape::beginning;
use crate::text::{say, text};
pub(crate) use list::{TaskChangedView, TasksView};
pub(crate) use redrive::engine::Standing;
use subtask::InWords;
pub(crate) use subtask::SubtaskItem;

/// More subtasks than this are not drawn.
const MOST_DRAWN: usize = 60;
/// How many of a large task are shown one by one.
const MOST_LISTED: usize = 30;
/// What is shown of a command.
const COMMAND_CHARS: usize = 80;

/// JSON: `redrive/task.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TaskView {
    schema: &'static str,
    /// Empty for a plan that is not started.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: TaskState,
    created_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    place: Option<String>,
    why: Option<String>,
    /// How many subtasks stand where.
    counts: BTreeMap<&'static str, usize>,
    pub(crate) subtasks: Vec<SubtaskItem>,
    /// What a person is told, if one is.
    pub(crate) message: Option<String>,
    #[serde(skip)]
    pub(crate) took: Option<Duration>,
    #[serde(skip)]
    report: Option<EscalationReport>,
    #[serde(skip)]
    parallel: u32,
    #[serde(skip)]
    now: Timestamp,
}

impl TaskView {
    pub(crate) fn new(story: &TaskStory, now: Timestamp) -> TaskView {
        let task = &story.task;
        let subtasks = subtask::of_story(story, now);
        let report: Option<EscalationReport> =
            task.report.clone().and_then(|report| serde_json::from_value(report).ok());
        TaskView {
            id: task.id.to_string(),
            name: task.name.clone(),
            state: task.state,
            created_at: Some(task.created_at),
            ended_at: task.ended_at,
            place: task.place.clone(),
            why: task.why.clone(),
            took: task.ended_at.map(|at| at.since(task.created_at)),
            message: report.as_ref().map(|report| report.user_message.clone()),
            report,
            now,
            ..TaskView::drawn(&story.plan, subtasks)
        }
    }

    /// A plan that is not started: what would be done, in which order.
    pub(crate) fn of_plan(plan: &Plan) -> TaskView {
        TaskView { name: plan.name.clone(), ..TaskView::drawn(plan, subtask::of_plan(plan)) }
    }

    fn drawn(plan: &Plan, subtasks: Vec<SubtaskItem>) -> TaskView {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for subtask in &subtasks {
            *counts.entry(subtask.state.name()).or_default() += 1;
        }
        TaskView {
            schema: "redrive/task.v1",
            id: String::new(),
            name: String::new(),
            state: TaskState::Running,
            created_at: None,
            ended_at: None,
            place: None,
            why: None,
            counts,
            subtasks,
            message: None,
            took: None,
            report: None,
            parallel: plan.parallel,
            now: Timestamp::from_millis(0),
        }
    }

    /// How many have succeeded.
    pub(crate) fn done(&self) -> usize {
        self.count(Standing::Succeeded)
    }

    pub(crate) fn total(&self) -> usize {
        self.subtasks.len()
    }

    fn count(&self, state: Standing) -> usize {
        self.counts.get(state.name()).copied().unwrap_or(0)
    }

    fn is_plan(&self) -> bool {
        self.id.is_empty()
    }

    fn heading(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut line = vec![];
        if !self.is_plan() {
            line.push(Span::new(format!("{} ", self.id), Tone::Heading));
        }
        line.push(Span::new(self.name.clone(), Tone::Strong));
        if self.is_plan() {
            let values: [(&str, &dyn std::fmt::Display); 2] =
                [("n", &self.total()), ("parallel", &self.parallel)];
            line.push(Span::new(text(lang, "task-view.planned", &values), Tone::Dim));
            return vec![Block::Text(line), Block::Gap];
        }
        line.push(Span::plain(": "));
        line.push(list::state_span(self.state, lang));
        if let Some(created_at) = self.created_at {
            let when = when(created_at, self.now, reader);
            let since = match self.took {
                Some(took) => text(lang, "task-view.took", &[("when", &when), ("took", &rough(took))]),
                None => text(lang, "task-view.since", &[("when", &when)]),
            };
            line.push(Span::new(since, Tone::Dim));
        }
        vec![Block::Text(line), Block::Gap, Block::Progress(self.progress(lang)), Block::Gap]
    }

    fn progress(&self, lang: Lang) -> Progress {
        let told = Standing::ALL.into_iter().filter(|state| *state != Standing::Succeeded);
        let parts = told.filter(|state| self.count(*state) > 0);
        let parts: Vec<String> = parts
            .map(|state| {
                text(lang, "task-view.count", &[("n", &self.count(state)), ("word", &state.word(lang))])
            })
            .collect();
        Progress {
            label: say(lang, "task-view.steps"),
            done: u64::try_from(self.done()).unwrap_or(u64::MAX),
            total: u64::try_from(self.total()).unwrap_or(u64::MAX),
            tone: list::tone(self.state),
            // Of many, they are counted below.
            note: if self.total() > MOST_DRAWN { String::new() } else { parts.join(" · ") },
        }
    }

    fn graph(&self, reader: Reader) -> Block {
        let word = |key: &str| say(reader.lang, &format!("task-view.{key}"));
        let node = |subtask: &SubtaskItem| {
            let state = if self.is_plan() { Span::plain("") } else { subtask.state.span(reader.lang) };
            GraphNode {
                name: subtask.id.clone(),
                mark: subtask.state.mark(),
                state,
                note: subtask.note(self.now, reader),
                after: subtask.after.clone(),
            }
        };
        Block::Graph(Graph {
            labels: [word("step"), word("stands"), word("after"), word("note")],
            nodes: self.subtasks.iter().map(node).collect(),
        })
    }

    /// Of many: how many stand where, and those that ask for a look.
    fn summary(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let total = u64::try_from(self.total()).unwrap_or(u64::MAX);
        let shares = Standing::ALL.into_iter().filter(|state| self.count(*state) > 0);
        let shares = shares.map(|state| Share {
            label: state.word(lang),
            value: u64::try_from(self.count(state)).unwrap_or(u64::MAX),
            of: total,
            tone: state.tone(),
        });
        let mut blocks = vec![Block::Shares(shares.collect())];
        let asks = |subtask: &&SubtaskItem| subtask.state.asks_for_a_look();
        let mut asking: Vec<&SubtaskItem> = self.subtasks.iter().filter(asks).collect();
        // What failed first: it is what the rest waits for.
        asking.sort_by_key(|subtask| subtask.state);
        let left = asking.len().saturating_sub(MOST_LISTED);
        asking.truncate(MOST_LISTED);
        if asking.is_empty() {
            return blocks;
        }
        let word = |key: &str| say(lang, &format!("task-view.{key}"));
        let row = |subtask: &&SubtaskItem| {
            let job = subtask.job_id.clone().unwrap_or_else(|| "-".to_owned());
            vec![
                Span::new(subtask.id.clone(), Tone::Strong),
                subtask.state.span(lang),
                Span::new(job, Tone::Dim),
                Span::plain(subtask.note(self.now, reader)),
            ]
        };
        let columns = vec![
            Column::left(word("step")).cut_to(16),
            Column::left(word("stands")),
            Column::left(word("job")).rank(1),
            Column::left(word("note")).cut_to(20),
        ];
        blocks.push(Block::Gap);
        blocks.push(Block::Listing(Listing { columns, rows: asking.iter().map(row).collect() }));
        if left > 0 {
            let more = text(lang, "task-view.more", &[("n", &left), ("id", &self.id)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        blocks
    }

    fn told(&self, lang: Lang) -> Vec<Block> {
        let said = match &self.report {
            Some(report) => {
                report.clone().in_lang(&self.name, &EscalateSettings::default(), lang).user_message
            }
            None => return Vec::new(),
        };
        let line = |line: &str| {
            if line.is_empty() { Block::Gap } else { Block::Text(vec![Span::plain(line)]) }
        };
        std::iter::once(Block::Gap).chain(said.lines().map(line)).collect()
    }
}

impl Page for TaskView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = self.heading(reader);
        if self.total() <= MOST_DRAWN {
            blocks.push(self.graph(reader));
        } else {
            blocks.extend(self.summary(reader));
        }
        if self.is_plan() {
            return blocks;
        }
        blocks.extend(self.told(lang));
        let key = match self.state {
            TaskState::Running => "task-view.next-running",
            TaskState::Succeeded => "task-view.next-succeeded",
            TaskState::Partial | TaskState::Escalated => "task-view.next-told",
            TaskState::Cancelled => "task-view.next-cancelled",
        };
        let next = text(lang, key, &[("id", &self.id)]);
        blocks.extend([Block::Gap, Block::Text(vec![Span::new(next, Tone::Strong)])]);
        blocks
    }
}

/// What a subtask of a plan does, in a few words.
fn in_words(work: &Work) -> String {
    let words = match work {
        Work::Command(command) => match command.argv.as_slice() {
            // What was written as one text.
            [shell, flag, text] if shell == "/bin/sh" && flag == "-c" => text.clone(),
            argv => argv.join(" "),
        },
        Work::Http(call) => {
            let field = |name: &str| call.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
            format!("{} {}", field("method"), field("url")).trim().to_owned()
        }
        Work::Handler { kind, .. } => kind.clone(),
    };
    beginning(&redrive::redact(&words), COMMAND_CHARS)
}
