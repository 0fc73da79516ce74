//! The tasks that a worker has in hand, and those that wait for a place there.
//!
//! Few are in hand at a time: each of them is held, and looked at often. All that go on are looked through a page at a time, from the
//! first to the last and over again, so that every one of them gets its turn however many there are. Whoever is in hand and finds
//! nothing to do makes room for the next. One that only waits for its jobs is not taken again before one of them is over, or
//! somebody has changed it: the page tells, and so does whoever settles a job in this process.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use redrive_store::{OpenTask, TaskId};
use tokio::time::Instant;

use super::beside::Heard;
use crate::engine::Engine;
use crate::engine::task::Driver;

/// How often a worker looks for tasks.
const LOOK_FOR_TASKS: Duration = Duration::from_secs(2);
/// How many tasks a worker has in hand at a time.
const IN_HAND: usize = 16;
/// How many tasks one look is at.
const PAGE: u32 = 256;
/// The longest time between two looks at one in hand that has nothing to do.
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// How many are remembered that only wait; the others are asked again.
const MOST_WAITING: usize = 10_000;

/// The tasks that a worker moves on by turns.
#[derive(Default)]
pub(super) struct Mine {
    drivers: HashMap<TaskId, Moving>,
    /// When tasks are looked for again.
    pub(super) look_at: Option<Instant>,
    /// Up to where the pages were read; absent: the next is the first.
    place: Option<TaskId>,
    /// The newest that was seen: what comes behind it has just been started.
    newest: Option<TaskId>,
    /// Those that get a place as soon as there is one.
    next: VecDeque<TaskId>,
    /// Those that only waited for their jobs, at this version.
    waiting: HashMap<TaskId, i64>,
}

struct Moving {
    driver: Driver,
    next: Instant,
    /// Since when there was nothing to do; absent: there was, or nobody has looked yet.
    quiet_since: Option<Instant>,
    /// A turn has begun and is not over.
    in_turn: bool,
}

impl Mine {
    /// Takes in what was heard. Of those that were let go only: whoever is in hand has a turn anyway, and others have theirs.
    pub(super) async fn hear(&mut self, engine: &Engine, heard: Heard) {
        for (task, wanted) in heard.tasks {
            if (self.waiting.remove(&task).is_some() || wanted) && !self.drivers.contains_key(&task) {
                self.next.push_front(task);
            }
        }
        for job in heard.jobs {
            if self.waiting.is_empty() {
                return;
            }
            match engine.store().subtask_of(job).await {
                Ok(Some((task, _))) if self.waiting.remove(&task).is_some() => self.next.push_front(task),
                Ok(_) => {}
                // It is found by looking.
                Err(error) => tracing::debug!(%error, "whose subtask it was cannot be found out"),
            }
        }
    }

    /// Finds out which tasks go on: the next page of them, and what was started since.
    pub(super) async fn look(&mut self, engine: &Engine, holder: i64) {
        self.look_at = Some(Instant::now() + LOOK_FOR_TASKS);
        let pages = async {
            let mut seen = engine.store().open_tasks(engine.now(), holder, self.place, PAGE).await?;
            let whole = seen.len() < PAGE as usize;
            let place = if whole { None } else { seen.last().map(|last| last.id) };
            if !whole || self.place.is_some() {
                seen.extend(engine.store().open_tasks(engine.now(), holder, self.newest, PAGE).await?);
            }
            Ok::<_, redrive_store::StoreError>((seen, place))
        };
        match pages.await {
            Ok((seen, place)) => {
                self.place = place;
                for open in &seen {
                    self.take_note(open);
                }
            }
            // The worker itself tells when its store does not answer.
            Err(error) => tracing::debug!(%error, "tasks cannot be looked for"),
        }
    }

    /// Lets a task wait for a place, unless others have it or there is nothing to do.
    fn take_note(&mut self, open: &OpenTask) {
        self.newest = self.newest.max(Some(open.id));
        let only_waits = open.waits && self.waiting.get(&open.id) == Some(&open.version);
        if open.held || only_waits || self.drivers.contains_key(&open.id) || self.next.contains(&open.id) {
            return;
        }
        self.waiting.remove(&open.id);
        self.next.push_back(open.id);
    }

    /// A turn for each task whose time has come; and when something was settled here, for each that is ours. Whoever has nothing to
    /// do makes room, until everybody who waits for a place has had one.
    pub(super) async fn take_turns(&mut self, engine: &Engine, holder: i64, woken: bool) {
        self.turns(woken).await;
        while self.make_room(engine, holder).await {
            self.turns(false).await;
        }
    }

    /// Gives places to those who wait for one; whether anybody got one.
    async fn make_room(&mut self, engine: &Engine, holder: i64) -> bool {
        let mut given = false;
        while let Some(id) = self.next.front().copied() {
            if self.drivers.len() >= IN_HAND && !self.drivers.contains_key(&id) {
                let quiet = self.drivers.iter().filter_map(|(id, one)| Some((one.quiet_since?, *id)));
                let Some((_, longest)) = quiet.min() else { return given };
                self.let_go(longest).await;
            }
            self.next.pop_front();
            self.drivers.entry(id).or_insert_with(|| {
                given = true;
                let driver = engine.task_driver(id, holder, None);
                Moving { driver, next: Instant::now(), quiet_since: None, in_turn: false }
            });
        }
        given
    }

    async fn let_go(&mut self, id: TaskId) {
        let Some(mut moving) = self.drivers.remove(&id) else { return };
        if let Some(version) = moving.driver.waits_for_jobs() {
            if self.waiting.len() >= MOST_WAITING {
                self.waiting.clear();
            }
            self.waiting.insert(id, version);
        }
        if let Err(error) = moving.driver.leave().await {
            tracing::debug!(task = %id, %error, "a task stays held for a while");
        }
    }

    async fn turns(&mut self, woken: bool) {
        let mut over = Vec::new();
        for (id, moving) in &mut self.drivers {
            if moving.next > Instant::now() && !woken {
                continue;
            }
            moving.in_turn = true;
            let turned = moving.driver.turn().await;
            moving.in_turn = false;
            match turned {
                // Whoever has it moves it on; when it is let go, a look finds it.
                Ok(turn) if turn.elsewhere => over.push(*id),
                Ok(turn) => match turn.again_in {
                    Some(again_in) => {
                        let now = Instant::now();
                        let quiet = moving.driver.found_nothing_to_do();
                        moving.quiet_since = quiet.then(|| moving.quiet_since.unwrap_or(now));
                        let quiet_for = moving.quiet_since.map(|since| now.duration_since(since));
                        let patience = (quiet_for.unwrap_or_default() / 4).min(MOST_PATIENCE);
                        moving.next = now + again_in.max(patience);
                    }
                    None => over.push(*id),
                },
                Err(error) => {
                    tracing::warn!(task = %id, %error, "a task is not moved on");
                    over.push(*id);
                }
            }
        }
        // What is still open is found by a look.
        self.drivers.retain(|id, _| !over.contains(id));
    }

    /// Lets go of every task, so that others need not wait until our hold of it is over. One whose turn was cut short
    /// stays held: files may still be being put back for it.
    pub(super) async fn leave(self) {
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
    pub(super) fn next(&self) -> Instant {
        let turns = self.drivers.values().map(|moving| moving.next);
        turns.chain(self.look_at).min().unwrap_or_else(Instant::now)
    }
}
