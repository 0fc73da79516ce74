//! A target that gets sick and heals, with handlers that really fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redrive::engine::{Clock, Shutdown, TargetLimits};
use redrive::{Cause, fail};
use redrive_store::NewJob;

use super::support::{Elsewhere, World, call, run};

const SETTINGS: &str = r#"
[targets."key:tenant-7"]
of_at_least = 5
open_for = "10s"
probes = 2
ramp = "1s"
[targets."queue:mail"]
rate = "10/s"
"#;

fn job(kind: &str, target: Option<&str>) -> NewJob {
    NewJob { target: target.map(str::to_owned), ..NewJob::new(kind, "null") }
}

/// R-P15: work for a sick target is parked, uncounted, and says when it is tried again; other work goes on; when the target is
/// well everything is done, and no job has used up an attempt while it waited.
#[test]
fn a_sick_target_parks_its_work_and_heals() {
    run(async {
        let world = World::new();
        let engine = world.engine(SETTINGS, 3);
        let well = Arc::new(AtomicBool::new(false));
        let (calls, others) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(engine.enqueue(job("call", Some("tenant-7"))).await.unwrap().id);
            engine.enqueue(job("other", None)).await.unwrap();
        }
        let shutdown = Shutdown::new();
        let worker = engine
            .worker()
            .wait(Duration::from_millis(5))
            .concurrency(4)
            .handle("call", {
                let (well, calls) = (Arc::clone(&well), Arc::clone(&calls));
                move |(): (), _cx| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    let well = well.load(Ordering::SeqCst);
                    async move { if well { Ok(()) } else { Err(fail(Cause::Network, "refused")) } }
                }
            })
            .handle("other", {
                let others = Arc::clone(&others);
                move |(): (), _cx| {
                    others.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<(), redrive::Fail>(()) }
                }
            });
        let working = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { worker.run(&shutdown).await.unwrap() }
        });
        // Everything has been looked at: what is left waits.
        for _ in 0..2_000 {
            let seen = engine.target("key:tenant-7").await.unwrap().unwrap();
            if others.load(Ordering::SeqCst) == 40 && seen.parked_total >= 30 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(others.load(Ordering::SeqCst), 40);
        let seen = engine.target("key:tenant-7").await.unwrap().unwrap();
        assert_eq!(seen.phase.name(), "open");
        let made = calls.load(Ordering::SeqCst);
        assert!((5..=12).contains(&made), "{made} calls before it was known to be sick");
        let mut parked = 0;
        for id in &ids {
            let record = engine.store().job(*id).await.unwrap().unwrap();
            if let Some(waits) = engine.parked(&record).await.unwrap() {
                assert_eq!(waits.target, "key:tenant-7");
                assert!(waits.until >= seen.next_at().unwrap(), "nobody comes before it is tried again");
                assert_eq!(record.attempts, 0, "nothing is counted");
                parked += 1;
            }
        }
        assert!(parked >= 25, "{parked} are parked");
        well.store(true, Ordering::SeqCst);
        for _ in 0..4_000 {
            if !engine.store().unfinished(Vec::new(), Vec::new()).await.unwrap() {
                break;
            }
            world.clock.advance(Duration::from_millis(50));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shutdown.signal();
        let report = working.await.unwrap();
        assert_eq!((report.succeeded, report.dead), (80, 0));
        assert!(report.parked >= 30);
        let status = engine.store().check().await.unwrap();
        assert!(status.is_clean(), "{:?}", status.violations);
        // All may be done before the ramp is over.
        world.clock.advance(Duration::from_mins(1));
        assert_eq!(engine.target("key:tenant-7").await.unwrap().unwrap().phase.name(), "closed");
    });
}

/// R-P15: a queue's rate holds, limits that are set while everything runs hold at once, and a reset lets calls pass.
#[test]
fn limits_hold_and_can_be_set_while_everything_runs() {
    run(async {
        let world = World::new();
        let engine = world.engine(SETTINGS, 3);
        let elsewhere = Elsewhere::new(&engine).await;
        let mail = || NewJob { queue: "mail".to_owned(), ..NewJob::new("send", "null") };
        world.store.enqueue(engine.now(), (0..50).map(|_| mail()).collect()).await.unwrap();
        let mut began = Vec::new();
        for _ in 0..70 {
            let some = elsewhere.take(100).await;
            began.extend(some.iter().map(|_| world.clock.now()));
            elsewhere.end(some, true).await;
            world.clock.advance(Duration::from_millis(100));
        }
        assert_eq!(began.len(), 50);
        let took = began.last().unwrap().since(began[0]);
        assert!((Duration::from_millis(4_900)..=Duration::from_millis(5_500)).contains(&took), "{took:?}");
        let limits = TargetLimits { concurrency: Some(2), ..TargetLimits::default() };
        engine.limit_target("key:api.example.com", limits).await.unwrap();
        let calls = (0..5).map(|_| call("api.example.com")).collect();
        world.store.enqueue(engine.now(), calls).await.unwrap();
        let two = elsewhere.take(100).await;
        assert_eq!(two.len(), 2);
        let seen = engine.target("key:api.example.com").await.unwrap().unwrap();
        assert_eq!((seen.standing.running, seen.standing.parked), (2, 3));
        elsewhere.end(two, true).await;
        world.clock.advance(Duration::from_secs(11));
        assert_eq!(elsewhere.take(100).await.len(), 2);
        engine.limit_target("key:api.example.com", TargetLimits::default()).await.unwrap();
        world.clock.advance(Duration::from_secs(11));
        assert_eq!(elsewhere.take(100).await.len(), 1, "without the limit the last one goes");
        assert!(engine.limit_target("api.example.com", limits).await.is_err(), "that is no target");
    });
}

/// R-P15: redriven work is paid for by the same budget as retries.
#[test]
fn redriven_work_withdraws_from_the_budget() {
    run(async {
        let world = World::new();
        let settings = "[targets.\"key:t\"]\nbudget_at_least = \"1/s\"\n[retry]\nmax_retries = 0\n";
        let engine = world.engine(settings, 3);
        let elsewhere = Elsewhere::new(&engine).await;
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(engine.enqueue(job("call", Some("t"))).await.unwrap().id);
        }
        let all = elsewhere.take(100).await;
        assert_eq!(all.len(), 40, "first attempts are not held up");
        elsewhere.end(all, false).await;
        engine.redrive(ids).await.unwrap();
        // Ten had gathered, and they were as many as can.
        assert_eq!(elsewhere.take(100).await.len(), 10);
        for _ in 0..3 {
            world.clock.advance(Duration::from_millis(1_001));
            assert_eq!(elsewhere.take(100).await.len(), 1, "one each second");
        }
    });
}
