//! Any service of tower behind the layer: what it gets, and what becomes of its key when it breaks (R-I4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode, Version};
use axum::routing::{any, post};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use redrive_idempotency::rules::{DEFAULT_HOLD_FOR, Guarded};
use redrive_idempotency::{Guard, IdempotencyLayer};
use redrive_store::{KeyState, rusqlite};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::place::Place;
use crate::support::{ask, keyed, on_sqlite, records, state};

type Pieces = tokio::sync::mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

/// A body of what is sent into it.
struct Streamed(tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, std::io::Error>>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(cx)
    }
}

fn streamed() -> (Pieces, Body) {
    let (sender, receiver) = tokio::sync::mpsc::channel(8);
    (sender, Body::new(Streamed(receiver)))
}

/// R-I4: a panic is caught; its client is told, and nobody runs it again.
#[tokio::test]
async fn a_panic_is_500_and_an_unknown_outcome() {
    let (engine, _clock, _place) = on_sqlite().await;
    let broken = async || -> StatusCode { panic!("as told") };
    let app = Router::new().route("/v1/bookmarks", post(broken)).layer(IdempotencyLayer::new(&engine));
    ask(&app, keyed("a")).await.is_problem(500, "handler-broke");
    assert_eq!(state(&engine).await, KeyState::UnknownOutcome);
    ask(&app, keyed("a")).await.is_problem(409, "unknown-outcome");
}

/// R-I4: an error of a service is passed on as it is, and its outcome is unknown.
#[tokio::test]
async fn an_error_of_a_service_is_passed_on() {
    let (engine, _clock, _place) = on_sqlite().await;
    let failing = service_fn(async |_: Request<Full<Bytes>>| Err::<Response<Full<Bytes>>, &str>("no way"));
    let service = IdempotencyLayer::new(&engine).layer(failing);
    let ask = || Request::post("/").header("idempotency-key", "a").body(Full::from("{}")).unwrap();
    assert_eq!(service.clone().oneshot(ask()).await.err(), Some("no way"));
    assert_eq!(state(&engine).await, KeyState::UnknownOutcome);
    let again = service.oneshot(ask()).await.unwrap();
    assert_eq!(again.status(), 409);
}

/// R-I4: an answer that breaks off is no answer.
#[tokio::test]
async fn an_answer_that_breaks_off_is_an_unknown_outcome() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().fallback(async || {
        let (sender, body) = streamed();
        sender.send(Ok(Frame::data(Bytes::from("half")))).await.unwrap();
        sender.send(Err(std::io::Error::other("cut"))).await.unwrap();
        Response::new(body)
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    ask(&app, keyed("a")).await.is_problem(500, "handler-broke");
    ask(&app, keyed("a")).await.is_problem(409, "unknown-outcome");
}

/// R-I3: a large answer streams to its caller, whole and in order; it is recorded as soon as it is known to be too large.
#[tokio::test]
async fn a_large_answer_streams() {
    let (engine, _clock, _place) = on_sqlite().await;
    let (sender, body) = streamed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let app = Router::new().fallback(move || {
        let body = body.lock().unwrap().take().unwrap();
        async move { Response::new(body) }
    });
    let layer = IdempotencyLayer::new(&engine).route("/v1/{what}", |rules| {
        rules.key = redrive_idempotency::rules::KeyForm::Any;
        rules.max_response = 10;
    });
    let app = app.layer(layer.unwrap());
    let asked = tokio::spawn(app.clone().oneshot(keyed("a")));
    for piece in ["12345", "67890"] {
        sender.send(Ok(Frame::data(Bytes::from(piece)))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asked.is_finished(), "it may still be small enough");
    sender.send(Ok(Frame::data(Bytes::from("!")))).await.unwrap();
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(state(&engine).await, KeyState::Completed, "before it is over");
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "11".parse().unwrap());
    sender.send(Ok(Frame::trailers(trailers.clone()))).await.unwrap();
    drop(sender);
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers(), Some(&trailers));
    assert_eq!(body.to_bytes(), "1234567890!");
    ask(&app, keyed("a")).await.is_problem(409, "response-not-kept");
}

/// R-I3: trailers reach the first caller; a replay has none.
#[tokio::test]
async fn trailers_reach_the_first_caller() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().fallback(async || {
        let (sender, body) = streamed();
        sender.send(Ok(Frame::data(Bytes::from("all")))).await.unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "3".parse().unwrap());
        sender.send(Ok(Frame::trailers(trailers))).await.unwrap();
        Response::new(body)
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    let first = app.clone().oneshot(keyed("a")).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(first.trailers().unwrap()["x-sum"], "3");
    assert_eq!(first.to_bytes(), "all");
    assert_eq!(ask(&app, keyed("a")).await.body, "all");
}

/// R-I3: a connection that is taken over was answered, and is not taken over again.
#[tokio::test]
async fn an_upgrade_passes_and_is_recorded() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().fallback(async || StatusCode::SWITCHING_PROTOCOLS);
    let app = app.layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 101);
    ask(&app, keyed("a")).await.is_problem(409, "response-not-kept");
}

/// R-I1: what a request carries beside its body reaches the handler, and so does its body.
#[tokio::test]
async fn a_request_arrives_as_it_was_sent() {
    #[derive(Clone, PartialEq, Debug)]
    struct Told(u8);
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().fallback(async |request: Request| {
        assert_eq!(request.extensions().get::<Told>(), Some(&Told(7)));
        assert_eq!((request.version(), request.uri().query()), (Version::HTTP_2, Some("a=1")));
        assert_eq!(request.headers()["x-own"], "1");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "in two pieces");
        "well"
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    let (sender, body) = streamed();
    for piece in ["in two ", "pieces"] {
        sender.send(Ok(Frame::data(Bytes::from(piece)))).await.unwrap();
    }
    drop(sender);
    let request = Request::post("/v1/notes?a=1").version(Version::HTTP_2).header("idempotency-key", "a");
    let request = request.header("x-own", "1").extension(Told(7)).body(body).unwrap();
    assert_eq!(ask(&app, request).await.body, "well");
}

/// R-I6: what is not guarded is not read, so that a stream arrives while it is being sent.
#[tokio::test]
async fn what_is_not_guarded_is_not_read() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().route("/v1/bookmarks", any(async |_: Request| "at once"));
    let app = app.layer(IdempotencyLayer::new(&engine));
    for request in
        [Request::get("/v1/bookmarks").header("idempotency-key", "a"), Request::post("/v1/bookmarks")]
    {
        let (_never, body) = streamed();
        let answer = tokio::time::timeout(Duration::from_secs(5), ask(&app, request.body(body).unwrap()));
        assert_eq!(answer.await.unwrap().body, "at once");
    }
    assert_eq!(records(&engine).await.len(), 0);
}

/// A service that must be asked whether it is ready before every call, each clone for itself.
struct Careful {
    is_ready: bool,
    calls: Arc<AtomicU64>,
}

impl Clone for Careful {
    fn clone(&self) -> Careful {
        Careful { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<Full<Bytes>>> for Careful {
    type Response = Response<Full<Bytes>>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without being asked");
        self.calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(Response::new(Full::from("well"))))
    }
}

/// R-I6: back-pressure is honoured: the very one that said it is ready is called.
#[tokio::test]
async fn the_one_that_is_ready_is_called() {
    let (engine, _clock, _place) = on_sqlite().await;
    let calls = Arc::new(AtomicU64::new(0));
    let mut service =
        IdempotencyLayer::new(&engine).layer(Careful { is_ready: false, calls: Arc::clone(&calls) });
    for key in ["a", "b", "b"] {
        let ready = std::future::poll_fn(|cx| service.poll_ready(cx)).await;
        assert!(ready.is_ok());
        let request = Request::post("/").header("idempotency-key", key).body(Full::from("{}")).unwrap();
        assert_eq!(service.call(request).await.unwrap().status(), 200);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

fn rename_table(place: &Place, from: &str, to: &str) {
    let Place::Sqlite(folder) = place else { panic!("only for files") };
    let connection = rusqlite::Connection::open(folder.path().join("redrive.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
}

/// R-I4: when the store cannot be asked nothing is run.
#[tokio::test]
async fn without_its_store_nothing_is_run() {
    let (engine, _clock, place) = on_sqlite().await;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let app = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { StatusCode::CREATED }
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    rename_table(&place, "idempotency_keys", "gone");
    let refused = ask(&app, keyed("a")).await;
    refused.is_problem(503, "store-unavailable");
    assert_eq!((refused.headers["retry-after"].to_str().unwrap(), runs.load(Ordering::SeqCst)), ("1", 0));
    rename_table(&place, "gone", "idempotency_keys");
    assert_eq!(ask(&app, keyed("a")).await.status, 201);
}

/// R-I4: an answer that cannot be recorded is sent all the same, for it is what happened; its key says that nobody knows.
#[tokio::test]
async fn an_answer_that_cannot_be_recorded_is_sent() {
    let (engine, clock, place) = on_sqlite().await;
    let place = Arc::new(place);
    let within = Arc::clone(&place);
    let app = Router::new().fallback(move || {
        rename_table(&within, "idempotency_keys", "gone");
        async { StatusCode::CREATED }
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 201);
    rename_table(&place, "gone", "idempotency_keys");
    ask(&app, keyed("a")).await.is_problem(409, "in-flight");
    clock.advance(DEFAULT_HOLD_FOR);
    ask(&app, keyed("a")).await.is_problem(409, "unknown-outcome");
}

/// R-I3: headers that no store takes are no reason to run anything twice.
#[tokio::test]
async fn headers_that_are_too_large_are_not_kept() {
    let (engine, _clock, _place) = on_sqlite().await;
    let app = Router::new().fallback(async || {
        let large = [("link", "x".repeat(40_000)), ("vary", "y".repeat(40_000))];
        (axum::response::AppendHeaders(large), "well")
    });
    let app = app.layer(IdempotencyLayer::new(&engine));
    let first = ask(&app, keyed("a")).await;
    assert_eq!((first.body.as_str(), first.headers["link"].len()), ("well", 40_000));
    ask(&app, keyed("a")).await.is_problem(409, "response-not-kept");
}

/// R-I5: a refusal that says when to come again is none for good, whatever its status.
#[tokio::test]
async fn a_refusal_that_says_when_to_come_again_is_not_kept() {
    let (engine, _clock, _place) = on_sqlite().await;
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let busy_once = async move || {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        let busy = Response::builder().status(409).header("retry-after", "1").body(Body::from("busy"));
        let done = Response::builder().status(201).body(Body::from("done"));
        if first { busy.unwrap() } else { done.unwrap() }
    };
    let app = Router::new().route("/v1/bookmarks", post(busy_once)).layer(IdempotencyLayer::new(&engine));
    assert_eq!(ask(&app, keyed("a")).await.status, 409);
    assert_eq!(records(&engine).await, []);
    assert_eq!(ask(&app, keyed("a")).await.status, 201);
    assert_eq!(ask(&app, keyed("a")).await.status, 201);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// R-I6: a proxy and a service that guards itself may share a store: neither takes the other's key for its own, and what the inner one
/// does not know, the outer one does not know either.
#[tokio::test]
async fn a_guard_behind_a_guard() {
    let (engine, _clock, _place) = on_sqlite().await;
    let ran = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ran);
    let handler = async move |body: String| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(!body.contains("break"), "as told");
        StatusCode::CREATED
    };
    let outer = IdempotencyLayer::from(Guard::of_proxy(&engine, Guarded::whatever_carries_a_key()));
    let app = Router::new()
        .route("/v1/bookmarks", post(handler))
        .layer(IdempotencyLayer::new(&engine))
        .layer(outer);
    for _ in 0..3 {
        assert_eq!(ask(&app, keyed("a")).await.status, 201);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let breaks =
        || Request::post("/v1/bookmarks").header("idempotency-key", "b").body(Body::from("break")).unwrap();
    ask(&app, breaks()).await.is_problem(500, "handler-broke");
    ask(&app, breaks()).await.is_problem(409, "unknown-outcome");
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    let unknown = records(&engine).await.into_iter().filter(|record| record.key == "b");
    assert_eq!(unknown.map(|record| record.state).collect::<Vec<_>>(), [KeyState::UnknownOutcome; 2]);
}
