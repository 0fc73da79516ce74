//! Every route that does something, with a key (R-I1, R-I2). The routes come from the description of the API, which is made from the
//! same table as the router: one that is not asked here cannot exist.

use std::collections::BTreeSet;

use redrive::engine::{NewToken, Scope};
use redrive::{Cause, fail};
use redrive_server::Server;
use redrive_store::EventSeq;
use serde_json::{Value, json};
use std::time::Duration;

use crate::site::{Site, on_each, until};

/// These look at no key, for the reason that stands beside them. Whoever adds one says why.
const UNGUARDED: [(&str, &str); 7] = [
    ("check_config", "it changes nothing"),
    ("classify", "it changes nothing"),
    ("explain_decision", "it changes nothing"),
    ("extend", "doing it again is doing it once"),
    ("lease", "it waits for long, and what it hands out lapses"),
    ("list_delays", "it changes nothing"),
    ("simulate_policies", "it changes nothing"),
];

/// What can be acted on.
struct Things {
    token: String,
    other_token: String,
    letters: Vec<String>,
    job: String,
    silence: String,
    group: String,
    lease: String,
    redrive: String,
    task: String,
    failed_task: String,
    export: String,
    /// The record of a key.
    record: String,
}

impl Things {
    async fn put_into(site: &Site) -> Things {
        site.enqueue("mail", 0..8).await;
        // Both parts are in the queue `tasks`; nobody works on the second task.
        let plan = |name: &str| {
            let one =
                json!({ "id": "a", "handler": "call", "payload": {}, "overrides": { "max_retries": 0 } });
            json!({ "plan": { "name": name, "subtasks": [one] } })
        };
        let failed = site.post_ok("/v1/tasks", &plan("failed")).await;
        let (ends, running) = site.working(|_| Err(fail(Cause::ValidationError, "no such column")));
        let failed_task = id(&failed);
        let path = format!("/v1/tasks/{failed_task}");
        until("all have failed", || async {
            let letters = site.get_ok("/v1/dead-letters?queue=mail").await["items"].as_array().unwrap().len();
            letters == 8 && site.get_ok(&path).await["state"] != "running"
        })
        .await;
        ends.signal();
        running.await.unwrap();
        let letters = site.get_ok("/v1/dead-letters?queue=mail").await;
        let letters: Vec<String> = letters["items"].as_array().unwrap().iter().map(id).collect();
        site.enqueue("later", 0..1).await;
        let leased = site.post_ok("/v1/queues/later/lease", &json!({ "lease_ms": 600_000 })).await;
        let job = site.post_ok("/v1/jobs", &json!({ "kind": "call", "queue": "later" })).await;
        let silence = json!({ "of": "dead_letters", "for_ms": 600_000 });
        let silence = site.post("/v1/alerts/silences", &silence).await.1;
        let groups = site.get_ok("/v1/groups").await;
        let slow = json!({ "ids": [letters[7]], "rate": "1/h" });
        let redrive = site.post_ok("/v1/redrives", &slow).await;
        let task = site.post_ok("/v1/tasks", &plan("open")).await;
        for name in ["one", "two"] {
            let schedule =
                json!({ "name": name, "cron": "0 6 * * *", "job": { "kind": "call", "queue": "later" } });
            site.post_ok("/v1/schedules", &schedule).await;
        }
        let export = site.text("/v1/dead-letters/export?with_payload=true").await;
        let push = json!({ "queue": "q", "url": "https://example.com/" });
        site.put_ok("/v1/push/crm", &push).await;
        let keyed = site.client.post(site.url("/v1/jobs")).header("idempotency-key", "old");
        let keyed = keyed.json(&json!({ "kind": "call", "queue": "later" })).send().await.unwrap();
        assert_eq!(keyed.status().as_u16(), 201);
        let record = id(&site.get_ok("/v1/idempotency?limit=1").await["items"][0]);
        // From here on nobody is let in without one.
        let mut tokens = Vec::new();
        for name in ["mine", "other"] {
            let new = NewToken {
                name: name.into(),
                scopes: Scope::ALL.to_vec(),
                queues: Vec::new(),
                expires_at: None,
            };
            let (token, text) = site.engine.create_token(new, "cli:test", None).await.unwrap();
            tokens.push((token.id, text.reveal().to_owned()));
        }
        // The server may go on for a second as if there were none.
        until("everybody needs a token", || async { site.get("/v1/queues").await.0 == 401 }).await;
        Things {
            token: tokens[0].1.clone(),
            other_token: tokens[1].0.clone(),
            letters,
            job: id(&job),
            silence: id(&silence),
            group: groups["items"][0]["fingerprint"].as_str().unwrap().to_owned(),
            lease: leased["items"][0]["lease"].as_str().unwrap().to_owned(),
            redrive: id(&redrive),
            task: id(&task),
            failed_task,
            export: export.lines().next().unwrap().to_owned(),
            record,
        }
    }

    /// How this operation is asked for: what stands for the name in its path, and its body.
    fn sample(&self, operation: &str) -> Option<(String, Option<Value>)> {
        let none = String::new;
        let why = || Some(json!({ "why": "a test" }));
        Some(match operation {
            "silence" => (none(), Some(json!({ "of": self.group, "for_ms": 60_000 }))),
            "end_silence" => (self.silence.clone(), None),
            "test_alerts" => (none(), Some(json!({}))),
            "discard_dead_letters" => (none(), Some(json!({ "ids": [self.letters[0]], "expected": 1 }))),
            "import_dead_letters" => (none(), Some(Value::String(self.export.clone()))),
            "purge_dead_letters" => (none(), Some(json!({ "older_than": "1h", "expected": 0 }))),
            "discard_dead_letter" => (self.letters[1].clone(), why()),
            "edit_dead_letter" => (self.letters[2].clone(), Some(json!({ "payload": { "n": 70 } }))),
            "acknowledge_escalation" => (self.letters[3].clone(), Some(json!({ "note": "seen" }))),
            "set_group_state" => (self.group.clone(), Some(json!({ "state": "acknowledged" }))),
            "reset_idempotency_key" => (self.record.clone(), why()),
            "enqueue" => (none(), Some(json!({ "kind": "call", "queue": "later" }))),
            "cancel_job" => (self.job.clone(), why()),
            "retry_job" => (self.letters[4].clone(), Some(json!({ "even_if_permanent": true }))),
            "settle" => (none(), Some(json!({ "items": [{ "lease": self.lease, "outcome": "succeeded" }] }))),
            "create_token" => (none(), Some(json!({ "name": "made", "scopes": ["read"] }))),
            "put_push" => {
                let url = "https://example.com/";
                ("more".to_owned(), Some(json!({ "queue": "q", "url": url, "rotate": true })))
            }
            "remove_push" => ("crm".to_owned(), why()),
            "limit_queue" => ("mail".to_owned(), Some(json!({ "rate": "5/s" }))),
            "pause_queue" | "resume_queue" => ("mail".to_owned(), why()),
            "begin_redrive" => (none(), Some(json!({ "ids": [self.letters[5]] }))),
            "cancel_redrive" => (self.redrive.clone(), why()),
            "add_schedule" => {
                (none(), Some(json!({ "name": "three", "cron": "@daily", "job": { "kind": "call" } })))
            }
            "remove_schedule" => ("two".to_owned(), None),
            "put_schedule" => {
                ("one".to_owned(), Some(json!({ "cron": "@daily", "job": { "kind": "call" } })))
            }
            "pause_schedule" | "resume_schedule" | "run_schedule" => ("one".to_owned(), why()),
            "limit_target" => ("host:api.example.com".to_owned(), Some(json!({ "concurrency": 3 }))),
            "reset_target" => ("host:api.example.com".to_owned(), why()),
            "begin_task" => {
                let one = json!({ "id": "a", "handler": "call", "payload": {} });
                (none(), Some(json!({ "plan": { "name": "more", "subtasks": [one] } })))
            }
            "cancel_task" => (self.task.clone(), why()),
            "resume_task" => (self.failed_task.clone(), why()),
            "revoke_token" => (self.other_token.clone(), why()),
            _ => return None,
        })
    }
}

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

/// A request as it is sent, again and again.
struct Request {
    method: reqwest::Method,
    path: String,
    media: &'static str,
    body: Option<String>,
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    replayed: bool,
    body: String,
}

impl Answer {
    fn code(&self) -> String {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_default();
        json["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// What is left of an answer for who asks again: what is shown once is not.
fn without_secret(operation: &str, body: String) -> String {
    let (before, after) = match operation {
        "create_token" => (",\"token\":\"rdv_", "\""),
        "put_push" => ("\"new_secret\":\"whsec_", "\","),
        _ => return body,
    };
    let (head, secret) = body.split_once(before).unwrap_or_else(|| panic!("no secret: {body}"));
    let (_, tail) = secret.split_once(after).unwrap();
    format!("{head}{tail}")
}

async fn send(site: &Site, things: &Things, key: &str, request: &Request) -> Answer {
    let mut asked = site.client.request(request.method.clone(), site.url(&request.path));
    asked = asked.bearer_auth(&things.token).header("idempotency-key", key);
    if let Some(body) = &request.body {
        asked = asked.header("content-type", request.media).body(body.clone());
    }
    let answer = asked.send().await.unwrap();
    let status = answer.status().as_u16();
    let replayed = answer.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
    Answer { status, replayed, body: answer.text().await.unwrap() }
}

/// R-I1, R-I2: with a key every route that does something does it once, however often and however much at the same time it is asked
/// for; the same request is answered the same, and another one under the same key is refused. On both stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_that_does_something_does_it_once() {
    on_each(|site: Site| async move {
        let things = Things::put_into(&site).await;
        let document = Server::openapi();
        let (mut unguarded, mut done, mut asked, mut before) = (BTreeSet::new(), 0, 0, None::<String>);
        // Whoever has no receiver tests none; everything else is done.
        let mut refusals = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let method: reqwest::Method = method.to_uppercase().parse().unwrap();
                if method.is_safe() || operation.get("operationId").is_none() {
                    continue;
                }
                let name = operation["operationId"].as_str().unwrap();
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                if !parameters.clone().any(|parameter| parameter["name"] == "Idempotency-Key") {
                    unguarded.insert(name.to_owned());
                    continue;
                }
                let (place, body) =
                    things.sample(name).unwrap_or_else(|| panic!("{name}: how is it asked for?"));
                let (head, tail) = path.split_once('{').unwrap_or((path, ""));
                let tail = tail.split_once('}').map_or("", |(_, tail)| tail);
                let (media, body) = match body {
                    Some(Value::String(lines)) => ("application/x-ndjson", Some(lines)),
                    body => ("application/json", body.map(|body| body.to_string())),
                };
                let request = Request { method, path: format!("{head}{place}{tail}"), media, body };
                let key = format!("key-{name}");
                let ask = || send(&site, &things, &key, &request);
                let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
                let mut first = None;
                for answer in [a, b, c, d] {
                    assert!(
                        answer.status < 500 && ![401, 403, 429].contains(&answer.status),
                        "{name}: {answer:?}"
                    );
                    if !answer.replayed && answer.code() != "idempotency-in-flight" {
                        assert_eq!(first, None, "{name} was done more than once: {answer:?}");
                        first = Some(answer);
                    }
                }
                let first = first.unwrap_or_else(|| panic!("{name}: nobody did it"));
                asked += 1;
                if (200..300).contains(&first.status) {
                    done += 1;
                } else {
                    refusals.push(format!("{name}: {}", first.body));
                }
                let seen =
                    async || site.engine.store().wait_for_events(EventSeq::default(), Duration::ZERO).await;
                let last = seen().await.unwrap();
                let again = send(&site, &things, &key, &request).await;
                let first = Answer { replayed: true, body: without_secret(name, first.body), ..first };
                assert_eq!(again, first, "{name}: the same once more");
                let other = Request { body: Some(request.body.clone().unwrap_or_default() + " "), ..request };
                let refused = send(&site, &things, &key, &other).await;
                assert_eq!(
                    (refused.status, refused.code()),
                    (409, "idempotency-mismatch".to_owned()),
                    "{name}: {refused:?}"
                );
                if let Some(before) = before.replace(key) {
                    let refused = send(&site, &things, &before, &other).await;
                    assert_eq!(
                        (refused.status, refused.code()),
                        (409, "idempotency-mismatch".to_owned()),
                        "{name}"
                    );
                }
                assert_eq!(seen().await.unwrap(), last, "{name}: nothing happened any more");
            }
        }
        let expected: BTreeSet<String> = UNGUARDED.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(unguarded, expected, "these look at no key");
        assert!(asked >= 35 && done == asked - 1, "{done} of {asked} were done: {refusals:#?}");
    })
    .await;
}
