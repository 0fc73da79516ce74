//! The trace of a task: what happened to all its subtasks and to itself, in the order of the stream.
//!
//! Each job is told as by itself, under the task's id. What a person is told, and what is recovered, the task tells for
//! all of them, once.

use std::collections::{HashMap, HashSet};

use redrive_policy::Lang;
use redrive_policy::plan::Plan;
use redrive_store::{Event, EventFilter, EventSeq, JobId, Order, Task, TaskId, TaskState};
use serde_json::{Value, json};

use super::{About, SNAPSHOT_FIELDS, TraceEntry, TraceEvent, Tracer, Whose, fields, report_of};
use crate::engine::{Engine, EngineError, TASK_QUEUE, subtask_id};

/// How many events are read in one go.
const PAGE: u32 = 1_000;
/// How many lines a trace has at the most: the last ones.
const MOST: usize = 100_000;

/// How many subtasks are named that are done.
const MOST_DONE: usize = 1_000;

const START_FIELDS: &[&str] = &["strategy", "failed_subtasks", "succeeded_subtasks"];
const TOLD_FIELDS: &[&str] = &["user_message", "recommended_actions"];
const COMPLETE_FIELDS: &[&str] = &["strategy", "recovered_subtasks", "final_status"];

impl Engine {
    /// The trace of a task, the oldest line first, in this language; nothing when there is no such task.
    pub async fn trace_task(&self, id: TaskId, lang: Lang) -> Result<Option<Vec<TraceEntry>>, EngineError> {
        let Some(task) = self.store().task(id).await? else { return Ok(None) };
        let about = About { session_id: self.session_id(), task_id: id.to_string(), subtask_id: None };
        let plan = self.plan_of(&task)?;
        let names = names(&task, &plan);
        let queue = plan.queue.unwrap_or_else(|| TASK_QUEUE.to_owned());
        let mut teller = Teller {
            about,
            lang,
            names,
            queue,
            strangers: HashSet::new(),
            jobs: HashMap::new(),
            done: Vec::new(),
            entries: Vec::new(),
            ended: None,
        };
        let mut after = EventSeq(0);
        loop {
            let filter = EventFilter {
                caller_id: Some(id.to_string()),
                after: Some(after),
                order: Order::OldestFirst,
                ..EventFilter::default()
            };
            let events = self.store().events(filter, PAGE).await?;
            for event in &events {
                teller.tell(event);
            }
            match events.last() {
                Some(last) if events.len() >= PAGE as usize => after = last.seq,
                _ => break,
            }
        }
        Ok(Some(teller.finish(task)))
    }
}

/// What the subtasks of a task are called.
pub(super) fn names(task: &Task, plan: &Plan) -> HashSet<String> {
    let count = u32::try_from(plan.subtasks.len()).unwrap_or(u32::MAX);
    (0..count).map(|number| subtask_id(task.id, plan, number)).collect()
}

/// Tells one event of a task after the other.
struct Teller {
    about: About,
    lang: Lang,
    names: HashSet<String>,
    /// Where its jobs are.
    queue: String,
    /// Jobs that only call themselves its subtasks.
    strangers: HashSet<JobId>,
    jobs: HashMap<JobId, Tracer>,
    /// The subtasks that are done, in that order.
    done: Vec<String>,
    entries: Vec<TraceEntry>,
    /// Where it was told that a person has to look, the last time.
    ended: Option<usize>,
}

impl Teller {
    fn tell(&mut self, event: &Event) {
        match event.job {
            // A caller may call its own things by such a name; what is no subtask is not told.
            Some(_) if !self.is_part(event) => {}
            Some(job) => {
                let tracer = self.jobs.entry(job).or_insert_with(|| {
                    let about = About { subtask_id: Some(event.source.clone()), ..self.about.clone() };
                    Tracer::new(about, self.lang, Whose::OfTask)
                });
                tracer.tell(event, None, &self.done, &mut self.entries);
                if event.event_type == "attempt_succeeded" && self.done.len() < MOST_DONE {
                    self.done.extend(tracer.about.subtask_id.clone());
                }
            }
            None => self.tell_own(event),
        }
        // Twice the room is needed before any of it is made, so that this costs nothing to speak of.
        if self.entries.len() >= 2 * MOST {
            let gone = self.entries.len() - MOST;
            self.entries.drain(..gone);
            self.ended = self.ended.and_then(|at| at.checked_sub(gone));
        }
    }

    /// Whether it is about one of its subtasks. A name is no proof: anybody may have chosen it, but not in the queue of the task.
    fn is_part(&mut self, event: &Event) -> bool {
        let Some(job) = event.job else { return false };
        if self.jobs.contains_key(&job) {
            return true;
        }
        let queue = event.data.get("queue").and_then(Value::as_str);
        if event.event_type == "job_enqueued" && queue.is_some_and(|queue| queue != self.queue) {
            self.strangers.insert(job);
        }
        self.names.contains(&event.source) && !self.strangers.contains(&job)
    }

    /// What is said of the task itself.
    fn tell_own(&mut self, event: &Event) {
        let (what, names) = match event.event_type.as_str() {
            "recovery_start" => (TraceEvent::RecoveryStart, START_FIELDS),
            "recovery_complete" => (TraceEvent::RecoveryComplete, COMPLETE_FIELDS),
            "snapshot_restore" => (TraceEvent::SnapshotRestore, SNAPSHOT_FIELDS),
            "escalate_executed" => {
                self.ended = Some(self.entries.len());
                (TraceEvent::EscalateExecuted, TOLD_FIELDS)
            }
            _ => return,
        };
        let subtask_id = event.data.get("subtask_id").and_then(Value::as_str).map(str::to_owned);
        let about = About { subtask_id, ..self.about.clone() };
        self.entries.push(about.entry(event, what, None, fields(&event.data, names)));
    }

    /// The whole trace; the last end is told in the words of the report, if the task stands there.
    fn finish(mut self, task: Task) -> Vec<TraceEntry> {
        let stands = matches!(task.state, TaskState::Escalated | TaskState::Partial);
        let report = task
            .report
            .filter(|_| stands)
            .and_then(|report| report_of(report, &Value::from(task.name), self.lang));
        if let (Some(at), Some(report)) = (self.ended, report) {
            self.entries[at].data = json!({
                "user_message": report.user_message,
                "recommended_actions": report.recommended_actions,
            });
        }
        let surplus = self.entries.len().saturating_sub(MOST);
        self.entries.drain(..surplus);
        self.entries
    }
}
