//! PostgreSQL goes away under load and comes back (reliability rows 36 and 38).

use std::time::Duration;

use redrive_testing::{Cluster, Settings};

use crate::world::{Process, World, leave, run, until};

/// Issue 4, reliability rows 36 and 38: the server is stopped with `-m immediate` and started five times under load. Nothing that was
/// acknowledged is lost, nothing is doubled, and everybody goes on without a person.
#[test]
fn the_server_is_stopped_at_once_five_times_under_load() {
    if !Cluster::is_possible() {
        return;
    }
    run(async {
        let cluster = Cluster::start_with(Settings { fsync: true, ..Settings::default() });
        let world = World::new(&cluster.url(), "redrive");
        let store = world.open().await;
        let mut producers = [world.start("produce p"), world.start("produce q")];
        let mut workers: Vec<Process> = (0..2).map(|_| world.start("work 2")).collect();
        for round in 0..5_u64 {
            let before = (world.noted("enqueued"), world.noted("settled"));
            until("work goes on", async || {
                for process in producers.iter_mut().chain(&mut workers) {
                    assert!(process.is_running(), "round {round}: somebody ended: {:?}", world.told().broke);
                }
                world.noted("enqueued") > before.0 + 100 && world.noted("settled") > before.1 + 100
            })
            .await;
            cluster.stop_immediately();
            // Short and long: a retry may meet a closed door several times.
            tokio::time::sleep(Duration::from_millis(300 * round)).await;
            cluster.start_again();
        }
        let before = (world.noted("enqueued"), world.noted("settled"));
        until("work goes on after the last", async || {
            world.noted("enqueued") > before.0 + 100 && world.noted("settled") > before.1 + 100
        })
        .await;
        leave(&mut producers);
        let history = world.finish(&*store, &mut workers).await;
        history.all_succeeded();
        let told = world.told();
        history.must_bear_out(&told);
        println!(
            "5 restarts: {} acknowledged, {} refused, {} jobs, {} attempts failed, {} settlements too late",
            told.enqueued.len(),
            told.refused.len(),
            history.jobs.len(),
            history.count("attempt_failed"),
            history.count("stale_settle"),
        );
        store.close().await.unwrap();
    });
}
