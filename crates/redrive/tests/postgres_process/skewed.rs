//! Workers whose clocks are wrong (reliability row 17).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive_store::Timestamp;

use crate::child::engine;
use crate::world::{Process, World, run, until};

/// libfaketime, which lies to a process about the wall clock.
fn faketime() -> Option<PathBuf> {
    let roots = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
    let found = roots.iter().map(|root| Path::new(root).join("faketime/libfaketimeMT.so.1"));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing: install the package faketime");
        println!("SKIPPED: libfaketime is missing; nothing about skewed clocks was proved on this machine");
    }
    found
}

/// Issue 4, reliability row 17: two workers with clocks five minutes ahead and behind. Leases, due times, retries and deadlines go by the
/// database's clock: nothing is taken from the living, nothing runs early, nothing waits for minutes, and the dead are still found.
#[test]
fn workers_with_wrong_clocks_change_nothing() {
    let (Some(shared), Some(library)) = (redrive_testing::shared(), faketime()) else { return };
    run(async {
        let world = World::new(shared.url(), &shared.schema());
        let store = world.open().await;
        let here = engine(std::sync::Arc::clone(&store));
        let start = |offset: &str, task: &str| {
            let mut command = world.command(task);
            command
                .env("LD_PRELOAD", &library)
                .env("FAKETIME", offset)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
            World::spawn(&mut command)
        };
        for number in 0..300 {
            let kind = ["count", "flaky", "late"][number % 3];
            let mut job = here.job(kind, &number.to_string());
            if kind == "late" {
                job = job.deadline(Duration::from_secs(100));
            }
            job.enqueue().await.unwrap();
        }
        let delayed = here.job("late", "delayed").delay(Duration::from_secs(3)).enqueue().await.unwrap().id;
        let began = Instant::now();
        // Each job of theirs outlasts its lease, so it is kept only by heartbeats.
        let mut workers: Vec<Process> = ["+300s", "-300s"].map(|offset| start(offset, "work 1800")).into();
        let doomed = start("+300s", "work 600000");
        until("everybody has come", async || world.noted("ready") == 3).await;
        let slow = here.job("count", "slow").enqueue().await.unwrap().id;
        until("what was delayed is done", async || {
            let early = began.elapsed() < Duration::from_millis(2_900);
            let done = world.noted("did delayed ") > 0;
            assert!(!(early && done), "it ran {:?} after it was enqueued", began.elapsed());
            done
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(30), "delayed by {:?}", began.elapsed());
        // What the dead one has held by its heartbeats until now is found when they stop.
        doomed.kill();
        let history = world.finish(&*store, &mut workers).await;
        history.all_succeeded();
        let told = world.told();
        history.must_bear_out(&told);
        assert_eq!(history.jobs.len(), 302);
        let died = history.count("attempt_failed");
        // A hundred flaky ones fail once; beyond that only what the dead one had.
        assert!((100..=116).contains(&died), "{died} attempts failed");
        for job in [delayed, slow] {
            let events = &history.jobs[&job];
            assert!(events.len() <= 5, "{events:?}");
        }
        println!("302 jobs in {:?}, {} attempts died", began.elapsed(), died - 100);
        assert!(store.status(Timestamp::from_millis(0)).await.unwrap().dead_letters == 0);
        store.close().await.unwrap();
    });
}
