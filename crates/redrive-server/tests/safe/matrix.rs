//! Every route by every scope (reliability 67). The routes come from the description of the API, which is made from the same table
//! as the router: a route that is not asked here cannot exist.

use redrive::engine::{NewToken, Scope};
use redrive_server::Server;
use serde_json::{Value, json};
use std::time::Duration;

use crate::world::World;

struct Route {
    method: reqwest::Method,
    path: String,
    in_queue: bool,
    scope: Option<String>,
    takes_body: bool,
}

fn routes() -> Vec<Route> {
    let document = Server::openapi();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<reqwest::Method>() else { continue };
            if !operation.is_object() || operation.get("operationId").is_none() {
                continue;
            }
            let scope = operation["security"][0]["token"][0].as_str().map(str::to_owned);
            let filled = path.replace("{queue}", "mail").replace("{id}", "job_1");
            let filled: String = filled
                .split('/')
                .map(|part| if part.starts_with('{') { "x" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            let in_queue = path.contains("/queues/{");
            let filled = if in_queue { filled.replace("/queues/x", "/queues/mail") } else { filled };
            routes.push(Route {
                method,
                path: filled,
                in_queue,
                scope,
                takes_body: operation.get("requestBody").is_some(),
            });
        }
    }
    routes
}

async fn ask(world: &World, route: &Route, token: Option<&str>) -> (u16, Value) {
    let mut request = world.client.request(route.method.clone(), world.url(&route.path));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if route.takes_body {
        request = request.json(&json!({}));
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    // A stream of events does not end.
    let text = tokio::time::timeout(Duration::from_secs(2), answer.text()).await;
    let told = text.ok().and_then(Result::ok).and_then(|text| serde_json::from_str(&text).ok());
    (status, told.unwrap_or_default())
}

/// Reliability 67: a route lets in who has its scope, and nobody else: no token, a bad one, an expired, a revoked one, every other
/// scope, and a token of another queue.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_by_every_scope() {
    let world = World::new().await;
    let routes = routes();
    assert!(routes.len() > 20, "{}", routes.len());
    let mut tokens = Vec::new();
    for scope in Scope::ALL {
        tokens.push((scope.name(), world.token(&[scope], &[]).await.1));
    }
    let (revoked, gone) = world.token(&Scope::ALL, &[]).await;
    world.engine.revoke_token(&revoked, "cli:test", None).await.unwrap();
    let expires_at = Some(world.engine.now().after(Duration::from_millis(1)));
    let new = NewToken { name: "short".into(), scopes: Scope::ALL.to_vec(), queues: Vec::new(), expires_at };
    let (_, expired) = world.engine.create_token(new, "cli:test", None).await.unwrap();
    let (_, elsewhere) = world.token(&Scope::ALL, &["other-*"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut open = Vec::new();
    for route in &routes {
        let name = format!("{} {}", route.method, route.path);
        let Some(need) = &route.scope else {
            assert!(matches!(ask(&world, route, None).await.0, 200 | 503), "{name}");
            open.push(route.path.clone());
            continue;
        };
        assert_eq!(ask(&world, route, None).await.0, 401, "{name} without a token");
        let bad = format!("rdv_{revoked}_{}", "A".repeat(43));
        for (what, token) in
            [("bad", bad.as_str()), ("revoked", gone.as_str()), ("expired", expired.reveal())]
        {
            let (status, told) = ask(&world, route, Some(token)).await;
            assert!(matches!(status, 401 | 429), "{name} with a token that is {what}: {status} {told}");
        }
        for (scope, token) in &tokens {
            let (status, told) = ask(&world, route, Some(token)).await;
            if scope == need {
                // What it is answered is its own affair; it got there. Only some queues or jobs may still be refused.
                assert!(
                    !matches!(status, 401 | 403 | 429),
                    "{name} needs {need} and has it: {status} {told}"
                );
                assert!(status < 500 || told["code"] == "unavailable", "{name}: {status} {told}");
            } else {
                assert_eq!(
                    (status, told["code"].as_str()),
                    (403, Some("forbidden")),
                    "{name} by {scope}: {told}"
                );
            }
        }
        if route.in_queue {
            let (status, told) = ask(&world, route, Some(&elsewhere)).await;
            assert!(matches!(status, 403 | 404), "{name} of another queue: {status} {told}");
        }
    }
    open.sort();
    assert_eq!(open, ["/livez", "/readyz"], "these need no token, and no others");
    // What there is not is not told to strangers either.
    let nowhere = world.client.get(world.url("/v1/nothing")).send().await.unwrap();
    assert_eq!(nowhere.status(), 401);
}
