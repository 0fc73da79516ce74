//! Which subtasks can be started now, kept up to date as others come to their end.
//!
//! A subtask is ready when everything that it depends on has succeeded. Of those that are ready the one with the longest
//! chain behind it goes first, since the task cannot end before that chain does. Subtasks that put back the same files
//! never run at the same time: they share a *lane*, or their lanes cross, and the later one waits for the earlier.
//!
//! Every step takes time for the neighbours of one subtask, and for the lanes that wait for its files.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use super::{Graph, Stand, all};
use crate::plan::Plan;
use crate::plan::roots::{around, inside};

/// Who goes first: the longest chain, then the smallest number.
type Rank = (u32, Reverse<u32>);

/// The front of a task that is being worked on.
///
/// ```
/// use std::sync::Arc;
/// use redrive_policy::graph::{Front, Graph, Stand};
///
/// let graph = Arc::new(Graph::new(3, [(1, 0)]).unwrap());
/// let mut front = Front::new(graph, vec![Stand::Waiting; 3]);
/// assert_eq!(front.take(8), [0, 2]);
/// front.set(0, Stand::Succeeded);
/// assert_eq!(front.take(8), [1]);
/// ```
#[derive(Debug, Clone)]
pub struct Front {
    graph: Arc<Graph>,
    stands: Vec<Stand>,
    /// How many of its dependencies have not succeeded, for each.
    unmet: Vec<u32>,
    /// Whether it is in one of the heaps.
    queued: Vec<bool>,
    ready: BinaryHeap<Rank>,
    /// The lane of each; none for those without files.
    lane_of: Vec<Option<usize>>,
    lanes: Vec<Lane>,
    /// How many started ones hold each root.
    held: BTreeMap<String, u32>,
    /// The lanes that wait for a root.
    parked_at: HashMap<String, Vec<usize>>,
}

/// Subtasks with the same roots, of which one runs at a time.
#[derive(Debug, Clone)]
struct Lane {
    roots: Vec<String>,
    /// Those that were ready when the lane was not free.
    waiting: BinaryHeap<Rank>,
    parked: bool,
}

impl Front {
    /// The front of subtasks that stand so, none of which has files to put back.
    pub fn new(graph: Arc<Graph>, stands: Vec<Stand>) -> Front {
        Front::with_roots(graph, stands, |_| &[])
    }

    /// The front of a plan whose subtasks stand so.
    pub fn of(plan: &Plan, graph: Arc<Graph>, stands: Vec<Stand>) -> Front {
        Front::with_roots(graph, stands, |i| {
            let snapshot = plan.subtasks.get(i as usize).and_then(|subtask| subtask.snapshot.as_ref());
            snapshot.map_or(&[], |snapshot| &snapshot.roots)
        })
    }

    /// The front of subtasks that stand so and put back the files in these roots. What stands nowhere waits.
    pub fn with_roots<'a>(
        graph: Arc<Graph>,
        mut stands: Vec<Stand>,
        roots_of: impl Fn(u32) -> &'a [String],
    ) -> Front {
        let len = graph.len();
        stands.resize(len, Stand::Waiting);
        let mut lanes: Vec<Lane> = Vec::new();
        let mut by_roots: HashMap<Vec<String>, usize> = HashMap::new();
        let mut lane_of = Vec::with_capacity(len);
        for i in all(len) {
            let mut roots = roots_of(i).to_vec();
            roots.sort_unstable();
            roots.dedup();
            lane_of.push((!roots.is_empty()).then(|| {
                *by_roots.entry(roots).or_insert_with_key(|roots| {
                    lanes.push(Lane { roots: roots.clone(), waiting: BinaryHeap::new(), parked: false });
                    lanes.len() - 1
                })
            }));
        }
        let done = |i: &u32| stands[*i as usize] == Stand::Succeeded;
        let missing = |i: u32| graph.needs(i).iter().filter(|need| !done(need)).count();
        let unmet = all(len).map(|i| u32::try_from(missing(i)).unwrap_or(u32::MAX)).collect();
        let mut front = Front {
            stands,
            unmet,
            queued: vec![false; len],
            ready: BinaryHeap::new(),
            lane_of,
            lanes,
            held: BTreeMap::new(),
            parked_at: HashMap::new(),
            graph,
        };
        for i in all(len) {
            if front.stands[i as usize] == Stand::Started {
                front.hold(i);
            }
            front.enqueue(i);
        }
        front
    }

    /// At most `n` subtasks that can be started now, best first. They have started.
    pub fn take(&mut self, n: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        while taken.len() < n {
            let Some(rank) = self.ready.pop() else { break };
            let (_, Reverse(i)) = rank;
            let lane = self.lane_of[i as usize];
            // What was undone, or waits again for something that was, may still be in here.
            if !self.is_ready(i) {
                self.queued[i as usize] = false;
                if let Some(lane) = lane {
                    self.wake(lane);
                }
                continue;
            }
            if let Some((lane, root)) = lane.and_then(|lane| Some((lane, self.in_the_way(lane)?))) {
                self.lanes[lane].waiting.push(rank);
                self.park(lane, root);
                continue;
            }
            self.queued[i as usize] = false;
            self.stands[i as usize] = Stand::Started;
            self.hold(i);
            // Whoever else is in this lane waits for this one.
            if let Some(lane) = lane.filter(|lane| !self.lanes[*lane].waiting.is_empty()) {
                let root = self.lanes[lane].roots[0].clone();
                self.park(lane, root);
            }
            taken.push(i);
        }
        taken
    }

    /// Notes where a subtask stands now, and makes ready whatever that makes ready.
    pub fn set(&mut self, i: u32, stand: Stand) {
        let before = std::mem::replace(&mut self.stands[i as usize], stand);
        if before == stand {
            return;
        }
        match (before == Stand::Succeeded, stand == Stand::Succeeded) {
            (false, true) => {
                for at in 0..self.graph.dependents(i).len() {
                    let dependent = self.graph.dependents(i)[at];
                    self.unmet[dependent as usize] -= 1;
                    self.enqueue(dependent);
                }
            }
            (true, false) => {
                for &dependent in self.graph.dependents(i) {
                    self.unmet[dependent as usize] += 1;
                }
            }
            _ => {}
        }
        if stand == Stand::Started {
            self.hold(i);
        }
        if before == Stand::Started {
            self.release(i);
        }
        self.enqueue(i);
    }

    /// It has succeeded: what depends on it may be ready.
    pub fn succeeded(&mut self, i: u32) {
        self.set(i, Stand::Succeeded);
    }

    /// It has failed for good.
    pub fn failed(&mut self, i: u32) {
        self.set(i, Stand::Failed);
    }

    /// These were undone and wait again; so does whatever depends on them and has not started.
    pub fn undone(&mut self, these: impl IntoIterator<Item = u32>) {
        for i in these {
            self.set(i, Stand::Waiting);
        }
    }

    /// Where each stands.
    pub fn stands(&self) -> &[Stand] {
        &self.stands
    }

    /// What depends on what.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    fn is_ready(&self, i: u32) -> bool {
        self.stands[i as usize] == Stand::Waiting && self.unmet[i as usize] == 0
    }

    fn enqueue(&mut self, i: u32) {
        if !self.is_ready(i) || std::mem::replace(&mut self.queued[i as usize], true) {
            return;
        }
        let rank = (self.graph.chain(i), Reverse(i));
        match self.lane_of[i as usize].filter(|lane| self.lanes[*lane].parked) {
            Some(lane) => self.lanes[lane].waiting.push(rank),
            None => self.ready.push(rank),
        }
    }

    /// A root that somebody holds and that crosses the lane.
    fn in_the_way(&self, lane: usize) -> Option<String> {
        self.lanes[lane].roots.iter().find_map(|root| {
            let outer = around(root).find(|outer| self.held.contains_key(*outer));
            outer.map(str::to_owned).or_else(|| inside(&self.held, root).cloned())
        })
    }

    fn hold(&mut self, i: u32) {
        let Some(lane) = self.lane_of[i as usize] else { return };
        for root in &self.lanes[lane].roots {
            *self.held.entry(root.clone()).or_default() += 1;
        }
    }

    fn release(&mut self, i: u32) {
        let Some(lane) = self.lane_of[i as usize] else { return };
        for at in 0..self.lanes[lane].roots.len() {
            let root = self.lanes[lane].roots[at].clone();
            let holders = self.held.get_mut(&root).map(|holders| {
                *holders -= 1;
                *holders
            });
            if holders == Some(0) {
                self.held.remove(&root);
                for parked in self.parked_at.remove(&root).unwrap_or_default() {
                    self.lanes[parked].parked = false;
                    self.wake(parked);
                }
            }
        }
    }

    fn park(&mut self, lane: usize, root: String) {
        if !std::mem::replace(&mut self.lanes[lane].parked, true) {
            self.parked_at.entry(root).or_default().push(lane);
        }
    }

    /// Sends the best of a lane that is not parked; the next follows when that one is done, or no longer ready.
    fn wake(&mut self, lane: usize) {
        if !self.lanes[lane].parked {
            let best = self.lanes[lane].waiting.pop();
            self.ready.extend(best);
        }
    }
}
