//! Ever new hosts: they fill no board, hide nobody, and are forgotten together.

use std::time::Duration;

use redrive::engine::{Context, Engine};
use redrive::{Cause, fail};
use redrive_store::NewJob;
use serde_json::Value;

use super::support::{World, http, run};

const SETTINGS: &str = "[retry]\nmax_retries = 0\n";

/// Makes calls as one of our own processes does: a host whose name begins with `bad` fails.
async fn call_all(engine: &Engine, jobs: Vec<NewJob>) {
    engine.store().enqueue(engine.now(), jobs).await.unwrap();
    let worker = engine.worker().concurrency(64).wait(Duration::from_millis(5));
    let worker = worker.handle("http", |call: Value, _: Context| async move {
        let url = call["url"].as_str().unwrap_or_default().to_owned();
        if url.contains("//bad") { Err(fail(Cause::Network, "refused")) } else { Ok(()) }
    });
    worker.run_until_empty().await.unwrap();
}

async fn on_board(engine: &Engine) -> usize {
    engine.store().notices("target".to_owned(), None, 10_000).await.unwrap().len()
}

/// R-P15, Security: a host of which nothing but success is known is on no board, however often it is called; but its successes
/// count as soon as something else is known.
#[test]
fn a_host_that_is_well_is_not_written_down() {
    run(async {
        let world = World::new();
        let engine = world.engine(SETTINGS, 3);
        let keeper =
            engine.store().register(engine.now(), "keeper".to_owned(), Duration::from_hours(9)).await;
        let keeper = keeper.unwrap();
        for _ in 0..3 {
            call_all(&engine, (0..40).map(|n| http(&format!("https://h{n}.example/"))).collect()).await;
            world.clock.advance(Duration::from_secs(6));
            engine.maintain(keeper).await.unwrap();
        }
        assert_eq!(on_board(&engine).await, 0);
        let well = (0..30).map(|n| http(&format!("https://mixed.example/well?{n}"))).collect();
        call_all(&engine, well).await;
        world.clock.advance(Duration::from_secs(6));
        engine.maintain(keeper).await.unwrap();
        let sick = http("https://mixed.example//bad");
        call_all(&engine, (0..20).map(|_| sick.clone()).collect()).await;
        let seen = engine.target("host:mixed.example").await.unwrap().unwrap();
        assert_eq!(
            (seen.phase.name(), seen.standing.calls, seen.standing.failed),
            ("closed", 50, 20),
            "{seen:?}"
        );
        assert_eq!(on_board(&engine).await, 1);
    });
}

/// R-P15, R-C4, Security: thousands of hosts whose names come first hide no sick one, in metrics, status and lists; and all of them
/// are forgotten in one round.
#[test]
fn many_hosts_hide_nobody_and_are_forgotten_together() {
    run(async {
        let world = World::new();
        let engine = world.engine(SETTINGS, 3);
        let keeper =
            engine.store().register(engine.now(), "keeper".to_owned(), Duration::from_hours(9)).await;
        let keeper = keeper.unwrap();
        call_all(&engine, (0..1_200).map(|n| http(&format!("https://bad{n:05}.example/"))).collect()).await;
        call_all(&engine, (0..25).map(|_| http("https://zzz.example//bad")).collect()).await;
        assert_eq!(on_board(&engine).await, 1_201);
        let metrics = engine.prometheus().await.unwrap();
        let sick = "redrive_target_state{target=\"host:zzz.example\",state=\"open\"} 1";
        assert!(
            metrics.contains(sick),
            "{}",
            metrics.lines().filter(|line| line.contains("target_state")).count()
        );
        assert_eq!(
            metrics.matches("redrive_target_parked{").count(),
            51,
            "no more than are named, and the others"
        );
        let status = engine.status_report().await.unwrap();
        assert_eq!(status.targets.first().map(|target| target.name.as_str()), Some("host:zzz.example"));
        let first = engine.targets_that_matter(3).await.unwrap();
        assert_eq!((first.len(), first[0].name.as_str()), (3, "host:zzz.example"));
        world.clock.advance(Duration::from_hours(3));
        engine.maintain(keeper).await.unwrap();
        assert_eq!(on_board(&engine).await, 0);
    });
}
