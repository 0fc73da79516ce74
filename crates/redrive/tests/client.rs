//! The HTTP client middleware (R-P13, R-P11), against real servers on loopback.
//! Time is tokio's paused clock wherever a policy waits.
#![cfg(feature = "reqwest-middleware")]
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use redrive::{Backoff, Curve, IDEMPOTENCY_KEY, IntoFailure, Policy, RetryMiddleware};
use reqwest::{Request, Response, ResponseBuilderExt};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{BROKEN, BUSY, OK, serve};
use tracing::span::{Attributes, Id, Record};

fn client(retry: RetryMiddleware) -> ClientWithMiddleware {
    let plain = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    ClientBuilder::new(plain).with(retry).build()
}

/// Three retries of what time can heal, without a wait.
fn at_once() -> Policy {
    let mut spec = (*Policy::standard()).clone();
    spec.entries.clear();
    spec.backoff = Backoff::new(Curve::constant(Duration::ZERO));
    spec.into()
}

/// R-P13: failing answers are followed by another attempt, and the last one is returned as it is.
#[tokio::test]
async fn a_request_is_sent_until_it_succeeds() {
    let (address, requests) = serve(&[BROKEN, BROKEN, OK]);
    let answer =
        client(RetryMiddleware::new(at_once())).get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "done");
    assert_eq!(requests.iter().count(), 3);

    let (address, _requests) = serve(&[BROKEN, BROKEN, BROKEN, BROKEN]);
    let answer =
        client(RetryMiddleware::new(at_once())).get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (500, "oops"));
}

/// Never twice: a POST without a key is sent once, with a key of its own or of ours as often as needed.
#[tokio::test]
async fn a_key_makes_a_post_repeatable_and_stays_the_same() {
    let post = async |retry: RetryMiddleware, key: Option<&str>| {
        let (address, requests) = serve(&[BROKEN, OK]);
        let mut request = client(retry).post(format!("http://{address}/")).body("{}");
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        let status = request.send().await.unwrap().status().as_u16();
        let keys: Vec<_> = requests
            .try_iter()
            .map(|request| {
                let line = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
                line.map(str::to_owned)
            })
            .collect();
        (status, keys)
    };
    assert_eq!(post(RetryMiddleware::new(at_once()), None).await, (500, vec![None]));
    let key = Some("order-17".to_owned());
    assert_eq!(post(RetryMiddleware::new(at_once()), Some("order-17")).await, (200, vec![key.clone(), key]));
    let (status, keys) = post(RetryMiddleware::new(at_once()).generate_keys(), None).await;
    assert_eq!((status, keys.len()), (200, 2));
    assert!(keys[0].is_some() && keys[0] == keys[1]);
}

/// Keeps the messages of log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(String);
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A body that is a stream gets one attempt, and a log line says why.
#[tokio::test]
async fn a_streamed_body_is_sent_once_and_the_log_says_why() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (address, requests) = serve(&[BROKEN]);
    let streamed = reqwest::Body::wrap(http_body_util::Full::new(hyper::body::Bytes::from_static(b"once")));
    let request = client(RetryMiddleware::new(at_once())).put(format!("http://{address}/")).body(streamed);
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), requests.iter().count()), (500, 1));
    let log = log.0.lock().unwrap();
    assert!(log.iter().any(|line| line.contains("it gets one attempt")), "{log:?}");
}

/// A server in the place of the network: turns the first request away for 33 seconds.
#[derive(Default)]
struct TurnsAway(Mutex<u32>);

#[async_trait::async_trait]
impl Middleware for TurnsAway {
    async fn handle(&self, request: Request, _: &mut http::Extensions, _: Next<'_>) -> Result<Response> {
        let mut calls = self.0.lock().unwrap();
        *calls += 1;
        let answer = http::Response::builder().url(request.url().clone());
        let answer =
            if *calls == 1 { answer.status(429).header("retry-after", "33") } else { answer.status(200) };
        Ok(answer.body("").unwrap().into())
    }
}

/// R-P11: a Retry-After is waited out, also by a POST without a key: 429 says that it was not processed.
#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_out() {
    let began = tokio::time::Instant::now();
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(RetryMiddleware::new(Policy::standard()))
        .with(TurnsAway::default())
        .build();
    let answer = client.post("http://bank.invalid/").body("{}").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), began.elapsed()), (200, Duration::from_secs(33)));
}

/// R-P11: a Retry-After that would pass the deadline ends it; else it is obeyed.
#[tokio::test]
async fn a_retry_after_beyond_the_deadline_ends_it() {
    let (address, requests) = serve(&[BUSY]);
    let retry = RetryMiddleware::new(at_once()).give_up_waiting_after(Duration::from_secs(5));
    let answer = client(retry).post(format!("http://{address}/")).body("{}").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), requests.iter().count()), (503, 1));
}

/// Counts the requests that pass.
struct Counts(Arc<AtomicU32>);

#[async_trait::async_trait]
impl Middleware for Counts {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        self.0.fetch_add(1, Ordering::Relaxed);
        next.run(request, extensions).await
    }
}

/// How often a POST without a key was sent to a host that refuses, and what the error proves.
async fn post_to_nobody(retry: RetryMiddleware) -> (u32, bool) {
    let sent = Arc::new(AtomicU32::new(0));
    let plain = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let client = ClientBuilder::new(plain.build().unwrap()).with(retry).with(Counts(sent.clone())).build();
    let error = client.post(format!("http://{}/", support::refusing())).body("{}").send().await.unwrap_err();
    assert_eq!(error.report().code.as_deref(), Some("ECONNREFUSED"));
    (sent.load(Ordering::Relaxed), error.never_sent())
}

/// R-P13: a refused connection proves that nothing was processed, once it is said that no redirect came before.
#[tokio::test]
async fn a_refused_connection_is_tried_again_without_redirects() {
    assert_eq!(post_to_nobody(RetryMiddleware::new(at_once()).no_redirects()).await, (4, true));
    assert_eq!(post_to_nobody(RetryMiddleware::new(at_once())).await, (1, true));
}

/// What a POST without a key comes to that is answered with a redirect to this place: the requests that were heard.
async fn post_redirected_to(place: String) -> Vec<String> {
    let redirect: &str = format!(
        "HTTP/1.1 303 See Other\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .leak();
    let (address, requests) = serve(vec![redirect; 6].leak());
    let _ =
        client(RetryMiddleware::new(at_once())).post(format!("http://{address}/pay")).body("{}").send().await;
    requests.try_iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
}

/// R-P13: a request that was answered with a redirect was processed, whatever becomes of the redirect.
#[tokio::test]
async fn a_post_that_was_redirected_is_not_sent_again() {
    let refused = post_redirected_to(format!("http://{}/receipt", support::refusing())).await;
    assert_eq!(refused, ["POST /pay HTTP/1.1"]);
    let (busy, _requests) = serve(&[BUSY]);
    let turned_away = post_redirected_to(format!("http://{busy}/receipt")).await;
    assert_eq!(turned_away, ["POST /pay HTTP/1.1"]);
}

/// A line that always breaks, at once.
struct Breaks;

#[async_trait::async_trait]
impl Middleware for Breaks {
    async fn handle(&self, _: Request, _: &mut http::Extensions, _: Next<'_>) -> Result<Response> {
        Err(reqwest_middleware::Error::middleware(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
    }
}

/// R-P13: zero delays without end still let others run.
#[tokio::test]
async fn zero_delays_do_not_starve_the_executor() {
    let mut spec = (*at_once()).clone();
    spec.max_retries = u32::MAX;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move { stop.send(()) });
    let retry = RetryMiddleware::new(Policy::from(spec));
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(Breaks).build();
    let mut endless = std::pin::pin!(client.get("http://nobody.invalid/").send());
    let mut stopped = std::pin::pin!(stopped);
    std::future::poll_fn(|cx| {
        assert!(endless.as_mut().poll(cx).is_pending());
        stopped.as_mut().poll(cx)
    })
    .await
    .unwrap();
}
