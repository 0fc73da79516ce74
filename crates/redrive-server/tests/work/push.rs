//! Push: signed calls to a service, whose answers decide.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use redrive::engine::{EngineError, PushEndpoint, PushSecret};
use redrive_store::EventFilter;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::site::{Kind, Site, until};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a service was sent.
#[derive(Debug, Clone)]
struct Call {
    headers: HeaderMap,
    body: Bytes,
}

type Says = dyn Fn(usize, &Value) -> (u16, String) + Send + Sync;

#[derive(Clone)]
struct Service {
    calls: Arc<Mutex<Vec<Call>>>,
    says: Arc<Says>,
}

impl Service {
    /// A service on a free port that answers by what it is sent, and by how many calls came before.
    async fn start(
        says: impl Fn(usize, &Value) -> (u16, String) + Send + Sync + 'static,
    ) -> (Service, String) {
        let service = Service { calls: Arc::default(), says: Arc::new(says) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (service, url)
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn answer(State(service): State<Service>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let before = {
        let mut calls = service.calls.lock().unwrap();
        calls.push(Call { headers, body: body.clone() });
        calls.len() - 1
    };
    let sent = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (status, said) = (service.says)(before, &sent);
    (StatusCode::from_u16(status).unwrap(), said)
}

impl Call {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let mut code = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        code.update(
            format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp")).as_bytes(),
        );
        code.update(&self.body);
        let expected = format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()));
        self.header("webhook-signature").split(' ').any(|one| one == expected)
    }
}

fn endpoint(url: &str) -> PushEndpoint {
    let secret = PushSecret::try_from(SECRET.to_owned()).unwrap();
    let new = PushEndpoint::new("hook", "q", url).unwrap();
    PushEndpoint { secrets: vec![PushSecret::fresh().unwrap(), secret], ..new }
}

fn push(site: &Site, local: Vec<PushEndpoint>) {
    let server = site.server.clone();
    tokio::spawn(server.push(local).unwrap());
}

async fn stands(site: &Site, id: &str, attempts: u32, state: &str) {
    until(&format!("{id} is {state} after {attempts}"), || async {
        site.stands(id).await == (attempts, state.to_owned())
    })
    .await;
}

/// R-P15: a push is signed for every secret, its id stays the same over attempts, and its attempts can be told apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_signed_and_keeps_its_id_over_attempts() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let (service, url) =
            Service::start(|before, _| (if before == 0 { 503 } else { 200 }, String::new())).await;
        push(&site, vec![endpoint(&url)]);
        let job = site.job(1).enqueue().await.unwrap();
        until("it is done", || async { site.stands(&job.id.to_string()).await.1 == "Ended" }).await;
        let calls = service.calls();
        assert_eq!(calls.len(), 2, "{kind:?}");
        for (call, attempt) in calls.iter().zip(["1", "2"]) {
            assert!(call.is_signed_with(SECRET) && !call.is_signed_with("whsec_AAAA"), "{kind:?}");
            assert_eq!(call.header("webhook-signature").split(' ').count(), 2);
            assert_eq!(call.header("redrive-attempt"), attempt);
            assert_eq!(call.header("redrive-job-id"), job.id.to_string());
            assert_eq!(call.header("webhook-id"), call.header("idempotency-key"));
            assert_eq!(call.body, r#"{"number":1}"#);
        }
        assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
        assert!(calls[0].header("redrive-fence") < calls[1].header("redrive-fence"));
    }
}

/// R-P3, R-D3: the status decides through the classifier, and a verdict in the body beats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_decides() {
    let site = Site::new(Kind::Sqlite).await;
    let says = |_: usize, sent: &Value| {
        let said = &sent["says"];
        let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        (u16::try_from(sent["status"].as_u64().unwrap()).unwrap(), text)
    };
    let (service, url) = Service::start(says).await;
    push(&site, vec![endpoint(&url)]);
    for (status, said, attempts, state) in [
        (204, json!(""), 1, "Ended"),
        (422, json!("no such order"), 1, "Dead"),
        (500, json!(""), 3, "Dead"),
        (500, json!({ "verdict": "ok" }), 1, "Ended"),
        (200, json!({ "verdict": "dead", "reason": "never" }), 1, "Dead"),
        (200, json!({ "verdict": "retry" }), 3, "Dead"),
        (200, json!({ "verdict": "perhaps" }), 3, "Dead"),
        (200, json!({ "verdict": "snooze", "delay_ms": 3_600_000 }), 0, "Ready"),
        (302, json!(""), 1, "Dead"),
    ] {
        let payload = json!({ "status": status, "says": said });
        let job = site.engine.job("greet", &payload).queue("q").enqueue().await.unwrap();
        let id = job.id.to_string();
        if state == "Ended" {
            until(&format!("{payload} is over"), || async { site.stands(&id).await.1 == "Ended" }).await;
        } else if state == "Ready" {
            until("it was asked", || async {
                service.calls().iter().any(|call| call.header("redrive-job-id") == id)
            })
            .await;
            stands(&site, &id, attempts, state).await;
        } else {
            stands(&site, &id, attempts, state).await;
        }
    }
}

/// R-D3: a yes that breaks off where a verdict could have stood is no yes; one that is only long, or no JSON, is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_no_yes() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let long = format!("{{\"rows\":\"{}", "x".repeat(100_000));
    let answers = ["{\"verd", "", "{\"verdict\":\"ok\"}", "<html>so far", &long].map(str::to_owned);
    let service = tokio::spawn(async move {
        for said in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 8_192];
            let _ = stream.read(&mut head).await.unwrap();
            let length = if said.ends_with('}') { said.len() } else { 200_000 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(format!("{head}{said}").as_bytes()).await.unwrap();
        }
    });
    let site = Site::new(Kind::Sqlite).await;
    push(&site, vec![endpoint(&url)]);
    for attempts in [3, 1, 1] {
        let id = site.job(1).enqueue().await.unwrap().id;
        until("it is done", || async { site.stands(&id.to_string()).await.1 == "Ended" }).await;
        let filter = EventFilter { job: Some(id), ..EventFilter::default() };
        let events = site.engine.store().events(filter, 100).await.unwrap();
        let broke = events.iter().filter(|event| {
            event
                .error_info
                .as_ref()
                .is_some_and(|error| error.error_message.contains("the answer broke off"))
        });
        assert_eq!(broke.count() + 1, attempts, "{events:?}");
    }
    service.await.unwrap();
}

/// R-D3: of a batch, what is listed has failed and the rest is done; an answer that cannot be read means that all has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_only_what_is_listed_has_failed() {
    let site = Site::new(Kind::Sqlite).await;
    let says = |before: usize, sent: &Value| {
        let items = sent["items"].as_array().unwrap();
        let bad = items.iter().filter(|item| item["payload"]["number"] == json!(3) && before < 2);
        let listed: Vec<Value> =
            bad.map(|item| json!({ "itemIdentifier": item["itemIdentifier"] })).collect();
        // The first answer is none.
        (200, if before == 0 { "OK".to_owned() } else { json!({ "batchItemFailures": listed }).to_string() })
    };
    let (service, url) = Service::start(says).await;
    let mut jobs = Vec::new();
    for number in 0..5 {
        jobs.push(site.job(number).build().unwrap());
    }
    let ids: Vec<String> =
        site.engine.enqueue_many(jobs).await.unwrap().iter().map(|added| added.id.to_string()).collect();
    push(&site, vec![PushEndpoint { batch: 10, kinds: vec!["greet".to_owned()], ..endpoint(&url) }]);
    for id in &ids {
        until(&format!("{id} is done"), || async { site.stands(id).await.1 == "Ended" }).await;
    }
    let sent: Vec<usize> = service
        .calls()
        .iter()
        .map(|call| serde_json::from_slice::<Value>(&call.body).unwrap()["items"].as_array().unwrap().len())
        .collect();
    let times = |number: u64| {
        let has = |call: &Call| {
            let body: Value = serde_json::from_slice(&call.body).unwrap();
            body["items"].as_array().unwrap().iter().any(|item| item["payload"]["number"] == json!(number))
        };
        service.calls().iter().filter(|call| has(call)).count()
    };
    assert_eq!(sent[0], 5, "all of them together: {sent:?}");
    assert!(times(3) >= times(0), "what was listed came again");
    assert!(times(0) >= 2, "the answer that was none counted for nothing");
}

/// R-P15: 410 disables the endpoint for everybody, with an event, and its job waits uncounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_gone_is_disabled() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let (_service, url) = Service::start(|_, _| (410, String::new())).await;
        let put = endpoint(&url);
        let engine = &site.engine;
        engine.change_push_endpoint("hook", |_| Ok::<_, EngineError>(Some(put.clone()))).await.unwrap();
        push(&site, Vec::new());
        let job = site.job(1).enqueue().await.unwrap();
        until("it is disabled", || async { !engine.push_endpoint("hook").await.unwrap().unwrap().enabled })
            .await;
        stands(&site, &job.id.to_string(), 0, "Ready").await;
        let events = engine.store().events(EventFilter::default(), 100).await.unwrap();
        let told = format!("{events:?}");
        assert!(told.contains("push_disabled") && !told.contains("whsec_"), "{kind:?}");
    }
}

/// Reliability 60, Security: what is set over the API must not point inside; its secret is shown once, and never told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_set_over_the_api_is_guarded_and_its_secret_is_shown_once() {
    let site = Site::new(Kind::Sqlite).await;
    let at = site.url("/v1/push/crm");
    let put = async |body: Value| {
        let answer = site.client.put(&at).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    for url in
        ["http://127.0.0.1/", "http://169.254.169.254/", "ftp://example.com/", "https://a:b@example.com/"]
    {
        assert_eq!(put(json!({ "queue": "q", "url": url })).await.0, 400, "{url}");
    }
    // What is told names the address once, says what it is, and who may have it called.
    let inside = json!({ "queue": "q", "url": "http://169.254.169.254/" });
    let (_, told) = put(inside.clone()).await;
    let said = "169.254.169.254 is a link-local address: what is set over the API does not reach it, unless [server] allow lists it";
    assert!(told["detail"].as_str().unwrap().starts_with(said), "{told}");
    let answer = site.client.put(&at).header("Accept-Language", "ja").json(&inside).send().await.unwrap();
    let told = answer.json::<Value>().await.unwrap();
    assert!(
        told["detail"].as_str().unwrap().starts_with("169.254.169.254 はリンクローカルアドレスです。"),
        "{told}"
    );
    let (status, told) = put(json!({ "queue": "q", "url": "https://example.com/", "why": "the CRM" })).await;
    let secret = told["new_secret"].as_str().unwrap().to_owned();
    assert_eq!((status, told["secrets"].as_u64(), secret.starts_with("whsec_")), (200, Some(1), true));
    let (_, again) = put(json!({ "queue": "q", "url": "https://example.com/2" })).await;
    assert_eq!((again["secrets"].as_u64(), again.get("new_secret")), (Some(1), None), "it stays");
    let (_, rotated) = put(json!({ "queue": "q", "url": "https://example.com/2", "rotate": true })).await;
    assert_eq!(rotated["secrets"], json!(2));
    assert_ne!(rotated["new_secret"], json!(secret));
    for path in ["/v1/push", "/v1/push/crm"] {
        let shown = site.client.get(site.url(path)).send().await.unwrap().text().await.unwrap();
        assert!(shown.contains("crm") && !shown.contains("whsec_"), "{shown}");
    }
    let events = site.engine.store().events(EventFilter::default(), 100).await.unwrap();
    let told = format!("{events:?}");
    assert!(told.contains("push.add") && told.contains("the CRM") && !told.contains("whsec_"), "{told}");
    let bad = json!({ "queue": "q", "url": "https://example.com/", "secrets": ["whsec_hunter2"] });
    let (status, told) = put(bad).await;
    assert!(status == 400 && !told.to_string().contains("hunter2"), "{told}");
    assert_eq!(site.client.delete(&at).send().await.unwrap().status().as_u16(), 204);
    assert_eq!(site.client.delete(&at).send().await.unwrap().status().as_u16(), 404);
}

/// R-P15, R-C5: an endpoint that takes every kind gets every job although somebody is to be told of alerts; the message goes to its
/// receiver, and not to the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_of_every_kind_and_a_receiver_both_get_theirs() {
    for kind in Kind::all() {
        let (service, url) = Service::start(|_, _| (200, String::new())).await;
        let (people, told_at) = Service::start(|_, _| (200, String::new())).await;
        let config = format!("[[alerts.receivers]]\nname = \"ops\"\nwebhook = \"{told_at}\"\n");
        let site = Site::configured(kind, &config).await;
        site.attend().await;
        push(&site, vec![endpoint(&url)]);
        for number in 0..10 {
            site.engine
                .job(["greet", "mail"][number % 2], &json!({ "number": number }))
                .queue("q")
                .enqueue()
                .await
                .unwrap();
        }
        let (status, told) = site.post("/v1/alerts/test", &json!({})).await;
        assert!(status < 300, "{told}");
        until("every job is pushed", async || service.calls().len() >= 10).await;
        until("the message is delivered", async || !people.calls().is_empty()).await;
        let sent: std::collections::BTreeSet<u64> = service
            .calls()
            .iter()
            .map(|call| serde_json::from_slice::<Value>(&call.body).unwrap()["number"].as_u64().unwrap())
            .collect();
        assert_eq!((sent.len(), service.calls().len(), people.calls().len()), (10, 10, 1), "{kind:?}");
        assert!(people.calls()[0].headers.contains_key("redrive-alert-hop"), "{kind:?}");
    }
}
