//! Holders that are killed, and services that start again (R-I4).

use std::time::Duration;

use redrive_idempotency::rules::{DEFAULT_HOLD_FOR, OnUnknown};
use redrive_store::KeyState;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I4: a killed holder's key is in flight until its lease is over, and then an unknown outcome, which is never run again by itself.
pub(crate) async fn a_killed_holder_leaves_an_unknown_outcome<F: Front>(place: Place) {
    let mut world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    world.kill_and_restart::<F>().await;
    first.abort();
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "in-flight");
    world.clock.advance(DEFAULT_HOLD_FOR.saturating_sub(Duration::from_millis(1)));
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "in-flight");
    world.clock.advance(Duration::from_millis(1));
    for _ in 0..2 {
        world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "unknown-outcome");
    }
    assert_eq!(world.records().await[0].state, KeyState::UnknownOutcome);
    assert_eq!(world.app.effects(), 1);

    // A person looked, and frees it.
    let (record, now) = (world.records().await[0].id, world.engine.now());
    world.engine.store().reset_key(now, record, KeyState::UnknownOutcome, None).await.unwrap().unwrap();
    world.post("/v1/bookmarks").key("order-7").send().await.is_effect(2);
}

/// R-I4: unless the route can bear it.
pub(crate) async fn a_route_that_can_bear_it_runs_again<F: Front>(place: Place) {
    let mut world = World::with::<F>(place, |rules| rules.unknown = OnUnknown::SafeToRerun).await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    world.kill_and_restart::<F>().await;
    first.abort();
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "in-flight");
    world.clock.advance(DEFAULT_HOLD_FOR);
    let second = world.post("/v1/bookmarks").key("order-7").send().await;
    second.is_effect(2);
    world.post("/v1/bookmarks").key("order-7").send().await.replays(&second);
}

/// R-I2: what was answered is known after a restart.
pub(crate) async fn a_restart_keeps_what_was_answered<F: Front>(place: Place) {
    let mut world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("order-7").body("{}").send().await;
    first.is_effect(1);
    world.kill_and_restart::<F>().await;
    world.post("/v1/bookmarks").key("order-7").body("{}").send().await.replays(&first);
    world.post("/v1/bookmarks").key("order-7").body("[]").send().await.is_problem(409, "mismatch");
}
