//! The guard by itself: how long a key is held, who wakes when, and what is counted (R-I4, R-C4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, Method, Uri};
use redrive::engine::Engine;
use redrive_idempotency::rules::{Guarded, InFlight, Rules};
use redrive_idempotency::{Entered, Guard, Held, IdempotencyLayer, Looked};
use redrive_store::{Finish, KeyState, Metric, MetricsQuery, StoredResponse, hour_of};

use crate::place::Place;
use crate::support::{ask, keyed, on_sqlite, records, state};

fn guarded(change: impl FnOnce(&mut Rules)) -> Guarded {
    let mut guarded = Guarded::whatever_carries_a_key();
    change(&mut guarded.routes[0].rules);
    guarded
}

async fn enter(guard: &Guard, key: &str) -> Entered {
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", key.parse().unwrap());
    let Looked::Guarded(asked) = guard.look(&Method::POST, &Uri::from_static("/v1/bookmarks"), &headers)
    else {
        panic!("not guarded");
    };
    guard.enter(&asked, b"{}").await
}

async fn held(guard: &Guard, key: &str) -> Held {
    match enter(guard, key).await {
        Entered::Run(held) => held,
        Entered::Answer(answer) => panic!("{answer:?}"),
    }
}

async fn status(guard: &Guard, key: &str) -> (u16, String) {
    match enter(guard, key).await {
        Entered::Run(held) => panic!("{held:?}"),
        Entered::Answer(answer) => {
            (answer.status().as_u16(), String::from_utf8(answer.body().to_vec()).unwrap())
        }
    }
}

fn answer(body: &str) -> StoredResponse {
    StoredResponse { status: 201, headers: Vec::new(), body: Some(body.as_bytes().to_vec()) }
}

/// R-I4: a handler that runs much longer than its lease keeps its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_handler_keeps_its_key() {
    let place = Place::sqlite();
    let engine = Engine::builder(place.open().await).build().unwrap();
    let guard = Guard::new(&engine, guarded(|rules| rules.hold_for = Duration::from_millis(600)));
    let held = held(&guard, "a").await;
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        let (code, told) = status(&guard, "a").await;
        assert!(code == 409 && told.contains("in-flight"), "after {:?}: {told}", since.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(held.complete(answer("late")).await.unwrap(), Finish::Done);
    assert_eq!(status(&guard, "a").await, (201, "late".to_owned()));
    assert_eq!(guard.held(), 0);
}

/// R-I4: whoever goes away without a word leaves an unknown outcome at once, not when its lease is over.
#[tokio::test]
async fn a_holder_that_is_dropped_leaves_an_unknown_outcome_at_once() {
    let (engine, _clock, _place) = on_sqlite().await;
    let guard =
        Guard::new(&engine, guarded(|rules| rules.in_flight = InFlight::Wait(Duration::from_secs(20))));
    drop(held(&guard, "a").await);
    let (code, told) = status(&guard, "a").await;
    assert!(code == 409 && told.contains("unknown-outcome"), "{told}");
    assert_eq!((guard.held(), state(&engine).await), (0, KeyState::UnknownOutcome));
}

/// R-I4: so does one that is dropped while it says how it ended, unless that was written already. It is not renewed for ever.
#[tokio::test]
async fn an_ending_that_is_dropped_half_way_does_not_hold_its_key_for_ever() {
    let (engine, _clock, _place) = on_sqlite().await;
    let guard = Guard::new(&engine, guarded(|_| {}));
    for key in ["a", "b", "c", "d"] {
        let held = held(&guard, key).await;
        tokio::select! {
            biased;
            _ = held.complete(answer("done")) => {}
            () = std::future::ready(()) => {}
        }
        assert_eq!(guard.held(), 0);
    }
    for _ in 0..200 {
        if records(&engine).await.iter().all(|record| record.state != KeyState::InProgress) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let records = records(&engine).await;
    assert!(
        records.iter().all(|record| record.state == KeyState::Completed),
        "each was handed to the store: {records:?}"
    );
}

/// R-I4: those who wait are woken when the first has ended, and not when they would look again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_when_the_first_does() {
    let (engine, _clock, _place) = on_sqlite().await;
    let guard =
        Guard::new(&engine, guarded(|rules| rules.in_flight = InFlight::Wait(Duration::from_secs(20))));
    let mut soonest = Duration::MAX;
    for key in ["a", "b", "c"] {
        let held = held(&guard, key).await;
        let waiting = tokio::spawn({
            let guard = guard.clone();
            async move { status(&guard, key).await }
        });
        // It looks 25, 75, 175, 375 and 775 ms after it came, and then half a second later.
        tokio::time::sleep(Duration::from_millis(850)).await;
        assert!(!waiting.is_finished());
        let since = Instant::now();
        held.complete(answer("first")).await.unwrap();
        assert_eq!(waiting.await.unwrap(), (201, "first".to_owned()));
        soonest = soonest.min(since.elapsed());
    }
    assert!(soonest < Duration::from_millis(300), "nobody rang: {soonest:?}");
}

/// R-I4: those who wait in another process look by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_ends_across_two_guards() {
    let (engine, clock, place) = on_sqlite().await;
    let other = Engine::builder(place.open().await).clock(clock).build().unwrap();
    let waits = |rules: &mut Rules| rules.in_flight = InFlight::Wait(Duration::from_secs(20));
    let first = Guard::new(&engine, guarded(|_| {}));
    let second = Guard::new(&other, guarded(waits));
    let held = held(&first, "a").await;
    let waiting = tokio::spawn(async move { status(&second, "a").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    held.complete(answer("first")).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (201, "first".to_owned()));
}

/// R-C4, 004 §6: what keys were used for is counted in the store.
#[tokio::test]
async fn what_is_counted_reaches_the_store() {
    let (engine, _clock, _place) = on_sqlite().await;
    let fails = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&fails);
    let app = Router::new().fallback(move || {
        let status = if told.load(Ordering::SeqCst) { 503 } else { 201 };
        async move { axum::http::StatusCode::from_u16(status).unwrap() }
    });
    let layer = IdempotencyLayer::new(&engine);
    let app = app.layer(layer.clone());
    ask(&app, keyed("a")).await;
    ask(&app, keyed("a")).await;
    ask(&app, keyed("a")).await;
    let other = axum::http::Request::post("/v1/bookmarks").header("idempotency-key", "a");
    ask(&app, other.body("other".into()).unwrap()).await.is_problem(409, "mismatch");
    let without = axum::http::Request::post("/v1/bookmarks").body("{}".into()).unwrap();
    ask(&app, without).await;
    fails.store(true, Ordering::SeqCst);
    ask(&app, keyed("b")).await;
    let held = held(layer.guard(), "c").await;
    status(layer.guard(), "c").await;
    held.give_up("as told").await.unwrap();
    status(layer.guard(), "c").await;
    layer.guard().drain().await.unwrap();

    let hour = hour_of(engine.now());
    let query = MetricsQuery { from_hour: hour, to_hour: hour, ..MetricsQuery::default() };
    let counts = engine.store().metrics(query).await.unwrap();
    let count = |metric: Metric| {
        counts.iter().filter(|count| count.metric == metric).map(|count| count.n).sum::<u64>()
    };
    assert_eq!(count(Metric::KeysGuarded), 9);
    assert_eq!(count(Metric::KeysUsed), 8);
    assert_eq!(count(Metric::KeysTaken), 3);
    assert_eq!(count(Metric::KeysReplayed), 2);
    assert_eq!(count(Metric::KeysMismatched), 1);
    assert_eq!(count(Metric::KeysInFlight), 1);
    assert_eq!(count(Metric::KeysUnknown), 1);
    assert_eq!(count(Metric::KeysReleased), 1);
}

/// R-I4: a service may wait at its end for what still runs.
#[tokio::test]
async fn draining_waits_for_what_runs() {
    let (engine, _clock, _place) = on_sqlite().await;
    let guard = Guard::new(&engine, guarded(|_| {}));
    let held = held(&guard, "a").await;
    let draining = tokio::spawn({
        let guard = guard.clone();
        async move { guard.drain().await }
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!draining.is_finished());
    held.release(None).await.unwrap();
    draining.await.unwrap().unwrap();
    assert_eq!(records(&engine).await.len(), 0);
}
