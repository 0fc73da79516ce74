//! Where a subtask stands, in one word and in a few.

use std::collections::HashMap;
use std::time::Duration;

use redrive::engine::TaskStory;
use redrive_policy::graph;
use redrive_policy::plan::Plan;
use redrive_policy::{Cause, EscalationLevel, Lang, one_line, redact};
use redrive_store::{DeadLetter, JobStanding, SubtaskState, TaskState, Timestamp};
use serde::{Serialize, Serializer};

use super::super::moment::{date_time, rough};
use super::super::{Reader, Span, Tone};
use crate::escape::beginning;
use crate::text::{say, text};

/// What is quoted of a failure.
const WHY_CHARS: usize = 120;

/// Where a subtask stands, for people: with how its job does. In the order in which they ask for a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    Failed,
    Retrying,
    Running,
    /// Its job waits for a worker.
    Queued,
    /// Everything that it depends on is done; it waits for its turn.
    Ready,
    Waiting,
    Skipped,
    Cancelled,
    Succeeded,
}

impl Standing {
    pub(crate) const ALL: [Standing; 9] = [
        Standing::Failed,
        Standing::Retrying,
        Standing::Running,
        Standing::Queued,
        Standing::Ready,
        Standing::Waiting,
        Standing::Skipped,
        Standing::Cancelled,
        Standing::Succeeded,
    ];

    /// The name that JSON uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Standing::Failed => "failed",
            Standing::Retrying => "retrying",
            Standing::Running => "running",
            Standing::Queued => "queued",
            Standing::Ready => "ready",
            Standing::Waiting => "waiting",
            Standing::Skipped => "skipped",
            Standing::Cancelled => "cancelled",
            Standing::Succeeded => "succeeded",
        }
    }

    pub(super) const fn mark(self) -> char {
        match self {
            Standing::Failed => '✗',
            Standing::Retrying => '↻',
            Standing::Running | Standing::Queued => '▸',
            Standing::Ready | Standing::Waiting => '○',
            Standing::Skipped | Standing::Cancelled => '·',
            Standing::Succeeded => '✓',
        }
    }

    pub(super) const fn tone(self) -> Tone {
        match self {
            Standing::Failed => Tone::Bad,
            Standing::Retrying => Tone::Warn,
            Standing::Running => Tone::Heading,
            Standing::Queued | Standing::Ready => Tone::Plain,
            Standing::Waiting | Standing::Skipped | Standing::Cancelled => Tone::Dim,
            Standing::Succeeded => Tone::Good,
        }
    }

    pub(super) fn word(self, lang: Lang) -> String {
        say(lang, &format!("task-view.standing.{}", self.name()))
    }

    pub(super) fn span(self, lang: Lang) -> Span {
        Span::new(self.word(lang), self.tone())
    }

    /// Whether a person who looks at a large task wants to see it.
    pub(super) const fn asks_for_a_look(self) -> bool {
        matches!(self, Standing::Failed | Standing::Retrying | Standing::Running | Standing::Queued)
    }
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One subtask.
#[derive(Debug, Serialize)]
pub(crate) struct SubtaskItem {
    pub(crate) id: String,
    pub(crate) state: Standing,
    depends_on: Vec<String>,
    pub(super) job_id: Option<String>,
    /// Attempts of its job since it was begun or put back, where they are known.
    attempts: Option<u32>,
    /// How often it was begun.
    rounds: u32,
    cause: Option<Cause>,
    level: Option<EscalationLevel>,
    /// What went wrong, in a line.
    error: Option<String>,
    /// What it was skipped for.
    because_of: Option<String>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    elapsed_ms: Option<u64>,
    next_retry_at: Option<Timestamp>,
    #[serde(skip)]
    pub(super) after: Vec<usize>,
    /// What it does; told of a plan only.
    #[serde(skip)]
    does: Option<String>,
}

impl SubtaskItem {
    fn new(id: String) -> SubtaskItem {
        SubtaskItem {
            id,
            state: Standing::Waiting,
            depends_on: Vec::new(),
            job_id: None,
            attempts: None,
            rounds: 0,
            cause: None,
            level: None,
            error: None,
            because_of: None,
            started_at: None,
            ended_at: None,
            elapsed_ms: None,
            next_retry_at: None,
            after: Vec::new(),
            does: None,
        }
    }

    /// Everything but the state, in a line.
    pub(super) fn note(&self, now: Timestamp, reader: Reader) -> String {
        let lang = reader.lang;
        let took = self.elapsed_ms.map(|ms| rough(Duration::from_millis(ms)));
        let attempt = self.attempts.filter(|attempts| *attempts > 1 || self.state == Standing::Failed);
        let tried = |key: &str| attempt.map(|n| text(lang, key, &[("n", &n)]));
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.does.clone());
        match self.state {
            Standing::Failed => {
                let cause = self.cause.map(|cause| cause.name().to_owned());
                let said = self.error.clone().filter(|said| !said.is_empty());
                parts.extend(match (cause, said) {
                    (Some(cause), Some(said)) => Some(format!("{cause}: {said}")),
                    (cause, said) => cause.or(said),
                });
                parts.extend(tried("task-view.tried"));
            }
            Standing::Retrying => {
                let next = self.attempts.unwrap_or(0).saturating_add(1);
                parts.extend(self.next_retry_at.map(|at| {
                    let key = if reader.absolute { "task-view.again-at" } else { "task-view.again-in" };
                    let wait = if reader.absolute { date_time(at) } else { rough(at.since(now)) };
                    text(lang, key, &[("n", &next), ("wait", &wait)])
                }));
            }
            Standing::Running => {
                parts.extend(tried("task-view.attempt"));
                parts.extend(took);
            }
            Standing::Succeeded => {
                parts.extend(took);
                parts.extend(tried("task-view.tried"));
            }
            Standing::Skipped => {
                let because = |id: &String| text(lang, "task-view.because", &[("id", id)]);
                parts.extend(self.because_of.as_ref().map(because));
            }
            Standing::Queued | Standing::Ready | Standing::Waiting | Standing::Cancelled => {}
        }
        if self.rounds > 1 {
            parts.push(text(lang, "task-view.round", &[("n", &self.rounds)]));
        }
        parts.join(" · ")
    }

    fn failed_with(&mut self, letter: &DeadLetter) {
        self.attempts = Some(letter.attempts);
        self.cause = Some(letter.cause);
        self.level = Some(EscalationLevel::of(letter.cause, letter.retryable));
        self.error = Some(beginning(&one_line(&redact(&letter.error_message)), WHY_CHARS));
    }
}

/// The subtasks of a plan that is not started.
pub(super) fn of_plan(plan: &Plan) -> Vec<SubtaskItem> {
    let names: Vec<String> = (0..).take(plan.subtasks.len()).map(|number| plan.name_of(number)).collect();
    let mut items = linked(plan, &names);
    for (item, subtask) in items.iter_mut().zip(&plan.subtasks) {
        item.does = Some(super::in_words(&subtask.work));
    }
    items
}

/// The subtasks of a task, where each stands now.
pub(super) fn of_story(story: &TaskStory, now: Timestamp) -> Vec<SubtaskItem> {
    let mut items = linked(&story.plan, &super::names(story));
    for row in &story.subtasks {
        let Some(item) = items.get_mut(row.number as usize) else { continue };
        item.job_id = row.job.map(|job| job.to_string());
        item.rounds = row.rounds;
        item.attempts = row.job.and_then(|job| story.attempts.get(&job).copied());
        (item.started_at, item.ended_at) = (row.started_at, row.ended_at);
        let until = row.ended_at.unwrap_or(now);
        item.elapsed_ms = row
            .started_at
            .filter(|_| row.state != SubtaskState::Waiting)
            .map(|at| u64::try_from(until.since(at).as_millis()).unwrap_or(u64::MAX));
        item.state = match row.state {
            SubtaskState::Waiting => Standing::Waiting,
            SubtaskState::Started => Standing::Queued,
            SubtaskState::Succeeded => Standing::Succeeded,
            SubtaskState::Failed => Standing::Failed,
            SubtaskState::Skipped => Standing::Skipped,
            SubtaskState::Cancelled => Standing::Cancelled,
        };
    }
    for begun in &story.begun {
        let Some(item) = items.get_mut(begun.number as usize) else { continue };
        match begun.standing {
            JobStanding::Ready { attempts: 0, .. } => {}
            JobStanding::Ready { attempts, run_at } => {
                item.state = Standing::Retrying;
                (item.attempts, item.next_retry_at) = (Some(attempts), Some(run_at));
            }
            JobStanding::Leased { attempt } => {
                item.state = Standing::Running;
                item.attempts = Some(attempt);
            }
            // Nobody has moved the task on yet.
            JobStanding::Dead | JobStanding::Gone => item.state = Standing::Failed,
            JobStanding::Succeeded => item.state = Standing::Succeeded,
            JobStanding::Cancelled => item.state = Standing::Cancelled,
        }
    }
    let letters: HashMap<u32, &DeadLetter> =
        story.letters.iter().map(|(number, letter)| (*number, letter)).collect();
    for (number, letter) in letters {
        if let Some(item) = items.get_mut(number as usize) {
            item.failed_with(letter);
        }
    }
    explain_waiting(&story.plan, &mut items, story.task.state == TaskState::Running);
    items
}

fn linked(plan: &Plan, names: &[String]) -> Vec<SubtaskItem> {
    let mut items: Vec<SubtaskItem> = names.iter().cloned().map(SubtaskItem::new).collect();
    for (item, subtask) in items.iter_mut().zip(&plan.subtasks) {
        item.after = subtask.depends_on.iter().map(|number| *number as usize).collect();
        item.depends_on = item.after.iter().filter_map(|number| names.get(*number).cloned()).collect();
    }
    items
}

/// What is ready, and what was skipped for which failure: each looks only at what it depends on itself.
fn explain_waiting(plan: &Plan, items: &mut [SubtaskItem], goes_on: bool) {
    // A stored plan has no cycle; one that cannot be read is shown without reasons.
    let Ok(graph) = graph::Graph::of(plan) else { return };
    for number in graph.order() {
        let needs = graph.needs(*number);
        let is_done = |need: &u32| items[*need as usize].state == Standing::Succeeded;
        match items[*number as usize].state {
            Standing::Waiting if goes_on && needs.iter().all(is_done) => {
                items[*number as usize].state = Standing::Ready;
            }
            Standing::Skipped => {
                let fault = needs.iter().find_map(|need| {
                    let need = &items[*need as usize];
                    match need.state {
                        Standing::Failed | Standing::Cancelled => Some(need.id.clone()),
                        Standing::Skipped => need.because_of.clone(),
                        _ => None,
                    }
                });
                items[*number as usize].because_of = fault;
            }
            _ => {}
        }
    }
}
