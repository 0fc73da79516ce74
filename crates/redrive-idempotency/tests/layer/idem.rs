//! What a handler sees of its key, and says about it (R-I5).

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use redrive_idempotency::rules::{KeyForm, OnUnknown};
use redrive_idempotency::{Idem, IdempotencyLayer};
use redrive_store::{EventFilter, KeyState};

use crate::support::{ask, keyed, on_sqlite, records, state};

/// R-I1: the key is an argument of a handler.
#[tokio::test]
async fn a_handler_sees_its_key() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new()
        .route("/v1/bookmarks", post(async |idem: Idem| format!("{} of {}", idem.key(), idem.principal())))
        .route("/v1/maybe", post(async |idem: Option<Idem>| idem.is_some().to_string()));
    let guarded = app.clone().layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&guarded, keyed("\"order-7\"")).await.body, "order-7 of nobody");
    let plain = |path: &str| Request::post(path).body(Body::empty()).unwrap();
    ask(&guarded, plain("/v1/bookmarks")).await.is_problem(400, "key-missing");
    assert_eq!(ask(&guarded, plain("/v1/maybe")).await.body, "false");
    let with_key = Request::post("/v1/maybe").header("idempotency-key", "b").body(Body::empty()).unwrap();
    assert_eq!(ask(&guarded, with_key).await.body, "true");
    // A layer was forgotten: that is no fault of the client.
    assert_eq!(ask(&app, keyed("a")).await.status, 500);
}

/// R-I5: a handler says what becomes of its key, whatever its status says.
#[tokio::test]
async fn a_handler_has_the_last_word() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new()
        .route(
            "/v1/released",
            post(async |idem: Idem| {
                idem.release("the till is closed");
                StatusCode::ACCEPTED
            }),
        )
        .route(
            "/v1/stored",
            post(async |idem: Idem| {
                idem.store();
                StatusCode::SERVICE_UNAVAILABLE
            }),
        )
        .route(
            "/v1/unknown",
            post(async |idem: Idem| {
                idem.unknown("the till did not answer");
                StatusCode::CREATED
            }),
        );
    let app = app.layer(IdempotencyLayer::new(&engine));
    let keyed = |path: &str| Request::post(path).header("idempotency-key", path).body(Body::empty()).unwrap();
    for _ in 0..2 {
        let released = ask(&app, keyed("/v1/released")).await;
        assert_eq!((released.status.as_u16(), released.is_replay()), (202, false));
    }
    assert_eq!(ask(&app, keyed("/v1/stored")).await.status, 503);
    assert!(ask(&app, keyed("/v1/stored")).await.is_replay());
    assert_eq!(ask(&app, keyed("/v1/unknown")).await.status, 201);
    ask(&app, keyed("/v1/unknown")).await.is_problem(409, "unknown-outcome");
    assert_eq!(records(&engine).await.len(), 2);
    // People are told why.
    let events = format!("{:?}", engine.query(EventFilter::default(), 100).await.unwrap());
    assert!(events.contains("the till is closed") && events.contains("the till did not answer"), "{events}");
}

/// R-I4: a handler that runs again after an unknown outcome knows that it does.
#[tokio::test]
async fn a_handler_knows_that_it_runs_again() {
    let (engine, _clock, _place) = on_sqlite().await;
    let layer = IdempotencyLayer::new(&engine).route("/v1/bookmarks", |rules| {
        rules.key = KeyForm::Any;
        rules.unknown = OnUnknown::SafeToRerun;
    });
    let handler = async |idem: Idem| {
        assert!(idem.again(), "the first one breaks");
        "again"
    };
    let app = Router::new().route("/v1/bookmarks", post(handler)).layer(layer.unwrap());
    ask(&app, keyed("a")).await.is_problem(500, "handler-broke");
    assert_eq!(state(&engine).await, KeyState::UnknownOutcome);
    assert_eq!(ask(&app, keyed("a")).await.body, "again");
    assert!(ask(&app, keyed("a")).await.is_replay());
}

/// R-I1: routes are chosen by path and method, and the first that fits counts.
#[tokio::test]
async fn routes_are_chosen_by_path_and_method() {
    let (engine, _clock, _place) = on_sqlite().await;
    let layer = IdempotencyLayer::new(&engine)
        .route("PUT, DELETE /v1/notes/{id}", |rules| rules.required = true)
        .and_then(|layer| layer.route("/v1/**", |rules| rules.key = KeyForm::Any));
    let app = Router::new().fallback(async || "run").layer(layer.unwrap());
    let plain =
        |method: &str, path: &str| Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    ask(&app, plain("PUT", "/v1/notes/7")).await.is_problem(400, "key-missing");
    ask(&app, plain("DELETE", "/v1/notes/7")).await.is_problem(400, "key-missing");
    for (method, path) in
        [("POST", "/v1/notes/7"), ("PUT", "/v1/notes"), ("PUT", "/v1/notes/7/8"), ("GET", "/v1/notes/7")]
    {
        assert_eq!(ask(&app, plain(method, path)).await.body, "run", "{method} {path}");
    }
    for odd in ["v1", "put /v1", "/v1/**/a", "/v1/a{b}", ""] {
        assert!(IdempotencyLayer::new(&engine).route(odd, |_| {}).is_err(), "{odd}");
    }
}
