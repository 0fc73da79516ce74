//! What two tenants of one server call alike stays apart: the keys that travel with their work, and the keys of their targets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::Guard;
use redrive::engine::{HttpExecutor, Scope, TargetLimits};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::world::{Ground, Kind, World};

/// A service that refuses the first calls with 503, and keeps the keys that it was shown.
async fn service(refuses: usize) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charge", listener.local_addr().unwrap());
    let keys: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&keys);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 8_192];
            let n = stream.read(&mut bytes).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let key = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("idempotency-key").then(|| value.trim().to_owned())
            });
            let seen = {
                let mut kept = kept.lock().unwrap();
                kept.push(key.unwrap_or_default());
                kept.len()
            };
            let status = if seen <= refuses { "503 Busy" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, keys)
}

async fn post(world: &World, token: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
    let mut request = world.client.post(world.url("/v1/jobs")).bearer_auth(token).json(body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn job(world: &World, token: &str, id: &Value) -> Value {
    let at = world.url(&format!("/v1/jobs/{}", id.as_str().unwrap()));
    world.client.get(at).bearer_auth(token).send().await.unwrap().json().await.unwrap()
}

/// R-I8: the key of a request travels to the job, over its retries and its redrive, to the call outside; and two who send the same
/// key are two to whoever they call. A key that a body names stays as it is written. On both stores.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_travels_and_is_its_senders_own() {
    for kind in Kind::all() {
        let ground = Ground::new(kind).await;
        let world = World::on(&ground, |_| ()).await;
        let scopes = [Scope::Produce, Scope::Read];
        let (one, other) = (world.token(&scopes, &["a"]).await.1, world.token(&scopes, &["b"]).await.1);
        // Three refusals set the first job aside, one more meets it after its redrive.
        let (url, keys) = service(4).await;
        let overrides = json!({ "max_retries": 2, "backoff": { "initial_delay_ms": 1, "max_delay_ms": 2 } });
        let body = |queue: &str| json!({ "queue": queue, "kind": "http", "payload": { "method": "POST", "url": url }, "overrides": overrides });
        let (status, first) = post(&world, &one, Some("1"), &body("a")).await;
        assert_eq!(status, 201, "{first}");
        let again = post(&world, &one, Some("1"), &body("a")).await;
        assert_eq!(again, (201, first.clone()), "sent again it is one job");
        let config =
            format!("[server]\nallow = [\"{}\"]\n", &url["http://".len()..url.len() - "/charge".len()]);
        let config =
            redrive_policy::Config::parse(&config, redrive_policy::Format::Toml, "redrive.toml").unwrap();
        let work = async || {
            let executor = HttpExecutor::guarded_by(Guard::of(&config.server)).unwrap();
            let worker = world.engine.worker().wait(Duration::from_millis(20));
            worker.executor("http", Arc::new(executor)).run_until_empty().await.unwrap();
        };
        work().await;
        assert_eq!(keys.lock().unwrap().len(), 3, "{kind:?}");
        world.engine.redrive(vec![first["id"].as_str().unwrap().parse().unwrap()]).await.unwrap();
        work().await;
        let (_, second) = post(&world, &other, Some("1"), &body("b")).await;
        work().await;
        let keys = keys.lock().unwrap().clone();
        assert_eq!(keys.len(), 6, "{kind:?}: {keys:?}");
        assert!(keys[..5].iter().all(|key| *key == keys[0] && key.len() == 36), "{kind:?}: {keys:?}");
        assert_ne!(keys[5], keys[0], "{kind:?}: another sender");
        assert_ne!(first["id"], second["id"]);
        let mut named = body("a");
        named["idempotency_key"] = json!("mine");
        named["run_at"] = json!("2199-01-01T00:00:00Z");
        let (_, added) = post(&world, &one, Some("2"), &named).await;
        assert_eq!(job(&world, &one, &added["id"]).await["idempotency_key"], "mine", "{kind:?}");
    }
}

/// R-P15, Security: who is limited to queues names keys of its own queue: it takes no place and no turn from others who call their key
/// the same, and is held to what is set for that key all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_target_is_its_queues_own() {
    for kind in Kind::all() {
        let ground = Ground::new(kind).await;
        let world = World::on(&ground, |_| ()).await;
        let limits = TargetLimits { concurrency: Some(1), ..TargetLimits::default() };
        world.engine.limit_target("key:tenant-7", limits).await.unwrap();
        let all = [Scope::Produce, Scope::Work, Scope::Read];
        let (mine, theirs) = (world.token(&all, &["mine"]).await.1, world.token(&all, &[]).await.1);
        let lease = async |token: &str, queue: &str| {
            let at = world.url(&format!("/v1/queues/{queue}/lease"));
            let asked =
                world.client.post(at).bearer_auth(token).json(&json!({ "max": 10, "lease_ms": 600_000 }));
            let told: Value = asked.send().await.unwrap().json().await.unwrap();
            told["items"].as_array().unwrap().len()
        };
        for _ in 0..2 {
            let body = |queue: &str| json!({ "queue": queue, "kind": "k", "target": "tenant-7" });
            let (_, added) = post(&world, &mine, None, &body("mine")).await;
            assert_eq!(job(&world, &mine, &added["id"]).await["target"], "mine/tenant-7", "{kind:?}");
            let (_, added) = post(&world, &theirs, None, &body("victim")).await;
            assert_eq!(job(&world, &theirs, &added["id"]).await["target"], "tenant-7", "{kind:?}");
        }
        assert_eq!(lease(&mine, "mine").await, 1, "{kind:?}: the limit of the key holds for it, too");
        assert_eq!(lease(&theirs, "victim").await, 1, "{kind:?}: and it took nobody's place");
        let seen = world.client.get(world.url("/v1/targets")).bearer_auth(&mine).send().await.unwrap();
        let seen: Value = seen.json().await.unwrap();
        let names: Vec<&str> =
            seen["items"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["key:mine/tenant-7"], "{kind:?}: it sees its own");
    }
}
