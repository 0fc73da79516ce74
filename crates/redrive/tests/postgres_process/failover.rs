//! The primary dies and a standby takes its place under load (reliability row 37).

use std::time::Duration;

use redrive_testing::{APP, Cluster, Settings};

use crate::world::{Process, World, leave, run, until};

/// Both servers; whoever takes writes is meant.
fn either(primary: &Cluster, standby: &Cluster) -> String {
    let (password, first, second) = (primary.password(), primary.port(), standby.port());
    format!(
        "postgres://{APP}:{password}@127.0.0.1:{first},127.0.0.1:{second}/redrive?target_session_attrs=read-write"
    )
}

async fn under_load(world: &World, more: usize) {
    let before = (world.noted("enqueued"), world.noted("settled"));
    until("work goes on", async || {
        world.noted("enqueued") > before.0 + more && world.noted("settled") > before.1 + more
    })
    .await;
}

/// Kills the primary, shows that nobody is told anything is done while there is none, and promotes the standby.
async fn fail_over(world: &World, primary: &Cluster, standby: &Cluster) {
    primary.kill();
    // What was answered in the last moment is noted in the next.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let acknowledged = (world.noted("enqueued"), world.noted("settled"));
    tokio::time::sleep(Duration::from_millis(700)).await;
    let told_since = (world.noted("enqueued"), world.noted("settled"));
    assert_eq!(
        told_since, acknowledged,
        "somebody was told that something is done, and there was nobody to do it"
    );
    standby.promote();
}

/// Issue 4, reliability row 37: with synchronous replication nothing that was acknowledged is lost.
#[test]
fn a_synchronous_standby_takes_over_and_nothing_is_lost() {
    if !Cluster::is_possible() {
        return;
    }
    run(async {
        let primary = Cluster::start_with(Settings { fsync: true, ..Settings::default() });
        let standby = primary.standby(Settings::default());
        primary.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        primary.psql("postgres", "SELECT pg_reload_conf()");
        until("the standby is waited for", async || {
            primary.psql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync"
        })
        .await;
        let world = World::new(&either(&primary, &standby), "redrive");
        let store = world.open().await;
        let mut producers = [world.start("produce p")];
        let mut workers: Vec<Process> = (0..2).map(|_| world.start("work 2")).collect();
        under_load(&world, 200).await;
        fail_over(&world, &primary, &standby).await;
        standby.psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
        standby.psql("postgres", "SELECT pg_reload_conf()");
        under_load(&world, 200).await;
        leave(&mut producers);
        let history = world.finish(&*store, &mut workers).await;
        history.all_succeeded();
        let told = world.told();
        history.must_bear_out(&told);
        println!("{} acknowledged, {} refused, nothing lost", told.enqueued.len(), told.refused.len());
        store.close().await.unwrap();
    });
}

/// Issue 4, reliability row 37: with asynchronous replication the tail that had not been sent is gone. Everything before it is there,
/// nothing is doubled, work goes on, and the loss is told: an event says where the stream was and where it begins again.
#[test]
fn an_asynchronous_standby_takes_over_and_the_loss_is_told() {
    if !Cluster::is_possible() {
        return;
    }
    run(async {
        let primary = Cluster::start_with(Settings { fsync: true, ..Settings::default() });
        let standby = primary.standby(Settings::default());
        let world = World::new(&either(&primary, &standby), "redrive");
        let store = world.open().await;
        let mut producers = [world.start("produce p")];
        let mut workers: Vec<Process> = (0..2).map(|_| world.start("work 2")).collect();
        under_load(&world, 200).await;
        let kept = world.told();
        until("the standby has all of it", async || {
            let behind = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn < '";
            let now = primary.psql("postgres", "SELECT pg_current_wal_lsn()");
            primary.psql("postgres", &format!("{behind}{now}'")) == "0"
        })
        .await;
        primary.hold_replication();
        under_load(&world, 100).await;
        fail_over(&world, &primary, &standby).await;
        under_load(&world, 200).await;
        leave(&mut producers);
        let history = world.finish(&*store, &mut workers).await;
        let told = world.told();
        let lost = history.lost(&told);
        assert!(!lost.is_empty(), "the standby had everything: a hollow pass");
        assert!(history.lost(&kept).is_empty(), "what the standby had is lost");
        println!("{} acknowledged, {} lost with the primary", told.enqueued.len(), lost.len());
        let filter =
            redrive_store::EventFilter { types: vec!["store_went_back".into()], ..Default::default() };
        let reports = store.events(filter, 99).await.unwrap();
        assert!(!reports.is_empty(), "nobody told that the store went back");
        store.close().await.unwrap();
    });
}
