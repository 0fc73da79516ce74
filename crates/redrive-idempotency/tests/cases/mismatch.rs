//! A key that came with another request before (R-I3).

use reqwest::Method;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I3: another body is 409 by default, and 422 where the route says so.
pub(crate) async fn another_body_is_409_or_422<F: Front>(place: Place) {
    let mut place = place;
    for status in [409, 422] {
        let world = World::with::<F>(place, |rules| rules.mismatch_status = status).await;
        let key = format!("order-{status}");
        let first = world.post("/v1/bookmarks").key(&key).body("{\"a\":1}").send().await;
        first.is_effect(1);
        for other in ["{\"a\":2}", "{\"a\":1} ", ""] {
            world.post("/v1/bookmarks").key(&key).body(other).send().await.is_problem(status, "mismatch");
        }
        world.post("/v1/bookmarks").key(&key).body("{\"a\":1}").send().await.replays(&first);
        assert_eq!(world.app.effects(), 1);
        place = world.place;
    }
}

/// R-I3: the same bytes of another type are another request.
pub(crate) async fn another_content_type_is_a_mismatch<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.mismatch_status = 422).await;
    let ask = || world.post("/v1/bookmarks").key("order-7").body("a=1");
    ask().header("content-type", "text/plain").send().await.is_effect(1);
    let form = ask().header("content-type", "application/x-www-form-urlencoded").send().await;
    form.is_problem(422, "mismatch");
    ask().send().await.is_problem(422, "mismatch");
    assert!(ask().header("content-type", "text/plain").send().await.is_replay());
}

/// R-I3: so are another route, another query and another method.
pub(crate) async fn another_route_is_a_mismatch<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    world.post("/v1/bookmarks").key("order-7").body("{}").send().await.is_effect(1);
    for path in ["/v1/notes", "/v1/bookmarks/", "/v1/bookmarks?", "/v1/bookmarks?tag=a"] {
        let other = world.post(path).key("order-7").body("{}").send().await;
        if path == "/v1/bookmarks?" && other.is_replay() {
            // Some clients take an empty query for none, before it reaches anybody.
            continue;
        }
        other.is_problem(409, "mismatch");
    }
    let patch = world.ask(Method::PATCH, "/v1/bookmarks").key("order-7").body("{}").send().await;
    patch.is_problem(409, "mismatch");
    assert_eq!(world.app.effects(), 1);
}
