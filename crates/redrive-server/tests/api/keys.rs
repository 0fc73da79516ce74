//! `Idempotency-Key` on writes: our own layer, by who asks.

use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, told};

async fn enqueue(site: &Site, key: &str, body: &Value) -> (u16, bool, Value) {
    let request = site.ask(Method::POST, "/v1/jobs").header("idempotency-key", key).json(body);
    let answer = request.send().await.unwrap();
    let replayed = answer.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
    let (status, json) = told(answer).await;
    (status, replayed, json)
}

/// R-I1, R-I2, R-I8: a request that is sent again with its key is answered again and done once; the key travels to the job. On
/// both stores.
#[tokio::test]
async fn a_key_makes_one_job() {
    for site in Site::both().await {
        let body = json!({ "kind": "mail", "payload": {"to": "ada"} });
        let (status, replayed, first) = enqueue(&site, "order-7", &body).await;
        assert_eq!((status, replayed), (201, false), "{first}");
        let (status, replayed, again) = enqueue(&site, "order-7", &body).await;
        assert_eq!((status, replayed, &again), (201, true, &first));
        let (status, _, other) = enqueue(&site, "order-8", &body).await;
        assert_eq!(status, 201);
        assert_ne!(other["id"], first["id"]);
        let (status, job) = site.get(&format!("/v1/jobs/{}", first["id"].as_str().unwrap())).await;
        assert_eq!((status, &job["idempotency_key"]), (200, &json!("order-7")));

        let (status, _, problem) = enqueue(&site, "order-7", &json!({ "kind": "other" })).await;
        assert_eq!((status, &problem["code"]), (409, &json!("idempotency-mismatch")));
        let (status, _, problem) = enqueue(&site, &"k".repeat(256), &body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("idempotency-key-malformed")));
        let (_, queues) = site.get("/v1/queues").await;
        assert_eq!(queues["items"][0]["ready"], 2, "{queues}");
    }
}

/// R-I4: a request that is refused is refused the same way again, in its words; a key that a body names itself stays the job's.
#[tokio::test]
async fn problems_are_kept_in_their_words() {
    let site = Site::sqlite().await;
    let bad = json!({ "kind": "mail", "policy": "stnadard" });
    let (status, replayed, first) = enqueue(&site, "k1", &bad).await;
    assert_eq!((status, replayed, &first["code"]), (400, false, &json!("unknown-policy")));
    assert!(first["detail"].as_str().unwrap().contains("standard"), "{first}");
    let (status, replayed, again) = enqueue(&site, "k1", &bad).await;
    assert_eq!((status, replayed, &again), (400, true, &first));
    let (_, _, added) = enqueue(&site, "k2", &json!({ "kind": "mail", "idempotency_key": "own" })).await;
    let (_, job) = site.get(&format!("/v1/jobs/{}", added["id"].as_str().unwrap())).await;
    assert_eq!(job["idempotency_key"], "own");
}

/// R-I1: without a key nothing is recorded, and everything is done each time.
#[tokio::test]
async fn without_a_key_nothing_is_kept() {
    let site = Site::sqlite().await;
    let body = json!({ "kind": "mail" });
    let (_, first) = site.post("/v1/jobs", &body).await;
    let (_, second) = site.post("/v1/jobs", &body).await;
    assert_ne!(first["id"], second["id"]);
    let (_, keys) = site.get("/v1/idempotency").await;
    assert_eq!(keys["items"], json!([]));
}
