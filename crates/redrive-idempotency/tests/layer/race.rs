//! Must show: a thousand concurrent requests with one key, a hundred rounds, both stores (R-I5). In process; a few more rounds go over
//! real sockets in the suite of cases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use redrive_idempotency::rules::{InFlight, KeyForm};
use redrive_idempotency::{Idem, IdempotencyLayer};

use crate::place::Place;
use crate::support::{Answer, ask, engine, keyed};

const AT_ONCE: usize = 1_000;

async fn race(place: Place, in_flight: InFlight, rounds: usize) {
    let (engine, _clock) = engine(&place).await;
    let runs: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&runs);
    let app = Router::new().fallback(async move |idem: Idem| {
        let run = {
            let mut runs = counted.lock().unwrap();
            let run = runs.entry(idem.key().to_string()).or_default();
            *run += 1;
            *run
        };
        tokio::task::yield_now().await;
        format!("run {run} of {}", idem.key())
    });
    let layer = IdempotencyLayer::new(&engine).route("/**", |rules| {
        rules.key = KeyForm::Any;
        rules.in_flight = in_flight;
    });
    let app = app.layer(layer.unwrap());
    for round in 0..rounds {
        let key = format!("round-{round}");
        let asked: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (app, request) = (app.clone(), keyed(&key));
                tokio::spawn(async move { ask(&app, request).await })
            })
            .collect();
        let mut answers: Vec<Answer> = Vec::new();
        for answer in asked {
            let answer = tokio::time::timeout(Duration::from_mins(1), answer).await;
            answers.push(answer.expect("a deadlock").unwrap());
        }
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
        let expected = format!("run 1 of {key}");
        assert!(done.iter().all(|answer| answer.body == expected), "{done:?}");
        assert_eq!(done.iter().filter(|answer| !answer.is_replay()).count(), 1);
        for answer in &refused {
            answer.is_problem(409, "in-flight");
        }
        assert!(in_flight == InFlight::Conflict || refused.is_empty(), "whoever waits is answered");
    }
    let runs = runs.lock().unwrap();
    assert!(runs.len() == rounds && runs.values().all(|runs| *runs == 1), "{runs:?}");
}

/// R-I5, must show, SQLite: the handler runs once a round; every answer is the same bytes or a 409.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_at_once_a_hundred_times_on_sqlite() {
    race(Place::sqlite(), InFlight::Conflict, 100).await;
}

/// R-I5, must show, SQLite: where the route waits, every answer is the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_wait_again_and_again_on_sqlite() {
    race(Place::sqlite(), InFlight::Wait(Duration::from_secs(30)), 25).await;
}

/// R-I5, must show, PostgreSQL: the handler runs once a round; every answer is the same bytes or a 409.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_at_once_a_hundred_times_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    race(place, InFlight::Conflict, 100).await;
}

/// R-I5, must show, PostgreSQL: where the route waits, every answer is the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_wait_again_and_again_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    race(place, InFlight::Wait(Duration::from_secs(30)), 25).await;
}
