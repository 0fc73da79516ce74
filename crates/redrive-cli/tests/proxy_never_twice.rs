//! A service in Python behind the real `redrive proxy`, and clients that lose their nerve (issue 7, "must show"): effects that the service
//! counts are as many as there are keys, whoever is killed meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod proxy_home;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use proxy_home::{Home, PATIENCE, Process, Store, service};
use redrive_policy::Rng;
use reqwest::{Client, StatusCode};
use tokio::time::sleep;

/// How a key ended, as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// 201, run for this very request.
    Created,
    /// 201, from the record.
    Replayed,
    /// Nobody knows.
    Unknown,
}

/// Sends until there is an end to it, with little patience at first: a client that hangs up again and again.
async fn insist(client: &Client, port: &AtomicU16, key: &str, rng: &mut Rng, hang_ups: u32) -> End {
    let began = Instant::now();
    for round in 0_u32.. {
        assert!(began.elapsed() < PATIENCE, "{key} is stuck");
        let url = format!("http://127.0.0.1:{}/save", port.load(Ordering::SeqCst));
        let patience = if round < hang_ups { rng.next_u64() % 60 } else { 10_000 };
        let sent = client
            .post(url)
            .header("idempotency-key", key)
            .body(format!("what {key} says"))
            .timeout(Duration::from_millis(patience + 1))
            .send()
            .await;
        let Ok(answer) = sent else {
            sleep(Duration::from_millis(5)).await;
            continue;
        };
        let status = answer.status();
        let is_replay = answer.headers().contains_key("idempotency-replayed");
        let Ok(body) = answer.text().await else { continue };
        match status {
            StatusCode::CREATED => {
                assert_eq!(body, format!("saved what {key} says\n"));
                return if is_replay { End::Replayed } else { End::Created };
            }
            _ if body.contains("idempotency-unknown-outcome") => return End::Unknown,
            // The first is still running, or the service just cannot be reached, or it was lost: asked again, the key will say.
            StatusCode::CONFLICT | StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => {
                sleep(Duration::from_millis(20)).await;
            }
            _ => panic!("{status} {body}"),
        }
    }
    unreachable!("asked for ever")
}

/// Many clients at once, each with keys of its own; how each key ended.
async fn load(port: &Arc<AtomicU16>, clients: u64, keys: u64, hang_ups: u32) -> BTreeMap<String, End> {
    let running: Vec<_> = (0..clients)
        .map(|who| {
            let port = Arc::clone(port);
            tokio::spawn(async move {
                let client = Client::new();
                let mut rng = Rng::seeded(who);
                let mut ends = Vec::new();
                for n in 0..keys {
                    let key = format!("key-{who}-{n}");
                    ends.push((key.clone(), insist(&client, &port, &key, &mut rng, hang_ups).await));
                }
                ends
            })
        })
        .collect();
    let mut ends = BTreeMap::new();
    for client in running {
        ends.extend(client.await.unwrap());
    }
    ends
}

fn on_each_store(test: impl AsyncFn(Home)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for store in [Store::Sqlite, Store::Postgres] {
        if let Some(home) = Home::on(store) {
            runtime.block_on(test(home));
        }
    }
}

fn upstream(service: &Process) -> String {
    format!("--upstream {}", service.url(""))
}

/// R-I6, must show: clients that hang up at random and send the same keys again: as many effects as keys.
#[test]
fn clients_that_hang_up_cause_one_effect_per_key() {
    on_each_store(async |home| {
        let service = service(&home, 0, 0.05);
        let proxy = home.proxy(&format!("{} --listen 127.0.0.1:0", upstream(&service)));
        let port = Arc::new(AtomicU16::new(proxy.port));
        let ends = load(&port, 8, 12, 4).await;
        assert!(ends.values().all(|end| *end != End::Unknown), "{ends:?}");
        let replayed = ends.values().filter(|end| **end == End::Replayed).count();
        assert!(replayed > 10, "hardly anybody hung up and came back: {replayed}");
        let effects = home.effects();
        assert_eq!(effects.len(), 96);
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    });
}

/// R-I4, must show: the proxy is killed at random under load and started again on the same port and store. Nothing is done twice; no key
/// is stuck: each ends with its answer, or says that nobody knows.
#[test]
fn a_proxy_that_is_killed_does_nothing_twice() {
    on_each_store(async |home| {
        home.configure("[idempotency]\nkey = \"any\"\nhold_for = \"1s\"\n");
        let service = service(&home, 0, 0.03);
        let mut proxy = home.proxy(&format!("{} --listen 127.0.0.1:0", upstream(&service)));
        let words = format!("{} --listen 127.0.0.1:{}", upstream(&service), proxy.port);
        let port = Arc::new(AtomicU16::new(proxy.port));
        let over = Arc::new(AtomicBool::new(false));
        let asking = {
            let (port, over) = (Arc::clone(&port), Arc::clone(&over));
            tokio::spawn(async move {
                let ends = load(&port, 8, 40, 1).await;
                over.store(true, Ordering::SeqCst);
                ends
            })
        };
        let mut rng = Rng::seeded(7);
        let mut kills = 0;
        while !over.load(Ordering::SeqCst) && kills < 8 {
            sleep(Duration::from_millis(100 + rng.next_u64() % 300)).await;
            proxy.kill();
            kills += 1;
            proxy = home.proxy(&words);
        }
        let ends = asking.await.unwrap();
        assert!(kills >= 3, "the load was over too soon to say anything: {kills}");
        assert_eq!(ends.len(), 320);
        let effects = home.effects();
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
        for (key, end) in &ends {
            assert!(*end == End::Unknown || effects.contains_key(key), "{key} was answered and never done");
        }
        let unknown = ends.values().filter(|end| **end == End::Unknown).count();
        assert!(unknown < 320 / 2, "{unknown} of 320 are unknown");
    });
}

/// R-I4, must show: the service is killed between its effect and its answer. Nobody knows, so it is not run again, also not by a
/// service that is back.
#[test]
fn a_service_that_dies_after_its_effect_is_not_asked_again() {
    on_each_store(async |home| {
        let mut dies = service(&home, 0, 0.0);
        let proxy = home.proxy(&format!("{} --listen 127.0.0.1:0", upstream(&dies)));
        let client = Client::new();
        let ask = async || {
            let asked = client.post(proxy.url("/die")).header("idempotency-key", "k").body("x");
            let answer = asked.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        let (status, body) = ask().await;
        assert!(status == 502 && body.contains("problem:upstream-lost"), "{status} {body}");
        dies.ends();
        let (status, body) = ask().await;
        assert!(status == 409 && body.contains("problem:idempotency-unknown-outcome"), "{status} {body}");
        let _back = service(&home, dies.port, 0.0);
        let (status, _) = ask().await;
        assert_eq!((status, home.effects()), (409, BTreeMap::from([("k".to_owned(), 1)])));
        let said = proxy.said();
        assert!(said.contains("warning: unknown outcome: POST /die, key k: "), "{said}");
    });
}

/// R-I6: SIGTERM under load finishes what runs and ends with 0; nothing that was done is forgotten.
#[test]
fn a_drain_loses_nothing() {
    on_each_store(async |home| {
        let service = service(&home, 0, 0.2);
        let mut proxy = home.proxy(&format!("{} --listen 127.0.0.1:0", upstream(&service)));
        let words = format!("{} --listen 127.0.0.1:{}", upstream(&service), proxy.port);
        let port = Arc::new(AtomicU16::new(proxy.port));
        let asking = {
            let port = Arc::clone(&port);
            tokio::spawn(async move { load(&port, 16, 10, 0).await })
        };
        while home.effects().len() < 20 {
            sleep(Duration::from_millis(5)).await;
        }
        proxy.signal("TERM");
        assert_eq!(proxy.ends(), Some(0), "{}", proxy.said());
        assert!(proxy.said().contains("note: no new clients"), "{}", proxy.said());
        // Whatever was let in is done; nobody was left in doubt.
        let proxy = home.proxy(&words);
        let ends = asking.await.unwrap();
        assert!(ends.len() == 160 && ends.values().all(|end| *end != End::Unknown), "{ends:?}");
        assert!(home.effects().len() == 160 && home.effects().values().all(|times| *times == 1));
        assert!(!proxy.said().contains("unknown"), "{}", proxy.said());
    });
}

/// R-I8: a request with a key that comes while the service is away is answered once it is there.
#[test]
fn a_service_that_comes_up_late_is_asked_again() {
    on_each_store(async |home| {
        let mut first = service(&home, 0, 0.0);
        let proxy = home.proxy(&format!("{} --listen 127.0.0.1:0", upstream(&first)));
        first.kill();
        let asked = Client::new().post(proxy.url("/save")).header("idempotency-key", "k").body("x");
        let asking = tokio::spawn(asked.send());
        while !proxy.said().contains("cannot be reached: ") {
            sleep(Duration::from_millis(5)).await;
        }
        let _second = service(&home, first.port, 0.0);
        let answer = asking.await.unwrap().unwrap();
        assert_eq!(
            (answer.status(), home.effects()),
            (StatusCode::CREATED, BTreeMap::from([("k".to_owned(), 1)]))
        );
        while !proxy.said().contains("can be reached again") {
            sleep(Duration::from_millis(5)).await;
        }
    });
}
