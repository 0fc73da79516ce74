//! Lease, extend and settle over HTTP.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_store::{JobState, NewJob};
use serde_json::{Value, json};

use crate::site::{Kind, Site, until};

fn is(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// R-D2: what is handed out is a job with everything that its worker needs; it is ended once, and the second time is stale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_leased_and_settled_once() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let job = site.job(7).caller_id("order-7").enqueue().await.unwrap();
        let items = site.lease(json!({ "max": 10, "lease_ms": 20_000, "kinds": ["greet"] })).await;
        let item = &items[0];
        assert_eq!(items.len(), 1, "{kind:?}");
        assert_eq!(item["id"], json!(job.id.to_string()));
        assert_eq!(item["payload"], json!({ "number": 7 }));
        assert_eq!((&item["attempt"], &item["retries"], &item["fence"]), (&json!(1), &json!(0), &json!(1)));
        assert_eq!(
            (is(item, "/caller_id"), is(item, "/queue"), is(item, "/kind")),
            ("order-7".to_owned(), "q".to_owned(), "greet".to_owned())
        );
        let key = job.id.idempotency_key(site.engine.store().store_id());
        assert_eq!(is(item, "/idempotency_key"), key);
        assert!(site.lease(json!({ "max": 10 })).await.is_empty(), "nobody else gets it");
        // What does not go with the outcome is refused, and changes nothing.
        for (outcome, field, value) in [
            ("succeeded", "delay_ms", json!(5)),
            ("succeeded", "error", json!({})),
            ("failed", "delay_ms", json!(5)),
        ] {
            let mut odd = json!({ "lease": item["lease"], "outcome": outcome });
            odd[field] = value;
            let refused = &site.settle(json!([odd])).await[0];
            assert_eq!(
                (is(refused, "/status"), is(refused, "/problem/field")),
                ("refused".to_owned(), field.to_owned())
            );
        }
        let end = json!([{ "lease": item["lease"], "outcome": "succeeded", "output": {"ok": true} }]);
        let settled = site.settle(end.clone()).await;
        assert_eq!(
            (is(&settled[0], "/status"), is(&settled[0], "/decision/decision")),
            ("settled".to_owned(), "succeeded".to_owned())
        );
        assert_eq!(is(&site.settle(end).await[0], "/status"), "stale");
        assert_eq!(site.stands(&job.id.to_string()).await.1, "Ended");
    }
}

/// Issue 8, limits: a payload that came in as bytes is told as JSON only where every reader takes it: one that nests without end, or holds
/// half a character, does not take the jobs beside it along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_ends_its_readers_is_told_as_bytes() {
    let site = Site::new(Kind::Sqlite).await;
    let deep = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
    for (payload, is_json) in
        [(deep.as_str(), false), (r#"{"a":"\ud800"}"#, false), (r#"{"a":[1.00]}"#, true)]
    {
        let encoded = STANDARD.encode(payload);
        let (status, added) =
            site.post("/v1/jobs", &json!({ "queue": "q", "kind": "greet", "payload_base64": encoded })).await;
        assert_eq!(status, 201, "{added}");
        let leased = site.lease(json!({})).await.remove(0);
        let (_, told) = site.get(&format!("/v1/jobs/{}?with_payload=true", is(&added, "/id"))).await;
        for told in [leased, told] {
            if is_json {
                assert_eq!((&told["payload"], told.get("payload_base64")), (&json!({ "a": [1.0] }), None));
            } else {
                assert_eq!((told.get("payload"), is(&told, "/payload_base64")), (None, encoded.clone()));
            }
        }
    }
}

/// R-P3, R-D3: a failure is classified and decided on as in process: retries with a time, then a letter; items that are no good are
/// answered for themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_decides_and_a_bad_item_fails_alone() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let job = site.job(1).enqueue().await.unwrap();
        let error = json!({ "type": "TimeoutError", "message": "read timed out", "http_status": 503,
            "stack": "at main\npassword=hunter2" });
        for attempt in 1..=3 {
            let items = site.lease(json!({ "wait_ms": 5_000 })).await;
            assert_eq!(items[0]["attempt"], json!(attempt), "{kind:?}");
            let settled = site
                .settle(json!([
                    { "lease": "nonsense", "outcome": "succeeded" },
                    { "lease": items[0]["lease"], "outcome": "failed", "error": error },
                    { "lease": items[0]["lease"], "outcome": "no such thing" },
                    17,
                ]))
                .await;
            let told: Vec<String> = settled.iter().map(|item| is(item, "/status")).collect();
            assert_eq!(told, ["refused", "settled", "refused", "refused"], "{settled:?}");
            assert_eq!(is(&settled[0], "/problem/code"), "lease-unknown");
            let decision = &settled[1]["decision"];
            let expected = if attempt < 3 { "retry" } else { "dead" };
            assert_eq!(is(decision, "/decision"), expected, "{decision}");
            assert_eq!(decision["run_at"].is_string(), attempt < 3);
        }
        let record = site.engine.store().job(job.id).await.unwrap().unwrap();
        let JobState::Dead(letter) = record.state else { panic!("{:?}", record.state) };
        let told = format!("{letter:?}");
        assert!(told.contains("read timed out") && !told.contains("hunter2"), "{told}");
    }
}

/// R-P3: the type of an error is evidence as well, and in most languages the better part of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_type_of_an_error_is_classified() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        site.job(1).enqueue().await.unwrap();
        let items = site.lease(json!({ "wait_ms": 5_000 })).await;
        let error = json!({ "type": "ConnectionResetError", "message": "no answer from smtp" });
        let end = json!([{ "lease": items[0]["lease"], "outcome": "failed", "error": error }]);
        let settled = site.settle(end).await;
        assert_eq!(is(&settled[0], "/decision/decision"), "retry", "{kind:?} {settled:?}");
    }
}

/// R-D3: every way of ending an attempt does what it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_outcome_does_what_it_says() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let mut ids = Vec::new();
        for number in 0..4 {
            ids.push(site.job(number).enqueue().await.unwrap().id.to_string());
        }
        let items = site.lease(json!({ "max": 4 })).await;
        let ends: Vec<Value> = items
            .iter()
            .map(|item| match item["payload"]["number"].as_u64().unwrap() {
                0 => json!({ "lease": item["lease"], "outcome": "snoozed", "delay_ms": 3_600_000 }),
                1 => json!({ "lease": item["lease"], "outcome": "cancelled", "reason": "not wanted" }),
                2 => json!({ "lease": item["lease"], "outcome": "dead", "reason": "a person must look" }),
                _ => json!({ "lease": item["lease"], "outcome": "released" }),
            })
            .collect();
        let settled = site.settle(json!(ends)).await;
        let told: Vec<String> = settled.iter().map(|item| is(item, "/decision/decision")).collect();
        assert_eq!(told, ["snoozed", "cancelled", "dead", "released"], "{kind:?} {settled:?}");
        assert_eq!(is(&settled[2], "/decision/reason"), "requested");
        assert_eq!(is(&settled[2], "/decision/letter"), ids[2]);
        assert_eq!(site.stands(&ids[0]).await, (0, "Ready".to_owned()), "a snooze counts nothing");
        assert_eq!(site.stands(&ids[3]).await, (0, "Ready".to_owned()), "what is given back counts nothing");
        assert_eq!(site.stands(&ids[1]).await.1, "Ended");
        assert_eq!(site.stands(&ids[2]).await.1, "Dead");
    }
}

/// R-D2: a heartbeat keeps the lease, hears of a cancellation, and learns when the lease is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_keeps_the_lease_and_hears_of_its_end() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let job = site.job(1).enqueue().await.unwrap();
        let items = site.lease(json!({ "lease_ms": 60_000 })).await;
        let body = json!({ "items": [{ "lease": items[0]["lease"] }, { "lease": "x" }, {}] });
        let beat = async || site.post("/v1/leases/extend", &body).await.1["items"].clone();
        let told = beat().await;
        assert_eq!((is(&told, "/0/status"), is(&told, "/1/status")), ("extended".into(), "refused".into()));
        assert!(told[0]["expires_at"].as_str() >= items[0]["expires_at"].as_str(), "{kind:?} {told}");
        let now = site.engine.now();
        site.engine.store().cancel(now, job.id, "enough".to_owned()).await.unwrap();
        assert_eq!(is(&beat().await, "/0/status"), "cancel_requested");
        let released = site.settle(json!([{ "lease": items[0]["lease"], "outcome": "released" }])).await;
        assert_eq!(is(&released[0], "/status"), "cancelled", "what somebody ended does not come back");
        assert_eq!(is(&beat().await, "/0/status"), "lost");
    }
}

/// R-D2: a long poll is answered when work comes, and one whose client went away takes nothing and counts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_is_woken_and_a_client_that_went_away_costs_nothing() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let waiting = site.lease(json!({ "wait_ms": 20_000 }));
        let began = Instant::now();
        let (items, _) = tokio::join!(waiting, async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.job(1).enqueue().await.unwrap()
        });
        assert_eq!(items.len(), 1, "{kind:?}");
        assert!(began.elapsed() < Duration::from_secs(5));

        let gone = site.client.post(site.url("/v1/queues/q/lease")).json(&json!({ "wait_ms": 20_000 }));
        assert!(tokio::time::timeout(Duration::from_millis(200), gone.send()).await.is_err());
        let job = site.job(2).enqueue().await.unwrap();
        let id = job.id.to_string();
        until("it is there for others, uncounted", || async {
            site.stands(&id).await == (0, "Ready".to_owned())
        })
        .await;
        let items = site.lease(json!({ "wait_ms": 5_000 })).await;
        assert_eq!((is(&items[0], "/id"), &items[0]["attempt"]), (id, &json!(1)));
    }
}

/// R-D2: a server that drains answers those who wait at once, with nothing, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_answers_those_who_wait_at_once() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let began = Instant::now();
        let (items, ()) = tokio::join!(site.lease(json!({ "wait_ms": 30_000 })), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            site.server.shutdown().signal();
        });
        assert!(items.is_empty() && began.elapsed() < Duration::from_secs(5), "{kind:?}");
        let job = site.job(1).enqueue().await.unwrap();
        assert_eq!(site.stands(&job.id.to_string()).await, (0, "Ready".to_owned()));
    }
}

/// R-D2: what is past its deadline is set aside and not handed out; its neighbour is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_late_is_set_aside_and_not_handed_out() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let past = site.engine.now().before(Duration::from_secs(1));
        let late = NewJob { deadline_at: Some(past), ..site.job(1).build().unwrap() };
        let late = site.engine.enqueue(late).await.unwrap();
        let good = site.job(2).enqueue().await.unwrap();
        let items = site.lease(json!({ "max": 10, "wait_ms": 1_000 })).await;
        let ids: Vec<String> = items.iter().map(|item| is(item, "/id")).collect();
        assert_eq!(ids, [good.id.to_string()], "{kind:?}");
        assert_eq!(site.stands(&late.id.to_string()).await.1, "Dead");
    }
}

/// R-D2: a lease of one server is kept and ended through another one on the same store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_server_on_the_store_ends_a_lease() {
    let site = Site::new(Kind::Sqlite).await;
    let other = redrive_server::Server::new(&site.engine, redrive_server::ServerSettings::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { other.serve(listener).await });
    site.job(1).enqueue().await.unwrap();
    let items = site.lease(json!({})).await;
    for (path, item, expected) in [
        ("extend", json!({ "lease": items[0]["lease"] }), "extended"),
        ("settle", json!({ "lease": items[0]["lease"], "outcome": "succeeded" }), "settled"),
    ] {
        let url = format!("http://{address}/v1/leases/{path}");
        let answer = site.client.post(url).json(&json!({ "items": [item] })).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(is(&answer, "/items/0/status"), expected);
    }
}

/// Reliability, limits: what asks for too much is refused with what is allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_asks_for_too_much_is_refused() {
    let site = Site::new(Kind::Sqlite).await;
    for (body, says) in [
        (json!({ "max": 0 }), "max"),
        (json!({ "max": 100_000 }), "max"),
        (json!({ "lease_ms": 1 }), "lease_ms"),
        (json!({ "lease_ms": u64::MAX }), "lease_ms"),
        (json!({ "nonsense": 1 }), "nonsense"),
    ] {
        let (status, answer) = site.post("/v1/queues/q/lease", &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(is(&answer, "/detail").contains(says), "{answer}");
    }
    let many = vec![json!({ "lease": "x", "outcome": "succeeded" }); 1_001];
    let (status, _) = site.post("/v1/leases/settle", &json!({ "items": many })).await;
    assert_eq!(status, 400);
}

/// R-D3: what is wrong with one item is said in our words and with its place, in either language.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_item_is_told_in_words() {
    let site = Site::new(Kind::Sqlite).await;
    for (path, item, field, says) in [
        ("settle", json!({ "lease": "x", "outcome": "gone" }), "outcome", "succeeded"),
        ("settle", json!({ "lease": "x", "outcome": "failed", "odd": 1 }), "odd", "odd"),
        ("settle", json!({ "lease": "x", "outcome": "failed" }), "lease", "リース"),
        ("extend", json!({ "lease": 7 }), "lease", "文字列"),
    ] {
        let url = site.url(&format!("/v1/leases/{path}"));
        let request = site.client.post(url).header("accept-language", "ja").json(&json!({ "items": [item] }));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(is(&answer, "/items/0/status"), "refused", "{answer}");
        assert_eq!(is(&answer, "/items/0/problem/field"), field, "{answer}");
        assert!(is(&answer, "/items/0/problem/detail").contains(says), "{answer}");
    }
}

/// R-C5, Security: nobody leases messages to people, and so nobody settles them away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_alerts_are_not_leased() {
    let site = Site::new(Kind::Sqlite).await;
    let (status, answer) = site.post("/v1/queues/redrive-alerts/lease", &json!({})).await;
    assert_eq!((status, is(&answer, "/code").as_str()), (403, "forbidden"), "{answer}");
}
