//! Completion in the transaction of the effect: exactly once, when the effect is in the store's database (R-I4).

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::post;
use redrive::engine::Engine;
use redrive_idempotency::{CompleteError, Idem, IdempotencyLayer};
use redrive_store::{KeyState, rusqlite};

use crate::effects::{Effects, app};
use crate::place::Place;
use crate::support::{ask, engine, keyed, on_sqlite, records, state};

struct World {
    engine: Engine,
    effects: Effects,
    app: Router,
    _place: Place,
}

async fn world(place: Place) -> World {
    let (engine, _clock) = engine(&place).await;
    let effects = Effects::of(&place).await;
    let app = app(effects.clone()).layer(IdempotencyLayer::new(&engine));
    World { engine, effects, app, _place: place }
}

fn told(words: &str) -> Request<Body> {
    let mut request = keyed("a");
    request.headers_mut().insert("x-test", words.parse().unwrap());
    request
}

/// The effect and the record are there together; the first caller gets all of the answer, and a replay what is kept.
async fn an_effect_and_its_record_are_committed_together(place: Place) {
    let world = world(place).await;
    let first = ask(&world.app, told("")).await;
    assert_eq!((first.status.as_u16(), first.body.as_str(), first.is_replay()), (201, "saved a", false));
    assert_eq!(first.headers["set-cookie"], "session=1");
    let again = ask(&world.app, told("")).await;
    assert_eq!((again.status, &again.body, again.is_replay()), (first.status, &first.body, true));
    for name in ["location", "date"] {
        assert_eq!(again.headers[name], first.headers[name]);
    }
    assert_eq!((world.effects.count().await, state(&world.engine).await), (1, KeyState::Completed));
}

/// What was committed is the truth: its caller gets it although the handler panicked, or says something else by now.
async fn what_was_committed_is_what_everybody_gets(place: Place) {
    let world = world(place).await;
    for (key, words) in [("panics", "panic"), ("conflicts", "then-409"), ("fails", "then-503")] {
        let request = || {
            let request =
                Request::post("/v1/bookmarks").header("idempotency-key", key).header("x-test", words);
            request.body(Body::empty()).unwrap()
        };
        let (first, again) = (ask(&world.app, request()).await, ask(&world.app, request()).await);
        assert_eq!((first.status.as_u16(), first.body), (201, format!("saved {key}")), "{words}");
        assert_eq!((again.status.as_u16(), again.body), (201, format!("saved {key}")), "{words}");
    }
    assert_eq!(world.effects.count().await, 3);
}

/// What was rolled back was not completed: the answer that came instead counts, by its status.
async fn what_was_rolled_back_was_not_completed(place: Place) {
    let world = world(place).await;
    assert_eq!(ask(&world.app, told("roll-back then-503")).await.status, 503);
    assert_eq!((records(&world.engine).await.len(), world.effects.count().await), (0, 0));
    let sold_out = ask(&world.app, told("roll-back then-409")).await;
    assert_eq!((sold_out.status.as_u16(), sold_out.body.as_str()), (409, "sold out"));
    let again = ask(&world.app, told("")).await;
    assert_eq!((again.body.as_str(), again.is_replay()), ("sold out", true));
    assert_eq!(world.effects.count().await, 0);
}

/// An answer that says "done" of what was never committed is a mistake, and is not passed on.
async fn a_forgotten_commit_is_told(place: Place) {
    let world = world(place).await;
    ask(&world.app, told("roll-back")).await.is_problem(500, "handler-broke");
    assert_eq!((world.effects.count().await, state(&world.engine).await), (0, KeyState::UnknownOutcome));
    ask(&world.app, told("")).await.is_problem(409, "unknown-outcome");
}

/// A panic before the commit leaves no effect, and nobody knows what else was done.
async fn a_panic_after_a_roll_back_is_an_unknown_outcome(place: Place) {
    let world = world(place).await;
    ask(&world.app, told("roll-back panic")).await.is_problem(500, "handler-broke");
    assert_eq!((world.effects.count().await, state(&world.engine).await), (0, KeyState::UnknownOutcome));
}

/// Whoever lost its key meanwhile cannot complete, and has to roll back.
async fn a_lost_key_cannot_be_completed(place: Place) {
    let (engine, _clock) = engine(&place).await;
    let effects = Effects::of(&place).await;
    let (resets, saves) = (engine.clone(), effects.clone());
    let app = Router::new().route(
        "/v1/bookmarks",
        post(async move |idem: Idem| {
            let record = records(&resets).await[0].id;
            let reset = resets.store().reset_key(resets.now(), record, KeyState::InProgress, None).await;
            assert!(reset.unwrap().is_some());
            match saves.save(&idem, Response::new(Body::from("saved")), true, || {}).await {
                Err(CompleteError::Lost) => StatusCode::CONFLICT,
                other => panic!("{other:?}"),
            }
        }),
    );
    let app = app.layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 409);
    assert_eq!((effects.count().await, records(&engine).await.len()), (0, 0));
}

/// R-I4: a transaction that stays open holds up nobody but its own key, however long. (SQLite has one writer at a time.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_holds_up_nobody_else_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    let (engine, clock) = engine(&place).await;
    let effects = Effects::of(&place).await;
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(Some(gate));
    let (opened, mut is_open) = tokio::sync::mpsc::unbounded_channel();
    let saves = effects.clone();
    let handler = move |idem: Idem| {
        let gate = gate.lock().unwrap().take();
        let (saves, opened) = (saves.clone(), opened.clone());
        async move {
            let wait = move || {
                if let Some(gate) = gate {
                    opened.send(()).unwrap();
                    gate.recv().unwrap();
                }
            };
            let answer = Response::new(Body::from(format!("saved {}", idem.key())));
            saves.save(&idem, answer, true, wait).await.unwrap()
        }
    };
    // Renewed every 100 ms, and each time the row is not to be had.
    let layer = IdempotencyLayer::new(&engine).route("/**", |rules| {
        rules.key = redrive_idempotency::rules::KeyForm::Any;
        rules.hold_for = std::time::Duration::from_millis(300);
    });
    let handler = std::sync::Arc::new(handler);
    let app = Router::new().fallback(async move |idem: Idem| handler(idem).await).layer(layer.unwrap());
    let first = tokio::spawn({
        let app = app.clone();
        async move { ask(&app, keyed("a")).await }
    });
    is_open.recv().await.unwrap();
    for turn in 0..10 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        clock.advance(std::time::Duration::from_millis(50));
        let other =
            tokio::time::timeout(std::time::Duration::from_secs(10), ask(&app, keyed(&format!("b{turn}"))));
        assert_eq!(other.await.expect("held up").status, 200);
        if turn < 5 {
            ask(&app, keyed("a")).await.is_problem(409, "in-flight");
        }
    }
    // Its lease is over, and its row is not to be had: whoever asks now is not run, whatever it is told.
    let same = tokio::spawn({
        let app = app.clone();
        async move { ask(&app, keyed("a")).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    go_on.send(()).unwrap();
    let first = first.await.unwrap();
    assert_eq!((first.status.as_u16(), first.body.as_str()), (200, "saved a"));
    let same = same.await.unwrap();
    assert!(same.is_replay() || same.status == 409, "{same:?}");
    assert_eq!(ask(&app, keyed("a")).await.body, "saved a");
    assert_eq!(effects.count().await, 11);
}

macro_rules! on_both {
    ($($case:ident)+) => {
        mod sqlite {
            $(
                /// R-I4: as the function of this name says.
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(crate::place::Place::sqlite()).await;
                }
            )+
        }
        mod postgres {
            $(
                /// R-I4: as the function of this name says.
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if let Some(place) = crate::place::Place::postgres() {
                        super::$case(place).await;
                    }
                }
            )+
        }
    };
}

on_both! {
    an_effect_and_its_record_are_committed_together
    what_was_committed_is_what_everybody_gets
    what_was_rolled_back_was_not_completed
    a_forgotten_commit_is_told
    a_panic_after_a_roll_back_is_an_unknown_outcome
    a_lost_key_cannot_be_completed
}

/// R-I4: a transaction of another kind of database, or an answer that is still to come, is refused before anything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_recorded_is_refused() {
    let (engine, _clock, _place) = on_sqlite().await;
    let handler = async |idem: Idem| {
        let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
        let transaction = elsewhere.transaction().unwrap();
        let not_there = idem.complete_in(&transaction, Response::new(Body::from("saved")));
        assert!(matches!(not_there, Err(CompleteError::Store(_))), "{not_there:?}");
        let never = Response::new(Body::new(http_body_util::combinators::BoxBody::new(Never)));
        assert!(matches!(idem.complete_in(&transaction, never), Err(CompleteError::NotReady)));
        StatusCode::CONFLICT
    };
    let app = Router::new().route("/v1/bookmarks", post(handler)).layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 409);
    let Some(place) = Place::postgres() else { return };
    let (engine, _clock) = crate::support::engine(&place).await;
    let handler = async |idem: Idem| {
        let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
        let transaction = elsewhere.transaction().unwrap();
        let other = idem.complete_in(&transaction, Response::new(Body::from("saved")));
        assert!(matches!(other, Err(CompleteError::OtherStore)));
        StatusCode::CONFLICT
    };
    let app = Router::new().route("/v1/bookmarks", post(handler)).layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 409);
}

/// A body that never comes.
struct Never;

impl http_body::Body for Never {
    type Data = axum::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}
