//! How long a key is known (R-I2).

use std::time::Duration;

use redrive_idempotency::rules::DEFAULT_KEEP_FOR;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I2: 72 hours from its completion; a millisecond before it is a replay, a millisecond after it is new.
pub(crate) async fn a_key_is_known_for_its_time_and_not_a_millisecond_longer<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    assert_eq!(DEFAULT_KEEP_FOR, Duration::from_hours(72));
    let running = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    // It counts from the answer, not from the beginning.
    world.clock.advance(Duration::from_secs(10));
    world.app.let_one_go_on();
    let first = running.await.unwrap();
    first.is_effect(1);
    world.clock.advance(DEFAULT_KEEP_FOR.saturating_sub(Duration::from_millis(1)));
    world.post("/v1/bookmarks").key("order-7").send().await.replays(&first);
    world.clock.advance(Duration::from_millis(2));
    // New in every way: also another request may have it now.
    world.post("/v1/bookmarks").key("order-7").body("{}").send().await.is_effect(2);
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "mismatch");
}

/// R-I2: a request that runs longer than keys are known is not run beside itself.
pub(crate) async fn what_is_in_flight_never_expires<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| {
        rules.keep_for = Duration::from_mins(1);
        rules.hold_for = Duration::from_hours(10);
    })
    .await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    world.clock.advance(Duration::from_hours(9));
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "in-flight");
    world.post("/v1/bookmarks").key("order-7").body("other").send().await.is_problem(409, "mismatch");
    let swept =
        world.engine.store().sweep_keys(world.engine.now(), Duration::from_mins(1), 100).await.unwrap();
    assert_eq!((swept.lapsed, swept.expired), (0, 0));
    world.app.let_one_go_on();
    first.await.unwrap().is_effect(1);
    assert_eq!(world.app.effects(), 1);
}
