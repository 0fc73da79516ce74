//! What every answer has in common: problems, headers, limits.

use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, told};

/// Issue 8, API: what is not there, and what is not done this way, is told as problem+json.
#[tokio::test]
async fn nothing_is_told_in_plain_text() {
    let site = Site::sqlite().await;
    let (status, told_404) = site.get("/v1/nothing").await;
    assert_eq!((status, &told_404["code"]), (404, &json!("not-found")));
    assert_eq!(told_404["type"], "urn:redrive:problem:not-found");
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/jobs", "POST"),
        (Method::PUT, "/v1/events", "GET,HEAD"),
        (Method::OPTIONS, "/v1/queues", "GET,HEAD"),
    ] {
        let answer = site.ask(method.clone(), path).send().await.unwrap();
        let allow = answer.headers()["allow"].to_str().unwrap().to_owned();
        assert!(allow.contains(allowed), "{method} {path}: {allow}");
        assert!(!answer.headers().contains_key("access-control-allow-origin"));
        let (status, problem) = told(answer).await;
        assert_eq!((status, &problem["code"]), (405, &json!("method-not-allowed")));
    }
    let (status, problem) = site.get("/v1/jobs/abc").await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")));
    let (status, problem) = site.get("/v1/queues/a%00b").await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")));
    let (status, problem) = site.get("/v1/events?caller_id=%00").await;
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")));
    let (status, problem) = site.get("/v1/events?limti=3").await;
    assert_eq!((status, &problem["field"]), (400, &json!("limti")));
    assert!(problem["detail"].as_str().unwrap().contains("limit"), "{problem}");
}

/// Issue 8, safety: every answer forbids whatever a browser might do with it, and names its request.
#[tokio::test]
async fn every_answer_carries_its_headers() {
    let site = Site::sqlite().await;
    for path in ["/livez", "/v1/queues", "/v1/nothing", "/openapi.json"] {
        let answer = site.ask(Method::GET, path).send().await.unwrap();
        let headers = answer.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cache-control"], "no-store");
        assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        assert_eq!(headers["x-request-id"].len(), 16);
    }
    let answer = site.ask(Method::GET, "/v1/nothing").header("x-request-id", "mine-7").send().await.unwrap();
    assert_eq!(answer.headers()["x-request-id"], "mine-7");
    let (_, problem) = told(answer).await;
    assert_eq!(problem["instance"], "urn:redrive:request:mine-7");
    let odd = site.ask(Method::GET, "/livez").header("x-request-id", "a b").send().await.unwrap();
    assert_ne!(odd.headers()["x-request-id"], "a b");
    let head = site.ask(Method::HEAD, "/v1/queues").send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert!(head.text().await.unwrap().is_empty());
}

/// R-C2: problems are told in the language that is asked for.
#[tokio::test]
async fn problems_speak_japanese() {
    let site = Site::sqlite().await;
    let request = site.ask(Method::POST, "/v1/jobs").header("accept-language", "ja-JP,en;q=0.5");
    let answer = request.json(&json!({ "kind": "" })).send().await.unwrap();
    assert_eq!(answer.headers()["content-language"], "ja");
    let (status, problem) = told(answer).await;
    assert_eq!((status, &problem["field"]), (400, &json!("kind")));
    assert!(problem["detail"].as_str().unwrap().contains("バイト"), "{problem}");
}

/// Issue 8, limits: on the length of a body, how deep it nests, its media type and its shape.
#[tokio::test]
async fn bodies_have_limits() {
    let site = Site::sqlite().await;
    let check = |(status, problem): (u16, Value), wanted: u16, code: &str| {
        assert_eq!((status, problem["code"].as_str()), (wanted, Some(code)), "{problem}");
    };
    check(site.post_raw("/v1/jobs", "").await, 400, "invalid");
    check(site.post_raw("/v1/jobs", "{").await, 400, "invalid");
    check(site.post_raw("/v1/jobs", "{\"kind\":\"k\"} {}").await, 400, "invalid");
    check(site.post_raw("/v1/jobs", vec![0xff, 0xfe]).await, 400, "invalid");
    let deep = format!("{{\"kind\":\"k\",\"payload\":{}{}}}", "[".repeat(70), "]".repeat(70));
    check(site.post_raw("/v1/jobs", deep).await, 400, "invalid");
    let long = format!("{{\"kind\":\"k\",\"payload\":\"{}\"}}", "x".repeat(9 << 20));
    check(site.post_raw("/v1/jobs", long.clone()).await, 413, "too-large");
    let pieces = reqwest::Body::wrap(Pieces(9 << 4));
    check(site.post_raw("/v1/jobs", pieces).await, 413, "too-large");
    let payload = "x".repeat(2 << 20);
    let (status, problem) = site.post("/v1/jobs", &json!({ "kind": "k", "payload": payload })).await;
    assert_eq!((status, &problem["field"]), (413, &json!("payload")));
    let plain = site.ask(Method::POST, "/v1/jobs").header("content-type", "text/plain").body("{}");
    check(told(plain.send().await.unwrap()).await, 415, "unsupported-media-type");
    let untyped = site.ask(Method::POST, "/v1/jobs").body("{\"kind\":\"k\"}");
    check(told(untyped.send().await.unwrap()).await, 415, "unsupported-media-type");
    let (status, _) = site.post("/v1/jobs", &json!({ "kind": "k" })).await;
    assert_eq!(status, 201);
}

/// A body of so many pieces of 64 KiB that does not say how long it is.
struct Pieces(usize);

impl http_body::Body for Pieces {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let left = self.0;
        self.0 = left.saturating_sub(1);
        let piece = (left > 0).then(|| Ok(http_body::Frame::data(bytes::Bytes::from(vec![b' '; 1 << 16]))));
        std::task::Poll::Ready(piece)
    }
}

/// Issue 8, limits: what is read for somebody else has a size; what is too long is refused before anything is built of it.
#[tokio::test]
async fn what_is_read_for_others_has_a_size() {
    let site = Site::sqlite().await;
    let many: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("key{n}"), json!([n]))).collect();
    for (path, body, field) in [
        ("/v1/jobs", json!({ "kind": "k", "overrides": many }), "overrides"),
        ("/v1/jobs", json!({ "jobs": [{ "kind": "k", "overrides": many }] }), "jobs[0].overrides"),
        ("/v1/policies/explain", json!({ "cause": "network", "overrides": many }), "overrides"),
        ("/v1/policies/delays", json!({ "overrides": many }), "overrides"),
        ("/v1/policies/check", json!({ "config": many }), "config"),
        ("/v1/policies/simulate", json!({ "config": many }), "config"),
    ] {
        let (status, problem) = site.post(path, &body).await;
        assert_eq!((status, &problem["field"]), (413, &json!(field)), "{path}: {problem}");
    }
    for (path, body, field) in [
        ("/v1/policies/check", json!({ "config": [1] }), "config"),
        ("/v1/tasks", json!({ "plan": "nothing" }), "plan"),
    ] {
        let (status, problem) = site.post(path, &body).await;
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{path}: {problem}");
    }
}
