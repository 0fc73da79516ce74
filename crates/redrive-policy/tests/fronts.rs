//! Graphs and fronts (R-T1), held beside slow and obvious models of them.

use std::sync::Arc;

use proptest::prelude::*;
use redrive_policy::graph::{BadGraph, Front, Graph, Stand};
use redrive_policy::plan::conflicts;

fn number(i: usize) -> u32 {
    u32::try_from(i).unwrap_or(u32::MAX)
}

/// Edges of a graph without circles, its numbers shuffled so that no order is given away.
fn edges(most: usize) -> impl Strategy<Value = (usize, Vec<(u32, u32)>)> {
    (1..=most).prop_flat_map(|len| {
        let pairs = prop::collection::vec((0..len, 0..len), 0..len * 2);
        let shuffled = Just((0..len).map(number).collect::<Vec<_>>()).prop_shuffle();
        (Just(len), pairs, shuffled).prop_map(|(len, pairs, names)| {
            let apart = pairs.into_iter().filter(|(a, b)| a != b);
            (len, apart.map(|(a, b)| (names[a.max(b)], names[a.min(b)])).collect())
        })
    })
}

/// Who depends on whom, from afar too: the closure of the matrix.
fn closure(len: usize, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; len]; len];
    for (a, b) in edges {
        reach[*a as usize][*b as usize] = true;
    }
    for via in 0..len {
        for a in 0..len {
            for b in 0..len {
                reach[a][b] |= reach[a][via] && reach[via][b];
            }
        }
    }
    reach
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// R-T1: every question about a graph is answered as the closure of its matrix answers it.
    #[test]
    fn a_graph_answers_as_its_closure((len, edges) in edges(24), of in prop::collection::vec(0usize..24, 0..4)) {
        let graph = Graph::new(len, edges.clone()).unwrap();
        let reach = closure(len, &edges);
        let of: Vec<usize> = of.into_iter().filter(|i| *i < len).collect();
        let all = |test: &dyn Fn(usize) -> bool| -> Vec<u32> { (0..len).filter(|i| test(*i)).map(number).collect() };
        prop_assert_eq!(graph.downstream(of.iter().copied().map(number)), all(&|i| of.iter().any(|o| reach[i][*o])));
        prop_assert_eq!(graph.upstream(of.iter().copied().map(number)), all(&|i| of.iter().any(|o| reach[*o][i])));
        let mut place = vec![0; len];
        for (at, i) in graph.order().iter().enumerate() {
            place[*i as usize] = at;
        }
        prop_assert!(edges.iter().all(|(a, b)| place[*a as usize] > place[*b as usize]));
        let pairs: Vec<(u32, u32)> = (0..len * len).map(|k| (number(k / len), number(k % len))).collect();
        let expected: Vec<usize> = (0..len * len).filter(|k| !reach[k / len][k % len]).collect();
        prop_assert_eq!(graph.strangers(&pairs), expected.clone());
        prop_assert_eq!(graph.first_stranger(pairs.iter().copied()), expected.first().copied());
        // The longest way to each, and the longest from each, by trying one step more as long as there is one.
        let mut level = vec![0_u32; len];
        let mut chain = vec![1_u32; len];
        for _ in 0..len {
            for (a, b) in &edges {
                level[*a as usize] = level[*a as usize].max(level[*b as usize] + 1);
                chain[*b as usize] = chain[*b as usize].max(chain[*a as usize] + 1);
            }
        }
        for i in 0..len {
            prop_assert_eq!((graph.level(number(i)), graph.chain(number(i))), (level[i], chain[i]));
        }
    }

    /// R-T1: a circle is told exactly where there is one, and it is one.
    #[test]
    fn circles_are_found(len in 1usize..12, pairs in prop::collection::vec((0u32..12, 0u32..12), 0..24)) {
        let pairs: Vec<(u32, u32)> =
            pairs.into_iter().filter(|(a, b)| (*a as usize) < len && (*b as usize) < len).collect();
        let reach = closure(len, &pairs);
        let round = (0..len).any(|i| reach[i][i]);
        match Graph::new(len, pairs.clone()) {
            Ok(_) => prop_assert!(!round),
            Err(BadGraph::Circle(circle)) => {
                prop_assert!(circle.len() >= 2 && circle.first() == circle.last());
                prop_assert!(circle.windows(2).all(|step| pairs.contains(&(step[0], step[1]))));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// R-T1: a front offers what a look at everything would offer, in the order of the longest chains, and never two that
    /// share files; whatever ends, fails, is undone or skipped in between.
    #[test]
    fn a_front_offers_what_is_ready(
        (len, edges) in edges(16),
        roots in prop::collection::vec(0usize..8, 16),
        begin in prop::collection::vec(0usize..6, 16),
        steps in prop::collection::vec((0usize..16, 0usize..6, 0usize..5), 0..60),
    ) {
        let roots: Vec<Vec<String>> = roots.iter().map(|kind| root_set(*kind)).collect();
        let graph = Arc::new(Graph::new(len, edges).unwrap());
        let mut stands: Vec<Stand> = begin[..len].iter().map(|kind| Stand::ALL[*kind]).collect();
        let mut front = Front::with_roots(graph.clone(), stands.clone(), |i| &roots[i as usize]);
        for (i, kind, n) in steps {
            let i = i % len;
            let taken = front.take(n);
            prop_assert_eq!(&taken, &offered(&graph, &stands, &roots, n));
            for taken in taken {
                stands[taken as usize] = Stand::Started;
            }
            stands[i] = Stand::ALL[kind];
            front.set(number(i), Stand::ALL[kind]);
            prop_assert_eq!(front.stands(), &stands);
        }
    }
}

fn root_set(kind: usize) -> Vec<String> {
    let names: &[&str] = match kind {
        0 => &["src"],
        1 => &["src/a"],
        2 => &["src/b", "docs"],
        3 => &["docs"],
        4 => &["."],
        5 => &["src-a"],
        _ => &[],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What can be started: looked for one at a time, among all of them.
fn offered(graph: &Graph, stands: &[Stand], roots: &[Vec<String>], n: usize) -> Vec<u32> {
    let mut stands = stands.to_vec();
    let mut offered = Vec::new();
    while offered.len() < n {
        let free = |i: usize| {
            let started = (0..stands.len()).filter(|other| stands[*other] == Stand::Started);
            started.into_iter().all(|other| !conflicts(&roots[i], &roots[other]))
        };
        let ready = |i: &usize| {
            let needs = graph.needs(number(*i));
            stands[*i] == Stand::Waiting
                && needs.iter().all(|need| stands[*need as usize] == Stand::Succeeded)
                && free(*i)
        };
        let best = (0..stands.len())
            .filter(ready)
            .map(number)
            .max_by_key(|i| (graph.chain(*i), std::cmp::Reverse(*i)));
        let Some(best) = best else { break };
        stands[best as usize] = Stand::Started;
        offered.push(best);
    }
    offered
}

/// R-T1: ten thousand subtasks in one folder, and a hundred thousand in a row, are worked off one after the other.
#[test]
fn a_long_task_is_worked_off() {
    let one_folder = vec!["src".to_owned()];
    for (len, chain) in [(10_000, false), (100_000, true)] {
        let edges: Vec<(u32, u32)> = if chain { (1..len).map(|i| (i, i - 1)).collect() } else { Vec::new() };
        let graph = Arc::new(Graph::new(len as usize, edges).unwrap());
        let mut front = Front::with_roots(graph, Vec::new(), |_| &one_folder);
        let mut done = 0;
        while let [next] = front.take(4)[..] {
            assert_eq!(next, done);
            front.succeeded(next);
            done += 1;
        }
        assert_eq!(done, len);
    }
}
