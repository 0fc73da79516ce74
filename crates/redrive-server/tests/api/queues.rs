//! Queues, and the numbers of everything.

use serde_json::json;

use crate::site::Site;

/// R-C1, reliability 62: a queue is counted, paused and resumed, with who and why written down first; on both stores.
#[tokio::test]
async fn a_queue_is_paused_and_resumed() {
    for site in Site::both().await {
        site.post("/v1/jobs", &json!({ "kind": "k", "queue": "mail" })).await;
        site.post("/v1/jobs", &json!({ "kind": "k", "queue": "mail", "delay_ms": 60_000 })).await;
        let (status, queue) = site.get("/v1/queues/mail").await;
        assert_eq!((status, &queue["ready"], &queue["scheduled"]), (200, &json!(1), &json!(1)), "{queue}");
        let (status, paused) =
            site.post("/v1/queues/mail/pause", &json!({ "why": "provider is down" })).await;
        assert_eq!((status, &paused["paused"], &paused["changed"]), (200, &json!(true), &json!(true)));
        let (_, queues) = site.get("/v1/queues").await;
        assert_eq!(queues["items"][0]["paused_why"], "provider is down");
        let (_, acts) = site.get("/v1/events?type=operator_act").await;
        assert_eq!(acts["items"][0]["data"]["who"], "local");
        assert_eq!(acts["items"][0]["data"]["target"], "mail");
        // Without a body, too.
        let resume = site.ask(reqwest::Method::POST, "/v1/queues/mail/resume").send().await.unwrap();
        let (_, resumed) = crate::site::told(resume).await;
        assert_eq!((&resumed["paused"], &resumed["changed"]), (&json!(false), &json!(true)));
        assert_eq!(site.post("/v1/queues/nobody/resume", &json!({})).await.0, 404);
        assert_eq!(site.get("/v1/queues/nobody").await.0, 404);
        let (status, problem) = site.post("/v1/queues/mail/pause", &json!({ "wyh": "x" })).await;
        assert_eq!((status, &problem["field"]), (400, &json!("wyh")));
    }
}

/// R-C4: the API tells the contracts of the command line: how things stand, and the numbers of a period.
#[tokio::test]
async fn status_and_metrics_are_the_contracts() {
    let site = Site::sqlite().await;
    site.post("/v1/jobs", &json!({ "kind": "k", "queue": "mail" })).await;
    let (status, told) = site.get("/v1/status").await;
    assert_eq!((status, &told["schema"]), (200, &json!("redrive/status.v1")));
    assert_eq!((&told["queues"][0]["queue"], &told["queues"][0]["ready"]), (&json!("mail"), &json!(1)));
    let (status, told) = site.get("/v1/metrics?since=2h&queue=mail").await;
    assert_eq!(
        (status, &told["schema"], &told["queue"]),
        (200, &json!("redrive/metrics.v1"), &json!("mail"))
    );
    assert_eq!(told["hourly"].as_array().unwrap().len(), 3);
    let (status, problem) = site.get("/v1/metrics?since=soon").await;
    assert_eq!((status, &problem["field"]), (400, &json!("since")));
}
