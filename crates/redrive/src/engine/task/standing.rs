//! Where each subtask of a task stands, for whoever looks: with how its job does, what went wrong, and what it waits for.

use redrive_policy::graph;
use redrive_policy::plan::Plan;
use redrive_policy::{Cause, EscalationLevel, one_line};
use redrive_store::{DeadLetter, JobStanding, SubtaskState, TaskState, Timestamp};
use serde::{Serialize, Serializer};

use super::{TaskStory, subtask_id};

/// What is quoted of a failure.
const WHY_CHARS: usize = 120;

/// Where a subtask stands, with how its job does. In the order in which they ask for a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It has failed for good.
    Failed,
    /// It failed, and is tried again.
    Retrying,
    /// Its job runs.
    Running,
    /// Its job waits for a worker.
    Queued,
    /// Everything that it depends on is done; it waits for its turn.
    Ready,
    /// It waits for what it depends on.
    Waiting,
    /// It is not begun, since something that it depends on failed.
    Skipped,
    /// Somebody ended it.
    Cancelled,
    /// It is done.
    Succeeded,
}

impl Standing {
    /// Every one, in order.
    pub const ALL: [Standing; 9] = [
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
    pub const fn name(self) -> &'static str {
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
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One subtask as people and programs see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubtaskLine {
    /// What it is called.
    pub id: String,
    /// Where it stands.
    pub state: Standing,
    /// What it depends on.
    pub depends_on: Vec<String>,
    /// Its job, once it was begun.
    pub job_id: Option<String>,
    /// Attempts of its job since it was begun or put back, where they are known.
    pub attempts: Option<u32>,
    /// How often it was begun.
    pub rounds: u32,
    /// What it failed of.
    pub cause: Option<Cause>,
    /// Who has to deal with that.
    pub level: Option<EscalationLevel>,
    /// What went wrong, in a line.
    pub error: Option<String>,
    /// What it was skipped for.
    pub because_of: Option<String>,
    /// When it was begun.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// How long it has taken so far.
    pub elapsed_ms: Option<u64>,
    /// When it is tried again.
    pub next_retry_at: Option<Timestamp>,
    /// What it depends on, by number.
    #[serde(skip)]
    pub after: Vec<usize>,
}

impl SubtaskLine {
    fn new(id: String) -> SubtaskLine {
        SubtaskLine {
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
        }
    }

    fn failed_with(&mut self, letter: &DeadLetter) {
        self.attempts = Some(letter.attempts);
        self.cause = Some(letter.cause);
        self.level = Some(EscalationLevel::of(letter.cause, letter.retryable));
        let said = one_line(&crate::secrets::redact(&letter.error_message));
        self.error = Some(match said.char_indices().nth(WHY_CHARS) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        });
    }

    /// The subtasks of a plan that is not started.
    pub fn of_plan(plan: &Plan) -> Vec<SubtaskLine> {
        let names: Vec<String> = (0..).take(plan.subtasks.len()).map(|number| plan.name_of(number)).collect();
        linked(plan, &names)
    }
}

impl TaskStory {
    /// Where each subtask stands now.
    pub fn subtask_lines(&self, now: Timestamp) -> Vec<SubtaskLine> {
        let count = u32::try_from(self.plan.subtasks.len()).unwrap_or(u32::MAX);
        let names: Vec<String> =
            (0..count).map(|number| subtask_id(self.task.id, &self.plan, number)).collect();
        let mut lines = linked(&self.plan, &names);
        self.tell_rows(&mut lines, now);
        for begun in &self.begun {
            let Some(line) = lines.get_mut(begun.number as usize) else { continue };
            match begun.standing {
                JobStanding::Ready { attempts: 0, .. } => {}
                JobStanding::Ready { attempts, run_at } => {
                    line.state = Standing::Retrying;
                    (line.attempts, line.next_retry_at) = (Some(attempts), Some(run_at));
                }
                JobStanding::Leased { attempt } => {
                    line.state = Standing::Running;
                    line.attempts = Some(attempt);
                }
                // Nobody has moved the task on yet.
                JobStanding::Dead | JobStanding::Gone => line.state = Standing::Failed,
                JobStanding::Succeeded => line.state = Standing::Succeeded,
                JobStanding::Cancelled => line.state = Standing::Cancelled,
            }
        }
        for (number, letter) in &self.letters {
            if let Some(line) = lines.get_mut(*number as usize) {
                line.failed_with(letter);
            }
        }
        explain_waiting(&self.plan, &mut lines, self.task.state == TaskState::Running);
        lines
    }

    /// What the rows of subtasks say, before anybody has asked their jobs.
    fn tell_rows(&self, lines: &mut [SubtaskLine], now: Timestamp) {
        for row in &self.subtasks {
            let Some(line) = lines.get_mut(row.number as usize) else { continue };
            line.job_id = row.job.map(|job| job.to_string());
            line.rounds = row.rounds;
            line.attempts = row.job.and_then(|job| self.attempts.get(&job).copied());
            (line.started_at, line.ended_at) = (row.started_at, row.ended_at);
            let until = row.ended_at.unwrap_or(now);
            line.elapsed_ms = row
                .started_at
                .filter(|_| row.state != SubtaskState::Waiting)
                .map(|at| u64::try_from(until.since(at).as_millis()).unwrap_or(u64::MAX));
            line.state = match row.state {
                SubtaskState::Waiting => Standing::Waiting,
                SubtaskState::Started => Standing::Queued,
                SubtaskState::Succeeded => Standing::Succeeded,
                SubtaskState::Failed => Standing::Failed,
                SubtaskState::Skipped => Standing::Skipped,
                SubtaskState::Cancelled => Standing::Cancelled,
            };
        }
    }
}

fn linked(plan: &Plan, names: &[String]) -> Vec<SubtaskLine> {
    let mut lines: Vec<SubtaskLine> = names.iter().cloned().map(SubtaskLine::new).collect();
    for (line, subtask) in lines.iter_mut().zip(&plan.subtasks) {
        line.after = subtask.depends_on.iter().map(|number| *number as usize).collect();
        line.depends_on = line.after.iter().filter_map(|number| names.get(*number).cloned()).collect();
    }
    lines
}

/// What is ready, and what was skipped for which failure: each looks only at what it depends on itself.
fn explain_waiting(plan: &Plan, lines: &mut [SubtaskLine], goes_on: bool) {
    // A stored plan has no cycle; one that cannot be read is shown without reasons.
    let Ok(graph) = graph::Graph::of(plan) else { return };
    for number in graph.order() {
        let needs = graph.needs(*number);
        let is_done = |need: &u32| lines[*need as usize].state == Standing::Succeeded;
        match lines[*number as usize].state {
            Standing::Waiting if goes_on && needs.iter().all(is_done) => {
                lines[*number as usize].state = Standing::Ready;
            }
            Standing::Skipped => {
                let fault = needs.iter().find_map(|need| {
                    let need = &lines[*need as usize];
                    match need.state {
                        Standing::Failed | Standing::Cancelled => Some(need.id.clone()),
                        Standing::Skipped => need.because_of.clone(),
                        _ => None,
                    }
                });
                lines[*number as usize].because_of = fault;
            }
            _ => {}
        }
    }
}
