//! A canary: a secret that is planted wherever secrets come from, and looked for wherever something is told (reliability 62).

use std::sync::Arc;

use redrive::engine::{CommandExecutor, HttpExecutor};
use serde_json::json;

use crate::world::World;

const CANARY: &str = "canary-5f2a9c71e0";

/// Reliability 62: planted in headers, addresses, payloads, error texts, panics, reasons and tokens, it is in no event, no answer, no
/// metric, no problem and no default export.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_sings_nowhere() {
    let world = World::with(|settings| settings.commands = vec!["/bin/sh".into()]).await;
    let post = async |path: &str, body: &serde_json::Value| {
        let request = world.client.post(world.url(path)).json(body);
        let request = request.header("Redrive-Reason", format!("token={CANARY}"));
        let answer = request.header("Authorization", format!("Bearer {CANARY}")).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let mut told = Vec::new();
    let http = json!({ "kind": "http", "queue": "q", "payload": {
        "method": "POST", "url": format!("http://127.0.0.1:9/x?token={CANARY}"),
        "headers": [["Authorization", format!("Bearer {CANARY}")], ["X-Api-Key", CANARY]],
        "body": format!("{{\"password\":\"{CANARY}\"}}"),
    }});
    let exec = json!({ "kind": "exec", "queue": "q", "payload": {
        "argv": ["/bin/sh", "-c", format!("echo password={CANARY} >&2; exit 64")] }});
    let panics = json!({ "kind": "panics", "queue": "q", "payload": { "password": CANARY } });
    for job in [&http, &exec, &panics] {
        let (status, text) = post("/v1/jobs", job).await;
        assert_eq!(status, 201, "{text}");
        told.push(text);
    }
    world
        .engine
        .worker()
        .executor("http", Arc::new(HttpExecutor::new().unwrap()))
        .executor("exec", Arc::new(CommandExecutor::captured().listing(["/bin/sh"])))
        .handle("panics", |payload: serde_json::Value, _cx| async move {
            assert!(payload.is_null(), "{payload}");
            Ok::<(), redrive::Fail>(())
        })
        .run_until_empty()
        .await
        .unwrap();
    assert_eq!(world.engine.get_dead_letter_queue(10).await.unwrap().len(), 3);
    told.push(post("/v1/queues/q/pause", &json!({ "why": format!("password={CANARY}") })).await.1);
    // Requests that are wrong in every way, with the canary where it hurts.
    for path in ["/v1/jobs", "/v1/leases/settle", "/v1/redrives", "/v1/tokens", "/v1/nothing"] {
        told.push(post(path, &json!({ "password": CANARY, "kind": { "token": CANARY } })).await.1);
    }
    let document = redrive_server::Server::openapi();
    let mut looked_at = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() || path.contains("stream") {
            continue;
        }
        let path = path.replace("{id}", "job_2").replace("{queue}", "q");
        let path: String = path
            .split('/')
            .map(|part| if part.starts_with('{') { "1" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let answer = world.client.get(world.url(&path)).send().await.unwrap();
        if let Ok(Ok(text)) = tokio::time::timeout(std::time::Duration::from_secs(3), answer.text()).await {
            looked_at += 1;
            told.push(text);
        }
    }
    assert!(looked_at > 10, "{looked_at}");
    let events = world.engine.query(redrive_store::EventFilter::default(), 1_000).await.unwrap();
    assert!(events.len() > 10);
    told.extend(events.iter().map(|event| serde_json::to_string(event).unwrap()));
    for text in &told {
        let at = text.find(CANARY).unwrap_or_default();
        let near: String = text.chars().skip(at.saturating_sub(200)).take(500).collect();
        assert!(!text.contains(CANARY), "it sings: …{near}…");
    }
}
