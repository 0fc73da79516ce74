//! What a key is, and whose (R-I1).

use redrive_idempotency::rules::{KeyForm, Principal};
use reqwest::Method;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I1: missing key, required and optional.
pub(crate) async fn a_key_is_demanded_only_where_it_is_required<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.required = true).await;
    world.post("/v1/bookmarks").body("{}").send().await.is_problem(400, "key-missing");
    let told = world.post("/v1/bookmarks").header("accept-language", "ja, en;q=0.5").send().await;
    told.is_problem(400, "key-missing");
    assert_eq!(told.header("content-language"), Some("ja"));
    assert!(told.text().contains("必要です"), "{}", told.text());
    assert_eq!((world.app.effects(), world.records().await.len()), (0, 0));

    let world = World::new::<F>(world.place).await;
    world.post("/v1/bookmarks").body("{}").send().await.is_effect(1);
    world.post("/v1/bookmarks").body("{}").send().await.is_effect(2);
    assert_eq!(world.records().await.len(), 0);
}

/// R-I1: a malformed or empty key is refused before anything is done.
pub(crate) async fn a_malformed_key_is_refused_without_a_trace<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let malformed: [&[u8]; 8] =
        [b"", b"   ", b"\"\"", b"a key", b"\"open", b"\"two\" \"keys\"", b"caf\xc3\xa9", b"tab\tin it"];
    for key in malformed {
        world.post("/v1/bookmarks").key(key).send().await.is_problem(400, "key-malformed");
    }
    assert_eq!((world.app.effects(), world.records().await.len()), (0, 0));
}

/// R-I1: 255 characters are a key, 256 are none.
pub(crate) async fn a_key_has_at_most_255_characters<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("k".repeat(255)).send().await;
    first.is_effect(1);
    world.post("/v1/bookmarks").key("k".repeat(255)).send().await.replays(&first);
    world.post("/v1/bookmarks").key("k".repeat(256)).send().await.is_problem(400, "key-malformed");
    world.post("/v1/bookmarks").key("k").send().await.is_effect(2);
}

/// R-I1: the quoted form of the header's draft names the same key as the bare one.
pub(crate) async fn quoted_and_bare_are_the_same_key<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("\"order-7\"").body("{}").send().await;
    first.is_effect(1);
    world.post("/v1/bookmarks").key("order-7").body("{}").send().await.replays(&first);
    world.post("/v1/bookmarks").key("  \"order-7\";v=1 ").body("{}").send().await.replays(&first);
}

/// R-I1: two headers are two keys, and nobody knows which is meant, even if they say the same.
pub(crate) async fn two_headers_are_refused<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    for second in ["other", "same"] {
        let told = world.post("/v1/bookmarks").key("same").key(second).send().await;
        told.is_problem(400, "key-malformed");
    }
    assert_eq!((world.app.effects(), world.records().await.len()), (0, 0));
}

/// R-I1, 004 §2: a route may demand UUIDs; upper case names the same key.
pub(crate) async fn a_uuid_is_demanded_where_the_route_says_so<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.key = KeyForm::Uuid).await;
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(400, "key-malformed");
    let first = world.post("/v1/bookmarks").key("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed").send().await;
    first.is_effect(1);
    let again = world.post("/v1/bookmarks").key("1B9D6BCD-BBFD-4B2D-9B5D-AB8DFBBD4BED").send().await;
    again.replays(&first);
}

/// R-I1: GET does nothing, so its key says nothing; not even a malformed one.
pub(crate) async fn get_is_ignored<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.required = true).await;
    for effect in 1..=2 {
        world.ask(Method::GET, "/v1/bookmarks").key("order-7").send().await.is_effect(effect);
    }
    world.ask(Method::GET, "/v1/bookmarks").key("").send().await.is_effect(3);
    assert_eq!(world.records().await.len(), 0);
}

/// R-I2: the same key of another caller is another key.
pub(crate) async fn another_tenant_is_independent<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let ask =
        |token: &str| world.post("/v1/bookmarks").key("order-7").header("authorization", token).body("{}");
    let (first, second) = (ask("Bearer one").send().await, ask("Bearer two").send().await);
    first.is_effect(1);
    second.is_effect(2);
    ask("Bearer one").send().await.replays(&first);
    ask("Bearer two").send().await.replays(&second);
    world.post("/v1/bookmarks").key("order-7").body("{}").send().await.is_effect(3);
    let records = world.records().await;
    assert!(records.iter().all(|record| !record.principal.contains("one")), "a secret is in {records:?}");

    let by_header = |rules: &mut redrive_idempotency::rules::Rules| {
        rules.principal = Principal::Header("x-tenant".to_owned());
    };
    let world = World::with::<F>(world.place, by_header).await;
    world.post("/v1/notes").key("a").header("x-tenant", "one").send().await.is_effect(1);
    world.post("/v1/notes").key("a").header("x-tenant", "two").send().await.is_effect(2);
}
