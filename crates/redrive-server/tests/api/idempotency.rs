//! Keys as an operator sees them.

use reqwest::Method;
use serde_json::json;

use crate::site::{Site, told};

/// R-I2, R-I4: keys are listed page by page, looked at, and forgotten by somebody who says why; on both stores.
#[tokio::test]
async fn keys_are_listed_shown_and_reset() {
    for site in Site::both().await {
        for key in ["a", "b", "c"] {
            let request = site.ask(Method::POST, "/v1/jobs").header("idempotency-key", key);
            let (status, _) = told(request.json(&json!({ "kind": "k" })).send().await.unwrap()).await;
            assert_eq!(status, 201);
        }
        let (_, page) = site.get("/v1/idempotency?limit=2&state=completed").await;
        assert_eq!(page["items"].as_array().unwrap().len(), 2, "{page}");
        assert_eq!(page["items"][0]["key"], "c");
        assert_eq!(page["items"][0]["principal"], "api:local");
        let next = page["next"].as_str().unwrap();
        let (_, page) = site.get(&format!("/v1/idempotency?limit=2&cursor={next}")).await;
        assert_eq!((page["items"].as_array().unwrap().len(), page.get("next")), (1, None));

        let id = page["items"][0]["id"].as_str().unwrap().to_owned();
        let (status, shown) = site.get(&format!("/v1/idempotency/{id}?with_body=true")).await;
        assert_eq!((status, &shown["response_status"]), (200, &json!(201)));
        assert!(shown["response_body"].as_str().unwrap().contains("job_"), "{shown}");
        let (_, shown) = site.get(&format!("/v1/idempotency/{id}")).await;
        assert_eq!(shown.get("response_body"), None);

        let reset = format!("/v1/idempotency/{id}/reset");
        let (status, problem) = site.post(&reset, &json!({ "state": "unknown_outcome" })).await;
        assert_eq!((status, &problem["code"]), (409, &json!("conflict")));
        let (status, gone) = site.post(&reset, &json!({ "why": "a test" })).await;
        assert_eq!((status, &gone["key"]), (200, &json!("a")));
        let (status, _) = site.get(&format!("/v1/idempotency/{id}")).await;
        assert_eq!(status, 404);
        let (_, acts) = site.get("/v1/events?type=operator_act").await;
        assert_eq!(acts["items"][0]["data"]["act"], "key.reset");
        assert_eq!(acts["items"][0]["data"]["why"], "a test");
        for bad in [
            "/v1/idempotency/x",
            "/v1/idempotency?state=x",
            "/v1/idempotency?limit=0",
            "/v1/idempotency?cursor=x",
        ] {
            assert_eq!(site.get(bad).await.0, 400, "{bad}");
        }
    }
}
