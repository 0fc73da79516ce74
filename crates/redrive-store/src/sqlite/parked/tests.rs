//! Counted, not timed: what thousands of waiting workers cost while nothing happens, and how many wake when something does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::super::{Sqlite, SqliteOptions};
use crate::{
    Events, Housekeeping, Jobs, LeaseRequest, LeasedJob, Leases, NewJob, Timestamp, WorkerId, Workers,
};

const MANY: usize = 5_000;
const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn request(worker: WorkerId, kind: &str, wait: Duration) -> LeaseRequest {
    LeaseRequest {
        worker,
        queues: vec!["default".to_owned()],
        kinds: vec![kind.to_owned()],
        reserved_only: false,
        max: 1,
        lease_for: Duration::from_secs(30),
        begin: true,
        wait,
    }
}

struct Crowd {
    store: Arc<Sqlite>,
    worker: WorkerId,
    waiting: JoinSet<Vec<LeasedJob>>,
    _home: tempfile::TempDir,
}

impl Crowd {
    async fn of(many: usize, wait: impl Fn(usize) -> Duration) -> Crowd {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(Sqlite::open(&home.path().join("s.db"), SqliteOptions::default()).unwrap());
        let worker = store.register(AT, "server".to_owned(), Duration::from_mins(1)).await.unwrap();
        let mut waiting = JoinSet::new();
        for number in 0..many {
            let (store, request) = (Arc::clone(&store), request(worker, "a", wait(number)));
            waiting.spawn(async move { store.lease(AT, request).await.unwrap() });
        }
        let crowd = Crowd { store, worker, waiting, _home: home };
        crowd.until(|crowd| crowd.parked() == many).await;
        crowd
    }

    fn parked(&self) -> usize {
        self.store.writer.counted.parked.load(Ordering::Relaxed)
    }

    /// Turns, transactions and looks so far.
    fn counted(&self) -> [u64; 3] {
        let counted = &self.store.writer.counted;
        [&counted.turns, &counted.transactions, &counted.looks].map(|count| count.load(Ordering::Relaxed))
    }

    async fn until(&self, holds: impl Fn(&Crowd) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < Duration::from_mins(1), "{} wait, {:?}", self.parked(), self.counted());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// R-D2, reliability row 32: while nothing happens nobody looks for anything; when something comes, about as many wake as there are
/// jobs; and who has gone is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_waits_costs_nothing() {
    let mut crowd = Crowd::of(MANY, |_| Duration::from_mins(10)).await;
    let [turns, transactions, looks] = crowd.counted();
    // Some looks at what others may have written must pass, however long they take.
    crowd.until(|crowd| crowd.counted()[0] >= turns + 8).await;
    assert_eq!(crowd.counted()[1..], [transactions, looks], "somebody looked, and nothing had happened");

    let jobs = vec![NewJob::new("a", "1"); 7];
    crowd.store.enqueue(AT, jobs).await.unwrap();
    for _ in 0..7 {
        let leased = crowd.waiting.join_next().await.unwrap().unwrap();
        assert_eq!(leased.len(), 1);
    }
    // A new lane is looked into once; then each job is looked for once, and one finds that there are no more.
    let woken = crowd.counted()[2] - looks;
    assert!((7..=9).contains(&woken), "{woken} were woken for 7 jobs");
    crowd.until(|crowd| crowd.parked() == MANY - 7).await;
    let before = crowd.counted()[2];
    crowd.store.enqueue(AT, vec![NewJob::new("another", "1")]).await.unwrap();
    crowd.store.append(AT, Vec::new()).await.unwrap();
    assert!(crowd.counted()[2] - before <= 1, "what is not for them wakes them");

    // Clients that go are forgotten, and get nothing.
    crowd.waiting.abort_all();
    while crowd.waiting.join_next().await.is_some() {}
    crowd.until(|crowd| crowd.parked() == 0).await;
    crowd.store.enqueue(AT, vec![NewJob::new("a", "1")]).await.unwrap();
    let leased = crowd.store.lease(AT, request(crowd.worker, "a", Duration::ZERO)).await.unwrap();
    assert_eq!(leased.len(), 1, "it was given to somebody who has gone");
    crowd.store.close().await.unwrap();
}

/// R-D2: thousands whose time is over at thousands of moments are no thousands of turns, and whoever comes back need not look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_ends_are_taken_together() {
    let wait = |number: usize| Duration::from_millis(500 + u64::try_from(number / 4).unwrap());
    let mut crowd = Crowd::of(2_000, wait).await;
    let began = Instant::now();
    let [turns, transactions, looks] = crowd.counted();
    while let Some(leased) = crowd.waiting.join_next().await {
        assert!(leased.unwrap().is_empty());
    }
    let most = u64::try_from(began.elapsed().as_millis()).unwrap() / 10 + 20;
    let [turned, transacted, looked] = crowd.counted();
    assert!(turned - turns <= most, "{} turns, {most} is enough", turned - turns);
    assert_eq!([transacted, looked], [transactions, looks]);

    let first = tokio::spawn({
        let (store, request) = (Arc::clone(&crowd.store), request(crowd.worker, "a", Duration::from_mins(1)));
        async move { store.lease(AT, request).await.unwrap() }
    });
    crowd.until(|crowd| crowd.parked() == 1).await;
    let transactions = crowd.counted()[1];
    for _ in 0..100 {
        let one = request(crowd.worker, "a", Duration::from_millis(1));
        assert!(crowd.store.lease(AT, one).await.unwrap().is_empty());
    }
    assert_eq!(crowd.counted()[1], transactions, "one of them looks for all");
    crowd.store.enqueue(AT, vec![NewJob::new("a", "1")]).await.unwrap();
    assert_eq!(first.await.unwrap().len(), 1);
    crowd.store.close().await.unwrap();
}

/// R-D2: what is due soon for somebody who has got work meanwhile keeps nobody from sleeping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_any_more_is_no_reason_to_wake() {
    let crowd = Crowd::of(1, |_| Duration::from_mins(10)).await;
    // Somebody waits for what is due in a moment, and gets something else before.
    let soon = NewJob { run_at: Some(AT.after(Duration::from_millis(300))), ..NewJob::new("b", "1") };
    crowd.store.enqueue(AT, vec![soon]).await.unwrap();
    let store = Arc::clone(&crowd.store);
    let other = request(crowd.worker, "b", Duration::from_mins(10));
    let other = tokio::spawn(async move { store.lease(AT, other).await.unwrap() });
    crowd.until(|crowd| crowd.parked() == 2).await;
    crowd.store.enqueue(AT, vec![NewJob::new("b", "2")]).await.unwrap();
    assert_eq!(other.await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_millis(350)).await;
    // A second has 25 looks at what others wrote, and a walk or two.
    let (began, turns) = (Instant::now(), crowd.counted()[0]);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let most = u64::try_from(began.elapsed().as_millis()).unwrap() / 20 + 10;
    assert!(crowd.counted()[0] - turns <= most, "{} turns", crowd.counted()[0] - turns);
    crowd.store.close().await.unwrap();
}
