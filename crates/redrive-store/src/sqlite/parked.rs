//! Those who wait for work or for events.
//!
//! Whoever waits for the same thing stands in one line, and only lines are looked at: thousands of workers that wait for one queue cost
//! what one of them does. When something comes, as many are woken as there is something for, the first in the line first. Nobody has a
//! timer: those whose time is over, or who have gone, are found by a walk through all lines, which is not made often.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::batch::{Batch, Memory};
use super::writer::{Operation, Step};
use crate::error::StoreError;
use crate::id::WorkerId;

/// The shortest time between two walks: whoever waits for seconds may wait for so much longer.
const BETWEEN_WALKS: Duration = Duration::from_millis(20);
/// The longest: until then one who has gone may be remembered.
const A_WALK_EVERY: Duration = Duration::from_secs(1);

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Interest {
    /// Work of these kinds in these queues, or reserved for this worker.
    Work { worker: WorkerId, reserved_only: bool, queues: Vec<String>, kinds: Vec<String> },
    /// An event behind this one.
    Events(i64),
}

/// Where it would be seen that something has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watch {
    /// In these lanes, or in one that was not known then.
    Places { places: Vec<i64>, lanes_seen: u64 },
    /// Behind this event.
    Events(i64),
}

impl Watch {
    /// Whether there is certainly nothing to do, without looking into the database.
    pub(super) fn is_idle(&self, memory: &Memory, now: Instant) -> bool {
        self.is_like(memory, |due| due.is_none_or(|due| now < due))
    }

    /// Whether there is nothing at all, not even something whose time is to come, which not everybody's clock sees alike.
    fn is_empty(&self, memory: &Memory) -> bool {
        self.is_like(memory, |due| due.is_none())
    }

    fn is_like(&self, memory: &Memory, idle: impl Fn(Option<Instant>) -> bool) -> bool {
        match self {
            Watch::Places { places, lanes_seen } => {
                !places.is_empty()
                    && *lanes_seen == memory.lanes_seen
                    && places.iter().all(|place| memory.idle.get(place).is_some_and(|due| idle(*due)))
            }
            Watch::Events(after) => memory.last_event().is_some_and(|last| last <= *after),
        }
    }

    /// When there may be something to do, as far as is known.
    fn due(&self, memory: &Memory) -> Option<Instant> {
        let Watch::Places { places, .. } = self else { return None };
        places.iter().filter_map(|place| memory.idle.get(place).copied().flatten()).min()
    }
}

/// One who waits, with its number in the order in which they came.
pub(super) struct Waiting {
    number: u64,
    interest: Interest,
    pub(super) operation: Box<dyn Operation>,
}

struct Line {
    watch: Watch,
    /// Whether this transaction has found nothing for it.
    looked: bool,
    queue: VecDeque<Waiting>,
}

/// All who wait.
#[derive(Default)]
pub(super) struct Parked {
    lines: HashMap<Interest, Line>,
    count: usize,
    next_number: u64,
    /// When the first of them has waited long enough.
    first_over: Option<Instant>,
    walked_at: Option<Instant>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether it is known that there is nothing at all, since others wait for the same.
    pub(super) fn in_vain(&self, interest: &Interest, memory: &Memory) -> bool {
        self.lines.get(interest).is_some_and(|line| !line.queue.is_empty() && line.watch.is_empty(memory))
    }

    /// One more waits, at the end of its line. `watch` is absent when it did not look itself.
    pub(super) fn push(
        &mut self,
        interest: Interest,
        watch: Option<Watch>,
        mut operation: Box<dyn Operation>,
    ) {
        operation.waits();
        if self.is_empty() {
            // The walks are counted from the first who waits.
            (self.walked_at, self.first_over) = (None, None);
        }
        self.first_over = self.first_over.into_iter().chain(operation.patience()).min();
        let number = self.next_number;
        self.next_number += 1;
        self.count += 1;
        let never_looked = Watch::Places { places: Vec::new(), lanes_seen: 0 };
        let line = self.lines.entry(interest.clone()).or_insert_with(|| Line {
            watch: never_looked,
            looked: false,
            queue: VecDeque::new(),
        });
        if let Some(watch) = watch {
            line.watch = watch;
        }
        line.queue.push_back(Waiting { number, interest, operation });
    }

    /// Whether there may be something for somebody.
    pub(super) fn is_anybody_awake(&self, memory: &Memory, now: Instant) -> bool {
        self.lines.values().any(|line| !line.queue.is_empty() && !line.watch.is_idle(memory, now))
    }

    /// When there may be something to do, or somebody has waited long enough.
    pub(super) fn next_turn(&self, memory: &Memory) -> Option<Instant> {
        let waiting = self.lines.values().filter(|line| !line.queue.is_empty());
        waiting.filter_map(|line| line.watch.due(memory)).chain(self.next_walk()).min()
    }

    fn next_walk(&self) -> Option<Instant> {
        match self.walked_at {
            None => self.first_over,
            Some(walked) => {
                let soonest =
                    self.first_over.map_or(walked + A_WALK_EVERY, |over| over.min(walked + A_WALK_EVERY));
                Some(soonest.max(walked + BETWEEN_WALKS))
            }
        }
    }

    /// Gives what there is to those who came first. Those who got something are in `served`; until the commit they may have to come
    /// back. Answers how many were looked at.
    pub(super) fn serve(
        &mut self,
        batch: &mut Batch<'_, '_>,
        now: Instant,
        served: &mut Vec<Waiting>,
    ) -> Result<u64, StoreError> {
        self.lines.values_mut().for_each(|line| line.looked = false);
        let mut looks = 0;
        loop {
            let may_get = |line: &&mut Line| {
                !line.looked && !line.queue.is_empty() && !line.watch.is_idle(batch.memory, now)
            };
            let first = |line: &&mut Line| line.queue.front().map_or(u64::MAX, |waiting| waiting.number);
            let Some(line) = self.lines.values_mut().filter(may_get).min_by_key(first) else {
                return Ok(looks);
            };
            let Some(mut waiting) = line.queue.pop_front() else { return Ok(looks) };
            if waiting.operation.abandoned() {
                // Nothing was got for it, so nothing comes back.
                self.count -= 1;
                continue;
            }
            looks += 1;
            match waiting.operation.apply(batch) {
                Ok(Step::Done) => {
                    self.count -= 1;
                    served.push(waiting);
                }
                Ok(Step::Park) => {
                    line.watch = waiting.operation.watch();
                    line.looked = true;
                    line.queue.push_front(waiting);
                }
                Err(error) => {
                    waiting.operation.undo();
                    line.queue.push_front(waiting);
                    return Err(error);
                }
            }
        }
    }

    /// The transaction is undone: they have not got anything, and stand where they stood.
    pub(super) fn take_back(&mut self, served: Vec<Waiting>) {
        for mut waiting in served.into_iter().rev() {
            waiting.operation.undo();
            if let Some(line) = self.lines.get_mut(&waiting.interest) {
                self.count += 1;
                line.queue.push_front(waiting);
            }
        }
    }

    /// Those whose time is over, and those who have gone, if it is time to look for them.
    pub(super) fn walk(&mut self, now: Instant) -> Vec<Box<dyn Operation>> {
        let mut over = Vec::new();
        if self.is_empty() || self.next_walk().is_some_and(|at| now < at) {
            // Whoever is the first to wait has just come.
            self.walked_at = self.walked_at.or(Some(now));
            return over;
        }
        self.walked_at = Some(now);
        self.first_over = None;
        for line in self.lines.values_mut() {
            let mut staying = VecDeque::with_capacity(line.queue.len());
            for waiting in line.queue.drain(..) {
                let until = waiting.operation.patience();
                if waiting.operation.abandoned() || until.is_none_or(|until| until <= now) {
                    over.push(waiting.operation);
                } else {
                    self.first_over = self.first_over.into_iter().chain(until).min();
                    staying.push_back(waiting);
                }
            }
            line.queue = staying;
        }
        self.lines.retain(|_, line| !line.queue.is_empty());
        self.count -= over.len();
        over
    }

    /// Everybody, in no particular order.
    pub(super) fn drain(&mut self) -> Vec<Box<dyn Operation>> {
        let lines = std::mem::take(self).lines;
        lines.into_values().flat_map(|line| line.queue).map(|waiting| waiting.operation).collect()
    }
}
