//! A service that counts its effects and does what a request's `x-test` header tells it, which is no part of what makes a request the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct App {
    effects: AtomicU64,
    entered: Semaphore,
    gate: Semaphore,
}

impl App {
    pub(crate) fn new() -> Arc<App> {
        Arc::new(App { effects: AtomicU64::new(0), entered: Semaphore::new(0), gate: Semaphore::new(0) })
    }

    pub(crate) fn router(self: &Arc<App>) -> Router {
        Router::new().fallback(serve).with_state(Arc::clone(self))
    }

    /// How often something was done.
    pub(crate) fn effects(&self) -> u64 {
        self.effects.load(Ordering::SeqCst)
    }

    /// Until a request that holds has come in.
    pub(crate) async fn somebody_is_in(&self) {
        let entered = tokio::time::timeout(Duration::from_secs(20), self.entered.acquire());
        entered.await.expect("nobody came in").unwrap().forget();
    }

    /// Lets one request that holds go on.
    pub(crate) fn let_one_go_on(&self) {
        self.gate.add_permits(1);
    }
}

fn told<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let words = headers.get("x-test")?.to_str().unwrap().split(' ');
    words.filter_map(|word| word.split_once('=')).find(|(told, _)| *told == name).map(|(_, value)| value)
}

async fn serve(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let told = |name| told(&parts.headers, name);
    let effect = app.effects.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(millis) = told("sleep") {
        tokio::time::sleep(Duration::from_millis(millis.parse().unwrap())).await;
    }
    if told("hold").is_some() {
        app.entered.add_permits(1);
        app.gate.acquire().await.unwrap().forget();
    }
    let status: u16 = told("status").map_or(201, |status| status.parse().unwrap());
    let mut answer = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("location", format!("{}/{effect}", parts.uri.path()))
        .header("set-cookie", format!("session=of-effect-{effect}"))
        .header("x-own", "not kept")
        .header("etag", format!("\"{effect}\""));
    if let Some(word) = told("word") {
        answer = answer.header("redrive-idempotency", word);
    }
    if let Some(bytes) = told("large") {
        return answer.body(Body::from(vec![b'x'; bytes.parse().unwrap()])).unwrap();
    }
    if told("events").is_some() {
        let answer = answer.header("content-type", "text/event-stream");
        return answer.body(Body::from("data: one\n\ndata: two\n\n")).unwrap();
    }
    let text = String::from_utf8_lossy(&body);
    let answer = answer.header("content-type", "application/json");
    answer.body(Body::from(Bytes::from(format!("{{\"effect\":{effect},\"got\":{text:?}}}")))).unwrap()
}
