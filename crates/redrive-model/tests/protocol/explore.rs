//! Breadth first through everything that can happen, so that what is found is found by the shortest way.
//!
//! A moment is remembered by a fingerprint of 128 bits; how it was reached, by the one before it. A way is told by walking
//! it again. Afterwards every moment is asked whether the jobs can still come to their end.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::rules::{Broken, Model};
use crate::state::{Place, State};
use crate::step::{Action, Next};

/// More than this is a mistake in the bounds, and would take for ever.
const MOST: usize = 10_000_000;

/// What an exploration found.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) depth: u32,
    pub(crate) took: Duration,
    pub(crate) broken: Option<Trace>,
    /// How often each kind of step was taken.
    pub(crate) taken: [u64; Action::NAMES.len()],
    /// Settlements that came too late and changed nothing.
    pub(crate) stale: u64,
    /// Moments at which the first job was a dead letter.
    pub(crate) first_dead: u64,
}

/// The shortest way to what does not hold.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) broken: Broken,
    pub(crate) steps: Vec<(State, Action)>,
}

/// Which of the broken invariants are looked for; steps that break others are not taken.
pub(crate) type Wanted = fn(Broken) -> bool;

struct Explorer<'a> {
    model: &'a Model,
    seen: HashMap<u128, u32, BuildHasherDefault<Already>>,
    prints: Vec<u128>,
    parents: Vec<u32>,
    depths: Vec<u16>,
    /// Where ordinary steps lead from each moment; its steps begin at its place in `begins`.
    ordinary: Vec<u32>,
    begins: Vec<u32>,
    settled: Vec<bool>,
}

/// Looks at everything that can happen.
pub(crate) fn explore(model: &Model, wanted: Wanted) -> Explored {
    let began = Instant::now();
    let mut explorer = Explorer {
        model,
        seen: HashMap::default(),
        prints: Vec::new(),
        parents: Vec::new(),
        depths: Vec::new(),
        ordinary: Vec::new(),
        begins: vec![0],
        settled: Vec::new(),
    };
    let (mut taken, mut stale, mut first_dead) = ([0; Action::NAMES.len()], 0, 0);
    let mut broken = None;
    let mut queue = VecDeque::new();
    let initial = model.initial().canonical();
    explorer.add(&initial, 0);
    queue.push_back(initial);
    let mut next: Vec<Next> = Vec::new();
    let mut number = 0;
    'all: while let Some(state) = queue.pop_front() {
        assert!(
            explorer.prints.len() < MOST,
            "more than {MOST} states: the bounds of this scene are too wide"
        );
        model.successors(&state, &mut next);
        for (action, after) in &next {
            taken[action.kind()] += 1;
            stale += u64::from(action.is_stale(&state));
            let after = match after {
                Ok(after) => after.canonical(),
                Err(found) if wanted(*found) => {
                    broken = Some(explorer.trace(number, *found));
                    break 'all;
                }
                Err(_) => continue,
            };
            let known = explorer.prints.len();
            let at = explorer.add(&after, number);
            if action.is_ordinary() {
                explorer.ordinary.push(at);
            }
            if at as usize == known {
                queue.push_back(after);
            }
        }
        explorer.begins.push(u32::try_from(explorer.ordinary.len()).expect("fewer than 2^32 steps"));
        first_dead += u64::from(state.jobs[0].place == Place::Dead);
        number += 1;
    }
    if broken.is_none() && wanted(Broken::Stuck) {
        broken = explorer.stuck().map(|stuck| explorer.trace(stuck, Broken::Stuck));
    }
    Explored {
        states: explorer.prints.len(),
        depth: explorer.depths.iter().copied().max().unwrap_or(0).into(),
        took: began.elapsed(),
        broken,
        taken,
        stale,
        first_dead,
    }
}

impl Explorer<'_> {
    /// The number of a moment; a new one is written down.
    fn add(&mut self, state: &State, parent: u32) -> u32 {
        let print = fingerprint(state);
        let new = u32::try_from(self.prints.len()).expect("fewer than 2^32 moments");
        let at = *self.seen.entry(print).or_insert(new);
        if at == new {
            self.prints.push(print);
            self.parents.push(parent);
            self.depths.push(if new == 0 { 0 } else { self.depths[parent as usize] + 1 });
            self.settled.push(state.is_settled());
        }
        at
    }

    /// The first moment from which ordinary steps lead nowhere: no job can come to its end any more.
    fn stuck(&self) -> Option<u32> {
        let mut good = self.settled.clone();
        // Most steps lead to moments that were found later, so that few rounds from the back suffice.
        loop {
            let mut changed = false;
            for at in (0..good.len()).rev().filter(|at| *at + 1 < self.begins.len()) {
                let steps = self.begins[at] as usize..self.begins[at + 1] as usize;
                if !good[at] && self.ordinary[steps].iter().any(|to| good[*to as usize]) {
                    good[at] = true;
                    changed = true;
                }
            }
            if !changed {
                return good.iter().position(|good| !good).map(|at| u32::try_from(at).unwrap_or(u32::MAX));
            }
        }
    }

    /// Walks the way to a moment once more, the workers keeping their numbers, and takes the step that breaks something.
    fn trace(&self, last: u32, broken: Broken) -> Trace {
        let mut way = vec![last];
        while let Some(at) = way.last().copied().filter(|at| *at != 0) {
            way.push(self.parents[at as usize]);
        }
        way.reverse();
        let mut state = self.model.initial();
        let mut next = Vec::new();
        let mut steps = Vec::new();
        for at in &way[1..] {
            self.model.successors(&state, &mut next);
            let leads = |after: &State| fingerprint(&after.canonical()) == self.prints[*at as usize];
            let found = next.iter().find_map(|(action, after)| Some((*action, after.ok().filter(leads)?)));
            let (action, after) = found.expect("the way was walked before");
            steps.push((state, action));
            state = after;
        }
        self.model.successors(&state, &mut next);
        let last = next.iter().find(|(_, after)| *after == Err(broken));
        steps.extend(last.map(|(action, _)| (state, *action)));
        Trace { broken, steps }
    }
}

fn fingerprint(state: &State) -> u128 {
    let mut print = Print::default();
    state.hash(&mut print);
    print.whole()
}

/// Two lanes of 64 bits, each stirred by every word.
#[derive(Default)]
struct Print {
    lanes: [u64; 2],
    word: u64,
    bytes: u32,
}

impl Print {
    fn stir(&mut self) {
        const ODD: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F];
        for (lane, odd) in self.lanes.iter_mut().zip(ODD) {
            *lane = (*lane ^ self.word).wrapping_add(odd).wrapping_mul(odd | 1);
            *lane ^= *lane >> 29;
        }
        (self.word, self.bytes) = (0, 0);
    }

    fn whole(mut self) -> u128 {
        self.stir();
        self.stir();
        u128::from(self.lanes[0]) << 64 | u128::from(self.lanes[1])
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        self.lanes[0]
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (8 * self.bytes);
        self.bytes += 1;
        if self.bytes == 8 {
            self.stir();
        }
    }

    // Which variant an enum is: there are few.
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(u8::try_from(variant).unwrap_or(u8::MAX));
    }
}

/// A fingerprint is stirred enough already.
#[derive(Default)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up");
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = (print >> 64) as u64;
    }
}
