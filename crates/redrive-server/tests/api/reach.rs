//! A token of some queues: what it sees of jobs, events and numbers.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::site::{Site, told};

async fn asked(request: RequestBuilder, token: &str) -> (u16, Value) {
    told(request.header("authorization", format!("Bearer {token}")).send().await.unwrap()).await
}

/// Issue 8, safety: a token of some queues adds, sees and touches what is in them; of the rest it is told that there is no such
/// thing. On both stores.
#[tokio::test]
async fn a_token_of_some_queues_sees_no_others() {
    for site in Site::both().await {
        let (_, other) = site.post("/v1/jobs", &json!({ "kind": "k", "queue": "pay" })).await;
        let other = other["id"].as_str().unwrap();
        let new = json!({ "name": "mail", "scopes": ["read", "produce", "operate"], "queues": ["mail*"] });
        let (status, created) = site.post("/v1/tokens", &new).await;
        assert_eq!(status, 201, "{created}");
        let token = created["token"].as_str().unwrap();
        let get = async |path: &str| asked(site.ask(Method::GET, path), token).await;
        let post =
            async |path: &str, body: Value| asked(site.ask(Method::POST, path).json(&body), token).await;

        let (status, own) = post("/v1/jobs", json!({ "kind": "k", "queue": "mail-eu" })).await;
        assert_eq!(status, 201, "{own}");
        let own = own["id"].as_str().unwrap();
        let (status, problem) =
            post("/v1/jobs", json!({ "jobs": [{"kind": "k", "queue": "mail"}, {"kind": "k"}] })).await;
        assert_eq!((status, &problem["field"]), (403, &json!("jobs[1].queue")), "{problem}");
        for path in ["", "/explain", "/trace"] {
            assert_eq!(get(&format!("/v1/jobs/{own}{path}")).await.0, 200, "{path}");
            assert_eq!(get(&format!("/v1/jobs/{other}{path}")).await.0, 404, "{path}");
        }
        for act in ["cancel", "retry"] {
            assert_eq!(post(&format!("/v1/jobs/{other}/{act}"), json!({})).await.0, 404, "{act}");
        }
        assert_eq!(post("/v1/queues/pay/pause", json!({})).await.0, 403);
        let names = |page: &Value, field: &str| -> Vec<String> {
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item[field].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&get("/v1/queues").await.1, "name"), ["mail-eu"]);
        assert_eq!(names(&get("/v1/jobs").await.1, "id"), [own]);
        let (_, events) = get("/v1/events").await;
        assert_eq!(names(&events, "job_id"), [own], "{events}");
        assert!(site.engine.store().status(site.engine.now()).await.unwrap().events > 1);
        for path in
            ["/v1/status", "/v1/metrics", "/v1/idempotency", "/v1/metrics?queue=pay", "/v1/jobs?queue=pay"]
        {
            assert_eq!(get(path).await.0, 403, "{path}");
        }
        assert_eq!(get("/v1/metrics?queue=mail-eu").await.0, 200);
        let (status, problem) = get(&format!("/v1/jobs/{own}?with_payload=true")).await;
        assert_eq!((status, &problem["field"]), (403, &json!("with_payload")));
        // Once there is a token, nobody comes in without.
        assert_eq!(site.get("/v1/queues").await.0, 401);
    }
}
