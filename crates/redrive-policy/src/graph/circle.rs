//! Circles among dependencies, found so that a person can be shown each of them once.
//!
//! Subtasks that all depend on one another are a knot. For every knot the shortest way round from its first subtask is
//! told: it is short to read, and once it is cut the next look tells of what is left.

use super::{Links, all};

/// One circle for every knot, in the order of their first subtasks. The first of a circle is named again at its end, and
/// each depends on the next. Whoever depends on itself alone is a circle of one.
pub(super) fn circles(needs: &Links) -> Vec<Vec<u32>> {
    let knots = knots(needs);
    let mut first_of: Vec<Option<u32>> = vec![None; needs.len()];
    let mut circles = Vec::new();
    for i in all(needs.len()) {
        let knot = knots[i as usize];
        if first_of[knot as usize].is_none() {
            first_of[knot as usize] = Some(i);
            circles.extend(way_round(needs, &knots, i));
        }
    }
    circles
}

/// The shortest way from `start` back to itself, which never leaves its knot. `None` where there is none.
fn way_round(needs: &Links, knots: &[u32], start: u32) -> Option<Vec<u32>> {
    let mut came_from: std::collections::HashMap<u32, u32> = std::collections::HashMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(i) = queue.pop_front() {
        for &next in needs.of(i) {
            if next == start {
                let mut way = vec![start, i];
                let mut at = i;
                while at != start {
                    at = came_from[&at];
                    way.push(at);
                }
                way.reverse();
                return Some(way);
            }
            if knots[next as usize] == knots[start as usize] && !came_from.contains_key(&next) {
                came_from.insert(next, i);
                queue.push_back(next);
            }
        }
    }
    None
}

/// For each the number of its knot: Tarjan's strongly connected components, with a stack of our own.
fn knots(needs: &Links) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let len = needs.len();
    let mut seen_as = vec![UNSEEN; len];
    let mut oldest = vec![0_u32; len];
    let mut open = vec![false; len];
    let mut knots = vec![0_u32; len];
    let (mut pile, mut walk): (Vec<u32>, Vec<(u32, usize)>) = (Vec::new(), Vec::new());
    let (mut seen, mut count) = (0_u32, 0_u32);
    for root in all(len) {
        if seen_as[root as usize] != UNSEEN {
            continue;
        }
        walk.push((root, 0));
        while let Some((i, next)) = walk.pop() {
            let at = i as usize;
            if next == 0 {
                (seen_as[at], oldest[at]) = (seen, seen);
                seen += 1;
                open[at] = true;
                pile.push(i);
            } else {
                // Back from the one before `next`.
                let below = needs.of(i)[next - 1] as usize;
                if open[below] {
                    oldest[at] = oldest[at].min(oldest[below]);
                }
            }
            let mut next = next;
            let mut deeper = None;
            while let Some(&below) = needs.of(i).get(next) {
                next += 1;
                if seen_as[below as usize] == UNSEEN {
                    deeper = Some(below);
                    break;
                }
                if open[below as usize] {
                    oldest[at] = oldest[at].min(seen_as[below as usize]);
                }
            }
            if let Some(below) = deeper {
                walk.push((i, next));
                walk.push((below, 0));
                continue;
            }
            if oldest[at] == seen_as[at] {
                while let Some(member) = pile.pop() {
                    open[member as usize] = false;
                    knots[member as usize] = count;
                    if member == i {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    knots
}
