//! Those who wait for work.
//!
//! Whoever waits for the same thing stands in one line, and only lines are looked at: thousands of workers that wait for one queue cost
//! what one of them does. The store is looked into for a few of a line at a time; when there was something for all of them, the next few
//! look. Nobody has a timer: those whose time is over, or who have gone, are found by a walk through all lines, which is not made often.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use super::memory::Memory;
use super::operation::LeaseCall;
use crate::id::WorkerId;
use crate::job::NewJob;
use crate::lease::LeaseRequest;

/// How many of a line the store is looked into for at once.
const AT_ONCE: usize = 64;
/// The shortest time between two walks: whoever waits for seconds may wait for so much longer.
const BETWEEN_WALKS: Duration = Duration::from_millis(20);
/// The longest: until then one who has gone may be remembered.
const A_WALK_EVERY: Duration = Duration::from_secs(1);

/// How many walks find a line empty until it is forgotten.
const EMPTY_WALKS: u32 = 30;
/// For a line that was never looked at.
const NEVER: u64 = u64::MAX;

/// How much is done for those who wait, for tests that show how little that is.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Transactions of many.
    pub(super) groups: AtomicU64,
    /// How often somebody who waited rode along in one.
    pub(super) rides: AtomicU64,
    /// How often the store was looked into for all of them.
    pub(super) looks: AtomicU64,
    /// How often the end of the stream was looked at for all who follow it.
    pub(super) follows: AtomicU64,
    /// How many wait, at the last walk.
    pub(super) parked: AtomicUsize,
}

/// Work of these kinds in these queues, or reserved for this worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Interest {
    worker: WorkerId,
    reserved_only: bool,
    queues: Vec<String>,
    kinds: Vec<String>,
}

impl Interest {
    pub(super) fn of(request: &LeaseRequest) -> Interest {
        Interest {
            worker: request.worker,
            reserved_only: request.reserved_only,
            queues: request.queues.clone(),
            kinds: request.kinds.clone(),
        }
    }

    fn wants(&self, (queue, kind): (&str, &str)) -> bool {
        !self.reserved_only
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && (self.queues.is_empty() || self.queues.iter().any(|wanted| wanted == queue))
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// The lanes that they look at, and how many lanes were known then.
    places: Vec<i64>,
    lanes_known: Option<usize>,
    /// Some of them are looking in this moment.
    looking: bool,
    /// How often it had been forgotten when it was looked up last when something is due here.
    known_at: u64,
    /// How many walks have found nobody here.
    empty_walks: u32,
    waiting: VecDeque<(u64, LeaseCall)>,
}

impl Queue {
    fn learn(&mut self, interest: &Interest, memory: &Memory) {
        // Lanes are never deleted.
        if self.lanes_known != Some(memory.lanes_known()) {
            let Interest { reserved_only, queues, kinds, worker } = interest;
            self.places = if *reserved_only { Vec::new() } else { memory.lanes_of(queues, kinds) };
            self.places.push(-worker.0);
            self.lanes_known = Some(memory.lanes_known());
        }
    }

    fn is_idle(&self, idle: &HashSet<i64>) -> bool {
        self.places.iter().all(|place| idle.contains(place))
    }

    /// Those who came first, but nobody who has gone.
    fn first(&mut self, most: usize, into: &mut Vec<(u64, LeaseCall)>) {
        for _ in 0..most {
            let next = loop {
                match self.waiting.pop_front() {
                    // Nothing was leased, so nothing comes back.
                    Some((_, call)) if call.abandoned() => {}
                    next => break next,
                }
            };
            let Some(next) = next else { return };
            into.push(next);
        }
    }
}

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Parked {
    lines: HashMap<Interest, Queue>,
    next_number: u64,
    /// When the first of them has waited long enough.
    first_over: Option<Instant>,
    walked_at: Option<Instant>,
    /// How often it was forgotten when something is due.
    forgotten: u64,
    /// Somebody waits for whom it is not known.
    unknown: bool,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.values().all(|line| line.waiting.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.lines.values().map(|line| line.waiting.len()).sum()
    }

    /// One more waits, at the end of its line; or it has not got anything, and stands where it stood.
    pub(super) fn push(&mut self, mut call: LeaseCall) {
        if self.is_empty() {
            // The walks are counted from the first who waits.
            (self.walked_at, self.first_over) = (None, None);
        }
        self.first_over = Some(self.first_over.map_or(call.until, |first| first.min(call.until)));
        let number = call.number.unwrap_or(self.next_number);
        self.next_number = self.next_number.max(number + 1);
        (call.number, call.looked) = (Some(number), false);
        let forgotten = self.forgotten;
        let new = || Queue { known_at: NEVER, ..Queue::default() };
        let line = self.lines.entry(Interest::of(&call.request)).or_insert_with(new);
        self.unknown |= line.known_at != forgotten;
        let at = line.waiting.partition_point(|(other, _)| *other < number);
        line.waiting.insert(at, (number, call));
    }

    /// Whether others who wait for the same are looking in this moment, or nothing is due for them.
    pub(super) fn waits_like_others(
        &mut self,
        request: &LeaseRequest,
        memory: &Memory,
        idle: &HashSet<i64>,
    ) -> bool {
        let interest = Interest::of(request);
        if let Some(line) = self.lines.get_mut(&interest) {
            line.learn(&interest, memory);
            return line.looking || line.is_idle(idle);
        }
        let mut alone = Queue::default();
        alone.learn(&interest, memory);
        alone.is_idle(idle)
    }

    /// Takes those for whom there may be something new, as many as there is; and those for whom something may be due, a few of each
    /// line, which look. In the order in which they came.
    pub(super) fn awake<'a>(
        &mut self,
        new: impl Iterator<Item = &'a NewJob>,
        memory: &Memory,
        idle: &HashSet<i64>,
    ) -> (Vec<LeaseCall>, Vec<Interest>) {
        let mut fresh: HashMap<(&str, &str), usize> = HashMap::new();
        for job in new.filter(|job| job.held_for.is_none()) {
            *fresh.entry((job.queue(), &job.kind)).or_default() += 1;
        }
        let (mut taken, mut looking) = (Vec::new(), Vec::new());
        for (interest, line) in &mut self.lines {
            if line.waiting.is_empty() {
                continue;
            }
            line.learn(interest, memory);
            let due = !line.looking && !line.is_idle(idle);
            let before = taken.len();
            if due {
                line.first(AT_ONCE, &mut taken);
                taken[before..].iter_mut().for_each(|(_, call)| call.looked = true);
                line.looking = taken.len() > before;
                looking.extend(line.looking.then(|| interest.clone()));
            }
            let there_is: usize =
                fresh.iter().filter(|(job, _)| interest.wants(**job)).map(|(_, count)| count).sum();
            line.first(there_is.saturating_sub(taken.len() - before), &mut taken);
        }
        taken.sort_unstable_by_key(|(number, _)| *number);
        (taken.into_iter().map(|(_, call)| call).collect(), looking)
    }

    /// A look has ended, however it went.
    pub(super) fn looked(&mut self, looking: &[Interest]) {
        for interest in looking {
            if let Some(line) = self.lines.get_mut(interest) {
                line.looking = false;
            }
        }
    }

    /// When something is due next is not known any more, for anybody.
    pub(super) fn forget_when(&mut self) {
        self.forgotten = self.forgotten.wrapping_add(1);
        self.unknown = true;
    }

    /// Whether somebody waits for whom it is not known when something is due.
    pub(super) fn wants_a_look(&self) -> bool {
        self.unknown
    }

    /// Where those who wait look, each place once. Whoever asks will know when something is due there.
    pub(super) fn places(&mut self, memory: &Memory) -> Vec<i64> {
        let mut places = Vec::new();
        self.unknown = false;
        for (interest, line) in self.lines.iter_mut().filter(|(_, line)| !line.waiting.is_empty()) {
            line.learn(interest, memory);
            line.known_at = self.forgotten;
            places.extend_from_slice(&line.places);
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Everybody who waits, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = &LeaseCall> {
        self.lines.values().flat_map(|line| line.waiting.iter().map(|(_, call)| call))
    }

    /// When somebody has waited long enough, or it is time to look who has gone. Nothing when nobody waits.
    pub(super) fn next_walk(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let Some(walked) = self.walked_at else { return self.first_over };
        let last = walked + A_WALK_EVERY;
        Some(self.first_over.map_or(last, |over| over.min(last)).max(walked + BETWEEN_WALKS))
    }

    /// Those whose time is over, and those who have gone, if it is time to look for them.
    pub(super) fn walk(&mut self, now: Instant) -> Vec<LeaseCall> {
        if self.next_walk().is_none_or(|at| now < at) {
            // Whoever is the first to wait has just come.
            self.walked_at = self.walked_at.or(Some(now));
            return Vec::new();
        }
        self.walked_at = Some(now);
        self.first_over = None;
        let mut over = Vec::new();
        for line in self.lines.values_mut() {
            for (number, call) in std::mem::take(&mut line.waiting) {
                if call.abandoned() || call.until <= now {
                    over.push(call);
                } else {
                    self.first_over = Some(self.first_over.map_or(call.until, |first| first.min(call.until)));
                    line.waiting.push_back((number, call));
                }
            }
        }
        // One that comes back soon need not be looked for anew.
        self.lines.retain(|_, line| {
            line.empty_walks = if line.waiting.is_empty() { line.empty_walks + 1 } else { 0 };
            line.looking || line.empty_walks < EMPTY_WALKS
        });
        over
    }

    /// Everybody, at the end.
    pub(super) fn drain(&mut self) -> Vec<LeaseCall> {
        let lines = std::mem::take(&mut self.lines);
        lines.into_values().flat_map(|line| line.waiting).map(|(_, call)| call).collect()
    }
}
