//! Redrives: previews, canaries that stop by themselves, ends by hand.

use redrive::{Cause, fail};
use serde_json::json;

use crate::site::{Site, on_each, until};

/// R-D9: a canary over HTTP that meets the old failure again stops by itself, and what was not touched stays dead.
#[tokio::test]
async fn a_canary_stops_by_itself_on_a_handler_that_fails() {
    on_each(|site: Site| async move {
        let dies = |_: &serde_json::Value| Err(fail(Cause::ValidationError, "still broken"));
        site.enqueue("mail", 0..40).await;
        site.work(dies).await;
        let wish = json!({ "where": "queue=mail", "canary": true, "reason": "is it mended?" });
        let preview = {
            let mut dry = wish.clone();
            dry["dry_run"] = json!(true);
            site.post_ok("/v1/redrives", &dry).await
        };
        assert_eq!(
            (&preview["matching"], &preview["count"], &preview["canary"]),
            (&json!(40), &json!(40), &json!(true))
        );
        assert_eq!(preview["nobody_takes"], json!([{ "queue": "mail", "kind": "call" }]));
        assert!(
            site.get_ok("/v1/redrives").await["items"].as_array().unwrap().is_empty(),
            "a preview begins nothing"
        );
        let (status, begun) = site.post("/v1/redrives", &wish).await;
        assert_eq!((status, &begun["state"]), (201, &json!("running")), "{begun}");
        let run = format!("/v1/redrives/{}", begun["id"].as_str().unwrap());
        let (ends, running) = site.working(dies);
        until("the canary has stopped", || async { site.get_ok(&run).await["state"] == "stopped" }).await;
        ends.signal();
        running.await.unwrap();
        let over = site.get_ok(&run).await;
        assert_eq!(over["why"]["kind"], "failures", "{over}");
        assert_eq!(
            (&over["moved"], &over["total"], &over["canary"]["failed"]),
            (&json!(1), &json!(40), &json!(1))
        );
        let left = site.get_ok("/v1/dead-letters?where=redrives%3D0&limit=200").await;
        assert_eq!(left["items"].as_array().unwrap().len(), 39, "what was not touched stays dead");
        let acts = site.acts().await;
        assert_eq!((&acts[0]["act"], &acts[0]["why"]), (&json!("redrive.begin"), &json!("is it mended?")));
        assert_eq!(site.post(&format!("{run}/cancel"), &json!({})).await.0, 409, "it is over already");
    })
    .await;
}

/// R-D8: a redrive by its rate goes on until somebody ends it; then the rest stays dead.
#[tokio::test]
async fn a_slow_redrive_is_ended_by_hand() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..20).await;
        site.work(|_| Err(fail(Cause::Network, "refused"))).await;
        let begun = site.post_ok("/v1/redrives", &json!({ "all": true, "rate": "1/m" })).await;
        let run = format!("/v1/redrives/{}", begun["id"].as_str().unwrap());
        let (ends, running) = site.working(|_| Ok(()));
        until("one is back", || async { site.get_ok(&run).await["moved"] == 1 }).await;
        let over = site.post_ok(&format!("{run}/cancel"), &json!({ "why": "lunch" })).await;
        assert_eq!(
            (&over["state"], &over["why"]),
            (&json!("cancelled"), &json!({ "kind": "cancelled", "said": "lunch" }))
        );
        ends.signal();
        running.await.unwrap();
        let left = site.get_ok("/v1/dead-letters?limit=200").await;
        assert_eq!(left["items"].as_array().unwrap().len(), 19);
        assert_eq!(site.get_ok("/v1/redrives?open=true").await["items"], json!([]));
        assert_eq!(site.get_ok("/v1/redrives").await["items"].as_array().unwrap().len(), 1);
    })
    .await;
}

/// R-D8: a redrive says which letters, exactly once, and they must be there.
#[tokio::test]
async fn a_redrive_that_says_too_little_or_too_much_is_refused() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..2).await;
    site.work(|_| Err(fail(Cause::Network, "refused"))).await;
    for (wish, status) in [
        (json!({}), 400),
        (json!({ "all": true, "where": "queue=mail" }), 400),
        (json!({ "all": true, "rate": "fast" }), 400),
        (json!({ "all": true, "limit": 0 }), 400),
        (json!({ "all": true, "max_failure_rate": 0.5 }), 400),
        (json!({ "all": true, "canary": true, "max_failure_rate": 1.5 }), 400),
        (json!({ "ids": ["job_999"] }), 404),
        (json!({ "ids": ["nonsense"] }), 404),
        (json!({ "group": "ffffff" }), 404),
        (json!({ "where": "queue=nobody" }), 404),
    ] {
        let (told, problem) = site.post("/v1/redrives", &wish).await;
        assert_eq!(told, status, "{wish}: {problem}");
    }
    assert_eq!(site.get("/v1/redrives/redrive_999").await.0, 404);
    assert!(site.get_ok("/v1/redrives").await["items"].as_array().unwrap().is_empty());
}
