//! Who may see payloads and outputs, and who may not: neither is told in another way.

use redrive::engine::Scope;
use serde_json::{Value, json};

use crate::site::{Site, on_each};

/// A letter of the queue `mail` with this kind and payload, whose worker wrote `written-by-its-worker`.
async fn letter(site: &Site, kind: &str, payload: &Value) -> String {
    let job = json!({ "queue": "mail", "kind": kind, "payload": payload });
    let id = site.post_ok("/v1/jobs", &job).await["id"].as_str().unwrap().to_owned();
    let leased = site.post_ok("/v1/queues/mail/lease", &json!({})).await;
    let end = json!({ "lease": leased["items"][0]["lease"], "outcome": "failed", "output": "written-by-its-worker",
        "error": { "type": "E", "message": "no", "retryable": false } });
    site.post_ok("/v1/leases/settle", &json!({ "items": [end] })).await;
    id
}

/// Design.md §6: what an attempt wrote is told to tokens that may read payloads, also in the report of its letter.
#[tokio::test]
async fn the_report_of_a_letter_keeps_outputs_to_who_may_see_payloads() {
    on_each(|site: Site| async move {
        let id = letter(&site, "call", &json!({ "n": 1 })).await;
        let all = site.token(&Scope::ALL, &[]).await;
        let reads = site.token(&[Scope::Read, Scope::Operate], &[]).await;
        for (method, path) in [
            ("GET", format!("/v1/dead-letters/{id}")),
            ("GET", format!("/v1/escalations/{id}")),
            ("POST", format!("/v1/escalations/{id}/ack")),
        ] {
            let body = (method == "POST").then(|| json!({}));
            let (status, whole) = site.ask(&all, method, &path, body.clone()).await;
            assert_eq!(status, 200, "{path}: {whole}");
            assert!(whole.to_string().contains("written-by-its-worker"), "{path}: {whole}");
            let (status, seen) = site.ask(&reads, method, &path, body).await;
            assert_eq!(status, 200, "{path}: {seen}");
            assert!(!seen.to_string().contains("written-by-its-worker"), "{path}: {seen}");
            assert!(seen["report"]["recommended_actions"].is_array(), "the rest of it is told: {seen}");
        }
    })
    .await;
}

/// Design.md §6: the report of a letter from elsewhere is any JSON, and told to who may see payloads.
#[tokio::test]
async fn a_foreign_report_is_told_to_who_may_see_payloads() {
    let site = Site::sqlite().await;
    let id = letter(&site, "call", &json!(1)).await;
    let line = site.text("/v1/dead-letters/export?with_payload=true").await;
    let mut line: Value = serde_json::from_str(line.trim()).unwrap();
    assert!(line.get("report").is_some(), "an export has it: {line}");
    line["report"] = json!({ "stdout": "written-elsewhere" });
    line["event_id"] = json!("EVT-20260101-000000-aaaaaa");
    line["store_id"] = json!("00000000000000bb");
    line["job"]["idempotency_key"] = Value::Null;
    let imported =
        site.post_text("/v1/dead-letters/import", "application/x-ndjson", line.to_string()).await.1;
    assert_eq!(imported["added"], 1, "{imported}");
    let page = site.get_ok("/v1/dead-letters").await;
    let other = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap());
    let other = other.into_iter().find(|other| *other != id).unwrap();
    let reads = site.token(&[Scope::Read], &[]).await;
    let sees = site.token(&[Scope::Read, Scope::ReadPayload], &[]).await;
    let path = format!("/v1/dead-letters/{other}");
    assert!(site.ask(&sees, "GET", &path, None).await.1.to_string().contains("written-elsewhere"));
    assert!(!site.ask(&reads, "GET", &path, None).await.1.to_string().contains("written-elsewhere"));
}

/// Design.md §6, ADR 0055: what is changed in places keeps the rest, and sends it where the editor says, or tells of it by what can be done
/// to it: whoever may not read payloads replaces them as a whole.
#[tokio::test]
async fn who_may_not_see_a_payload_does_not_change_it_in_places() {
    on_each(|site: Site| async move {
        let secret = json!({ "url": "https://example.com/", "method": "POST",
            "headers": { "authorization": "Bearer the-key-of-the-shop" }, "body": "card 4111-1111" });
        let id = letter(&site, "call", &secret).await;
        let mends = site.token(&[Scope::Read, Scope::Operate], &[]).await;
        let sees = site.token(&[Scope::Read, Scope::ReadPayload, Scope::Operate], &[]).await;
        let edit = format!("/v1/dead-letters/{id}/edit");
        for wish in [
            json!({ "merge": { "url": "https://example.org/" }, "redrive": true }),
            json!({ "merge": { "body": "card 4111-1111" } }),
            json!({ "patch": [{ "op": "remove", "path": "/body" }], "dry_run": true }),
            json!({ "patch": [{ "op": "remove", "path": "/nothing" }], "dry_run": true }),
            json!({ "patch": [{ "op": "test", "path": "/body", "value": 1 }], "dry_run": true }),
        ] {
            let (status, problem) = site.ask(&mends, "POST", &edit, Some(wish.clone())).await;
            assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{wish}: {problem}");
            assert!(problem["detail"].as_str().unwrap().contains("read:payload"), "{problem}");
        }
        let merge = json!({ "merge": { "body": "card 4222" } });
        let (status, done) = site.ask(&sees, "POST", &edit, Some(merge)).await;
        assert_eq!((status, &done["payload_version"]), (200, &json!(1)), "{done}");
        let whole = json!({ "payload": { "n": 1 } });
        let (status, done) = site.ask(&mends, "POST", &edit, Some(whole)).await;
        assert_eq!(
            (status, &done["payload_version"], &done["diff"]),
            (200, &json!(2), &Value::Null),
            "{done}"
        );
    })
    .await;
}
