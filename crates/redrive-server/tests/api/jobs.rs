//! Jobs over HTTP.

use std::time::Duration;

use redrive::engine::store::{JobState, Origin, Timestamp};
use redrive::{Cause, Fail, fail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, told};

async fn add(site: &Site, body: &Value) -> String {
    let (status, added) = site.post("/v1/jobs", body).await;
    assert_eq!((status, &added["existing"]), (201, &json!(false)), "{added}");
    added["id"].as_str().unwrap().to_owned()
}

/// R-D1: every field of a job reaches the store as it was sent, on both stores; the payload byte for byte.
#[tokio::test]
async fn every_field_arrives() {
    for site in Site::both().await {
        let payload = "{\"to\":  \"ada\", \"n\": 1.0e2, \"n\": \"é\\u00e9\"}";
        let body = format!(
            r#"{{"queue":"mail","kind":"send","payload":{payload},"delay_ms":60000,"priority":7,"unique_key":"u1",
            "caller_id":"c1","policy":"standard","overrides":{{"max_retries": 5}},"timeout_ms":1500,
            "deadline_at":"2099-01-01T00:00:00Z","idempotency_key":"k1","target":"smtp"}}"#
        );
        let request =
            site.ask(Method::POST, "/v1/jobs").header("content-type", "application/json; charset=utf-8");
        let answer = request.body(body).send().await.unwrap();
        let place = answer.headers()["location"].to_str().unwrap().to_owned();
        let (status, added) = crate::site::told(answer).await;
        assert_eq!(status, 201, "{added}");
        assert_eq!(place, format!("/v1/jobs/{}", added["id"].as_str().unwrap()));
        let id = added["id"].as_str().unwrap().parse().unwrap();
        let record = site.engine.store().job(id).await.unwrap().unwrap();
        let job = record.job.unwrap();
        assert_eq!(String::from_utf8(job.payload).unwrap(), payload);
        assert_eq!((&*job.queue, &*job.kind, job.priority), ("mail", "send", 7));
        assert_eq!(job.unique_key.as_deref(), Some("u1"));
        assert_eq!(job.caller_id.as_deref(), Some("c1"));
        assert_eq!(job.policy.as_deref(), Some("standard"));
        assert_eq!(job.overrides.as_deref(), Some("{\"max_retries\": 5}"));
        assert_eq!(job.timeout, Some(Duration::from_millis(1_500)));
        // Two clocks may tell different times, and what is stored is the distance.
        let deadline: Timestamp = "2099-01-01T00:00:00Z".parse().unwrap();
        let off = job.deadline_at.unwrap().millis() - deadline.millis();
        assert!(off.abs() < 1_000, "{off}");
        assert_eq!(job.idempotency_key.as_deref(), Some("k1"));
        assert_eq!(job.target.as_deref(), Some("smtp"));
        assert_eq!(job.origin, Origin::Api);
        assert!(matches!(record.state, JobState::Ready { run_at, .. } if run_at > site.engine.now()));

        let (status, told) = site.get(&place).await;
        assert_eq!((status, &told["state"], &told["queue"]), (200, &json!("scheduled"), &json!("mail")));
        assert_eq!(told["overrides"], json!({ "max_retries": 5 }));
        assert_eq!(told.get("payload"), None);
        let (_, told) = site.get(&format!("{place}?with_payload=true")).await;
        assert_eq!(told["payload"]["to"], "ada");
        // The same unique key once more: the one that is there is answered.
        let (status, again) =
            site.post("/v1/jobs", &json!({ "kind": "send", "queue": "mail", "unique_key": "u1" })).await;
        assert_eq!((status, &again["id"], &again["existing"]), (200, &added["id"], &json!(true)));
    }
}

/// R-D1: what a payload may be: any JSON, `null` included, or bytes; nothing is `null`.
#[tokio::test]
async fn payloads_are_json_or_bytes() {
    let site = Site::sqlite().await;
    for (body, stored) in [
        (json!({ "kind": "k" }), b"null".to_vec()),
        (json!({ "kind": "k", "payload": null }), b"null".to_vec()),
        (json!({ "kind": "k", "payload": "x" }), b"\"x\"".to_vec()),
        (json!({ "kind": "k", "payload_base64": "/wA=" }), vec![0xff, 0]),
    ] {
        let id = add(&site, &body).await;
        let record = site.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(record.job.unwrap().payload, stored, "{body}");
    }
    let (_, told) = site.get("/v1/jobs/4?with_payload=true").await;
    assert_eq!((told["payload_base64"].as_str(), told.get("payload")), (Some("/wA="), None));
    let (status, problem) = site.post_raw("/v1/jobs", r#"{"kind":"k","payload":"\ud800"}"#).await;
    assert_eq!((status, &problem["field"]), (400, &json!("payload")));
    let (status, _) = site.post_raw("/v1/jobs", r#"{"kind":"k","payload":"\ud83d\ude00"}"#).await;
    assert_eq!(status, 201);
}

/// R-D1: many jobs are added together or not at all, and the one that cannot be is named; on both stores.
#[tokio::test]
async fn many_are_added_or_none() {
    for site in Site::both().await {
        let jobs: Vec<Value> = (0..100).map(|n| json!({ "kind": "k", "payload": n })).collect();
        let (status, added) = site.post("/v1/jobs", &json!({ "jobs": jobs })).await;
        assert_eq!((status, added["items"].as_array().unwrap().len()), (201, 100));
        let check = async |jobs: Value, field: &str, status: u16| {
            let (told, problem) = site.post("/v1/jobs", &jobs).await;
            assert_eq!((told, problem["field"].as_str()), (status, Some(field)), "{problem}");
        };
        let good = json!({ "kind": "k" });
        check(json!({ "jobs": [good, {"kind": ""}] }), "jobs[1].kind", 400).await;
        check(json!({ "jobs": [good, {"payload": 1}] }), "jobs[1].kind", 400).await;
        check(json!({ "jobs": [good, {"kind": "k", "priority": 101}] }), "jobs[1].priority", 400).await;
        check(json!({ "jobs": [good, {"kind": "k", "queu": "a"}] }), "jobs[1].queu", 400).await;
        check(json!({ "jobs": [good, {"kind": "k", "policy": "x"}] }), "jobs[1].policy", 400).await;
        check(json!({ "jobs": [good, {"kind": "k", "overrides": {"x": 1}}] }), "jobs[1].overrides", 400)
            .await;
        check(
            json!({ "jobs": [good, {"kind": "k", "payload": "x".repeat(2 << 20)}] }),
            "jobs[1].payload",
            413,
        )
        .await;
        check(json!({ "jobs": [{"jobs": []}] }), "jobs[0].jobs", 400).await;
        check(json!({ "jobs": [], "kind": "k" }), "jobs", 400).await;
        check(json!({ "jobs": vec![good.clone(); 1_001] }), "jobs", 400).await;
        check(json!({ "kind": "k", "delay_ms": 1, "run_at": "2099-01-01T00:00:00Z" }), "run_at", 400).await;
        check(json!({ "kind": "k", "payload": 1, "payload_base64": "AA==" }), "payload_base64", 400).await;
        check(json!({ "kind": "k", "payload_base64": "?" }), "payload_base64", 400).await;
        check(json!({ "kind": "k", "timeout_ms": 0 }), "timeout_ms", 400).await;
        check(json!({ "kind": "k", "run_at": "tomorrow" }), "run_at", 400).await;
        check(json!({ "kind": 7 }), "kind", 400).await;
        check(json!({ "kind": "http", "payload": {"method": "GET", "url": "ftp://x/"} }), "payload.url", 400)
            .await;
        check(json!({ "kind": "http", "payload": 1 }), "payload", 400).await;
        let (_, queue) = site.get("/v1/queues/default").await;
        assert_eq!(queue["ready"], 100, "{queue}");
    }
}

/// R-D3, R-E2: the story of a job that failed and died, its trace, and putting it back: time does not heal every cause; on both
/// stores.
#[tokio::test]
async fn a_story_is_told_and_a_letter_is_put_back() {
    for site in Site::both().await {
        let id = add(&site, &json!({ "kind": "doomed", "queue": "mail" })).await;
        site.engine
            .worker()
            .queues(["mail"])
            .handle("doomed", |(): (), _| async {
                Err::<(), Fail>(fail(Cause::ValidationError, "no such field"))
            })
            .run_until_empty()
            .await
            .unwrap();
        let (_, job) = site.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(
            (&job["state"], &job["letter"]["cause"]),
            (&json!("dead"), &json!("validation_error")),
            "{job}"
        );
        assert_eq!((&job["queue"], &job["kind"]), (&json!("mail"), &json!("doomed")));
        let (status, story) = site.get(&format!("/v1/jobs/{id}/explain")).await;
        assert_eq!(
            (status, &story["schema"], &story["state"]),
            (200, &json!("redrive/story.v1"), &json!("dead"))
        );
        assert_eq!(story["history"][0]["error_message"], "no such field");
        assert!(!story["history"][0]["decision"]["ja"]["reasoning"].as_str().unwrap().is_ascii());
        let (status, trace) = site.get(&format!("/v1/jobs/{id}/trace")).await;
        assert_eq!(status, 200);
        assert!(!trace["items"].as_array().unwrap().is_empty(), "{trace}");

        let retry = format!("/v1/jobs/{id}/retry");
        let (status, problem) = site.post(&retry, &json!({})).await;
        assert_eq!((status, &problem["code"]), (409, &json!("permanent")));
        let (status, retried) =
            site.post(&retry, &json!({ "even_if_permanent": true, "why": "mended" })).await;
        assert_eq!((status, &retried["result"]), (200, &json!("redriven")));
        let (status, cancelled) =
            site.post(&format!("/v1/jobs/{id}/cancel"), &json!({ "why": "not needed" })).await;
        assert_eq!((status, &cancelled["over"]), (200, &json!(true)));
        let (_, job) = site.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!((&job["state"], &job["queue"]), (&json!("cancelled"), &json!("mail")), "{job}");
        let (status, problem) = site.post(&retry, &json!({})).await;
        assert_eq!((status, &problem["code"]), (409, &json!("conflict")), "{problem}");
        for path in ["/v1/jobs/999", "/v1/jobs/999/explain", "/v1/jobs/999/trace"] {
            assert_eq!(site.get(path).await.0, 404, "{path}");
        }
        assert_eq!(site.post("/v1/jobs/999/cancel", &json!({})).await.0, 404);
        assert_eq!(site.post("/v1/jobs/999/retry", &json!({})).await.0, 404);
    }
}

/// R-C1: living jobs are listed page by page, and narrowed by queue, kind, state and caller; on both stores.
#[tokio::test]
async fn jobs_are_listed() {
    for site in Site::both().await {
        for n in 0..5 {
            add(
                &site,
                &json!({ "kind": "k", "queue": if n < 3 { "a" } else { "b" }, "caller_id": format!("c{n}") }),
            )
            .await;
        }
        add(&site, &json!({ "kind": "later", "queue": "a", "delay_ms": 60_000 })).await;
        let mut seen = Vec::new();
        let mut path = "/v1/jobs?limit=2".to_owned();
        loop {
            let (status, page) = site.get(&path).await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            seen.extend(items.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
            let Some(next) = page.get("next") else { break };
            path = format!("/v1/jobs?limit=2&cursor={}", next.as_str().unwrap());
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
        let count = async |query: &str| {
            site.get(&format!("/v1/jobs?{query}")).await.1["items"].as_array().unwrap().len()
        };
        assert_eq!(count("queue=a").await, 4);
        assert_eq!(count("queue=a&kind=k").await, 3);
        assert_eq!(count("state=scheduled").await, 1);
        assert_eq!(count("caller_id=c3").await, 1);
        assert_eq!(count("state=dead").await, 0);
        for bad in ["state=leased", "limit=0", "cursor=x", "queu=a"] {
            assert_eq!(site.get(&format!("/v1/jobs?{bad}")).await.0, 400, "{bad}");
        }
    }
}

/// R-C5, safety: messages of alerts are redrive's own. Nobody makes one up through the API, as a job, a schedule, a plan or a
/// letter, and nobody takes one away.
#[tokio::test]
async fn nobody_makes_up_an_alert() {
    let site = Site::sqlite().await;
    let message = json!({ "kind": "alert", "queue": "shop", "payload": {} });
    let queued = json!({ "kind": "k", "queue": "redrive-alerts" });
    let schedule = |job: &Value| json!({ "name": "s", "cron": "* * * * *", "job": job });
    let subtasks = json!([{ "id": "a", "handler": "alert", "payload": {} }]);
    for (path, body, field) in [
        ("/v1/jobs", message.clone(), "kind"),
        ("/v1/jobs", queued.clone(), "queue"),
        ("/v1/jobs", json!({ "jobs": [{ "kind": "k" }, message] }), "jobs[1].kind"),
        ("/v1/schedules", schedule(&json!({ "kind": "alert", "payload": {} })), "kind"),
        (
            "/v1/schedules",
            schedule(&json!({ "kind": "k", "queue": "redrive-alerts", "payload": {} })),
            "queue",
        ),
        ("/v1/tasks", json!({ "plan": { "name": "t", "subtasks": subtasks } }), "plan.subtasks[0].kind"),
        ("/v1/queues/redrive-alerts/lease", json!({}), "queue"),
    ] {
        let (status, problem) = site.post(path, &body).await;
        assert_eq!((status, problem["field"].as_str()), (403, Some(field)), "{path}: {problem}");
        assert_eq!(problem["title"], "This is not allowed", "there is no token that could reach farther");
    }
    let line = json!({ "event_id": "EVT-20260101-000000-aaaaaa", "timestamp": "2026-01-01T00:00:00Z", "error_type": "E",
        "error_message": "m", "kind": "alert", "queue": "shop", "original_payload": {} });
    let request = site.ask(Method::POST, "/v1/dead-letters/import");
    let request = request.header("content-type", "application/x-ndjson").body(format!("{line}\n"));
    let (status, told) = told(request.send().await.unwrap()).await;
    assert_eq!((status, &told["added"], &told["kept_aside"]), (200, &json!(0), &json!(1)), "{told}");
}
