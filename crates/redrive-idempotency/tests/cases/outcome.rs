//! What becomes of a key by the outcome (R-I5).

use redrive_idempotency::rules::Keep;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I5: a 4xx that will be the same next time is replayed.
pub(crate) async fn what_is_wrong_for_good_is_replayed<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    for (done, status) in [400, 402, 404, 409, 410, 422].into_iter().enumerate() {
        let ask =
            || world.post("/v1/bookmarks").key(format!("key-{status}")).test(&format!("status={status}"));
        let first = ask().send().await;
        assert_eq!(first.status, status);
        ask().send().await.replays(&first);
        assert_eq!(world.app.effects(), u64::try_from(done).unwrap() + 1);
    }
}

/// R-I5: what was not let in, comes too early or too often, or finds the server in trouble leaves the key free.
pub(crate) async fn what_may_pass_is_not_stored<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    for status in [401, 403, 408, 425, 429, 500, 502, 503] {
        let key = format!("key-{status}");
        let before = world.app.effects();
        let refused = world.post("/v1/bookmarks").key(&key).test(&format!("status={status}")).send().await;
        assert_eq!((refused.status.as_u16(), refused.is_replay()), (status, false));
        assert_eq!(world.records().await.iter().filter(|record| record.key == key).count(), 0, "{status}");
        let second = world.post("/v1/bookmarks").key(&key).send().await;
        second.is_effect(before + 2);
        world.post("/v1/bookmarks").key(&key).send().await.replays(&second);
    }
}

/// R-I5: a 5xx is released by default, and stored or unknown where the rules say so.
pub(crate) async fn what_went_wrong_on_the_server_is_kept_as_the_rules_say<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| {
        rules.outcomes.set_hundred(5, Keep::Store);
        rules.outcomes.set(504, Keep::Unknown);
        rules.outcomes.set(503, Keep::Release);
    })
    .await;
    let ask =
        |status: u16| world.post("/v1/bookmarks").key(format!("k{status}")).test(&format!("status={status}"));
    let stored = ask(500).send().await;
    assert_eq!(stored.status, 500);
    ask(500).send().await.replays(&stored);
    assert_eq!(ask(504).send().await.status, 504);
    ask(504).send().await.is_problem(409, "unknown-outcome");
    assert_eq!(ask(503).send().await.status, 503);
    assert!(!ask(503).send().await.is_replay());
    assert_eq!(world.app.effects(), 4);
}

/// R-I5: the service has the last word, which its client does not see.
pub(crate) async fn the_service_says_itself_what_becomes_of_the_key<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let ask = |key: &str, words: &str| world.post("/v1/bookmarks").key(key).test(words);
    let stored = ask("stored", "status=503 word=store").send().await;
    assert_eq!((stored.status.as_u16(), stored.header("redrive-idempotency")), (503, None));
    ask("stored", "").send().await.replays(&stored);
    ask("released", "word=Release").send().await.is_effect(2);
    ask("released", "").send().await.is_effect(3);
    ask("unknown", "word=unknown").send().await.is_effect(4);
    ask("unknown", "").send().await.is_problem(409, "unknown-outcome");
    // What nobody understands says nothing, and the status counts.
    ask("odd", "word=perhaps").send().await.is_effect(5);
    assert!(ask("odd", "").send().await.is_replay());
    // Without a key there is nothing to say, and still nothing to see.
    assert_eq!(
        world.post("/v1/bookmarks").test("word=store").send().await.header("redrive-idempotency"),
        None
    );
}
