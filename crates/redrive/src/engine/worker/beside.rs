//! What a worker does beside its work: it moves on redrives and tasks that nobody else moves on.

#[cfg(feature = "tasks")]
use std::collections::HashMap;
#[cfg(feature = "tasks")]
use std::time::Duration;

#[cfg(feature = "tasks")]
use redrive_store::TaskId;

use crate::engine::Engine;
#[cfg(feature = "tasks")]
use crate::engine::task::Driver;

/// How often a worker looks for tasks.
#[cfg(feature = "tasks")]
const LOOK_FOR_TASKS: Duration = Duration::from_secs(2);
/// How soon, at the most, a task gets its next turn.
#[cfg(feature = "tasks")]
const SOON: Duration = Duration::from_millis(10);
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
        tokio::select! {
            ended = working => ended,
            // Apart from the worker's own loop, which stays small.
            never = Box::pin(self.drive_redrives(holder)) => match never {},
            never = Box::pin(self.drive_tasks(holder)) => match never {},
        }
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
                return Ok(true);
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
    async fn drive_tasks(&self, _holder: i64) -> std::convert::Infallible {
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

    #[cfg(feature = "tasks")]
    async fn drive_tasks(&self, holder: i64) -> std::convert::Infallible {
        let mut drivers: HashMap<TaskId, Driver> = HashMap::new();
        let mut tidied = None;
        loop {
            let mut pause = LOOK_FOR_TASKS;
            self.tidy_snapshots_in_turn(&mut tidied).await;
            match self.store().open_tasks(TASKS).await {
                Ok(open) => {
                    drivers.retain(|id, _| open.contains(id));
                    for id in open {
                        let driver = drivers.entry(id).or_insert_with(|| self.task_driver(id, holder, None));
                        match driver.turn().await {
                            Ok(turn) if turn.elsewhere => {}
                            Ok(turn) => pause = pause.min(turn.again_in.unwrap_or(pause)),
                            Err(error) => {
                                tracing::warn!(task = %id, %error, "a task is not moved on");
                                drivers.remove(&id);
                            }
                        }
                    }
                }
                // The worker itself tells when its store does not answer.
                Err(error) => tracing::debug!(%error, "tasks cannot be looked for"),
            }
            tokio::time::sleep(pause.max(SOON)).await;
        }
    }
}
