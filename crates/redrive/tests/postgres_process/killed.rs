//! Workers that are killed, one after the other, while there is work (reliability rows 2 and 39).

use std::time::{Duration, Instant};

use redrive_store::{NewJob, Timestamp};

use crate::world::{Process, World, run, until};

const JOBS: usize = 20_000;
const WORKERS: usize = 4;
/// How long each job takes. Together with the number of slots it makes the whole last for several deaths.
const TASK: &str = "work 15";

/// Issue 4, reliability rows 2 and 39: 20,000 jobs, four worker processes, one of them killed with SIGKILL every second and replaced.
/// All succeed, none is lost, no stale settlement is accepted, and nobody innocent is set aside.
#[test]
fn one_worker_dies_every_second_and_everything_is_done() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        let world = World::new(shared.url(), &shared.schema());
        let store = world.open().await;
        for part in 0..JOBS / 1_000 {
            let job = |number: usize| NewJob::new("count", format!("\"{}\"", part * 1_000 + number));
            store.enqueue(Timestamp::from_millis(0), (0..1_000).map(job).collect()).await.unwrap();
        }
        let mut workers: Vec<Process> = (0..WORKERS).map(|_| world.start(TASK)).collect();
        until("somebody works", async || world.noted("settled") > 0).await;
        let began = Instant::now();
        let mut deaths = 0;
        while store.unfinished(Vec::new(), Vec::new()).await.unwrap() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            workers.remove(0).kill();
            workers.push(world.start(TASK));
            deaths += 1;
            assert!(deaths < 100, "it does not end: {} are done", world.noted("settled"));
        }
        let took = began.elapsed();
        let history = world.finish(&*store, &mut workers).await;
        history.all_succeeded();
        let told = world.told();
        history.must_bear_out(&told);
        assert_eq!((history.jobs.len(), told.did.len()), (JOBS, JOBS));
        let (crashed, stale) = (history.count("attempt_failed"), history.count("stale_settle"));
        println!(
            "{deaths} deaths in {took:?}: {crashed} attempts died with them, {stale} settlements came too late"
        );
        assert!(deaths >= 3 && crashed > 0, "{deaths} deaths hit {crashed} attempts: a hollow pass");
        store.close().await.unwrap();
    });
}
