//! Escalations: what waits for a person.

use redrive::{Cause, fail};
use serde_json::json;

use crate::site::{Site, on_each};

/// R-T7, R-T8: what waits for a person is listed by pages in the reader's language, and no longer once somebody has seen it.
#[tokio::test]
async fn an_escalation_waits_until_somebody_has_seen_it() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..5).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no such column"))).await;
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = site.get_ok(&format!("/v1/escalations?limit=2{cursor}")).await;
            seen.extend(
                page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
            );
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen.len(), 5);
        let path = format!("/v1/escalations/{}", seen[0]);
        let one = site.get_ok(&path).await;
        assert_eq!((&one["level"], &one["reason_type"]), (&json!(5), &json!("FATAL_ERROR")));
        assert!(one["report"]["failure_summary"]["total_attempts"].is_u64());
        let acknowledged = site.post_ok(&format!("{path}/ack"), &json!({ "note": "I am on it" })).await;
        assert_eq!(acknowledged["note"], "I am on it");
        assert_eq!(site.get_ok("/v1/escalations").await["items"].as_array().unwrap().len(), 4);
        assert_eq!(site.get_ok("/v1/escalations?all=true").await["items"].as_array().unwrap().len(), 5);
        assert_eq!(site.get("/v1/escalations/job_999").await.0, 404);
        assert_eq!(site.post("/v1/escalations/task-9/ack", &json!({})).await.0, 404);
    })
    .await;
}
