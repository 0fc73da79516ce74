//! The tower layer (R-P13, R-P11): what is sent again, with which key, and what comes back in the end.
#![cfg(feature = "tower")]
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, header::RETRY_AFTER};
use redrive::{Exchange, HttpRequests, IDEMPOTENCY_KEY, Policy, Report, RetryLayer};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

/// What a server does with one request.
enum Answer {
    Status(u16),
    RetryAfter(u16, u64),
    Error(ErrorKind),
}
use Answer::{Error as Fails, RetryAfter, Status};

/// A server that answers from a script and keeps the requests. A clone of it is not ready until it was asked.
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    heard: Arc<Mutex<Vec<Request<&'static str>>>>,
    ready: bool,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Script {
        Script {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            heard: Arc::default(),
            ready: false,
        }
    }
}

impl Clone for Script {
    fn clone(&self) -> Script {
        Script { answers: self.answers.clone(), heard: self.heard.clone(), ready: false }
    }
}

impl Service<Request<&'static str>> for Script {
    type Response = Response<&'static str>;
    type Error = Error;
    type Future = Ready<Result<Response<&'static str>, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.ready {
            return Poll::Ready(Ok(()));
        }
        self.ready = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, request: Request<&'static str>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        self.heard.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front().unwrap();
        ready(match answer {
            Status(status) => Ok(Response::builder().status(status).body("").unwrap()),
            RetryAfter(status, seconds) => {
                Ok(Response::builder().status(status).header(RETRY_AFTER, seconds).body("").unwrap())
            }
            Fails(kind) => Err(kind.into()),
        })
    }
}

fn request(method: &str) -> Request<&'static str> {
    Request::builder().method(method).uri("/orders").body("{}").unwrap()
}

/// Sends a request and gives the final outcome, how often it was sent, and which keys it had.
async fn send(
    layer: RetryLayer<HttpRequests>,
    request: Request<&'static str>,
    answers: impl IntoIterator<Item = Answer>,
) -> (Result<u16, ErrorKind>, usize, Vec<Option<String>>) {
    let script = Script::new(answers);
    let heard = script.heard.clone();
    let mut service = layer.layer(script);
    let outcome = service.ready().await.unwrap().call(request).await;
    let heard = heard.lock().unwrap();
    let keys = heard
        .iter()
        .map(|request| request.headers().get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap().to_owned()));
    (
        outcome.map(|answer| answer.status().as_u16()).map_err(|error| error.kind()),
        heard.len(),
        keys.collect(),
    )
}

fn standard() -> RetryLayer<HttpRequests> {
    RetryLayer::http(Policy::standard())
}

/// R-P13: 503, 502, 200 = three requests; a 401 = one; the last answer comes back, not an error.
#[tokio::test(start_paused = true)]
async fn statuses_are_failures_and_the_last_answer_comes_back() {
    let (outcome, sent, _) = send(standard(), request("GET"), [Status(503), Status(502), Status(200)]).await;
    assert_eq!((outcome, sent), (Ok(200), 3));
    let (outcome, sent, _) = send(standard(), request("GET"), [Status(401)]).await;
    assert_eq!((outcome, sent), (Ok(401), 1));
    let (outcome, sent, _) = send(standard(), request("GET"), [500, 500, 500, 503].map(Status)).await;
    assert_eq!((outcome, sent), (Ok(503), 4));
    let reset = || Fails(ErrorKind::ConnectionReset);
    let (outcome, sent, _) = send(standard(), request("PUT"), [reset(), reset(), reset(), reset()]).await;
    assert_eq!((outcome, sent), (Err(ErrorKind::ConnectionReset), 4));
}

/// R-P11: Retry-After is waited out.
#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_out() {
    let began = Instant::now();
    let (outcome, ..) = send(standard(), request("GET"), [RetryAfter(429, 33), Status(200)]).await;
    assert_eq!((outcome, began.elapsed()), (Ok(200), Duration::from_secs(33)));
    let layer = standard().give_up_waiting_after(Duration::from_secs(30));
    let (outcome, sent, _) = send(layer, request("GET"), [RetryAfter(429, 33), Status(200)]).await;
    assert_eq!((outcome, sent), (Ok(429), 1), "a wait that would pass the deadline is not begun");
}

/// Never twice: without a key a POST is sent again only when it was certainly not processed.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_without_a_key_is_not_repeated_blindly() {
    for (answer, again) in [
        (Status(500), false),
        (Status(503), false),
        (Status(504), false),
        (Fails(ErrorKind::ConnectionReset), false),
        (Fails(ErrorKind::TimedOut), false),
        (Status(429), true),
        (RetryAfter(503, 1), true),
        (Fails(ErrorKind::ConnectionRefused), true),
    ] {
        let (outcome, sent, keys) = send(standard(), request("POST"), [answer, Status(201)]).await;
        assert_eq!((sent == 2, outcome == Ok(201)), (again, again), "{outcome:?}");
        assert!(keys.iter().all(Option::is_none), "nobody asked for keys");
    }
}

/// One key stays with all attempts: the caller's verbatim, or one of ours.
#[tokio::test(start_paused = true)]
async fn one_key_stays_with_all_attempts() {
    let mut own = request("POST");
    own.headers_mut()
        .insert(IDEMPOTENCY_KEY, "Order-17 ü".parse().unwrap_or_else(|_| "Order-17".parse().unwrap()));
    let sent_key = own.headers()[IDEMPOTENCY_KEY].clone();
    for layer in [standard(), standard().generate_keys()] {
        let script = Script::new([Status(500), Status(201)]);
        let heard = script.heard.clone();
        let answer = layer.layer(script).oneshot(own.clone()).await.unwrap();
        assert_eq!(answer.status(), 201);
        assert!(heard.lock().unwrap().iter().all(|request| request.headers()[IDEMPOTENCY_KEY] == sent_key));
    }

    let generating = || standard().generate_keys();
    let (outcome, sent, keys) = send(generating(), request("PATCH"), [500, 502, 200].map(Status)).await;
    assert_eq!((outcome, sent), (Ok(200), 3));
    assert!(keys[0].as_ref().is_some_and(|key| key.len() == 36) && keys.iter().all(|key| *key == keys[0]));
    let (_, _, other) = send(generating(), request("PATCH"), [Status(200)]).await;
    assert_ne!(other[0], keys[0], "another request has another key");
    let (_, _, keys) = send(generating(), request("GET"), [Status(200)]).await;
    assert_eq!(keys, [None]);
}

/// Any cloneable request: errors are failures, answers are not.
#[tokio::test(start_paused = true)]
async fn any_cloneable_request_is_retried() {
    let left = Arc::new(Mutex::new(2));
    let service = tower::service_fn(move |request: String| {
        let mut left = left.lock().unwrap();
        let outcome = if *left == 0 { Ok(request) } else { Err("connection reset by peer") };
        *left = u32::saturating_sub(*left, 1);
        ready(outcome)
    });
    let service = RetryLayer::new(Policy::standard()).layer(service);
    assert_eq!(service.oneshot("hello".to_owned()).await.unwrap(), "hello");
}

/// A request of a kind that cannot be copied is sent once.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_copied_is_sent_once() {
    struct Unique;
    struct Once;
    impl Exchange<Unique, (), Error> for Once {
        fn copy(&self, _: &Unique) -> Option<Unique> {
            None
        }
        fn failure<'a>(&self, outcome: Result<&'a (), &'a Error>) -> Option<Report<'a>> {
            outcome.err().map(|error| redrive::report_chain(error))
        }
    }
    let calls = Arc::new(Mutex::new(0));
    let counted = calls.clone();
    let service = tower::service_fn(move |_: Unique| {
        *counted.lock().unwrap() += 1;
        ready(Err::<(), _>(Error::from(ErrorKind::ConnectionReset)))
    });
    let outcome = RetryLayer::of(Once, Policy::standard()).layer(service).oneshot(Unique).await;
    assert_eq!((outcome.unwrap_err().kind(), *calls.lock().unwrap()), (ErrorKind::ConnectionReset, 1));
}

/// R-P13: zero delays without end still let others run.
#[tokio::test]
async fn zero_delays_do_not_starve_the_executor() {
    let mut spec = (*Policy::standard()).clone();
    spec.entries.clear();
    spec.max_retries = u32::MAX;
    spec.backoff = redrive::Backoff::new(redrive::Curve::constant(Duration::ZERO));
    let (stop, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move { stop.send(()) });
    let broken = tower::service_fn(|(): ()| ready(Err::<(), _>(Error::from(ErrorKind::ConnectionReset))));
    let mut endless = std::pin::pin!(RetryLayer::new(Policy::from(spec)).layer(broken).oneshot(()));
    let mut stopped = std::pin::pin!(stopped);
    std::future::poll_fn(|cx| {
        assert!(endless.as_mut().poll(cx).is_pending());
        stopped.as_mut().poll(cx)
    })
    .await
    .unwrap();
}
