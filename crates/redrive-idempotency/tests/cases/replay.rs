//! An answer from the record (R-I3).

use std::time::Duration;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I3: the first 2xx is given again, byte for byte, with its status and its headers.
pub(crate) async fn an_answer_is_replayed_byte_for_byte<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let ask = || world.post("/v1/bookmarks?tag=a").key("order-7").body("{\"url\":\"https://example.com\"}");
    let first = ask().send().await;
    first.is_effect(1);
    for _ in 0..3 {
        let again = ask().send().await;
        again.replays(&first);
        for name in ["content-type", "location", "etag", "date", "content-length"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    assert_eq!(world.app.effects(), 1);
}

/// R-I3: a replay is marked, and has the first answer's date however much later it is.
pub(crate) async fn a_replay_says_that_it_is_one_and_has_the_first_date<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("order-7").send().await;
    first.is_effect(1);
    assert_eq!(first.header("idempotency-replayed"), None);
    let date = first.header("date").unwrap().to_owned();
    world.clock.advance(Duration::from_hours(50));
    // A front that makes dates itself would have made another one by now.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let again = world.post("/v1/bookmarks").key("order-7").send().await;
    again.replays(&first);
    assert_eq!(again.headers.get_all("date").iter().count(), 1);
    assert_eq!(again.header("date"), Some(&*date));
}

/// R-I3: what belongs to one caller or one connection is not kept, nor what no list names.
pub(crate) async fn set_cookie_is_not_replayed<F: Front>(place: Place) {
    let named = |rules: &mut redrive_idempotency::rules::Rules| {
        // Not even for those who ask for it.
        rules.headers.push("set-cookie".to_owned());
    };
    let world = World::with::<F>(place, named).await;
    let first = world.post("/v1/bookmarks").key("order-7").send().await;
    assert_eq!(first.header("set-cookie"), Some("session=of-effect-1"));
    assert_eq!(first.header("x-own"), Some("not kept"));
    let again = world.post("/v1/bookmarks").key("order-7").send().await;
    again.replays(&first);
    assert_eq!((again.header("set-cookie"), again.header("x-own")), (None, None));
    let record = world.records().await[0].id;
    let (_, kept) = world.engine.store().key(record).await.unwrap().unwrap();
    assert!(kept.unwrap().headers.iter().all(|(name, _)| name != "set-cookie" && name != "x-own"));
}
