//! What a worker does beside its work: it moves on redrives and tasks that nobody else moves on.

#[cfg(feature = "tasks")]
use std::collections::HashMap;
#[cfg(feature = "tasks")]
use std::time::Duration;

#[cfg(feature = "tasks")]
use redrive_store::TaskId;
#[cfg(feature = "tasks")]
use tokio::time::Instant;

use crate::engine::Engine;
#[cfg(feature = "tasks")]
use crate::engine::task::Driver;

/// How often a worker looks for tasks.
#[cfg(feature = "tasks")]
const LOOK_FOR_TASKS: Duration = Duration::from_secs(2);
/// How soon a task gets its next turn when nobody tells that something has changed.
#[cfg(feature = "tasks")]
const SOON: Duration = Duration::from_millis(1);
/// How often snapshots whose time is over are looked for.
#[cfg(feature = "tasks")]
const TIDY_SNAPSHOTS: Duration = Duration::from_hours(1);
/// How many tasks a worker moves on by turns.
#[cfg(feature = "tasks")]
const TASKS: u32 = 16;

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
        use redrive_store::JobStanding;
        for id in self.store().open_tasks(TASKS).await? {
            let begun = self.store().begun(id).await?;
            let is_over =
                |standing| !matches!(standing, JobStanding::Ready { .. } | JobStanding::Leased { .. });
            if begun.is_empty() || begun.iter().any(|one| is_over(one.standing)) {
                // One whose plan nobody can read does not go on.
                let task = self.store().task(id).await?;
                if task.is_some_and(|task| self.plan_of(&task).is_ok()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
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
        if caller_id.is_some_and(|caller| caller.starts_with("task-")) {
            self.0.tasks_moved.send_modify(|moved| moved.settled += 1);
        }
    }

    #[cfg(not(feature = "tasks"))]
    #[allow(clippy::unused_self)]
    pub(in crate::engine) fn task_moved(&self, _caller_id: Option<&str>) {}

    #[cfg(feature = "tasks")]
    async fn drive_tasks(&self, holder: i64, mine: &mut Mine) -> std::convert::Infallible {
        let mut tidied = None;
        let mut moved = self.0.tasks_moved.subscribe();
        let (mut started, mut woken) = (None, false);
        loop {
            let seen = *moved.borrow_and_update();
            self.tidy_snapshots_in_turn(&mut tidied).await;
            if mine.look_at.is_none_or(|at| at <= Instant::now()) || started != Some(seen.started) {
                started = Some(seen.started);
                mine.look(self, holder).await;
            }
            mine.take_turns(std::mem::take(&mut woken)).await;
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

/// Without tasks there are none.
#[cfg(not(feature = "tasks"))]
#[derive(Default)]
struct Mine {}

#[cfg(not(feature = "tasks"))]
impl Mine {
    #[allow(clippy::unused_async)]
    async fn leave(self) {}
}

/// The tasks that a worker moves on by turns.
#[cfg(feature = "tasks")]
#[derive(Default)]
struct Mine {
    drivers: HashMap<TaskId, Moving>,
    /// When tasks are looked for again.
    look_at: Option<Instant>,
}

#[cfg(feature = "tasks")]
struct Moving {
    driver: Driver,
    next: Instant,
    elsewhere: bool,
    /// A turn has begun and is not over.
    in_turn: bool,
}

#[cfg(feature = "tasks")]
impl Mine {
    /// Finds out which tasks go on.
    async fn look(&mut self, engine: &Engine, holder: i64) {
        let now = Instant::now();
        self.look_at = Some(now + LOOK_FOR_TASKS);
        match engine.store().open_tasks(TASKS).await {
            Ok(open) => {
                self.drivers.retain(|id, _| open.contains(id));
                for id in open {
                    self.drivers.entry(id).or_insert_with(|| {
                        let driver = engine.task_driver(id, holder, None);
                        Moving { driver, next: now, elsewhere: false, in_turn: false }
                    });
                }
            }
            // The worker itself tells when its store does not answer.
            Err(error) => tracing::debug!(%error, "tasks cannot be looked for"),
        }
    }

    /// A turn for each task whose time has come; and when something was settled here, for each that is ours.
    async fn take_turns(&mut self, woken: bool) {
        let mut over = Vec::new();
        for (id, moving) in &mut self.drivers {
            if moving.next > Instant::now() && (!woken || moving.elsewhere) {
                continue;
            }
            moving.in_turn = true;
            let turned = moving.driver.turn().await;
            moving.in_turn = false;
            match turned {
                Ok(turn) => {
                    moving.elsewhere = turn.elsewhere;
                    match turn.again_in {
                        Some(again_in) => moving.next = Instant::now() + again_in,
                        None => over.push(*id),
                    }
                }
                Err(error) => {
                    tracing::warn!(task = %id, %error, "a task is not moved on");
                    over.push(*id);
                }
            }
        }
        // What is still open is found by the next look.
        self.drivers.retain(|id, _| !over.contains(id));
    }

    /// Lets go of every task, so that others need not wait until our hold of it is over. One whose turn was cut short
    /// stays held: files may still be being put back for it.
    async fn leave(self) {
        for (id, mut moving) in self.drivers {
            if moving.in_turn {
                continue;
            }
            if let Err(error) = moving.driver.leave().await {
                // A store that does not answer now does not answer for the next one either.
                tracing::debug!(task = %id, %error, "tasks stay held for a while");
                return;
            }
        }
    }

    /// When there is something to do next.
    fn next(&self) -> Instant {
        let turns = self.drivers.values().map(|moving| moving.next);
        turns.chain(self.look_at).min().unwrap_or_else(Instant::now)
    }
}
