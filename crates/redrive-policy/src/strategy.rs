//! What is done about a task of which a part has failed for good (R-T2): a pure function of what depends on what, where
//! everything stands, and who may try again.
//!
//! The job's own policy is the one owner of retries; whoever asks here has been told that it has given up. So a task
//! tries again only for a reason that a single job does not know: a person says so, the plan says so, or what failed
//! was blamed on something earlier, on which later work was built already.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, Stand, all};
use crate::lang::{Lang, text};
use crate::plan::roots::around;
use crate::plan::{OnEscalate, Plan, RecoveryStrategy};

/// Who may have a task try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayRetry {
    /// Nobody: every round is used up.
    No,
    /// The task itself, where a retry of one job cannot help: there are rounds left.
    RoundsLeft,
    /// Whoever resumed it.
    ByAPerson,
}

impl MayRetry {
    /// Everybody.
    pub const ALL: [MayRetry; 3] = [MayRetry::No, MayRetry::RoundsLeft, MayRetry::ByAPerson];
}

/// A task at the moment when its recovery is decided. Lists are by the subtask's number.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// What depends on what.
    pub graph: &'a Graph,
    /// Where each stands. What is not in the list waits.
    pub stands: &'a [Stand],
    /// A number for each that began, which is greater the later that was; 0 for those that did not. What is not in the
    /// list did not.
    pub begun: &'a [u64],
    /// What failed, and what was blamed for it.
    pub failed: &'a [u32],
    /// Who may have it try again.
    pub may_retry: MayRetry,
    /// What the plan says is done.
    pub fixed: Option<RecoveryStrategy>,
    /// Whether a part of the results may be kept.
    pub partial_commit_enabled: bool,
    /// What becomes of what succeeded when a person has to take over.
    pub on_escalate: OnEscalate,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// In one word.
    pub strategy: RecoveryStrategy,
    /// What is undone, in this order: what began last comes first, and nothing before something that depends on it.
    pub undo: Vec<u32>,
    /// What waits again, in ascending order: at once where the task tries again, else until somebody resumes it. What was
    /// undone and is not here stays what it is, failed or cancelled.
    pub redo: Vec<u32>,
    /// What will not be begun, in ascending order: it waits, and something that it depends on is not done again.
    pub skip: Vec<u32>,
    /// Why.
    pub why: Why,
    /// What the plan asked for, where that could not be.
    pub instead_of: Option<RecoveryStrategy>,
    /// How many failed, those that were blamed included.
    pub failed: usize,
    /// How many depend on those and have begun.
    pub built_upon: usize,
}

/// Why a strategy was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// Nothing failed: there is nothing to recover from.
    NothingFailed,
    /// The plan says so.
    PlanSaysSo,
    /// Work was built on what failed.
    BuiltUpon,
    /// Nothing was built on what failed.
    NothingBuiltUpon,
    /// Nobody may try again, and there is something to keep.
    SomethingToKeep,
    /// Nobody may try again, and a part may not be kept.
    AllOrNothing,
    /// Nobody may try again, and there is nothing to keep.
    NothingToKeep,
}

impl Why {
    const fn key(self) -> &'static str {
        match self {
            Why::NothingFailed => "nothing-failed",
            Why::PlanSaysSo => "plan-says-so",
            Why::BuiltUpon => "built-upon",
            Why::NothingBuiltUpon => "nothing-built-upon",
            Why::SomethingToKeep => "something-to-keep",
            Why::AllOrNothing => "all-or-nothing",
            Why::NothingToKeep => "nothing-to-keep",
        }
    }
}

impl Choice {
    /// Why, in a sentence.
    pub fn sentence(&self, lang: Lang) -> String {
        let why = text(
            lang,
            &format!("strategy.why.{}", self.why.key()),
            &[("strategy", &self.strategy), ("failed", &self.failed), ("built_upon", &self.built_upon)],
        );
        match self.instead_of {
            Some(wanted) => text(lang, "strategy.instead", &[("wanted", &wanted), ("why", &why)]),
            None => why,
        }
    }
}

/// The record of a recovery, as 002 §5.1 has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialRecovery {
    /// The task.
    pub task_id: String,
    /// What succeeded.
    pub succeeded_subtasks: Vec<String>,
    /// What failed.
    pub failed_subtasks: Vec<String>,
    /// What is done.
    pub strategy: RecoveryStrategy,
    /// Where the task stood afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_state: Option<String>,
}

/// What the plan says is done about these failures; what was only blamed is not among them. What a subtask says for itself beats what the plan says; of
/// several that say different things the most cautious one is obeyed.
pub fn fixed_for(plan: &Plan, failed: &[u32]) -> Option<RecoveryStrategy> {
    let said = |i: &u32| plan.subtasks.get(*i as usize)?.recovery;
    // Their order is from the boldest to the most cautious.
    failed.iter().filter_map(said).max().or(plan.recovery.strategy)
}

/// Everything that a plan blames when these fail: themselves and what they blame, in ascending order.
pub fn with_blamed(plan: &Plan, failed: &[u32]) -> Vec<u32> {
    let blamed = |i: &u32| plan.subtasks.get(*i as usize).map(|subtask| subtask.blames.as_slice());
    let mut all: Vec<u32> = failed.iter().filter_map(blamed).flatten().chain(failed).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Decides what is done.
///
/// ```
/// use redrive_policy::graph::{Graph, Stand};
/// use redrive_policy::plan::{OnEscalate, RecoveryStrategy};
/// use redrive_policy::strategy::{MayRetry, Situation, strategy};
///
/// // design ← write ← test, and docs for itself. The test failed, and blames what was written.
/// let graph = Graph::new(4, [(1, 0), (2, 1)]).unwrap();
/// let choice = strategy(&Situation {
///     graph: &graph,
///     stands: &[Stand::Succeeded, Stand::Succeeded, Stand::Failed, Stand::Succeeded],
///     begun: &[1, 3, 4, 2],
///     failed: &[1, 2],
///     may_retry: MayRetry::RoundsLeft,
///     fixed: None,
///     partial_commit_enabled: true,
///     on_escalate: OnEscalate::Keep,
/// });
/// assert_eq!(choice.strategy, RecoveryStrategy::RollbackAndRetry);
/// assert_eq!((choice.undo, choice.redo), (vec![2, 1], vec![1, 2]));
/// ```
pub fn strategy(situation: &Situation<'_>) -> Choice {
    let damage = Damage::of(situation);
    let (strategy, why) = choose(situation, &damage);
    let retries = matches!(strategy, RecoveryStrategy::RetryFailedOnly | RecoveryStrategy::RollbackAndRetry);
    let begun = |i: &u32| damage.stand(*i).has_begun();
    let undo: Vec<u32> = match strategy {
        RecoveryStrategy::RetryFailedOnly => damage.to_retry.iter().copied().filter(begun).collect(),
        RecoveryStrategy::RollbackAndRetry => {
            all(situation.graph.len()).filter(|i| damage.is_hit(*i) && begun(i)).collect()
        }
        RecoveryStrategy::Escalate if situation.on_escalate == OnEscalate::Rollback => {
            all(situation.graph.len()).filter(begun).collect()
        }
        RecoveryStrategy::PartialCommit | RecoveryStrategy::Escalate => Vec::new(),
    };
    let in_the_way = if retries { &damage.given_up } else { &damage.broken };
    let lost = situation.graph.downstream(in_the_way.iter().copied());
    let is_in = |list: &[u32], i: u32| list.binary_search(&i).is_ok();
    // Both lists are in ascending order until the undoing is put into its own.
    let skipped = |i: u32| retries && damage.stand(i) == Stand::Skipped && is_in(&damage.downstream, i);
    let kept_out = |i: u32| is_in(in_the_way, i) || is_in(&lost, i);
    let redo = match strategy {
        RecoveryStrategy::RetryFailedOnly | RecoveryStrategy::RollbackAndRetry => all(situation.graph.len())
            .filter(|i| (is_in(&undo, *i) || skipped(*i)) && !kept_out(*i))
            .collect(),
        RecoveryStrategy::PartialCommit | RecoveryStrategy::Escalate => {
            undo.iter().copied().filter(|i| !is_in(&damage.broken, *i)).collect()
        }
    };
    let waits = |i: u32| damage.stand(i) == Stand::Waiting || retries && is_in(&undo, i);
    let skip = lost.iter().copied().filter(|i| waits(*i) && !is_in(in_the_way, *i)).collect();
    let instead_of = situation.fixed.filter(|wanted| {
        let nothing_to_do = why == Why::NothingFailed;
        *wanted != strategy && !nothing_to_do && situation.may_retry != MayRetry::ByAPerson
    });
    Choice {
        strategy,
        undo: last_first(situation, undo),
        redo,
        skip,
        why,
        instead_of,
        failed: damage.broken.len(),
        built_upon: damage.built_upon,
    }
}

/// Everything that has begun, in the order in which it is undone when nothing of a task shall stay.
pub fn rollback_all(graph: &Graph, stands: &[Stand], begun: &[u64]) -> Vec<u32> {
    let started = (0_u32..).zip(stands).filter(|(_, stand)| stand.has_begun()).map(|(i, _)| i).collect();
    latest_first(graph, begun, started)
}

/// What is not undone and yet would lose its files: it began after something that is undone, and works in the same
/// folder without depending on it. Nothing may be put back before these are over, and then only by somebody who has
/// looked. In ascending order; `begun` is as in a [`Situation`].
///
/// ```
/// use redrive_policy::strategy::entangled;
///
/// let src = ["src".to_owned()];
/// assert_eq!(entangled(&[1, 3, 2], &[0], |_| &src), [1, 2]);
/// assert!(entangled(&[1, 3, 2], &[0, 1, 2], |_| &src).is_empty());
/// ```
pub fn entangled<'a>(begun: &[u64], undo: &[u32], roots_of: impl Fn(u32) -> &'a [String]) -> Vec<u32> {
    // For each folder: when the first of those that are undone began in it, and in anything inside it.
    let mut in_it: HashMap<&str, u64> = HashMap::new();
    let mut inside: HashMap<&str, u64> = HashMap::new();
    let mut undone = vec![false; begun.len()];
    for &i in undo {
        let Some(at) = begun.get(i as usize) else { continue };
        undone[i as usize] = true;
        for root in roots_of(i) {
            let first = in_it.entry(root).or_insert(*at);
            *first = (*at).min(*first);
            for outer in around(root) {
                let first = inside.entry(outer).or_insert(*at);
                *first = (*at).min(*first);
            }
        }
    }
    let loses = |i: u32, at: u64| {
        roots_of(i).iter().any(|root| {
            let firsts = around(root).filter_map(|outer| in_it.get(outer)).chain(inside.get(root.as_str()));
            firsts.into_iter().any(|first| *first < at)
        })
    };
    let later = (0_u32..).zip(begun).filter(|(i, at)| **at > 0 && !undone[*i as usize]);
    later.filter(|(i, at)| loses(*i, **at)).map(|(i, _)| i).collect()
}

fn last_first(situation: &Situation<'_>, these: Vec<u32>) -> Vec<u32> {
    latest_first(situation.graph, situation.begun, these)
}

/// What began last comes first. Two that shared files ran one after the other without depending on each other, so that
/// only this order puts back what was there; but whatever the numbers say, nothing comes before its dependents.
fn latest_first(graph: &Graph, begun: &[u64], mut these: Vec<u32>) -> Vec<u32> {
    let mut order = vec![0_u64; graph.len()];
    for &i in graph.order() {
        let above = graph.needs(i).iter().map(|need| order[*need as usize]).max();
        order[i as usize] = begun.get(i as usize).copied().unwrap_or_default().max(above.unwrap_or_default());
    }
    these.sort_unstable_by_key(|i| std::cmp::Reverse((order[*i as usize], graph.place(*i))));
    these
}

/// What a failure has hit.
struct Damage<'a> {
    stands: &'a [Stand],
    /// What failed or was blamed, and what somebody ended: nothing after it can go on.
    broken: Vec<u32>,
    /// Of those, the ones that may be done again …
    to_retry: Vec<u32>,
    /// … and the others.
    given_up: Vec<u32>,
    /// What depends on those that may be done again.
    downstream: Vec<u32>,
    /// How many of them have begun.
    built_upon: usize,
    /// Whether something that depends on nothing broken has succeeded or still can.
    something_to_keep: bool,
}

impl<'a> Damage<'a> {
    fn of(situation: &Situation<'a>) -> Damage<'a> {
        let len = situation.graph.len();
        let stand = |i: u32| situation.stands.get(i as usize).copied().unwrap_or(Stand::Waiting);
        let mut named = vec![false; len];
        for &i in situation.failed {
            named[i as usize] = true;
        }
        let failed = |i: u32| named[i as usize] || stand(i) == Stand::Failed;
        let broken: Vec<u32> = all(len).filter(|i| failed(*i) || stand(*i) == Stand::Cancelled).collect();
        // What somebody ended on purpose is begun again by nobody but a person.
        let ended = |i: &u32| stand(*i) == Stand::Cancelled && situation.may_retry != MayRetry::ByAPerson;
        let (given_up, to_retry): (Vec<u32>, Vec<u32>) = broken.iter().copied().partition(ended);
        let downstream = situation.graph.downstream(to_retry.iter().copied());
        let built_upon = downstream.iter().filter(|i| stand(**i).has_begun()).count();
        let lost = situation.graph.downstream(broken.iter().copied());
        let hit = |i: &u32| broken.binary_search(i).is_ok() || lost.binary_search(i).is_ok();
        let keeps = |i: u32| matches!(stand(i), Stand::Succeeded | Stand::Started | Stand::Waiting);
        let something_to_keep = all(len).any(|i| keeps(i) && !hit(&i));
        Damage {
            stands: situation.stands,
            broken,
            to_retry,
            given_up,
            downstream,
            built_upon,
            something_to_keep,
        }
    }

    fn stand(&self, i: u32) -> Stand {
        self.stands.get(i as usize).copied().unwrap_or(Stand::Waiting)
    }

    /// Whether it is to be done again or depends on something that is.
    fn is_hit(&self, i: u32) -> bool {
        self.to_retry.binary_search(&i).is_ok() || self.downstream.binary_search(&i).is_ok()
    }
}

fn choose(situation: &Situation<'_>, damage: &Damage<'_>) -> (RecoveryStrategy, Why) {
    use RecoveryStrategy as S;
    if damage.broken.is_empty() {
        return (S::PartialCommit, Why::NothingFailed);
    }
    let by_a_person = situation.may_retry == MayRetry::ByAPerson;
    let can_retry = situation.may_retry != MayRetry::No && !damage.to_retry.is_empty();
    match situation.fixed {
        Some(wanted @ (S::RetryFailedOnly | S::RollbackAndRetry)) if can_retry => {
            return (wanted, Why::PlanSaysSo);
        }
        // Whoever resumes a task has taken over already.
        Some(S::Escalate) if !by_a_person => return (S::Escalate, Why::PlanSaysSo),
        Some(S::PartialCommit) if !by_a_person => {
            let (strategy, why) = keep(situation, damage);
            return (strategy, if strategy == S::PartialCommit { Why::PlanSaysSo } else { why });
        }
        Some(_) | None => {}
    }
    let built_upon = damage.built_upon > 0;
    if can_retry && built_upon {
        (S::RollbackAndRetry, Why::BuiltUpon)
    } else if can_retry && by_a_person {
        (S::RetryFailedOnly, Why::NothingBuiltUpon)
    } else {
        keep(situation, damage)
    }
}

/// What is left when nobody may try again.
fn keep(situation: &Situation<'_>, damage: &Damage<'_>) -> (RecoveryStrategy, Why) {
    if !situation.partial_commit_enabled {
        (RecoveryStrategy::Escalate, Why::AllOrNothing)
    } else if damage.something_to_keep {
        (RecoveryStrategy::PartialCommit, Why::SomethingToKeep)
    } else {
        (RecoveryStrategy::Escalate, Why::NothingToKeep)
    }
}
