//! A thousand at once over real sockets. Most rounds of this are run in process, see `tests/race.rs`.

use std::time::Duration;

use redrive_idempotency::rules::{InFlight, Rules};

use crate::front::Front;
use crate::world::{Answer, Place, World};

async fn a_thousand(world: &World, key: &str) -> Vec<Answer> {
    let asked: Vec<_> =
        (0..1_000).map(|_| world.post("/v1/bookmarks").key(key).test("sleep=5").go()).collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.unwrap());
    }
    answers
}

/// R-I5, must show: the handler runs once, and every answer is the same bytes or a 409.
pub(crate) async fn a_thousand_requests_with_one_key_run_once<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    for round in 1..=2 {
        let answers = a_thousand(&world, &format!("round-{round}")).await;
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
        assert!(!done.is_empty() && done.iter().all(|answer| answer.body == done[0].body));
        assert_eq!(done.iter().filter(|answer| !answer.is_replay()).count(), 1);
        for answer in &refused {
            answer.is_problem(409, "in-flight");
        }
        assert_eq!(world.app.effects(), round);
    }
}

/// R-I5: where the route waits, all of them get the same bytes.
pub(crate) async fn a_thousand_that_wait_get_the_same_bytes<F: Front>(place: Place) {
    let waits = |rules: &mut Rules| rules.in_flight = InFlight::Wait(Duration::from_secs(50));
    let world = World::with::<F>(place, waits).await;
    let answers = a_thousand(&world, "round").await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(world.app.effects(), 1);
}
