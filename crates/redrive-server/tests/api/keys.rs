//! `Idempotency-Key` on writes: our own layer, by who asks.

use std::time::Duration;

use redrive::engine::store::{
    Claimed, KeyClaim, KeyHold, KeyQuery, KeyRecord, KeyState, KeyedRequest, NewJob, StoredResponse,
};
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
        assert!(problem["instance"].as_str().unwrap().starts_with("urn:redrive:request:"), "{problem}");
        let (status, problem) = site.get("/v1/dead-letters?where=cuase%3Dnetwork").await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.contains("There is no field cuase; did you mean cause?"), "{detail}");
        let (status, _, problem) = enqueue(&site, &"k".repeat(256), &body).await;
        assert_eq!((status, &problem["code"]), (400, &json!("idempotency-key-malformed")));
        let (_, queues) = site.get("/v1/queues").await;
        assert_eq!(queues["items"][0]["ready"], 2, "{queues}");
    }
}

/// R-I8, issue 8, safety: a key of the form that the store makes for a job is nobody's to choose: the next ones can be foretold, and whoever had them
/// first would have another's effects taken for repetitions.
#[tokio::test]
async fn the_key_of_another_job_cannot_be_taken() {
    for site in Site::both().await {
        let (_, job) = site.post("/v1/jobs", &json!({ "kind": "mail", "queue": "mail" })).await;
        let (_, leased) = site.post("/v1/queues/mail/lease", &json!({})).await;
        let own = leased["items"][0]["idempotency_key"].as_str().unwrap();
        let number: i64 = job["id"].as_str().unwrap().trim_start_matches("job_").parse().unwrap();
        let next = redrive_store::JobId(number + 1).idempotency_key(site.engine.store().store_id());
        for key in [own, &next] {
            let taken = json!({ "kind": "mail", "idempotency_key": key });
            for (body, field) in
                [(taken.clone(), "idempotency_key"), (json!({ "jobs": [taken] }), "jobs[0].idempotency_key")]
            {
                let (status, problem) = site.post("/v1/jobs", &body).await;
                assert_eq!((status, &problem["field"]), (400, &json!(field)), "{problem}");
            }
        }
        let chosen = json!({ "kind": "mail", "idempotency_key": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed" });
        assert_eq!(site.post("/v1/jobs", &chosen).await.0, 201);
    }
}

/// R-I5: the jobs of a request and that it was answered are one transaction. A holder that lost its key adds nothing, one that has
/// it adds the jobs and the answer, and a request whose holder vanished before that is done when it comes again. On both stores.
#[tokio::test]
async fn a_key_is_completed_together_with_its_jobs() {
    for site in Site::both().await {
        let store = site.engine.store();
        let now = site.engine.now();
        let claim = |key: &str| KeyClaim {
            principal: "p".to_owned(),
            key: key.to_owned(),
            endpoint: "POST /v1/jobs".to_owned(),
            request_hash: "h".to_owned(),
            hold_for: Duration::from_secs(30),
            keep_for: Duration::from_hours(1),
            rerun: true,
            job: None,
        };
        let request = |hold: KeyHold| KeyedRequest {
            hold,
            keep_for: Duration::from_hours(1),
            answer: Box::new(|added| StoredResponse {
                status: 201,
                headers: Vec::new(),
                body: Some(added[0].id.to_string().into_bytes()),
            }),
        };
        let jobs = || vec![NewJob::new("mail", "{}"), NewJob::new("mail", "{}")];
        let Claimed::Taken { hold, .. } = store.claim_key(now, claim("a")).await.unwrap() else { panic!() };
        let stranger = KeyHold { incarnation: hold.incarnation + 1_000, ..hold };
        assert_eq!(store.enqueue_for_key(now, jobs(), request(stranger)).await.unwrap(), None);
        let added = store.enqueue_for_key(now, jobs(), request(hold)).await.unwrap().unwrap();
        assert_eq!(added.len(), 2);
        assert_eq!(store.enqueue_for_key(now, jobs(), request(hold)).await.unwrap(), None, "once");
        let (record, response) = store.key(hold.record).await.unwrap().unwrap();
        assert_eq!(record.state, KeyState::Completed);
        assert_eq!(response.unwrap().body, Some(added[0].id.to_string().into_bytes()));
        assert_eq!(site.get("/v1/queues").await.1["items"][0]["ready"], 2);

        // Somebody sent this, and its server was killed before anything was written: it is done when it comes again.
        let body = json!({ "kind": "mail", "payload": 1 });
        let (_, _, first) = enqueue(&site, "killed", &body).await;
        let query = KeyQuery { key: Some("killed".to_owned()), limit: 1, ..KeyQuery::default() };
        let record = store.keys(query).await.unwrap().remove(0);
        store.reset_key(now, record.id, KeyState::Completed, None).await.unwrap().unwrap();
        let KeyRecord { principal, endpoint, request_hash, .. } = record;
        let hold_for = Duration::from_millis(1);
        let lost = KeyClaim { principal, endpoint, request_hash, hold_for, ..claim("killed") };
        assert!(matches!(store.claim_key(now, lost).await.unwrap(), Claimed::Taken { .. }));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (status, replayed, again) = enqueue(&site, "killed", &body).await;
        assert_eq!((status, replayed), (201, false), "{again}");
        assert_ne!(again["id"], first["id"]);
        assert_eq!(enqueue(&site, "killed", &body).await, (201, true, again));
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
