//! What depends on what (R-T1): the subtasks of a plan by number, and the questions that are asked about them.
//!
//! A graph has no circles; that is checked once, when it is made. Every question takes a time that grows with what there
//! is to look at, never with its square, and none of them recurses: a chain of a hundred thousand is fine.

mod circle;
mod front;
mod reach;

use std::fmt;

use crate::cause::named_enum;
use crate::plan::Plan;

pub use front::Front;

named_enum! {
    /// Where a subtask stands.
    Stand {
        /// It waits: for what it depends on, or for its turn.
        Waiting = "waiting",
        /// It is being worked on.
        Started = "started",
        /// It is done.
        Succeeded = "succeeded",
        /// Its policy has given up on it.
        Failed = "failed",
        /// It will not be begun: something that it depends on failed.
        Skipped = "skipped",
        /// Somebody ended it.
        Cancelled = "cancelled",
    }
}

impl Stand {
    /// Whether anything may have been written by it.
    pub const fn has_begun(self) -> bool {
        match self {
            Stand::Started | Stand::Succeeded | Stand::Failed | Stand::Cancelled => true,
            Stand::Waiting | Stand::Skipped => false,
        }
    }
}

/// Subtasks and their dependencies, without a circle.
///
/// ```
/// use redrive_policy::graph::Graph;
///
/// // 1 and 2 depend on 0, and 3 on both of them.
/// let graph = Graph::new(4, [(1, 0), (2, 0), (3, 1), (3, 2)]).unwrap();
/// assert_eq!(graph.dependents(0), [1, 2]);
/// assert_eq!(graph.downstream([1]), [3]);
/// assert_eq!(graph.levels(), [vec![0], vec![1, 2], vec![3]]);
/// assert!(Graph::new(2, [(0, 1), (1, 0)]).is_err());
/// ```
#[derive(Debug, Clone)]
pub struct Graph {
    needs: Links,
    dependents: Links,
    /// Each after all that it depends on.
    order: Vec<u32>,
    /// Where each stands in that order.
    place: Vec<u32>,
    level: Vec<u32>,
    chain: Vec<u32>,
}

/// Why there is no such graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadGraph {
    /// A dependency leads to a number that nobody has.
    NoSuchSubtask(u32),
    /// These depend on one another; the first is named again at the end.
    Circle(Vec<u32>),
}

impl fmt::Display for BadGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadGraph::NoSuchSubtask(number) => write!(f, "there is no subtask {number} to depend on"),
            BadGraph::Circle(numbers) => {
                let names: Vec<String> = numbers.iter().take(64).map(u32::to_string).collect();
                let more = if numbers.len() > names.len() { " → …" } else { "" };
                write!(f, "subtasks depend on one another in a circle: {}{more}", names.join(" → "))
            }
        }
    }
}

impl std::error::Error for BadGraph {}

impl Graph {
    /// The graph of `len` subtasks in which each `(a, b)` says that a depends on b.
    pub fn new(len: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Result<Graph, BadGraph> {
        let edges: Vec<(u32, u32)> = edges.into_iter().collect();
        let beyond = edges.iter().flat_map(|(a, b)| [*a, *b]).find(|number| *number as usize >= len);
        if let Some(number) = beyond {
            return Err(BadGraph::NoSuchSubtask(number));
        }
        let needs = Links::new(len, edges);
        Graph::of_links(needs).map_err(|mut circles| BadGraph::Circle(circles.swap_remove(0)))
    }

    /// The graph of a plan.
    pub fn of(plan: &Plan) -> Result<Graph, BadGraph> {
        let numbered = (0_u32..).zip(&plan.subtasks);
        let edges = numbered.flat_map(|(a, subtask)| subtask.depends_on.iter().map(move |b| (a, *b)));
        Graph::new(plan.subtasks.len(), edges)
    }

    /// The graph, or its circles: one for every knot of subtasks that depend on one another.
    pub(crate) fn of_links(needs: Links) -> Result<Graph, Vec<Vec<u32>>> {
        let dependents = needs.turned();
        let len = needs.len();
        let mut missing: Vec<u32> = (0..len).map(|i| needs.degree(i)).collect();
        let mut order: Vec<u32> = all(len).filter(|i| missing[*i as usize] == 0).collect();
        let mut level = vec![0_u32; len];
        let mut next = 0;
        while let Some(&done) = order.get(next) {
            next += 1;
            for &dependent in dependents.of(done) {
                let below = level[done as usize] + 1;
                let own = &mut level[dependent as usize];
                *own = below.max(*own);
                missing[dependent as usize] -= 1;
                if missing[dependent as usize] == 0 {
                    order.push(dependent);
                }
            }
        }
        if order.len() < len {
            return Err(circle::circles(&needs));
        }
        let mut place = vec![0_u32; len];
        for (at, i) in (0_u32..).zip(&order) {
            place[*i as usize] = at;
        }
        let mut chain = vec![1_u32; len];
        for &i in order.iter().rev() {
            let longest = dependents.of(i).iter().map(|below| chain[*below as usize]).max();
            chain[i as usize] = longest.unwrap_or_default() + 1;
        }
        Ok(Graph { needs, dependents, order, place, level, chain })
    }

    /// How many subtasks there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What `i` depends on directly, in ascending order.
    pub fn needs(&self, i: u32) -> &[u32] {
        self.needs.of(i)
    }

    /// What depends on `i` directly, in ascending order.
    pub fn dependents(&self, i: u32) -> &[u32] {
        self.dependents.of(i)
    }

    /// All of them, each after everything that it depends on.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Where `i` stands in [`order`](Graph::order).
    pub fn place(&self, i: u32) -> u32 {
        self.place[i as usize]
    }

    /// How far down `i` is drawn: the longest way to it from one that depends on nothing.
    pub fn level(&self, i: u32) -> u32 {
        self.level[i as usize]
    }

    /// How many are on the longest chain that begins with `i`.
    pub fn chain(&self, i: u32) -> u32 {
        self.chain[i as usize]
    }

    /// The rows of a drawing; within a row by number.
    pub fn levels(&self) -> Vec<Vec<u32>> {
        let rows = self.level.iter().max().map_or(0, |deepest| *deepest as usize + 1);
        let mut levels = vec![Vec::new(); rows];
        for i in all(self.len()) {
            levels[self.level[i as usize] as usize].push(i);
        }
        levels
    }

    /// Everything that depends on any of these, directly or from afar, in ascending order. One of these is among it only
    /// if it depends on another.
    pub fn downstream(&self, of: impl IntoIterator<Item = u32>) -> Vec<u32> {
        self.dependents.reached(of)
    }

    /// Everything that any of these depends on, directly or from afar, in ascending order.
    pub fn upstream(&self, of: impl IntoIterator<Item = u32>) -> Vec<u32> {
        self.needs.reached(of)
    }

    /// Sorts them in the order in which they are undone: whatever depends on another comes before it.
    pub fn last_first(&self, mut these: Vec<u32>) -> Vec<u32> {
        these.sort_unstable_by_key(|i| std::cmp::Reverse(self.place(*i)));
        these
    }
}

/// Lists of numbers, one for each number, in one piece of memory. Each list is sorted and names nothing twice.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    begins: Vec<usize>,
    targets: Vec<u32>,
}

impl Links {
    /// From pairs of numbers below `len`.
    pub(crate) fn new(len: usize, mut pairs: Vec<(u32, u32)>) -> Links {
        pairs.sort_unstable();
        pairs.dedup();
        let mut begins = vec![0; len + 1];
        for (from, _) in &pairs {
            begins[*from as usize + 1] += 1;
        }
        for i in 0..len {
            begins[i + 1] += begins[i];
        }
        Links { begins, targets: pairs.into_iter().map(|(_, to)| to).collect() }
    }

    fn len(&self) -> usize {
        self.begins.len() - 1
    }

    fn of(&self, i: u32) -> &[u32] {
        let i = i as usize;
        &self.targets[self.begins[i]..self.begins[i + 1]]
    }

    fn degree(&self, i: usize) -> u32 {
        u32::try_from(self.begins[i + 1] - self.begins[i]).unwrap_or(u32::MAX)
    }

    fn turned(&self) -> Links {
        let pairs = all(self.len()).flat_map(|from| self.of(from).iter().map(move |to| (*to, from)));
        Links::new(self.len(), pairs.collect())
    }

    fn reached(&self, from: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut reached = vec![false; self.len()];
        let mut left: Vec<u32> = from.into_iter().collect();
        while let Some(i) = left.pop() {
            for &next in self.of(i) {
                if !std::mem::replace(&mut reached[next as usize], true) {
                    left.push(next);
                }
            }
        }
        all(self.len()).filter(|i| reached[*i as usize]).collect()
    }
}

/// The numbers of `len` subtasks.
pub(crate) fn all(len: usize) -> impl DoubleEndedIterator<Item = u32> + Clone {
    // Plans end at a hundred thousand, and a graph of 2³² edges fits no memory.
    0..u32::try_from(len).unwrap_or(u32::MAX)
}
