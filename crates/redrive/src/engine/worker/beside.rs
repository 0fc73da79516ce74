//! What a worker does beside its work: it moves on redrives and tasks that nobody else moves on.

#[cfg(feature = "tasks")]
use std::collections::BTreeMap;
#[cfg(feature = "tasks")]
use std::sync::{Mutex, PoisonError};
#[cfg(feature = "tasks")]
use std::time::Duration;

#[cfg(feature = "tasks")]
use redrive_store::{JobId, TaskId};
#[cfg(feature = "tasks")]
use tokio::time::Instant;

#[cfg(feature = "tasks")]
use super::in_hand::Mine;
use crate::engine::Engine;

/// How soon a task gets its next turn when nobody tells that something has changed.
#[cfg(feature = "tasks")]
const SOON: Duration = Duration::from_millis(1);
/// How often snapshots whose time is over are looked for.
#[cfg(feature = "tasks")]
const TIDY_SNAPSHOTS: Duration = Duration::from_hours(1);
/// How many tasks are looked at at a time for one that goes on.
#[cfg(feature = "tasks")]
const AT_A_TIME: u32 = 256;
/// How many tasks and jobs of which something was heard are remembered: the others are found by looking.
#[cfg(feature = "tasks")]
const MOST_HEARD: usize = 1_000;

impl Engine {
    /// Moves on what waits for somebody while a worker works, in the name of this holder if there is one.
    pub(super) async fn drive_beside<T>(&self, holder: Option<i64>, working: impl Future<Output = T>) -> T {
        let Some(holder) = holder else { return working.await };
        let mut mine = Mine::default();
        let ended = tokio::select! {
            ended = working => ended,
            // Apart from the worker's own loop, which stays small.
            never = Box::pin(self.drive_redrives(holder)) => match never {},
            never = Box::pin(self.drive_tasks(holder, &mut mine)) => match never {},
        };
        mine.leave().await;
        ended
    }

    /// Whether a task is between two of its steps: what it begins next is not there yet.
    #[cfg(feature = "tasks")]
    pub(super) async fn tasks_go_on(&self) -> Result<bool, redrive_store::StoreError> {
        let mut after = None;
        loop {
            // Nobody's holder: whether somebody else has it does not matter here.
            let page = self.store().open_tasks(self.now(), 0, after, AT_A_TIME).await?;
            for open in page.iter().filter(|open| !open.waits) {
                // One whose plan nobody can read does not go on.
                let task = self.store().task(open.id).await?;
                if task.is_some_and(|task| self.plan_of(&task).is_ok()) {
                    return Ok(true);
                }
            }
            match page.last() {
                Some(last) if page.len() == AT_A_TIME as usize => after = Some(last.id),
                _ => return Ok(false),
            }
        }
    }

    #[cfg(not(feature = "tasks"))]
    #[allow(clippy::unused_async)]
    pub(super) async fn tasks_go_on(&self) -> Result<bool, redrive_store::StoreError> {
        Ok(false)
    }

    #[cfg(not(feature = "tasks"))]
    async fn drive_tasks(&self, _holder: i64, _mine: &mut Mine) -> std::convert::Infallible {
        std::future::pending().await
    }

    /// Finishes restores that were cut short when it starts, and prunes snapshots now and then.
    #[cfg(feature = "tasks")]
    async fn tidy_snapshots_in_turn(&self, tidied: &mut Option<Duration>) {
        let steady = self.clock().steady();
        if tidied.is_some_and(|last| steady.saturating_sub(last) < TIDY_SNAPSHOTS) {
            return;
        }
        *tidied = Some(steady);
        if let Err(error) = self.tidy_snapshots().await {
            tracing::warn!(%error, "snapshots cannot be tidied");
        }
    }

    /// Something has happened that may let a task go on, and whoever moves it on here need not wait for its next look.
    #[cfg(feature = "tasks")]
    pub(in crate::engine) fn task_moved(&self, caller_id: Option<&str>) {
        let Some(caller) = caller_id.filter(|caller| caller.starts_with("task-")) else { return };
        if let Ok(task) = caller.parse() {
            self.heard().task(task, false);
        }
        self.0.tasks_moved.send_modify(|moved| moved.settled += 1);
    }

    /// The same where only the job is known.
    #[cfg(feature = "tasks")]
    pub(in crate::engine) fn subtask_moved(&self, job: JobId) {
        self.heard().job(job);
        self.0.tasks_moved.send_modify(|moved| moved.settled += 1);
    }

    /// Somebody wants something of a task: that it begin, end, or go on again.
    #[cfg(feature = "tasks")]
    pub(in crate::engine) fn task_wanted(&self, task: TaskId) {
        self.heard().task(task, true);
        self.0.tasks_moved.send_modify(|moved| moved.started += 1);
    }

    #[cfg(feature = "tasks")]
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.0.tasks_heard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(not(feature = "tasks"))]
    #[allow(clippy::unused_self)]
    pub(in crate::engine) fn subtask_moved(&self, _job: redrive_store::JobId) {}

    #[cfg(not(feature = "tasks"))]
    #[allow(clippy::unused_self)]
    pub(in crate::engine) fn task_moved(&self, _caller_id: Option<&str>) {}

    #[cfg(feature = "tasks")]
    async fn drive_tasks(&self, holder: i64, mine: &mut Mine) -> std::convert::Infallible {
        let mut tidied = None;
        let mut moved = self.0.tasks_moved.subscribe();
        let mut woken = false;
        loop {
            moved.mark_unchanged();
            self.tidy_snapshots_in_turn(&mut tidied).await;
            let heard = std::mem::take(&mut *self.heard());
            mine.hear(self, heard).await;
            if mine.look_at.is_none_or(|at| at <= Instant::now()) {
                mine.look(self, holder).await;
            }
            mine.take_turns(self, holder, std::mem::take(&mut woken)).await;
            let pause = mine.next().saturating_duration_since(Instant::now());
            tokio::select! {
                () = tokio::time::sleep(pause.max(SOON)) => {}
                // The other end is the engine's own, so that it is never gone.
                _ = moved.changed() => woken = true,
            }
        }
    }
}

/// What has happened to tasks in this process, so often.
#[cfg(feature = "tasks")]
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engine) struct TasksMoved {
    /// An attempt of a subtask was settled.
    settled: u64,
    /// A task was started, is to end, or goes on again.
    pub(in crate::engine) started: u64,
}

/// Of which tasks something was heard since somebody asked last.
#[cfg(feature = "tasks")]
#[derive(Debug, Default)]
pub(in crate::engine) struct TasksHeard(Mutex<Heard>);

/// What was heard: by task, with whether somebody wants something of it, and by job.
#[cfg(feature = "tasks")]
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) tasks: BTreeMap<TaskId, bool>,
    pub(super) jobs: Vec<JobId>,
}

#[cfg(feature = "tasks")]
impl Heard {
    fn task(&mut self, task: TaskId, wanted: bool) {
        if self.tasks.len() < MOST_HEARD {
            *self.tasks.entry(task).or_default() |= wanted;
        }
    }

    fn job(&mut self, job: JobId) {
        if self.jobs.len() < MOST_HEARD {
            self.jobs.push(job);
        }
    }
}

/// Without tasks there are none.
#[cfg(not(feature = "tasks"))]
#[derive(Default)]
struct Mine {}

#[cfg(not(feature = "tasks"))]
impl Mine {
    #[allow(clippy::unused_async)]
    async fn leave(self) {}
}
