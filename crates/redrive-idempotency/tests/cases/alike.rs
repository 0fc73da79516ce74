//! Both stores answer alike: the same script, answer by answer.

use std::time::Duration;

use crate::front::{Front, Layer};
use crate::world::{Answer, Place, World};

async fn script<F: Front>(place: Place) -> Vec<(u16, bool, String)> {
    let mut world = World::new::<F>(place).await;
    let mut told = Vec::new();
    let mut tell =
        |answer: &Answer| told.push((answer.status.as_u16(), answer.is_replay(), answer.text().to_owned()));
    for (key, body, test) in [
        ("a", "{}", ""),
        ("a", "{}", ""),
        ("a", "[]", ""),
        ("b", "{}", "status=503"),
        ("b", "{}", "status=404"),
        ("b", "{}", ""),
        ("c", "{}", "word=unknown"),
        ("c", "{}", ""),
        ("c", "[]", ""),
    ] {
        tell(&world.post("/v1/bookmarks").key(key).body(body).test(test).send().await);
    }
    world.clock.advance(Duration::from_hours(71));
    tell(&world.post("/v1/bookmarks").key("a").body("{}").send().await);
    let running = world.post("/v1/bookmarks").key("d").test("hold=1").go();
    world.app.somebody_is_in().await;
    tell(&world.post("/v1/bookmarks").key("d").send().await);
    world.kill_and_restart::<F>().await;
    running.abort();
    world.clock.advance(Duration::from_hours(2));
    for key in ["a", "b", "c", "d"] {
        tell(&world.post("/v1/bookmarks").key(key).body("{}").send().await);
    }
    world.clock.advance(Duration::from_hours(72));
    tell(&world.post("/v1/bookmarks").key("d").send().await);
    told
}

/// R-I2: PostgreSQL and SQLite are equal, to the byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_answer_alike() {
    let Some(postgres) = Place::postgres() else { return };
    let sqlite = script::<Layer>(Place::sqlite()).await;
    assert_eq!(sqlite, script::<Layer>(postgres).await);
    assert_eq!(sqlite.len(), 16);
}
