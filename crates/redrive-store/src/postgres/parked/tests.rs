//! Counted, not timed: what thousands of waiting workers cost while nothing happens, and how many are taken along when something does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::super::{Postgres, PostgresOptions};
use crate::{Housekeeping, Jobs, LeaseRequest, LeasedJob, Leases, NewJob, Timestamp, WorkerId, Workers};

const MANY: usize = 5_000;

fn now() -> Timestamp {
    Timestamp::from_system(std::time::SystemTime::now())
}

fn request(worker: WorkerId, wait: Duration) -> LeaseRequest {
    LeaseRequest {
        worker,
        queues: vec!["default".to_owned()],
        kinds: vec!["a".to_owned()],
        reserved_only: false,
        max: 1,
        lease_for: Duration::from_secs(30),
        begin: true,
        wait,
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// R-D2, reliability row 32: while nothing happens, one looks for all who wait; when something comes, about as many are taken along as
/// there are jobs; and who has gone is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_waits_costs_nothing() {
    let Some(shared) = redrive_testing::shared() else { return };
    let schema = shared.schema();
    let options = || PostgresOptions { schema: Some(schema.clone()), ..PostgresOptions::default() };
    let store = Arc::new(Postgres::open(shared.url(), options()).await.unwrap());
    let worker = store.register(now(), "server".to_owned(), Duration::from_mins(10)).await.unwrap();
    let mut waiting: JoinSet<Vec<LeasedJob>> = JoinSet::new();
    for _ in 0..MANY {
        let store = Arc::clone(&store);
        let request = request(worker, Duration::from_mins(10));
        waiting.spawn(async move { store.lease(now(), request).await.unwrap() });
    }
    let counted = Arc::clone(&store.desk.counted);
    let count =
        |of: fn(&super::Counted) -> &std::sync::atomic::AtomicU64| of(&counted).load(Ordering::Relaxed);
    let parked = || counted.parked.load(Ordering::Relaxed);
    until("all wait", || parked() == MANY).await;
    let (groups, looks) = (count(|all| &all.groups), count(|all| &all.looks));
    until("one looks for all of them", || count(|all| &all.looks) >= looks + 3).await;
    assert!(count(|all| &all.groups) <= groups + 1, "somebody looked, and nothing had happened");

    let rides = count(|all| &all.rides);
    store.enqueue(now(), vec![NewJob::new("a", "1"); 7]).await.unwrap();
    for _ in 0..7 {
        assert_eq!(waiting.join_next().await.unwrap().unwrap().len(), 1);
    }
    // A new lane is looked into by a few, once.
    let ridden = count(|all| &all.rides) - rides;
    assert!((7..=7 + 2 * 64).contains(&ridden), "{ridden} were taken along for 7 jobs");
    until("they have gone", || parked() == MANY - 7).await;

    // Now that the lane is known, no more ride than there are jobs; from elsewhere, a few look.
    let rides = count(|all| &all.rides);
    store.enqueue(now(), vec![NewJob::new("a", "1"); 3]).await.unwrap();
    for _ in 0..3 {
        assert_eq!(waiting.join_next().await.unwrap().unwrap().len(), 1);
    }
    let ridden = count(|all| &all.rides) - rides;
    assert!((3..=3 + 64).contains(&ridden), "{ridden} were taken along for 3 jobs");
    let elsewhere = Postgres::open(shared.url(), options()).await.unwrap();
    elsewhere.enqueue(now(), vec![NewJob::new("a", "1")]).await.unwrap();
    assert_eq!(waiting.join_next().await.unwrap().unwrap().len(), 1);

    // Clients that go are forgotten, and get nothing.
    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
    until("they are forgotten", || parked() == 0).await;
    elsewhere.enqueue(now(), vec![NewJob::new("a", "1")]).await.unwrap();
    let leased = store.lease(now(), request(worker, Duration::ZERO)).await.unwrap();
    assert_eq!(leased.len(), 1, "it was given to somebody who has gone");
    elsewhere.close().await.unwrap();
    store.close().await.unwrap();
}
