//! Workers that go away while they wait: what would be theirs is somebody else's.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::site::{Kind, Site, until};

/// How often somebody goes away.
const TIMES: usize = 120;

/// R-D2, issue 8: a worker goes away in the very moment in which a job comes for it, a little sooner or a little later, a hundred
/// times and more. Its job is leased to nobody: it is ready, or soon is, uncounted, and the next who asks has it at its first attempt. Only what
/// was on its way when the worker went is held until its lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_leased_to_whoever_is_gone() {
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        let body = json!({ "wait_ms": 20_000, "lease_ms": 600_000 }).to_string();
        let (mut on_its_way, mut told) = (0, 0);
        for time in 0..TIMES {
            let mut worker = TcpStream::connect(site.address).await.unwrap();
            worker.set_nodelay(true).unwrap();
            let head =
                "POST /v1/queues/q/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
            let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            worker.write_all(request.as_bytes()).await.unwrap();
            // From before its request is looked at to well after its job has come, in steps of 250 µs.
            let early = Duration::from_micros(250) * u32::try_from(time % 40).unwrap();
            let goes = tokio::spawn(async move {
                let began = Instant::now();
                while began.elapsed() < early {
                    tokio::task::yield_now().await;
                }
                // What has arrived by now would have been its.
                let mut bytes = [0; 4096];
                worker.try_read(&mut bytes).is_ok()
            });
            let job = site.job(time).enqueue().await.unwrap();
            let has_it = goes.await.unwrap();
            let id = job.id.to_string();
            if has_it {
                told += 1;
                continue;
            }
            let began = Instant::now();
            let free = loop {
                let stands = site.stands(&id).await;
                if stands == (0, "Ready".to_owned()) && began.elapsed() > Duration::from_millis(1) {
                    break true;
                }
                if began.elapsed() > Duration::from_millis(300) {
                    break false;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            if !free {
                on_its_way += 1;
                site.engine.store().cancel(site.engine.now(), job.id, "enough".to_owned()).await.unwrap();
                continue;
            }
            let items = site.lease(json!({ "wait_ms": 5_000 })).await;
            assert_eq!((&items[0]["id"], &items[0]["attempt"]), (&json!(id), &json!(1)), "{kind:?} {time}");
            site.settle(json!([{ "lease": items[0]["lease"], "outcome": "succeeded" }])).await;
        }
        println!("{kind:?}: of {TIMES} {told} were told, {on_its_way} were on their way");
        // On a busy machine more answers are sent before anybody sees that the worker is gone; without giving back it would be all.
        let gone = TIMES - told;
        assert!(on_its_way * 3 <= gone * 2, "{kind:?}: {on_its_way} of {gone}");
        until("nobody waits any more", || async { site.waiting().await == 0 }).await;
    }
}
