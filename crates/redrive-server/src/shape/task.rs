//! Tasks as JSON: the list, one with its subtasks, and its trace. The command line writes the same.

use std::collections::BTreeMap;

use redrive::engine::{SubtaskLine, TaskStory, TraceEntry, TraceEvent};
use redrive_policy::{Cause, EscalationLevel, EscalationReport};
use redrive_store::{SubtaskState, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Json, Time, name};

/// A task, in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where it stands.
    #[schemars(with = "name::TaskStanding")]
    pub state: &'static str,
    /// The file that its plan was read from.
    pub place: Option<String>,
    /// When it was started.
    #[schemars(with = "Time")]
    pub created_at: Timestamp,
    /// When it was over.
    #[schemars(with = "Option<Time>")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended as it did.
    pub why: Option<String>,
    /// How many subtasks it has.
    pub total: u32,
    /// How many subtasks stand where.
    pub counts: BTreeMap<&'static str, u32>,
}

impl From<redrive_store::Task> for Task {
    fn from(task: redrive_store::Task) -> Task {
        Task {
            id: task.id.to_string(),
            name: task.name,
            state: task.state.name(),
            place: task.place,
            created_at: task.created_at,
            ended_at: task.ended_at,
            why: task.why,
            total: task.subtasks,
            counts: SubtaskState::ALL.map(SubtaskState::name).into_iter().zip(task.counts).collect(),
        }
    }
}

/// A task with its subtasks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TaskWhole {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where it stands.
    #[schemars(with = "name::TaskStanding")]
    pub state: &'static str,
    /// When it was started.
    #[schemars(with = "Time")]
    pub created_at: Timestamp,
    /// When it was over.
    #[schemars(with = "Option<Time>")]
    pub ended_at: Option<Timestamp>,
    /// The file that its plan was read from.
    pub place: Option<String>,
    /// Why it ended as it did.
    pub why: Option<String>,
    /// How many subtasks stand where.
    pub counts: BTreeMap<&'static str, usize>,
    /// The subtasks, in the order of the plan.
    pub subtasks: Vec<Subtask>,
    /// What a person is told, if one is.
    pub message: Option<String>,
}

impl TaskWhole {
    /// The task as it stands now.
    pub fn new(story: &TaskStory, now: Timestamp) -> TaskWhole {
        let task = &story.task;
        let lines = story.subtask_lines(now);
        let mut counts = BTreeMap::new();
        for line in &lines {
            *counts.entry(line.state.name()).or_default() += 1;
        }
        let report: Option<EscalationReport> =
            task.report.clone().and_then(|report| serde_json::from_value(report).ok());
        TaskWhole {
            id: task.id.to_string(),
            name: task.name.clone(),
            state: task.state.name(),
            created_at: task.created_at,
            ended_at: task.ended_at,
            place: task.place.clone(),
            why: task.why.clone(),
            counts,
            subtasks: lines.into_iter().map(Subtask::from).collect(),
            message: report.map(|report| report.user_message),
        }
    }
}

/// A subtask.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Subtask {
    /// What it is called.
    pub id: String,
    /// Where it stands.
    #[schemars(with = "name::SubtaskStanding")]
    pub state: &'static str,
    /// What it depends on.
    pub depends_on: Vec<String>,
    /// Its job, once it was begun.
    pub job_id: Option<String>,
    /// Attempts of its job since it was begun or put back, where they are known.
    pub attempts: Option<u32>,
    /// How often it was begun.
    pub rounds: u32,
    /// What it failed of.
    #[schemars(with = "Option<name::Cause>")]
    pub cause: Option<Cause>,
    /// Who has to deal with that.
    #[schemars(with = "Option<name::Level>")]
    pub level: Option<EscalationLevel>,
    /// What went wrong, in a line.
    pub error: Option<String>,
    /// What it was skipped for.
    pub because_of: Option<String>,
    /// When it was begun.
    #[schemars(with = "Option<Time>")]
    pub started_at: Option<Timestamp>,
    /// When it was over.
    #[schemars(with = "Option<Time>")]
    pub ended_at: Option<Timestamp>,
    /// How long it has taken so far.
    pub elapsed_ms: Option<u64>,
    /// When it is tried again.
    #[schemars(with = "Option<Time>")]
    pub next_retry_at: Option<Timestamp>,
}

impl From<SubtaskLine> for Subtask {
    fn from(line: SubtaskLine) -> Subtask {
        Subtask {
            id: line.id,
            state: line.state.name(),
            depends_on: line.depends_on,
            job_id: line.job_id,
            attempts: line.attempts,
            rounds: line.rounds,
            cause: line.cause,
            level: line.level,
            error: line.error,
            because_of: line.because_of,
            started_at: line.started_at,
            ended_at: line.ended_at,
            elapsed_ms: line.elapsed_ms,
            next_retry_at: line.next_retry_at,
        }
    }
}

/// The retries, escalations and recoveries of a task or a job, in the words of 002 §6.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "TaskTrace")]
pub struct Trace {
    /// The task or the job.
    pub task_id: String,
    /// What a report calls the trace.
    pub trace_file: String,
    /// What happened, the oldest first.
    pub entries: Vec<TraceLine>,
    /// All of it in short.
    pub summary: TraceSummary,
}

/// A trace in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TraceSummary {
    /// The most attempts of any part.
    pub total_iterations: u32,
    /// What was decided last.
    #[schemars(with = "Option<name::Verdict>")]
    pub final_status: Option<&'static str>,
}

/// One line of a trace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TraceLine {
    /// When.
    #[schemars(with = "Time")]
    pub timestamp: Timestamp,
    /// What.
    pub event: &'static str,
    /// What the task belongs to: the store, by its own number.
    pub session_id: String,
    /// The task, or the job that belongs to none.
    pub task_id: String,
    /// The part of the task that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask_id: Option<String>,
    /// The attempt that it is about, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration_index: Option<u32>,
    /// What there is to say about it.
    #[schemars(with = "Json")]
    pub data: Value,
}

impl From<TraceEntry> for TraceLine {
    fn from(entry: TraceEntry) -> TraceLine {
        TraceLine {
            timestamp: entry.timestamp,
            event: entry.event.name(),
            session_id: entry.session_id,
            task_id: entry.task_id,
            subtask_id: entry.subtask_id,
            iteration_index: entry.iteration_index,
            data: entry.data,
        }
    }
}

impl Trace {
    /// The trace of this task or job.
    pub fn new(task_id: String, entries: Vec<TraceEntry>) -> Trace {
        let total_iterations = entries.iter().filter_map(|entry| entry.iteration_index).max().unwrap_or(0);
        let final_status = entries.iter().rev().find_map(|entry| match entry.event {
            TraceEvent::RetrySuccess => Some("PASS"),
            TraceEvent::EscalateDecision | TraceEvent::EscalateExecuted => Some("ESCALATE"),
            TraceEvent::RetryDecision => Some("RETRY"),
            _ => None,
        });
        Trace {
            trace_file: format!("redrive:trace/{task_id}"),
            task_id,
            entries: entries.into_iter().map(TraceLine::from).collect(),
            summary: TraceSummary { total_iterations, final_status },
        }
    }
}
