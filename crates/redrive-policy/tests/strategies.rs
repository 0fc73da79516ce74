//! The choice of a recovery (R-T2), held to a specification that is written another way: over all small graphs, and over
//! large ones that came about as they do in life.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use redrive_policy::Lang;
use redrive_policy::graph::{Front, Graph, Stand};
use redrive_policy::plan::{OnEscalate, RecoveryStrategy, conflicts};
use redrive_policy::strategy::{
    Choice, MayRetry, PartialRecovery, Situation, Why, entangled, rollback_all, strategy,
};

use RecoveryStrategy::{Escalate, PartialCommit, RetryFailedOnly, RollbackAndRetry};

const FIXED: [Option<RecoveryStrategy>; 5] =
    [None, Some(RetryFailedOnly), Some(RollbackAndRetry), Some(PartialCommit), Some(Escalate)];

/// A set of subtasks, a bit each.
type Set = u8;

fn graph(len: u32, edges: &[(u32, u32)]) -> Graph {
    Graph::new(len as usize, edges.iter().copied()).unwrap_or_else(|error| panic!("{error}"))
}

fn set(list: &[u32]) -> Set {
    list.iter().fold(0, |set, i| set | 1 << i)
}

/// What each depends on, from afar too.
fn above(len: u32, edges: &[(u32, u32)]) -> Vec<Set> {
    let mut above = vec![0; len as usize];
    for _ in 0..len {
        for (a, b) in edges {
            above[*a as usize] |= 1 << b | above[*b as usize];
        }
    }
    above
}

/// Every graph of that many subtasks in which each depends only on earlier ones: all there are, but for their numbers.
fn graphs(len: u32) -> Vec<Vec<(u32, u32)>> {
    let pairs: Vec<(u32, u32)> = (0..len).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    let chosen = |mask: u32| pairs.iter().enumerate().filter(move |(bit, _)| mask >> bit & 1 == 1);
    let mut seen = HashSet::new();
    let each = (0..1_u32 << pairs.len()).map(|mask| chosen(mask).map(|(_, pair)| *pair).collect::<Vec<_>>());
    each.filter(|edges| seen.insert(shape(len, edges))).collect()
}

/// The same for graphs that differ in their numbers only: of all ways to number them, the first in the alphabet.
fn shape(len: u32, edges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let numberings = (0..len).fold(vec![vec![]], |begun: Vec<Vec<u32>>, _| {
        let next = |begun: Vec<u32>| {
            let free = (0..len).filter(|i| !begun.contains(i)).collect::<Vec<_>>();
            free.into_iter().map(move |i| begun.iter().copied().chain([i]).collect())
        };
        begun.into_iter().flat_map(next).collect()
    });
    let named = |names: &Vec<u32>| {
        let mut named: Vec<(u32, u32)> =
            edges.iter().map(|(a, b)| (names[*a as usize], names[*b as usize])).collect();
        named.sort_unstable();
        named
    };
    numberings.iter().map(named).min().unwrap_or_default()
}

/// Every way in which that many subtasks can stand, whether or not life allows it.
fn all_stands(len: u32) -> impl Iterator<Item = Vec<Stand>> {
    (0..6_usize.pow(len)).map(move |code| (0..len).map(|i| Stand::ALL[code / 6_usize.pow(i) % 6]).collect())
}

/// What the specification says about a situation.
struct Expected {
    strategy: RecoveryStrategy,
    undo: Set,
    redo: Set,
    skip: Set,
}

fn expected(above: &[Set], situation: &Situation<'_>) -> Expected {
    let having = |wanted: &[Stand]| -> Set {
        let bits = situation.stands.iter().enumerate().filter(|(_, stand)| wanted.contains(stand));
        bits.fold(0, |set, (i, _)| set | 1 << i)
    };
    let below = |of: Set| -> Set {
        above.iter().enumerate().filter(|(_, above)| **above & of != 0).fold(0, |set, (i, _)| set | 1 << i)
    };
    let everything: Set = (0..above.len()).fold(0, |set, i| set | 1 << i);
    let begun = having(&[Stand::Started, Stand::Succeeded, Stand::Failed, Stand::Cancelled]);
    let broken = set(situation.failed) | having(&[Stand::Failed, Stand::Cancelled]);
    let person = situation.may_retry == MayRetry::ByAPerson;
    let again = if person { broken } else { broken & !having(&[Stand::Cancelled]) };
    let built_upon = below(again) & begun != 0;
    let free = everything & !broken & !below(broken);
    let worth_keeping = free & having(&[Stand::Succeeded, Stand::Started, Stand::Waiting]) != 0;
    let leave = situation.may_retry != MayRetry::No && again != 0;
    let fixed = |strategy| situation.fixed == Some(strategy);
    // A person who resumes a task does not want to be told to take over.
    let unbound = situation.fixed.is_none() || person && (fixed(PartialCommit) || fixed(Escalate));

    let rolls_back = leave && (fixed(RollbackAndRetry) || unbound && built_upon);
    let redoes = leave && (fixed(RetryFailedOnly) || unbound && person && !built_upon);
    let told_to_escalate = fixed(Escalate) && !person;
    let keeps = situation.partial_commit_enabled && worth_keeping && !told_to_escalate;
    assert!(!(rolls_back && redoes));
    let strategy = match (broken, rolls_back, redoes, keeps) {
        (0, ..) => PartialCommit,
        (_, true, ..) => RollbackAndRetry,
        (_, _, true, _) => RetryFailedOnly,
        (.., true) => PartialCommit,
        _ => Escalate,
    };
    let tries_again = matches!(strategy, RetryFailedOnly | RollbackAndRetry);
    let stuck = if tries_again { broken & !again } else { broken };
    let undo = match strategy {
        RetryFailedOnly => again & begun,
        RollbackAndRetry => (again | below(again)) & begun,
        PartialCommit => 0,
        Escalate => {
            if situation.on_escalate == OnEscalate::Rollback {
                begun
            } else {
                0
            }
        }
    };
    let released = if tries_again { below(again) & having(&[Stand::Skipped]) } else { 0 };
    let redo = if tries_again { (undo | released) & !stuck & !below(stuck) } else { undo & !broken };
    let idle = having(&[Stand::Waiting]) | if tries_again { undo } else { 0 };
    Expected { strategy, undo, redo, skip: below(stuck) & idle & !stuck }
}

fn check(above: &[Set], situation: &Situation<'_>) -> Choice {
    let choice = strategy(situation);
    let expected = expected(above, situation);
    let told = || format!("{situation:?}\n{choice:?}");
    assert_eq!(choice.strategy, expected.strategy, "{}", told());
    assert_eq!(
        (set(&choice.undo), set(&choice.redo), set(&choice.skip)),
        (expected.undo, expected.redo, expected.skip),
        "{}",
        told()
    );
    let mut gone: Set = 0;
    for i in &choice.undo {
        // Whatever was undone before this one is not something that it stands on.
        assert!(above[*i as usize] & gone == 0, "{}", told());
        gone |= 1 << i;
    }
    for list in [&choice.redo, &choice.skip] {
        assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{}", told());
    }
    choice
}

/// Every situation of that many subtasks in which these were named as failed.
fn check_all(
    len: u32,
    named: &dyn Fn(&[Stand]) -> Vec<Vec<u32>>,
    seen: &mut HashSet<(bool, RecoveryStrategy, Why)>,
) {
    for edges in graphs(len) {
        let graph = graph(len, &edges);
        let above = above(len, &edges);
        for stands in all_stands(len) {
            for failed in named(&stands) {
                for fixed in FIXED {
                    for may_retry in MayRetry::ALL {
                        for (partial_commit_enabled, on_escalate) in
                            [(true, OnEscalate::Keep), (false, OnEscalate::Rollback)]
                        {
                            let situation = Situation {
                                graph: &graph,
                                stands: &stands,
                                begun: &[],
                                failed: &failed,
                                may_retry,
                                fixed,
                                partial_commit_enabled,
                                on_escalate,
                            };
                            let choice = check(&above, &situation);
                            seen.insert((fixed.is_some(), choice.strategy, choice.why));
                        }
                    }
                }
            }
        }
    }
}

/// R-T2: over all graphs of up to three subtasks, however they stand and whoever is named as failed, the choice is the
/// specification's; and each strategy is reached by itself and by the plan's word.
#[test]
fn all_small_graphs_are_recovered_as_specified() {
    let mut seen = HashSet::new();
    for len in 1..=3 {
        let subsets = |_: &[Stand]| -> Vec<Vec<u32>> {
            (0..1_u32 << len).map(|mask| (0..len).filter(|i| mask >> i & 1 == 1).collect()).collect()
        };
        check_all(len, &subsets, &mut seen);
    }
    for wanted in [RetryFailedOnly, RollbackAndRetry, PartialCommit, Escalate] {
        assert!(seen.iter().any(|(fixed, strategy, _)| !fixed && *strategy == wanted), "{wanted} by itself");
        assert!(seen.contains(&(true, wanted, Why::PlanSaysSo)), "{wanted} by the plan's word");
    }
}

/// R-T2: the same over all graphs of four, with what failed and with one that was blamed as well.
#[test]
fn all_graphs_of_four_are_recovered_as_specified() {
    let failed_and_blamed = |stands: &[Stand]| -> Vec<Vec<u32>> {
        let failed: Vec<u32> = (0..4).filter(|i| stands[*i as usize] == Stand::Failed).collect();
        // Nobody blames anyone before something has failed.
        let blamed = (0..4_u32).filter(|i| !failed.is_empty() && stands[*i as usize] == Stand::Succeeded);
        let with = blamed.map(|blamed| failed.iter().copied().chain([blamed]).collect());
        with.chain([failed.clone()]).collect()
    };
    check_all(4, &failed_and_blamed, &mut HashSet::new());
}

/// R-T2: the table that a person can read.
#[test]
fn the_table_of_small_graphs() {
    let mut table = String::new();
    for (drawing, len, edges) in [
        ("a", 1, vec![]),
        ("a   b", 2, vec![]),
        ("a→b", 2, vec![(1, 0)]),
        ("a→b   c", 3, vec![(1, 0)]),
        ("a→b→c", 3, vec![(1, 0), (2, 1)]),
        ("a→b, a→c", 3, vec![(1, 0), (2, 0)]),
        ("a→c, b→c", 3, vec![(2, 0), (2, 1)]),
    ] {
        let _ = writeln!(table, "{drawing}");
        let graph = graph(len, &edges);
        for stands in all_stands(len).filter(|stands| in_life(&graph, stands)) {
            let failed: Vec<u32> = (0..len).filter(|i| stands[*i as usize] == Stand::Failed).collect();
            let blames = failed.iter().flat_map(|i| graph.needs(*i).iter().copied());
            for blamed in std::iter::once(None).chain(blames.map(Some)) {
                let all: Vec<u32> = failed.iter().copied().chain(blamed).collect();
                let _ = write!(
                    table,
                    "  {}{}",
                    marks(&stands),
                    blamed.map(|i| format!(" blames {}", name(i))).unwrap_or_default()
                );
                for may_retry in MayRetry::ALL {
                    for partial_commit_enabled in [true, false] {
                        let choice = strategy(&Situation {
                            graph: &graph,
                            stands: &stands,
                            begun: &[],
                            failed: &all,
                            may_retry,
                            fixed: None,
                            partial_commit_enabled,
                            on_escalate: OnEscalate::Keep,
                        });
                        if partial_commit_enabled
                            || choice.strategy == Escalate && choice.why == Why::AllOrNothing
                        {
                            let who = match may_retry {
                                MayRetry::No => "none left",
                                MayRetry::RoundsLeft => "rounds left",
                                MayRetry::ByAPerson => "a person",
                            };
                            let part = if partial_commit_enabled { "" } else { ", no parts" };
                            let _ = write!(table, "\n    {:<22}{}", format!("{who}{part}"), said(&choice));
                        }
                    }
                }
                table.push('\n');
            }
        }
    }
    insta::assert_snapshot!("strategy_table", table);
}

/// Whether it can come about: what has begun stands on what succeeded, what is skipped on what did not, and something
/// failed.
fn in_life(graph: &Graph, stands: &[Stand]) -> bool {
    let possible = (0_u32..).zip(stands).all(|(i, stand)| {
        let needs = || graph.needs(i).iter().map(|need| stands[*need as usize]);
        let lost = |stand| matches!(stand, Stand::Failed | Stand::Skipped);
        match stand {
            Stand::Waiting => !needs().any(|stand| stand == Stand::Skipped),
            Stand::Skipped => needs().any(lost),
            Stand::Succeeded | Stand::Failed => needs().all(|stand| stand == Stand::Succeeded),
            // Left out of the table, which is long enough.
            Stand::Started | Stand::Cancelled => false,
        }
    });
    possible && stands.contains(&Stand::Failed)
}

fn name(i: u32) -> char {
    char::from(b'a' + u8::try_from(i).unwrap_or(25))
}

fn marks(stands: &[Stand]) -> String {
    let each: Vec<String> = (0_u32..).zip(stands).map(|(i, stand)| format!("{} {stand}", name(i))).collect();
    each.join(", ")
}

fn said(choice: &Choice) -> String {
    let names = |list: &[u32]| list.iter().map(|i| name(*i).to_string()).collect::<Vec<_>>().join(" ");
    let lists = [("undo", &choice.undo), ("redo", &choice.redo), ("skip", &choice.skip)];
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists: Vec<String> = lists.map(|(what, list)| format!("{what} {}", names(list))).collect();
    format!("{:<20}{}", choice.strategy.name(), lists.join(", ")).trim_end().to_owned()
}

/// A task as it came about: a graph that was worked on for a while, in which some failed.
#[derive(Debug)]
struct History {
    graph: Arc<Graph>,
    stands: Vec<Stand>,
    begun: Vec<u64>,
    failed: Vec<u32>,
}

fn history() -> impl Strategy<Value = History> {
    let edges =
        (2_usize..60).prop_flat_map(|len| (Just(len), prop::collection::vec((0..len, 0..len), 0..len * 2)));
    let outcomes = prop::collection::vec((0_u32..10, 0_usize..4), 1..80);
    (edges, outcomes, prop::collection::vec(any::<prop::sample::Index>(), 0..3)).prop_map(
        |((len, pairs), outcomes, blamed)| {
            let number = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
            let edges = pairs.into_iter().filter(|(a, b)| a != b);
            let edges = edges.map(|(a, b)| (number(a.max(b)), number(a.min(b))));
            let graph = Arc::new(graph(number(len), &edges.collect::<Vec<_>>()));
            let mut front = Front::new(graph.clone(), Vec::new());
            let mut begun = vec![0; len];
            let mut running: Vec<u32> = Vec::new();
            let mut clock = 0;
            for (outcome, which) in outcomes {
                for i in front.take(3) {
                    clock += 1;
                    begun[i as usize] = clock;
                    running.push(i);
                }
                if running.is_empty() {
                    break;
                }
                let i = running.remove(which % running.len());
                front.set(i, if outcome == 0 { Stand::Failed } else { Stand::Succeeded });
            }
            let stands = front.stands().to_vec();
            let mut failed: Vec<u32> =
                (0..number(len)).filter(|i| stands[*i as usize] == Stand::Failed).collect();
            let upstream = graph.upstream(failed.iter().copied());
            if !upstream.is_empty() {
                failed.extend(blamed.iter().map(|index| *index.get(&upstream)));
            }
            History { graph, stands, begun, failed }
        },
    )
}

proptest! {
    /// R-T2: nothing that succeeded and does not depend on a failure is ever undone, unless the plan says so; what is
    /// undone is undone the last first; and what is left stands on what succeeded.
    #[test]
    fn nothing_is_undone_in_vain(
        history in history(),
        fixed in prop::sample::select(FIXED.to_vec()),
        may_retry in prop::sample::select(MayRetry::ALL.to_vec()),
        partial_commit_enabled: bool,
        rollback: bool,
    ) {
        let History { graph, mut stands, begun, failed } = history;
        let on_escalate = if rollback { OnEscalate::Rollback } else { OnEscalate::Keep };
        let choice = strategy(&Situation {
            graph: &graph, stands: &stands, begun: &begun, failed: &failed,
            may_retry, fixed, partial_commit_enabled, on_escalate,
        });
        let plan_says_so = choice.strategy == Escalate && rollback;
        let downstream = graph.downstream(failed.iter().copied());
        for i in &choice.undo {
            prop_assert!(failed.contains(i) || downstream.contains(i) || plan_says_so, "{} of {:?}", i, choice);
            prop_assert!(begun[*i as usize] > 0);
        }
        prop_assert!(choice.undo.windows(2).all(|pair| begun[pair[0] as usize] > begun[pair[1] as usize]));
        if plan_says_so && !failed.is_empty() {
            prop_assert_eq!(&choice.undo, &rollback_all(&graph, &stands, &begun));
        }
        for i in &choice.redo {
            stands[*i as usize] = Stand::Waiting;
        }
        if choice.strategy == RollbackAndRetry {
            prop_assert!(!stands.contains(&Stand::Failed));
            for (i, stand) in (0_u32..).zip(&stands) {
                let mut needs = graph.needs(i).iter().map(|need| stands[*need as usize]);
                prop_assert!(!stand.has_begun() || needs.all(|stand| stand == Stand::Succeeded));
            }
        }
    }
}

proptest! {
    /// R-T2: work that stays and would lose its files is found by a look at every pair, too.
    #[test]
    fn entangled_work_is_found(
        subtasks in prop::collection::vec((0u64..20, prop::sample::subsequence(vec!["a", "a/b", "a/c", "ab", "."], 0..2), any::<bool>()), 0..8),
    ) {
        let begun: Vec<u64> = subtasks.iter().map(|(at, ..)| *at).collect();
        let roots: Vec<Vec<String>> =
            subtasks.iter().map(|(_, roots, _)| roots.iter().map(|root| (*root).to_owned()).collect()).collect();
        let (undo, stay): (Vec<u32>, Vec<u32>) = (0..).take(subtasks.len()).partition(|i| subtasks[*i as usize].2);
        let loses = |i: &u32| {
            let at = begun[*i as usize];
            let earlier = |other: &&u32| begun[**other as usize] < at;
            let mut earlier = undo.iter().filter(earlier);
            at > 0 && earlier.any(|other| conflicts(&roots[*i as usize], &roots[*other as usize]))
        };
        let expected: Vec<u32> = stay.into_iter().filter(loses).collect();
        prop_assert_eq!(entangled(&begun, &undo, |i| &roots[i as usize]), expected);
    }
}

/// R-T2: two that share a folder and nothing else are undone in the order in which they ran, whatever their numbers.
#[test]
fn what_ran_last_is_undone_first() {
    let graph = Graph::new(4, [(1, 0), (2, 0), (3, 1)]).unwrap();
    let stands = [Stand::Succeeded, Stand::Succeeded, Stand::Succeeded, Stand::Failed];
    for (begun, order) in
        [([1, 2, 3, 4], [3, 2, 1, 0]), ([1, 3, 2, 4], [3, 1, 2, 0]), ([1, 2, 4, 3], [2, 3, 1, 0])]
    {
        assert_eq!(rollback_all(&graph, &stands, &begun), order);
    }
    // Numbers that cannot be are not believed against the graph.
    assert_eq!(rollback_all(&graph, &stands, &[9, 1, 2, 3])[3], 0);
}

/// R-C2: every reason is a sentence in both languages.
#[test]
fn every_choice_says_why() {
    let graph = Graph::new(2, [(1, 0)]).unwrap();
    let say = |stands: &[Stand], failed: &[u32], may_retry, fixed, partial_commit_enabled, lang| {
        let situation = Situation {
            graph: &graph,
            stands,
            begun: &[],
            failed,
            may_retry,
            fixed,
            partial_commit_enabled,
            on_escalate: OnEscalate::Keep,
        };
        strategy(&situation).sentence(lang)
    };
    for (stands, failed, may_retry, fixed, enabled, english) in [
        (
            [Stand::Succeeded, Stand::Succeeded],
            vec![],
            MayRetry::No,
            None,
            true,
            "Nothing failed, so there is nothing to recover from.",
        ),
        (
            [Stand::Succeeded, Stand::Failed],
            vec![1],
            MayRetry::No,
            None,
            true,
            "No more retries are left. What does not depend on what failed is kept.",
        ),
        (
            [Stand::Succeeded, Stand::Failed],
            vec![0, 1],
            MayRetry::RoundsLeft,
            None,
            true,
            "Subtasks that have begun depend on what failed (1 of them): they and what failed are undone and done again.",
        ),
        (
            [Stand::Failed, Stand::Waiting],
            vec![0],
            MayRetry::ByAPerson,
            None,
            true,
            "Nothing that depends on what failed has begun, so only what failed is done again.",
        ),
        (
            [Stand::Failed, Stand::Waiting],
            vec![0],
            MayRetry::RoundsLeft,
            Some(Escalate),
            true,
            "The plan says what is done when a part of the task fails: ESCALATE.",
        ),
        (
            [Stand::Failed, Stand::Waiting],
            vec![0],
            MayRetry::No,
            Some(RollbackAndRetry),
            true,
            "The plan asks for ROLLBACK_AND_RETRY, which is not possible now. No more retries are left, and there is nothing \
          that does not depend on what failed: a person has to take over.",
        ),
        (
            [Stand::Succeeded, Stand::Failed],
            vec![1],
            MayRetry::No,
            Some(PartialCommit),
            false,
            "The plan asks for PARTIAL_COMMIT, which is not possible now. No more retries are left, and partial results are \
          not allowed: a person has to take over.",
        ),
    ] {
        assert_eq!(say(&stands, &failed, may_retry, fixed, enabled, Lang::En), english);
        let japanese = say(&stands, &failed, may_retry, fixed, enabled, Lang::Ja);
        assert!(
            japanese.ends_with('。') && !japanese.contains(['{', '}']) && !japanese.contains("strategy."),
            "{japanese}"
        );
    }
}

/// R-T2: the record of 002 §5.1 has exactly its fields.
#[test]
fn the_record_has_exactly_its_fields() {
    let record = PartialRecovery {
        task_id: "task-7".to_owned(),
        succeeded_subtasks: vec!["design".to_owned()],
        failed_subtasks: vec!["task-7-sub-2".to_owned()],
        strategy: RollbackAndRetry,
        recovered_state: None,
    };
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "task_id": "task-7", "succeeded_subtasks": ["design"], "failed_subtasks": ["task-7-sub-2"],
            "strategy": "ROLLBACK_AND_RETRY",
        })
    );
    assert_eq!(serde_json::from_value::<PartialRecovery>(json).unwrap(), record);
    let after = PartialRecovery { recovered_state: Some("running".to_owned()), ..record };
    assert_eq!(serde_json::to_value(&after).unwrap()["recovered_state"], "running");
}
