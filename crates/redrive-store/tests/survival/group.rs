//! Callers that share a transaction, and callers that bring their own: one's trouble is its own.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::{
    Housekeeping, Jobs, Leases, NewJob, Sqlite, SqliteOptions, Timestamp, Trouble, enqueue_in,
};
use rusqlite::TransactionBehavior;

use crate::given::{Hand, at, job, wants};

fn place() -> (tempfile::TempDir, std::path::PathBuf, Arc<Sqlite>) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
    (home, path, store)
}

/// Design §4: one caller's bad row, met by the database itself in the middle of a group, never fails its neighbours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_database_refuses_is_one_callers_trouble() {
    let (_home, path, store) = place();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON job WHEN NEW.payload = x'00' BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
        )
        .unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..300_usize {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let payload = if number % 10 == 0 { vec![0] } else { vec![1] };
            // The bad one comes second in its call: the first of that call must go with it.
            let told = store.enqueue(at(0), vec![job("a"), NewJob::new("a", payload)]).await;
            (number, told)
        });
    }
    while let Some(told) = callers.join_next().await {
        let (number, told) = told.unwrap();
        match told {
            Ok(_) => assert_ne!(number % 10, 0),
            Err(error) => {
                assert_eq!(number % 10, 0, "{error}");
                assert!(
                    matches!(error.trouble(), Trouble::Database(why) if why.contains("poisoned")),
                    "{error}"
                );
            }
        }
    }
    assert_eq!(store.status(at(0)).await.unwrap().lanes[0].ready, 540);
    Hand(&*store).clean().await;
}

/// Invariants I1 and I2, R-E1: a transaction fails at its very end, after somebody who waits was given a job in it. The job
/// is undone, and so is the gift: neither a lease of nothing nor an event that never was comes of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_undone_is_given_to_nobody() {
    let (_home, path, store) = place();
    let hand = Hand(&*store);
    let worker = hand.worker().await;
    let last = hand.record(hand.add(job("other")).await).await.event;
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER late BEFORE UPDATE ON store BEGIN SELECT RAISE(ABORT, 'too late'); END",
        )
        .unwrap();
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (its, ended) = (Arc::clone(&store), Arc::clone(&over));
    let hammer = tokio::spawn(async move {
        while !ended.load(std::sync::atomic::Ordering::Relaxed) {
            its.enqueue(at(0), vec![job("a")]).await.unwrap_err();
        }
    });
    for _ in 0..20 {
        let wait = Duration::from_millis(15);
        let request = redrive_store::LeaseRequest { wait, begin: false, ..wants(worker, &["a"], 1) };
        let (leased, seen) = tokio::join!(
            store.lease(at(0), request),
            redrive_store::Events::wait_for_events(&*store, last, wait)
        );
        assert!(leased.unwrap_or_default().is_empty(), "a lease of a job that never was");
        assert_eq!(seen.unwrap_or(last), last, "an event that never was");
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    hammer.await.unwrap();
    hand.clean().await;
}

/// R-D1: inside the caller's own transaction, the job is there if and only if it commits, and wakes who waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_in_the_callers_transaction_shares_its_fate() {
    let (_home, path, store) = place();
    let hand = Hand(&*store);
    let worker = hand.worker().await;
    let mut mine = rusqlite::Connection::open(&path).unwrap();
    mine.busy_timeout(Duration::from_secs(30)).unwrap();
    let begin = |mine: &mut rusqlite::Connection, commit: bool, now: Timestamp| {
        let transaction = mine.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let added = enqueue_in(&transaction, now, &[job("mine"), job("mine")]).unwrap();
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        added[0].id
    };
    begin(&mut mine, false, at(0));
    assert!(store.lease(at(0), wants(worker, &["mine"], 9)).await.unwrap().is_empty());
    // What the store itself adds in between must not get the numbers that were rolled back with another content.
    let theirs = hand.add(job("theirs")).await;
    let (waiting, its) = (wants(worker, &["mine"], 9), Arc::clone(&store));
    let waiting = redrive_store::LeaseRequest { wait: Duration::from_secs(20), ..waiting };
    let waits = tokio::spawn(async move { its.lease(at(0), waiting).await.unwrap() });
    let id = begin(&mut mine, true, at(0));
    assert_ne!(id, theirs);
    assert_eq!(waits.await.unwrap().len(), 2);
    let bad = mine.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    assert!(enqueue_in(&bad, at(0), &[NewJob { priority: 999, ..job("x") }]).is_err());
    bad.rollback().unwrap();
    hand.clean().await;
}

/// Reliability row 14: while somebody holds the store, callers wait; nobody hears of a lock, and reading goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_somebody_holds_the_store_callers_wait() {
    let (_home, path, store) = place();
    let mut theirs = rusqlite::Connection::open(&path).unwrap();
    let held = theirs.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = Arc::clone(&store);
        callers.spawn(async move { store.enqueue(at(0), vec![job("a")]).await.unwrap()[0].id });
    }
    for _ in 0..50 {
        assert_eq!(store.status(at(0)).await.unwrap().events, 0);
    }
    assert!(callers.try_join_next().is_none(), "somebody was answered while the store was held");
    held.commit().unwrap();
    assert_eq!(callers.join_all().await.len(), 50);
    Hand(&*store).clean().await;
}

/// Reliability row 14: what may wait is bounded. More is refused at once, with the word that it may pass; nobody's answer is
/// lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_bounded_and_nobody_is_forgotten() {
    const CALLERS: usize = 110_000;
    let (_home, path, store) = place();
    let mut theirs = rusqlite::Connection::open(&path).unwrap();
    let held = theirs.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let store = Arc::clone(&store);
        callers.spawn(async move { store.begin(at(0), Vec::new()).await });
    }
    // The first that is refused shows that all others wait.
    let first = callers.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(first.trouble(), Trouble::Overloaded) && first.may_pass(), "{first}");
    held.commit().unwrap();
    let (mut done, mut refused) = (0, 1);
    while let Some(told) = callers.join_next().await {
        match told.unwrap() {
            Ok(_) => done += 1,
            Err(error) => {
                assert!(matches!(error.trouble(), Trouble::Overloaded), "{error}");
                refused += 1;
            }
        }
    }
    println!("{done} served, {refused} refused");
    assert_eq!(done + refused, CALLERS);
    assert!(done >= 100_000, "{done}");
    Hand(&*store).add(job("a")).await;
}
