//! Engines, requests and answers, without a socket in between.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use redrive::engine::{Engine, ManualClock};
use redrive_store::{KeyQuery, KeyRecord, KeyState};
use tower::{Service, ServiceExt};

use crate::place::Place;

/// An engine whose clock stands still until it is told.
pub(crate) async fn engine(place: &Place) -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at("2026-11-15T08:00:00Z".parse().unwrap()));
    let told: Arc<ManualClock> = Arc::clone(&clock);
    (Engine::builder(place.open().await).clock(told).build().unwrap(), clock)
}

/// An engine on a file, and the folder in which it is.
pub(crate) async fn on_sqlite() -> (Engine, Arc<ManualClock>, Place) {
    let place = Place::sqlite();
    let (engine, clock) = engine(&place).await;
    (engine, clock, place)
}

pub(crate) fn keyed(key: &str) -> Request<Body> {
    Request::post("/v1/bookmarks").header("idempotency-key", key).body(Body::from("{}")).unwrap()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.body.contains(&format!("urn:redrive:problem:idempotency-{code}\"")), "{self:?}");
    }
}

/// Asks a service, and reads its answer to the end.
pub(crate) async fn ask<S, B>(service: &S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = axum::http::Response<B>, Error = Infallible> + Clone,
    B: http_body::Body,
    B::Error: std::fmt::Debug,
{
    let answer = service.clone().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

pub(crate) async fn records(engine: &Engine) -> Vec<KeyRecord> {
    engine.store().keys(KeyQuery { limit: 1_000, ..KeyQuery::default() }).await.unwrap()
}

/// The state of the only key.
pub(crate) async fn state(engine: &Engine) -> KeyState {
    let records = records(engine).await;
    assert_eq!(records.len(), 1, "{records:?}");
    records[0].state
}
