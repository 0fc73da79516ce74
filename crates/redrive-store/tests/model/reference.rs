//! The model: what the store must be, in maps, as plainly as it can be said. Nothing here is fast, and nothing is shared
//! with the store but its ids.

use std::collections::{BTreeMap, HashMap};

use redrive_policy::Cause;
use redrive_store::{JobId, LeaseToken, WorkerId};

pub(crate) const LANES: [(&str, &str); 4] = [("p", "a"), ("p", "b"), ("q", "a"), ("q", "b")];
pub(crate) const LEASE_MS: i64 = 30_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Ready { run_at: i64, held_for: Option<WorkerId> },
    Leased { worker: WorkerId, expires_at: i64, begun: bool, cancel: bool, was_held: Option<WorkerId> },
    Dead { died_at: i64, cause: Cause },
    Ended,
}

#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) lane: usize,
    pub(crate) rank: i32,
    pub(crate) key: Option<u8>,
    pub(crate) deadline: Option<i64>,
    /// How long after its coming that was.
    pub(crate) allowed: Option<i64>,
    pub(crate) place: Place,
    pub(crate) fence: i64,
    pub(crate) attempts: u32,
    pub(crate) retries: u32,
    pub(crate) crashes: u32,
    pub(crate) redrives: u32,
    pub(crate) hint: Option<String>,
    pub(crate) delay: Option<i64>,
    /// Its events, those that were pruned included.
    pub(crate) story: Vec<Told>,
}

/// One event of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) event_type: &'static str,
    pub(crate) at: i64,
    /// Its place in the stream.
    pub(crate) place: usize,
    pub(crate) pruned: bool,
    /// Told about the job, but no part of its story.
    pub(crate) beside: bool,
}

impl Known {
    pub(crate) fn is_over(&self) -> bool {
        self.place == Place::Ended
    }

    /// What can still be read of its story: back from its end to where it was pruned.
    pub(crate) fn readable(&self) -> Vec<Told> {
        let own = self.story.iter().rev().filter(|told| !told.beside).take_while(|told| !told.pruned);
        let beside = self.story.iter().filter(|told| told.beside && !told.pruned);
        let mut story: Vec<_> = own.chain(beside).copied().collect();
        story.sort_unstable_by_key(|told| told.place);
        story
    }

    /// Over, and the end of its story is pruned.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_over() && self.story.iter().rfind(|told| !told.beside).is_some_and(|told| told.pruned)
    }

    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.place, Place::Dead { .. })
    }

    /// Ready and due, for this worker, in one of these lanes.
    fn is_due(&self, now: i64, worker: WorkerId, lanes: u8) -> bool {
        match &self.place {
            Place::Ready { run_at, held_for: None } => *run_at <= now && lanes & (1 << self.lane) != 0,
            Place::Ready { run_at, held_for: Some(owner) } => *run_at <= now && *owner == worker,
            _ => false,
        }
    }
}

fn believed(now: i64, expires_at: i64, length: i64) -> i64 {
    let long_ago = now - length.max(600_000);
    if (long_ago..=now + length).contains(&expires_at) { expires_at } else { now + length }
}

#[derive(Debug, Clone)]
pub(crate) struct Present {
    pub(crate) expires_at: i64,
    pub(crate) lasts: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) now: i64,
    pub(crate) jobs: BTreeMap<JobId, Known>,
    pub(crate) workers: BTreeMap<WorkerId, Present>,
    /// Every worker that ever came, gone ones included.
    pub(crate) all_workers: Vec<WorkerId>,
    pub(crate) tokens: Vec<LeaseToken>,
    pub(crate) succeeded: [u64; 4],
    pub(crate) cancelled: [u64; 4],
    pub(crate) made: [bool; 4],
    /// All events in the order in which they were written: whose, when, and whether they were pruned.
    pub(crate) stream: Vec<(Option<JobId>, i64, bool)>,
    /// So far the last round of pruning looked.
    pub(crate) pruned_to: usize,
    /// A letter that nothing ever happens to.
    pub(crate) anchor: Option<JobId>,
}

impl Reference {
    pub(crate) fn tell(&mut self, id: JobId, event_type: &'static str) {
        self.tell_as(id, event_type, false);
    }

    /// What is told about a job from beside its story.
    pub(crate) fn tell_beside(&mut self, id: JobId, event_type: &'static str) {
        self.tell_as(id, event_type, true);
    }

    fn tell_as(&mut self, id: JobId, event_type: &'static str, beside: bool) {
        let told = Told { event_type, at: self.now, place: self.stream.len(), pruned: false, beside };
        self.stream.push((Some(id), self.now, false));
        self.jobs.get_mut(&id).unwrap().story.push(told);
    }

    /// A round of pruning events, as long as it is allowed to be; answers how many went.
    pub(crate) fn prune(&mut self, before: i64, limit: usize) -> u64 {
        let begin = self.pruned_to;
        let left = self.stream.iter().enumerate().skip(begin).filter(|(_, (_, _, pruned))| !pruned);
        let old: Vec<_> = left
            .take(limit)
            .take_while(|(_, (_, at, _))| *at < before)
            .map(|(place, (job, ..))| (place, *job))
            .collect();
        self.pruned_to = if old.len() < limit { 0 } else { old.last().map_or(0, |(place, _)| place + 1) };
        let mut gone = 0;
        for (place, job) in old {
            if job.is_some() && job == self.anchor {
                continue;
            }
            let known = job.map(|job| self.jobs.get_mut(&job).unwrap());
            if known.as_ref().is_some_and(|known| !known.is_over()) {
                continue;
            }
            self.stream[place].2 = true;
            gone += 1;
            if let Some(known) = known {
                known.story.iter_mut().find(|told| told.place == place).unwrap().pruned = true;
            }
        }
        gone
    }

    /// Who has the key in that queue.
    pub(crate) fn holder(&self, lane: usize, key: u8) -> Option<JobId> {
        let same = |known: &Known| {
            known.key == Some(key)
                && LANES[known.lane].0 == LANES[lane].0
                && !known.is_over()
                && !known.is_dead()
        };
        self.jobs.iter().find(|(_, known)| same(known)).map(|(id, _)| *id)
    }

    /// What a request gets, in order.
    pub(crate) fn due(&self, worker: WorkerId, lanes: u8, max: usize) -> Vec<JobId> {
        let mut due: Vec<_> =
            self.jobs.iter().filter(|(_, known)| known.is_due(self.now, worker, lanes)).collect();
        due.sort_by_key(|(id, known)| {
            let Place::Ready { run_at, .. } = known.place else { unreachable!() };
            (-known.rank, run_at, **id)
        });
        due.into_iter().take(max).map(|(id, _)| *id).collect()
    }

    /// The job that this token still holds.
    pub(crate) fn held(&self, token: LeaseToken) -> Option<&Known> {
        let known = self.jobs.get(&token.job)?;
        (matches!(known.place, Place::Leased { .. }) && known.fence == token.fence).then_some(known)
    }

    /// A reservation for a worker that is not known makes it one that is gone.
    pub(crate) fn reserve(&mut self, worker: Option<WorkerId>) {
        if let Some(worker) = worker {
            self.workers.entry(worker).or_insert(Present { expires_at: -1_800_000_000_000, lasts: 0 });
        }
    }

    /// Presences and leases that outlast their own length were written before the clock went back; what expired long ago
    /// gets its length once more.
    pub(crate) fn clamp(&mut self) {
        let now = self.now;
        for known in self.jobs.values_mut() {
            if let Place::Leased { expires_at, .. } = &mut known.place {
                *expires_at = believed(now, *expires_at, LEASE_MS);
            }
        }
        for present in self.workers.values_mut() {
            present.expires_at = believed(now, present.expires_at, present.lasts);
        }
    }

    pub(crate) fn counts(&self) -> HashMap<usize, (u64, u64, u64)> {
        let mut counts: HashMap<usize, (u64, u64, u64)> = HashMap::new();
        for known in self.jobs.values() {
            let lane = counts.entry(known.lane).or_default();
            match known.place {
                Place::Ready { .. } => lane.0 += 1,
                Place::Leased { .. } => lane.1 += 1,
                Place::Dead { .. } => lane.2 += 1,
                Place::Ended => {}
            }
        }
        counts
    }
}
