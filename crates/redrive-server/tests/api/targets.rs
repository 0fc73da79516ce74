//! Protected targets over HTTP.

use reqwest::Method;
use serde_json::json;

use crate::site::{Site, told};

/// R-P15, reliability 62: a queue is limited while everything runs, work beyond the limit is parked and not handed out, all of
/// it is seen in API and metrics, and who did it and why is written down first; on both stores.
#[tokio::test]
async fn a_target_is_limited_seen_and_reset() {
    for site in Site::both().await {
        let limits = json!({ "rate": "1/h", "why": "the provider asked for it" });
        let answer = site.ask(Method::PUT, "/v1/queues/mail/limits").json(&limits).send().await.unwrap();
        let (status, limited) = told(answer).await;
        assert_eq!((status, &limited["name"], &limited["rate"]), (200, &json!("queue:mail"), &json!("1/h")));
        for _ in 0..3 {
            site.post("/v1/jobs", &json!({ "kind": "k", "queue": "mail" })).await;
        }
        let (_, handed) = site.post("/v1/queues/mail/lease", &json!({ "max": 10 })).await;
        assert_eq!(handed["items"].as_array().unwrap().len(), 1, "{handed}");
        let (status, seen) = site.get("/v1/targets/queue:mail").await;
        assert_eq!((status, &seen["state"], &seen["parked"]), (200, &json!("closed"), &json!(2)), "{seen}");
        assert_eq!((&seen["parked_total"], &seen["limited"]), (&json!(2), &json!(true)));
        let (_, all) = site.get("/v1/targets?limit=5").await;
        assert_eq!(all["items"][0]["name"], "queue:mail");
        let (_, parked) = site.get("/v1/events?type=job_parked").await;
        assert_eq!(parked["items"][0]["data"]["target"], "queue:mail");
        assert_eq!(
            (&parked["items"][0]["data"]["why"], &parked["items"][0]["data"]["rate"]),
            (&json!("rate"), &json!("1/h"))
        );
        let id = parked["items"][0]["job_id"].as_str().unwrap();
        let (_, job) = site.get(&format!("/v1/jobs/{id}")).await;
        assert_eq!(job["parked"]["target"], "queue:mail", "{job}");
        assert_eq!(job["parked"]["until"], job["next_run_at"], "{job}");
        assert!(job["parked"]["why"].as_str().is_some_and(|why| why.contains("1/h")), "{job}");
        let (_, queues) = site.get("/v1/queues").await;
        assert_eq!(queues["items"][0]["limits"], json!({ "rate": "1/h" }), "{queues}");
        let metrics = site.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        assert!(metrics.contains("redrive_target_parked_total{target=\"queue:mail\"} 2"), "{metrics}");
        assert!(
            metrics.contains("redrive_target_state{target=\"queue:mail\",state=\"closed\"} 1"),
            "{metrics}"
        );
        let (status, reset) = site.post("/v1/targets/queue:mail/reset", &json!({})).await;
        assert_eq!((status, &reset["known"]), (200, &json!(true)));
        let (_, acts) = site.get("/v1/events?type=operator_act").await;
        let acts: Vec<&str> = acts["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|act| act["data"]["act"].as_str().unwrap())
            .collect();
        assert!(acts.contains(&"queue.limit") && acts.contains(&"target.reset"), "{acts:?}");
    }
}

/// R-P15: what is no target, and what cannot be a limit, is refused by name.
#[tokio::test]
async fn what_cannot_be_is_refused() {
    let site = Site::sqlite().await;
    let (status, problem) = site.post("/v1/targets/mail/limits", &json!({ "rate": "1/s" })).await;
    assert_eq!((status, &problem["field"]), (400, &json!("target")), "{problem}");
    let (status, problem) = site.post("/v1/targets/queue:mail/limits", &json!({ "rate": "fast" })).await;
    assert_eq!((status, &problem["field"]), (400, &json!("rate")), "{problem}");
    let (status, problem) = site.post("/v1/targets/queue:mail/limits", &json!({ "concurrency": 0 })).await;
    assert_eq!((status, &problem["field"]), (400, &json!("concurrency")), "{problem}");
    assert_eq!(site.get("/v1/targets/queue:nobody").await.0, 404);
    assert_eq!(site.get("/v1/targets?limit=0").await.0, 400);
    let (status, host) = site.get("/v1/targets/host:api.example.com").await;
    assert_eq!((status, &host["state"]), (200, &json!("closed")), "every host is protected: {host}");
}
