//! Tokens of some queues: they see and touch what is in these, and nothing else.

use redrive::engine::{NewToken, Scope};
use redrive::{Cause, fail};
use serde_json::{Value, json};

use crate::site::{Site, on_each, until};

/// Issue 8, safety: a token of some queues sees and touches the letters, groups, redrives, tasks and escalations of these; of
/// others it is told that there is no such thing. What concerns every queue is refused.
#[tokio::test]
async fn a_token_of_some_queues_reaches_no_further() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..3).await;
        site.enqueue("sms", 0..4).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no such column"))).await;
        let everything = site.token(&Scope::ALL, &[]).await;
        let mail = site.token(&[Scope::Read, Scope::Operate, Scope::Produce], &["ma*"]).await;
        let all = site.ask(&everything, "GET", "/v1/dead-letters", None).await.1;
        let of = |queue: &str| {
            let items = all["items"].as_array().unwrap().iter();
            let found = items.filter(|item| item["queue"] == queue).map(|item| item["id"].as_str().unwrap());
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!((of("mail").len(), of("sms").len()), (3, 4));
        let foreign = &of("sms")[0];

        let seen = site.ask(&mail, "GET", "/v1/dead-letters", None).await.1;
        assert_eq!(seen["items"].as_array().unwrap().len(), 3);
        let tricked =
            site.ask(&mail, "GET", "/v1/dead-letters?where=queue%3Dmail%20or%20queue%3Dsms", None).await.1;
        assert_eq!(tricked["items"].as_array().unwrap().len(), 3, "whatever its own filter says");
        assert_eq!(site.ask(&mail, "GET", "/v1/dead-letters?queue=sms", None).await.1["items"], json!([]));
        let lines = site.export(&mail).await;
        assert_eq!(lines.lines().count(), 3);
        for (method, path, body) in [
            ("GET", format!("/v1/dead-letters/{foreign}"), None),
            ("POST", format!("/v1/dead-letters/{foreign}/edit"), Some(json!({ "payload": 1 }))),
            ("POST", format!("/v1/dead-letters/{foreign}/discard"), Some(json!({}))),
            ("POST", "/v1/redrives".to_owned(), Some(json!({ "ids": [foreign] }))),
            ("GET", format!("/v1/escalations/{foreign}"), None),
            ("POST", format!("/v1/escalations/{foreign}/ack"), Some(json!({}))),
        ] {
            let (status, problem) = site.ask(&mail, method, &path, body).await;
            assert_eq!((status, &problem["code"]), (404, &json!("not-found")), "{method} {path}: {problem}");
        }
        let escalations = site.ask(&mail, "GET", "/v1/escalations?all=true", None).await.1;
        assert_eq!(escalations["items"].as_array().unwrap().len(), 3);
        for (method, path, body) in [
            ("GET", "/v1/dead-letters?with_payload=true", None),
            ("POST", "/v1/dead-letters/import", Some(json!({}))),
            ("POST", "/v1/redrives", Some(json!({ "all": true }))),
            ("POST", "/v1/policies/simulate", Some(json!({}))),
            (
                "POST",
                "/v1/tasks",
                Some(json!({ "plan": { "name": "x", "subtasks": [{ "handler": "call" }] } })),
            ),
        ] {
            let (status, problem) = site.ask(&mail, method, path, body).await;
            assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{method} {path}: {problem}");
        }

        // One group, with letters in both: it is seen as far as it lies within reach, and not spoken of.
        let group = site.ask(&mail, "GET", "/v1/groups", None).await.1["items"][0].clone();
        assert_eq!(group["count"], 3);
        let state = format!("/v1/groups/{}/state", group["fingerprint"].as_str().unwrap());
        let say = Some(json!({ "state": "resolved" }));
        assert_eq!(site.ask(&mail, "POST", &state, say).await.0, 403);

        let others = site
            .ask(&everything, "POST", "/v1/redrives", Some(json!({ "ids": [foreign], "rate": "1/h" })))
            .await
            .1;
        let others = format!("/v1/redrives/{}", others["id"].as_str().unwrap());
        assert_eq!(site.ask(&mail, "GET", &others, None).await.0, 404);
        assert_eq!(site.ask(&mail, "POST", &format!("{others}/cancel"), Some(json!({}))).await.0, 404);
        assert_eq!(site.ask(&everything, "POST", &format!("{others}/cancel"), Some(json!({}))).await.0, 200);
        let wish = json!({ "where": "error~\"column\" or queue=sms" });
        let own = site.ask(&mail, "POST", "/v1/redrives", Some(wish)).await.1;
        assert_eq!(own["total"], 3, "{own}");
        let path = format!("/v1/redrives/{}", own["id"].as_str().unwrap());
        let (ends, running) = site.working(|_| Ok(()));
        until("its own letters are back", || async {
            site.ask(&mail, "GET", &path, None).await.1["state"] == "done"
        })
        .await;
        ends.signal();
        running.await.unwrap();
        let left = site.ask(&everything, "GET", "/v1/dead-letters?limit=200", None).await.1;
        let queues: Vec<&Value> =
            left["items"].as_array().unwrap().iter().map(|item| &item["queue"]).collect();
        assert_eq!(queues, [&json!("sms"); 4], "not one of another queue was touched");
        let runs = site.ask(&mail, "GET", "/v1/redrives", None).await.1;
        assert_eq!(runs["items"].as_array().unwrap().len(), 1);
        let gone = Some(json!({ "where": "attempts>0", "expected": 0 }));
        assert_eq!(site.ask(&mail, "POST", "/v1/dead-letters/discard", gone).await.1["discarded"], 0);
        assert_eq!(site.ask(&mail, "GET", "/v1/groups", None).await.1["items"], json!([]));
    })
    .await;
}

impl Site {
    pub(crate) async fn token(&self, scopes: &[Scope], queues: &[&str]) -> String {
        let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
        let new = NewToken { name: "t".to_owned(), scopes: scopes.to_vec(), queues, expires_at: None };
        self.engine.create_token(new, "cli:test", None).await.unwrap().1.reveal().to_owned()
    }
}
