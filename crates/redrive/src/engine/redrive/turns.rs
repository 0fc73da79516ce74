//! What a worker does for redrives beside its work: every one that goes on and that nobody else has gets its turns.
//!
//! All of them are looked through a page at a time, from the first to the last and over again, so that none is forgotten however many
//! there are. Whether there is something to do is read; only who has something to do takes the run, which is written. Those that
//! wait for first attempts are looked at less often the longer they wait and the more of them there are: what they cost the
//! store together does not grow.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use redrive_store::{RunId, RunState, StoreError};
use tokio::time::Instant;

use super::drive::{JUDGE_EVERY, Wait};
use crate::engine::{Engine, EngineError};

/// How often a worker looks for runs.
const LOOK_FOR_RUNS: Duration = Duration::from_secs(1);
/// How many runs one look is at.
const PAGE: u32 = 256;
/// The longest time between two looks at one that waits for first attempts, as long as they are few.
const MOST_PATIENCE: Duration = Duration::from_secs(2);
/// How many of those are looked at in a second, together.
const LOOKS_A_SECOND: u32 = 32;
/// The longest time between two looks at one whose rate allows no more: somebody may have moved it on, or the clock.
const MOST_PAUSE: Duration = Duration::from_secs(5);
/// How many runs are remembered; of more, those that wait are looked at anew in each round.
const MOST_KNOWN: usize = 10_000;

/// When a run has its next turn.
#[derive(Debug, Clone, Copy)]
struct Moving {
    next: Instant,
    /// Since when it waits for first attempts.
    waits_since: Option<Instant>,
}

/// The runs that a worker moves on by turns.
#[derive(Debug, Default)]
struct Runs {
    known: HashMap<RunId, Moving>,
    /// When runs are looked for again.
    look_at: Option<Instant>,
    /// Up to where the pages were read; absent: the next is the first.
    place: Option<RunId>,
    /// The newest that was seen: what comes behind it has just been started.
    newest: Option<RunId>,
}

impl Engine {
    /// Moves redrives on, one turn each after the other, for ever.
    pub(in crate::engine) async fn drive_redrives(&self, holder: i64) -> Infallible {
        let mut runs = Runs::default();
        loop {
            if runs.look_at.is_none_or(|at| at <= Instant::now()) {
                if let Err(error) = runs.look(self, holder).await {
                    // The worker itself tells when its store does not answer.
                    tracing::debug!(%error, "redrives cannot be looked for");
                }
                runs.look_at = Some(Instant::now() + LOOK_FOR_RUNS);
            }
            runs.take_turns(self, holder).await;
            let next = runs.known.values().map(|moving| moving.next).chain(runs.look_at).min();
            tokio::time::sleep_until(next.unwrap_or_else(Instant::now)).await;
        }
    }
}

impl Runs {
    /// Finds out which runs go on: the next page of them, and what was started since.
    async fn look(&mut self, engine: &Engine, holder: i64) -> Result<(), StoreError> {
        let from = self.place;
        let mut page = engine.store().open_runs(engine.now(), holder, from, PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        self.place = if is_last { None } else { page.last().map(|last| last.id) };
        // Within the page, whoever is not in it is over, and whoever is held has somebody else.
        let up_to = self.place;
        let free = |id: &RunId| page.binary_search_by_key(id, |open| open.id).is_ok_and(|at| !page[at].held);
        let beyond = |id: &RunId| Some(*id) <= from || up_to.is_some_and(|up_to| *id > up_to);
        self.known.retain(|id, _| beyond(id) || free(id));
        if from.is_some() || !is_last {
            page.extend(engine.store().open_runs(engine.now(), holder, self.newest, PAGE).await?);
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.retain(|_, moving| moving.waits_since.is_none());
        }
        for open in page {
            self.newest = self.newest.max(Some(open.id));
            if !open.held {
                self.known.entry(open.id).or_insert(Moving { next: Instant::now(), waits_since: None });
            }
        }
        Ok(())
    }

    /// A turn for each whose time has come, those first that have waited for the longest.
    async fn take_turns(&mut self, engine: &Engine, holder: i64) {
        let now = Instant::now();
        let due = self.known.iter().filter(|(_, moving)| moving.next <= now);
        let mut due: Vec<(Instant, RunId)> = due.map(|(id, moving)| (moving.next, *id)).collect();
        due.sort_unstable();
        let waiting = self.known.values().filter(|moving| moving.waits_since.is_some()).count();
        for (_, id) in due {
            let turned = turn(engine, holder, id).await.unwrap_or_else(|error| {
                tracing::warn!(run = %id, %error, "a redrive is not moved on");
                Some(Wait::For(LOOK_FOR_RUNS))
            });
            let now = Instant::now();
            match (turned, self.known.get_mut(&id)) {
                (Some(Wait::For(again_in)), Some(moving)) => {
                    *moving = Moving { next: now + again_in.min(MOST_PAUSE), waits_since: None };
                }
                (Some(Wait::ForAttempts), Some(moving)) => {
                    let since = *moving.waits_since.get_or_insert(now);
                    moving.next = now + patience(now.duration_since(since), waiting);
                }
                // What still goes on is found by a look.
                (None, _) => drop(self.known.remove(&id)),
                (Some(_), None) => {}
            }
        }
    }
}

/// One turn of a run: when to come again. Nothing when it is over, or somebody else moves it on.
async fn turn(engine: &Engine, holder: i64, id: RunId) -> Result<Option<Wait>, EngineError> {
    let Some(run) = engine.redrive_run(id).await?.filter(|run| run.state == RunState::Running) else {
        return Ok(None);
    };
    if let Some(wait) = engine.waits(&run).await? {
        return Ok(Some(wait));
    }
    let taken = engine.take_turn(id, holder).await?;
    Ok(taken.and_then(|(_, again_in)| again_in).map(Wait::For))
}

/// How long to wait for first attempts until the next look.
fn patience(waited: Duration, waiting: usize) -> Duration {
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    let share = Duration::from_secs(1).saturating_mul(waiting) / LOOKS_A_SECOND;
    (waited / 4).clamp(JUDGE_EVERY, MOST_PATIENCE).max(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D9: those that wait are looked at soon at first, then less often, and all of them together no more than so often.
    #[test]
    fn many_that_wait_cost_no_more_than_a_few() {
        let second = Duration::from_secs(1);
        assert_eq!(patience(Duration::ZERO, 1), JUDGE_EVERY);
        assert_eq!(patience(2 * second, 1), second / 2);
        assert_eq!(patience(100 * second, 1), MOST_PATIENCE);
        assert_eq!(patience(100 * second, 64), MOST_PATIENCE);
        assert_eq!(patience(Duration::ZERO, 3_200), 100 * second);
    }
}
