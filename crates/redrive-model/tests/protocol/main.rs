//! The lease protocol, explored: every way in which three workers, two jobs, crashes, pauses, skewed clocks, lost answers,
//! repeated settlements and people can follow each other, within the bounds of a budget.
//!
//! The model calls the functions that the stores call (`redrive_store::protocol`) and the policy that the engine calls.
//! `docs/model.md` says what is modelled and what is not. The model without its fence is in `tests/protocol_mutation`.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod explore;
#[path = "../../../redrive-store/tests/given/mod.rs"]
mod given;
mod replay;
mod rules;
mod scene;
mod state;
mod step;
mod tell;

use std::fmt::Write;

use explore::explore;
use rules::{Broken, CRASH_BUDGET, Model, Mutation};
use scene::SCENES;
use state::{Budget, Nature};
use step::Action;

/// The model's figures, for `test.sh` to show.
const FIGURES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/lease-protocol.txt");

/// R-D1, R-D2, R-D4, invariants I1–I6 of docs/model.md: no job is lost, no attempt is settled twice, no lease sticks, no innocent
/// is set aside, whatever happens in whatever order.
#[test]
fn nothing_is_lost_doubled_stuck_or_condemned() {
    let mut told = String::new();
    let (mut states, mut seconds, mut stale) = (0, 0.0, 0);
    let mut taken = [0; Action::NAMES.len()];
    for scene in SCENES {
        let found = explore(&Model::new(scene.natures, scene.budget), |_| true);
        if let Some(trace) = found.broken {
            panic!("{}: found by {} states:\n{trace}", scene.name, found.states);
        }
        let (depth, took) = (found.depth, found.took.as_secs_f64());
        writeln!(
            told,
            "  {:9} states, up to {depth:2} steps deep, {took:4.1} s: {}",
            found.states, scene.name
        )
        .unwrap();
        states += found.states;
        seconds += found.took.as_secs_f64();
        stale += found.stale;
        for (sum, times) in taken.iter_mut().zip(found.taken) {
            *sum += times;
        }
        if scene.budget.faults <= CRASH_BUDGET && scene.natures[0] == Nature::Good {
            assert_eq!(found.first_dead, 0, "{}: a good job died of three losses", scene.name);
        }
    }
    let steps: u64 = taken.iter().sum();
    let told = format!(
        "the lease protocol: {states} states, {steps} steps, {stale} stale settlements, nothing broken, {seconds:.1} s\n{told}"
    );
    println!("{told}");
    std::fs::write(FIGURES, &told).unwrap();
    assert!(states >= 1_000_000, "only {states} states: next to nothing was looked at");
    // A step that was never taken would be a hollow pass.
    for (name, times) in Action::NAMES.iter().zip(taken) {
        assert!(times > 0, "there were no {name}");
    }
    assert!(stale > 0, "nobody ever came too late");
}

/// R-D2: three workers lost over a good job never make it a dead letter; the fourth does, and nothing tells it from a killer.
#[test]
fn a_good_job_outlives_three_losses_and_not_four() {
    let natures = [Nature::Good, Nature::Absent];
    let deaths = |faults| {
        let found = explore(&Model::new(natures, Budget { faults, ..scene::NOTHING }), |_| true);
        assert!(found.broken.is_none(), "{}", found.broken.unwrap());
        found.first_dead
    };
    assert_eq!(deaths(CRASH_BUDGET), 0);
    assert!(deaths(CRASH_BUDGET + 1) > 0);
}

/// Each rule that is forgotten is noticed, and by the invariant that it is there for.
#[test]
fn every_rule_is_missed_when_it_is_gone() {
    use Broken::{
        CancelledPutBack, ChargedForNothing, FenceShared, InnocentDead, Miscounted, PoisonRunsOn, Stuck,
    };
    let all = Budget { faults: 2, copies: 0, give_backs: 1, cancels: 1, redrives: 1 };
    let caught = [
        (Mutation::CountsAtLease, Nature::Good, Miscounted),
        (Mutation::CountsEveryBegin, Nature::Good, Miscounted),
        (Mutation::KeepsGivenBackCounted, Nature::Good, Miscounted),
        (Mutation::ReaperKeepsTheFence, Nature::Good, FenceShared),
        (Mutation::ReaperTrustsItsOwnClock, Nature::Good, ChargedForNothing),
        (Mutation::ReaperChargesTheUnbegun, Nature::Good, Miscounted),
        (Mutation::NobodyReaps, Nature::Good, Stuck),
        (Mutation::NoCrashBudget, Nature::Wild, PoisonRunsOn),
        (Mutation::NoSecondChance, Nature::Wild, InnocentDead),
        (Mutation::ForgetsTheWish, Nature::Good, CancelledPutBack),
        (Mutation::RedriveResetsTheFence, Nature::Failing, FenceShared),
    ];
    for (mutation, nature, by) in caught {
        let budget = match mutation {
            // It is enough, and the whole space is looked at before it is noticed.
            Mutation::NobodyReaps => Budget { faults: 1, ..scene::NOTHING },
            Mutation::NoCrashBudget => scene::NOTHING,
            _ => all,
        };
        let model = Model::new([nature, Nature::Absent], budget).with(mutation);
        let found = explore(&model, |_| true);
        let trace =
            found.broken.unwrap_or_else(|| panic!("{mutation:?} went unnoticed in {} states", found.states));
        println!("{mutation:?}, noticed after {} states:\n{trace}\n", found.states);
        assert_eq!(trace.broken, by, "{mutation:?}");
    }
}
