//! Who depends on whom from afar, asked many times over.
//!
//! One walk through the graph answers the questions about 256 subtasks together, a bit each, and only looks at the
//! part of the order between them and those who ask. Direct dependencies need no walk at all.

use super::Graph;

/// How many subtasks one walk asks about.
const TOGETHER: usize = 256;
const WORDS: usize = TOGETHER / 64;

impl Graph {
    /// Whether `a` depends on `b`, directly or from afar.
    pub fn depends(&self, a: u32, b: u32) -> bool {
        self.first_stranger([(a, b)]).is_none()
    }

    /// The first of these pairs `(a, b)` of which a does not depend on b, by its index.
    pub fn first_stranger(&self, pairs: impl IntoIterator<Item = (u32, u32)>) -> Option<usize> {
        let pairs: Vec<(u32, u32)> = pairs.into_iter().collect();
        // Most are strangers or neighbours by the look of them; a walk is worth it only before the first stranger.
        let end = pairs.iter().position(|(a, b)| self.place(*a) <= self.place(*b));
        let mut far: Vec<(usize, u32, u32)> = Vec::new();
        for (i, &(a, b)) in pairs[..end.unwrap_or(pairs.len())].iter().enumerate() {
            if self.needs(a).binary_search(&b).is_err() {
                far.push((i, a, b));
            }
        }
        let unmet = self.strangers_among(far).into_iter().min();
        unmet.or(end)
    }

    /// The indices of all pairs `(a, b)` of which a does not depend on b.
    pub fn strangers(&self, pairs: &[(u32, u32)]) -> Vec<usize> {
        let mut strangers = Vec::new();
        let mut far = Vec::new();
        for (i, &(a, b)) in pairs.iter().enumerate() {
            if self.place(a) <= self.place(b) {
                strangers.push(i);
            } else if self.needs(a).binary_search(&b).is_err() {
                far.push((i, a, b));
            }
        }
        strangers.extend(self.strangers_among(far));
        strangers.sort_unstable();
        strangers
    }

    /// Of questions `(index, a, b)` in which a comes after b, the indices of those that are answered with no.
    fn strangers_among(&self, mut far: Vec<(usize, u32, u32)>) -> Vec<usize> {
        far.sort_unstable_by_key(|(_, _, b)| self.place(*b));
        let mut strangers = Vec::new();
        let mut rest = far.as_slice();
        while !rest.is_empty() {
            let mut asked_about: Vec<u32> = Vec::with_capacity(TOGETHER);
            let mut taken = 0;
            for (_, _, b) in rest {
                if asked_about.last() != Some(b) {
                    if asked_about.len() == TOGETHER {
                        break;
                    }
                    asked_about.push(*b);
                }
                taken += 1;
            }
            let (batch, later) = rest.split_at(taken);
            self.walk(&asked_about, batch, &mut strangers);
            rest = later;
        }
        strangers
    }

    /// One walk down the order. The subtasks that are asked about come in that order.
    fn walk(&self, asked_about: &[u32], batch: &[(usize, u32, u32)], strangers: &mut Vec<usize>) {
        let Some(first) = asked_about.first().map(|b| self.place(*b)) else { return };
        let last = batch.iter().map(|(_, a, _)| self.place(*a)).max().unwrap_or(first);
        let mut above: Vec<[u64; WORDS]> = Vec::with_capacity((last - first) as usize + 1);
        let mut next = 0;
        for &i in &self.order[first as usize..=last as usize] {
            let mut bits = [0_u64; WORDS];
            for need in self.needs(i) {
                if let Some(at) = self.place(*need).checked_sub(first) {
                    for (own, theirs) in bits.iter_mut().zip(&above[at as usize]) {
                        *own |= theirs;
                    }
                }
            }
            if asked_about.get(next) == Some(&i) {
                bits[next / 64] |= 1 << (next % 64);
                next += 1;
            }
            above.push(bits);
        }
        let mut at = 0;
        for (index, a, b) in batch {
            if asked_about[at] != *b {
                at += 1;
            }
            let bits = &above[(self.place(*a) - first) as usize];
            if bits[at / 64] & (1 << (at % 64)) == 0 {
                strangers.push(*index);
            }
        }
    }
}
