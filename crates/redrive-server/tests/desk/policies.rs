//! Policies: what they say, what they decide, and what failures are.

use redrive::{Cause, fail};
use serde_json::json;

use crate::site::Site;

/// R-P9, R-P10: policies are listed, shown with every cause, and asked about a failure.
#[tokio::test]
async fn policies_are_shown_and_asked() {
    let site = Site::sqlite().await;
    let all = site.get_ok("/v1/policies").await;
    let names: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"standard") && names.contains(&"collector"), "{names:?}");
    let whole = site.get_ok("/v1/policies/api").await;
    assert_eq!(whole["causes"].as_array().unwrap().len(), Cause::ALL.len());
    assert_eq!(site.get("/v1/policies/nobody").await.0, 404);
    let asked = json!({ "policy": "api", "http_status": 429, "retry_after": "7", "retry_count": 1 });
    let decision = site.post_ok("/v1/policies/explain", &asked).await;
    assert_eq!(
        (&decision["decision"], &decision["delay_ms"]),
        (&json!("RETRY"), &json!(7_000)),
        "{decision}"
    );
    let asked = json!({ "cause": "auth_error" });
    assert_eq!(site.post_ok("/v1/policies/explain", &asked).await["decision"], "ESCALATE");
    assert_eq!(site.post("/v1/policies/explain", &json!({})).await.0, 400);
    let (status, problem) =
        site.post("/v1/policies/explain", &json!({ "cause": "network", "policy": "standart" })).await;
    assert_eq!((status, &problem["code"]), (400, &json!("unknown-policy")));
    let fibonacci = json!({ "backoff": { "type": "fibonacci", "initial_delay_ms": 1000, "jitter": 0 } });
    let delays = site.post_ok("/v1/policies/delays", &json!({ "overrides": fibonacci, "count": 5 })).await;
    assert_eq!(delays["delays_ms"], json!([1000, 1000, 2000, 3000, 5000]));
    assert_eq!(site.post("/v1/policies/delays", &json!({ "overrides": { "max_retrys": 1 } })).await.0, 400);
}

/// R-P7: a configuration that would not load is told with line and path; one that would, with what it defines.
#[tokio::test]
async fn a_configuration_is_checked_without_being_loaded() {
    let site = Site::sqlite().await;
    let bad =
        "[policies.mine]\nmax_retries = -1\n\n[[auto_redrive]]\nname = \"r\"\nwhere = \"cause=network\"\n";
    let checked = site.post_ok("/v1/policies/check", &json!({ "text": bad })).await;
    assert_eq!(checked["ok"], false);
    let problem = &checked["problems"][0];
    assert_eq!(
        (&problem["path"], &problem["line"]),
        (&json!("policies.mine.max_retries"), &json!(2)),
        "{checked}"
    );
    let odd = json!({ "auto_redrive": [{ "name": "r", "where": "cuase=network" }] });
    let checked = site.post_ok("/v1/policies/check", &json!({ "config": odd })).await;
    assert_eq!(checked["problems"][0]["path"], "auto_redrive[0].where", "{checked}");
    let good = json!({ "policies": { "mine": { "max_retries": 2 } } });
    let checked = site.post_ok("/v1/policies/check", &json!({ "config": good })).await;
    assert_eq!((&checked["ok"], &checked["policies"]), (&json!(true), &json!(["mine"])));
    assert_eq!(site.get("/v1/policies/mine").await.0, 404, "it was not loaded");
    assert_eq!(site.post("/v1/policies/check", &json!({})).await.0, 400);
}

/// R-P3: failures are classified in a batch, line for line as the command line does.
#[tokio::test]
async fn failures_are_classified_in_a_batch() {
    let site = Site::sqlite().await;
    let items = json!([
        { "http_status": 503 }, { "text": "connection refused", "code": null }, { "exit_code": 127 },
        { "text": "Invalid API key" }, {},
    ]);
    let found = site.post_ok("/v1/classify", &json!({ "items": items })).await;
    let causes: Vec<&str> =
        found["items"].as_array().unwrap().iter().map(|one| one["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["api_error", "network", "configuration", "auth_error", "unknown"]);
    let many: Vec<_> = (0..1_001).map(|_| json!({})).collect();
    assert_eq!(site.post("/v1/classify", &json!({ "items": many })).await.0, 400);
}

/// R-P9: a period is replayed under other policies, within bounds.
#[tokio::test]
async fn a_period_is_replayed() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..5).await;
    site.work(|_| Err(fail(Cause::Network, "refused"))).await;
    let told = site.post_ok("/v1/policies/simulate", &json!({ "policies": ["standard", "api"] })).await;
    assert_eq!((&told["recorded"]["jobs"], &told["recorded"]["lost"]), (&json!(5), &json!(5)), "{told}");
    assert_eq!(told["simulated"].as_array().unwrap().len(), 2);
    for bad in [
        json!({ "since": "30d" }),
        json!({ "since": "soon" }),
        json!({ "policies": ["nobody"] }),
        json!({ "limit": 0 }),
    ] {
        let (status, problem) = site.post("/v1/policies/simulate", &bad).await;
        assert_eq!(status, 400, "{bad}: {problem}");
    }
}

/// Issue 8, limits: a configuration that would keep a core busy for long is refused, and of many problems the first are told.
#[tokio::test]
async fn a_long_configuration_is_refused() {
    let site = Site::sqlite().await;
    let (status, problem) =
        site.post("/v1/policies/check", &json!({ "text": "a = 1\n".repeat(50_000) })).await;
    assert_eq!((status, &problem["field"]), (413, &json!("text")), "{problem}");
    let lines: Vec<String> = (0..5_000).map(|n| format!("nonsense{n} = {n}\n")).collect();
    let text = lines.concat();
    let checked = site.post_ok("/v1/policies/check", &json!({ "text": text })).await;
    assert_eq!(checked["problems"].as_array().unwrap().len(), 100);
}
