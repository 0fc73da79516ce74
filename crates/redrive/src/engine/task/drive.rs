//! Moving a task on, turn by turn. A turn looks at what is begun, begins what is ready, and writes both down as one step;
//! or it sees that a part has failed for good, and recovery has its turn. Whoever dies in between leaves a task that the
//! next one finds whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::EscalationReport;
use redrive_policy::graph::{Front, Graph, Stand};
use redrive_store::{
    Begun, JobId, JobStanding, JobState, NewEvent, NewJob, Redriven, Subtask, SubtaskState, Task, TaskEnd,
    TaskId, TaskState, TaskStep, Timestamp, WorkerId,
};

use serde::Deserialize as _;

use super::begin;
use super::progress::Progress;
use super::{Stored, TaskNews, subtask_id};
use crate::engine::{Engine, EngineError};

/// How long whoever moves a task on has it.
const HOLD_FOR: Duration = Duration::from_secs(6);
/// When that is lengthened.
const HOLD_AGAIN: Duration = Duration::from_secs(2);
/// How often what is begun is looked at, when nobody tells that something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a task that somebody else moves on is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long to wait before the store is asked again after trouble that may pass.
const TROUBLE_WAIT: Duration = Duration::from_millis(500);

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskTurn {
    /// Where the task stands.
    pub state: TaskState,
    /// What happened.
    pub news: Vec<TaskNews>,
    /// Whether somebody else moves it on.
    pub elsewhere: bool,
    /// When to take the next turn, unless somebody tells that an attempt has ended; absent: the task is over.
    pub again_in: Option<Duration>,
}

/// Whoever moves a task on; see [`Engine::task_driver`].
pub struct Driver {
    pub(super) engine: Engine,
    pub(super) id: TaskId,
    holder: i64,
    held_for: Option<WorkerId>,
    held_until: Option<Timestamp>,
    /// How often a task was started, cancelled or resumed in this process when this one was read.
    told: u64,
    known: Option<Known>,
    /// The last turn found nothing to do.
    quiet: bool,
    /// Jobs that were asked to end.
    pub(super) asked: HashSet<JobId>,
}

/// A task as it stood after the last step.
pub(super) struct Known {
    pub(super) version: i64,
    pub(super) stored: Stored,
    /// Where each subtask stands, and what can be begun.
    pub(super) front: Front,
    pub(super) jobs: BTreeMap<u32, JobId>,
    /// When each was begun last, in milliseconds; 0 for those that were not.
    pub(super) begun: Vec<u64>,
    pub(super) progress: Progress,
    /// What is begun and not over.
    pub(super) running: BTreeSet<u32>,
}

/// A step in the making.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) begin: Vec<(u32, NewJob)>,
    pub(super) mark: Vec<(u32, SubtaskState)>,
    pub(super) events: Vec<NewEvent>,
    pub(super) end: Option<TaskEnd>,
    pub(super) news: Vec<TaskNews>,
    /// Whether the progress has changed.
    pub(super) progressed: bool,
    /// Whether there is more to do at once.
    pub(super) hurry: bool,
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.begin.is_empty()
            && self.mark.is_empty()
            && self.events.is_empty()
            && self.end.is_none()
            && !self.progressed
    }
}

impl Driver {
    pub(super) fn new(engine: Engine, id: TaskId, holder: i64, held_for: Option<WorkerId>) -> Driver {
        Driver {
            engine,
            id,
            holder,
            held_for,
            held_until: None,
            told: 0,
            known: None,
            quiet: false,
            asked: HashSet::new(),
        }
    }

    /// The task that it moves on.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Whether the last turn found nothing to do.
    pub(in crate::engine) fn found_nothing_to_do(&self) -> bool {
        self.quiet
    }

    /// The version of the task, if there is nothing to do until one of its jobs is over or somebody changes it.
    pub(in crate::engine) fn waits_for_jobs(&self) -> Option<i64> {
        let known = self.known.as_ref().filter(|known| self.quiet && !known.running.is_empty())?;
        known.progress.undoing.is_none().then_some(known.version)
    }

    /// Lets go of the task, so that others can move it on at once.
    pub async fn leave(&mut self) -> Result<(), EngineError> {
        if self.held_until.take().is_some() {
            self.engine.store().hold_task(self.engine.now(), self.id, self.holder, Duration::ZERO).await?;
        }
        Ok(())
    }

    /// One turn. Nothing is done when somebody else moves the task on. Trouble of the store that may pass is waited out: the
    /// next turn begins with what is written down.
    pub async fn turn(&mut self) -> Result<TaskTurn, EngineError> {
        match self.take_turn().await {
            Err(EngineError::Store(error)) if error.may_pass() || error.outcome_is_unknown() => {
                tracing::warn!(task = %self.id, %error, "a task waits for the store");
                Ok(TaskTurn { again_in: Some(TROUBLE_WAIT), ..self.again_at_once() })
            }
            turned => turned,
        }
    }

    async fn take_turn(&mut self) -> Result<TaskTurn, EngineError> {
        self.quiet = false;
        if let Some(turn) = self.hold().await? {
            return Ok(turn);
        }
        let begun = self.engine.store().begun(self.id).await?;
        let Some(mut known) = self.known.take() else { return Ok(self.again_at_once()) };
        let mut draft = Draft::default();
        let failed = known.look(self.id, &begun, &mut draft);
        self.decide(&mut known, failed, &mut draft).await?;
        let quiet = draft.is_empty() && draft.news.is_empty() && !draft.hurry;
        if !self.write(&mut known, &mut draft).await? {
            // Somebody else has moved it on: what we thought out is forgotten.
            return Ok(self.again_at_once());
        }
        let state = draft.end.as_ref().map_or(TaskState::Running, |end| end.state);
        let wait = if draft.hurry { Duration::ZERO } else { LOOK_EVERY };
        self.known = Some(known);
        self.quiet = quiet;
        Ok(TaskTurn {
            state,
            news: draft.news,
            elsewhere: false,
            again_in: (state == TaskState::Running).then_some(wait),
        })
    }

    fn again_at_once(&mut self) -> TaskTurn {
        self.known = None;
        self.held_until = None;
        TaskTurn {
            state: TaskState::Running,
            news: Vec::new(),
            elsewhere: false,
            again_in: Some(Duration::ZERO),
        }
    }

    /// Makes sure that the task is ours, and known; the answer when it is not.
    async fn hold(&mut self) -> Result<Option<TaskTurn>, EngineError> {
        let now = self.engine.now();
        let lasts = self.held_until.is_some_and(|until| until.since(now) > HOLD_AGAIN);
        let told = self.engine.0.tasks_moved.borrow().started;
        if lasts && told == self.told && self.known.is_some() {
            return Ok(None);
        }
        self.told = told;
        let store = self.engine.store();
        let Some(task) = store.hold_task(now, self.id, self.holder, HOLD_FOR).await? else {
            self.known = None;
            self.held_until = None;
            let task = store.task(self.id).await?.ok_or(EngineError::UnknownTask(self.id))?;
            let over = task.state != TaskState::Running;
            let turn = TaskTurn {
                state: task.state,
                news: Vec::new(),
                elsewhere: !over,
                again_in: (!over).then_some(LOOK_AGAIN),
            };
            return Ok(Some(turn));
        };
        self.held_until = Some(now.after(HOLD_FOR));
        if self.known.as_ref().is_none_or(|known| known.version != task.version) {
            let rows = self.engine.store().subtasks(self.id).await?;
            self.known = Some(Known::read(&task, &rows)?);
        }
        Ok(None)
    }

    /// What is done now: the end that somebody wants, a recovery, the next subtasks, or the end.
    async fn decide(
        &mut self,
        known: &mut Known,
        mut failed: Vec<u32>,
        draft: &mut Draft,
    ) -> Result<(), EngineError> {
        if let Some(why) = known.progress.cancelled.clone() {
            return self.cancel(known, &why, draft).await;
        }
        if known.progress.undoing.is_some() {
            // It has its turn once nothing is undone any more.
            draft.progressed |= !failed.is_empty();
            known.progress.failed_meanwhile.extend(failed);
            return self.undo(known, draft).await;
        }
        failed.extend(known.failed_meanwhile());
        if !failed.is_empty() || known.progress.resumed {
            self.recover(known, failed, draft).await?;
            if known.progress.undoing.is_some() {
                return Ok(());
            }
        }
        known.redone(self.id, draft);
        if known.progress.stopping.is_none() {
            self.begin(known, draft).await?;
        }
        if known.running.is_empty() && draft.begin.is_empty() {
            self.end(known, draft).await?;
        }
        Ok(())
    }

    /// Begins what is ready, as far as the plan lets it run at a time and nobody holds its files.
    async fn begin(&mut self, known: &mut Known, draft: &mut Draft) -> Result<(), EngineError> {
        let parallel = (known.stored.plan.parallel as usize).clamp(1, redrive_store::MAX_BATCH);
        let now = u64::try_from(self.engine.now().millis()).unwrap_or(0).max(1);
        for number in known.front.take(parallel.saturating_sub(known.running.len())) {
            if !self.clear_up(known, number, draft).await? {
                known.front.set(number, Stand::Waiting);
                break;
            }
            self.begin_one(known, number, draft).await?;
            known.running.insert(number);
            known.begun[number as usize] = now;
            draft.news.push(TaskNews::Begun { subtask: subtask_id(self.id, &known.stored.plan, number) });
        }
        Ok(())
    }

    /// Begins one: a letter that is still there goes back, everything else gets a new job.
    async fn begin_one(&self, known: &Known, number: u32, draft: &mut Draft) -> Result<(), EngineError> {
        let store = self.engine.store();
        if let Some(job) = known.jobs.get(&number).copied()
            && let Some(record) = store.job(job).await?
        {
            match record.state {
                JobState::Dead(_) => {
                    let redriven = store.redrive(self.engine.now(), vec![job], "redrive").await?;
                    if redriven.contains(&Redriven::Ready) {
                        draft.mark.push((number, SubtaskState::Started));
                        return Ok(());
                    }
                }
                // Somebody has put it back by hand.
                JobState::Ready { .. } | JobState::Leased { .. } => {
                    draft.mark.push((number, SubtaskState::Started));
                    return Ok(());
                }
                JobState::Ended => {}
            }
        }
        let told =
            known.progress.told.iter().find(|(whom, _)| *whom == number).map(|(_, told)| told.as_str());
        let job = begin::job(self.id, &known.stored, number, told, self.held_for)?;
        draft.begin.push((number, job));
        Ok(())
    }

    /// Ends everything that runs, and then the task.
    async fn cancel(&mut self, known: &mut Known, why: &str, draft: &mut Draft) -> Result<(), EngineError> {
        if !known.running.is_empty() {
            let running: Vec<u32> = known.running.iter().copied().collect();
            return self.stop(known, &running).await;
        }
        draft.end = Some(TaskEnd { state: TaskState::Cancelled, why: why.to_owned(), report: None });
        Ok(())
    }

    /// Asks jobs to end, each once.
    pub(super) async fn stop(&mut self, known: &Known, which: &[u32]) -> Result<(), EngineError> {
        for number in which {
            if let Some(job) = known.jobs.get(number)
                && self.asked.insert(*job)
            {
                let why = format!("{} ends, or is undone", self.id);
                self.engine.store().cancel(self.engine.now(), *job, why).await?;
            }
        }
        Ok(())
    }

    /// Writes the step; the version after it. Nothing when somebody else was faster.
    async fn write(&mut self, known: &mut Known, draft: &mut Draft) -> Result<bool, EngineError> {
        if draft.is_empty() {
            return Ok(true);
        }
        let begin = std::mem::take(&mut draft.begin);
        let numbers: Vec<u32> = begin.iter().map(|(number, _)| *number).collect();
        let step = TaskStep {
            task: self.id,
            version: known.version,
            begin,
            mark: std::mem::take(&mut draft.mark),
            progress: draft.progressed.then(|| known.progress.to_json()),
            end: draft.end.clone(),
            events: std::mem::take(&mut draft.events),
        };
        let Some(stepped) = self.engine.store().advance_task(self.engine.now(), step).await? else {
            return Ok(false);
        };
        known.version = stepped.version;
        if draft.end.as_ref().is_some_and(|end| end.state == TaskState::Succeeded) {
            self.engine.let_go_of_snapshots(self.id);
        }
        // Only now is it sure that a person has to be told.
        if let Some(report) = draft.end.as_ref().and_then(|end| end.report.as_ref()) {
            match EscalationReport::deserialize(report) {
                Ok(report) => self.engine.tell_escalation(self.id.to_string(), report),
                Err(error) => tracing::warn!(task = %self.id, %error, "a report cannot be read again"),
            }
        }
        known.jobs.extend(numbers.into_iter().zip(stepped.jobs));
        Ok(true)
    }
}

impl Known {
    fn read(task: &Task, rows: &[Subtask]) -> Result<Known, EngineError> {
        let stored = Stored::read(task)?;
        let graph =
            Graph::of(&stored.plan).map_err(|error| EngineError::BadPlan(task.id, error.to_string()))?;
        let mut stands = vec![Stand::Waiting; graph.len()];
        let mut begun = vec![0; graph.len()];
        let mut jobs = BTreeMap::new();
        let len = graph.len();
        for row in rows.iter().filter(|row| (row.number as usize) < len) {
            stands[row.number as usize] = stand(row.state);
            let at = row.started_at.map_or(0, Timestamp::millis);
            begun[row.number as usize] = u64::try_from(at).unwrap_or(0);
            jobs.extend(row.job.map(|job| (row.number, job)));
        }
        let front = Front::of(&stored.plan, Arc::new(graph), stands);
        let progress = Progress::read(task)?;
        Ok(Known { version: task.version, stored, front, jobs, begun, progress, running: BTreeSet::new() })
    }

    /// Takes over how the jobs of what is begun stand; the subtasks that have failed for good.
    fn look(&mut self, task: TaskId, begun: &[Begun], draft: &mut Draft) -> Vec<u32> {
        let mut failed = Vec::new();
        self.running.clear();
        let len = self.begun.len();
        for one in begun.iter().filter(|one| (one.number as usize) < len) {
            let state = match one.standing {
                JobStanding::Ready { .. } | JobStanding::Leased { .. } => {
                    self.running.insert(one.number);
                    continue;
                }
                JobStanding::Succeeded => SubtaskState::Succeeded,
                JobStanding::Cancelled => SubtaskState::Cancelled,
                // Nothing is known of it: it is not said to have succeeded.
                JobStanding::Dead | JobStanding::Gone => SubtaskState::Failed,
            };
            self.mark(one.number, state, draft);
            let subtask = subtask_id(task, &self.stored.plan, one.number);
            draft.news.push(TaskNews::Over { subtask, state });
            match state {
                SubtaskState::Succeeded => {}
                // Whoever wanted it to end knows what to do next.
                SubtaskState::Cancelled if self.is_ending(one.number) => {}
                _ => failed.push(one.number),
            }
        }
        failed
    }

    /// Notes that a subtask stands elsewhere now.
    pub(super) fn mark(&mut self, number: u32, state: SubtaskState, draft: &mut Draft) {
        self.front.set(number, stand(state));
        draft.mark.push((number, state));
    }

    /// What has failed while something was being undone, and was not undone with it.
    fn failed_meanwhile(&mut self) -> Vec<u32> {
        let mut failed = std::mem::take(&mut self.progress.failed_meanwhile);
        let stands = self.front.stands();
        failed.retain(|number| matches!(stands[*number as usize], Stand::Failed | Stand::Cancelled));
        failed
    }

    /// Whether the end of a subtask was wanted.
    fn is_ending(&self, number: u32) -> bool {
        let undone = self.progress.undoing.as_ref().is_some_and(|undoing| undoing.undo.contains(&number));
        undone || self.progress.cancelled.is_some()
    }
}

/// Where a subtask stands, to those who know no store.
const fn stand(state: SubtaskState) -> Stand {
    match state {
        SubtaskState::Waiting => Stand::Waiting,
        SubtaskState::Started => Stand::Started,
        SubtaskState::Succeeded => Stand::Succeeded,
        SubtaskState::Failed => Stand::Failed,
        SubtaskState::Skipped => Stand::Skipped,
        SubtaskState::Cancelled => Stand::Cancelled,
    }
}
