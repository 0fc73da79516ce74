//! A long transaction holds back the cleaning up, and much work goes through meanwhile (reliability row 41): afterwards the tables are as
//! small as what they hold.

use std::time::{Duration, Instant};

use redrive_store::{Housekeeping, Jobs, Leases, NewJob, Postgres, Settlement, Workers};
use redrive_testing::{Cluster, Session};

use crate::given::{Hand, SECOND, at, success, wants};
use crate::ground::open;

const JOBS: usize = 100_000;

/// Takes so many jobs from beginning to end.
async fn churn(store: &Postgres, jobs: usize) {
    let worker = store.register(at(0), "churn".to_owned(), SECOND * 6_000).await.unwrap();
    for _ in 0..jobs / 1_000 {
        store.enqueue(at(0), vec![NewJob::new("a", vec![7_u8; 200]); 1_000]).await.unwrap();
        let leased = store.lease(at(0), wants(worker, &["a"], 1_000)).await.unwrap();
        let all: Vec<_> =
            leased.iter().map(|one| Settlement { token: one.token, ending: success() }).collect();
        assert_eq!(all.len(), 1_000);
        store.settle(at(0), all).await.unwrap();
    }
    store.unregister(at(0), worker).await.unwrap();
}

/// The tables whose rows come and go, with their indexes, in bytes.
fn hot_bytes(cluster: &Cluster) -> u64 {
    let sum = "SELECT sum(pg_total_relation_size(format('redrive.%I', name)::regclass)) \
               FROM unnest(ARRAY['job','ready','lease','progress','delta','operation','worker','unique_job']) name";
    cluster.psql("redrive", sum).parse().unwrap()
}

/// Row 41: the hot tables hold runnable work only, and their size does not follow what has gone through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_gone_through_leaves_the_hot_tables_small() {
    if !Cluster::is_possible() {
        return;
    }
    // A cluster of its own: a transaction that is left open is everybody's trouble.
    let cluster = Cluster::start();
    let store = open(&cluster.url(), "redrive").await;
    churn(&store, 10_000).await;
    let began = Instant::now();
    let long = Session::holding(
        &cluster.url(),
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id(), count(*) FROM redrive.event",
    );
    churn(&store, JOBS / 2).await;
    let (held, took) = (hot_bytes(&cluster), began.elapsed());
    drop(long);
    cluster.psql("redrive", "VACUUM");
    let freed = hot_bytes(&cluster);
    let again = Instant::now();
    churn(&store, JOBS / 2).await;
    cluster.psql("redrive", "VACUUM");
    let (after, without) = (hot_bytes(&cluster), again.elapsed());
    println!(
        "hot tables: {held} bytes while a transaction was open ({took:?}), {freed} after it, {after} after as much again ({without:?})"
    );
    // 50,000 jobs of 200 bytes alone are 15 MB: what is used again does not grow by them.
    assert!(after <= held + (8 << 20), "it grows: {held}, {after}");
    assert!(took < Duration::from_mins(5), "{took:?}");
    assert!(without < took * 3 + SECOND * 5, "slower after the long transaction than under it: {without:?}");
    let status = store.status(at(0)).await.unwrap();
    let lane = &status.lanes[0];
    assert_eq!((lane.ready, lane.leased, lane.succeeded), (0, 0, (JOBS + 10_000) as u64));
    Hand(&store).clean().await;
    store.close().await.unwrap();
}
