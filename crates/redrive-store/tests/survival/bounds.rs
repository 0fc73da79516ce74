//! The journal stays bounded, however much is written, and whoever looked on in between (reliability row 13).

use std::path::Path;
use std::sync::Arc;

use redrive_store::{Durability, Housekeeping, Jobs, Leases, NewJob, Settlement, Sqlite, SqliteOptions};

use crate::given::{Hand, at, success, wants};

/// What the journal may hold: a few times the size at which it is copied into the main file.
const BOUND: u64 = 80 << 20;
/// Where several write or read, they are in each other's way now and then.
const SHARED_BOUND: u64 = 160 << 20;

fn open(path: &Path) -> Arc<Sqlite> {
    // How sure a commit is has nothing to do with how long the journal is; this is quicker.
    let durability = Durability::RelaxedMayLoseAcknowledgedWork;
    Arc::new(Sqlite::open(path, SqliteOptions { durability, ..SqliteOptions::default() }).unwrap())
}

fn journal_bytes(path: &Path) -> u64 {
    std::fs::metadata(path.with_extension("db-wal")).map_or(0, |found| found.len())
}

/// So many rounds of jobs that come and go, about 100 KiB of journal each. Answers the longest that the journal was.
async fn churn(store: &Arc<Sqlite>, path: &Path, rounds: usize) -> u64 {
    let worker = Hand(&**store).worker().await;
    let mut longest = 0;
    for _ in 0..rounds {
        store.enqueue(at(0), vec![NewJob::new("a", vec![7; 4_000]); 8]).await.unwrap();
        let leased = store.lease(at(0), wants(worker, &["a"], 8)).await.unwrap();
        let done = leased.iter().map(|leased| Settlement { token: leased.token, ending: success() });
        store.settle(at(0), done.collect()).await.unwrap();
        longest = longest.max(journal_bytes(path));
    }
    longest
}

/// Row 13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_stays_bounded_under_sustained_writes() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path);
    let longest = churn(&store, &path, 1_800).await;
    println!("one writer: the journal was at most {} KiB long", longest >> 10);
    assert!((1..BOUND).contains(&longest), "{longest}");
    let another = open(&path);
    let (first, second) = tokio::join!(churn(&store, &path, 1_200), churn(&another, &path, 1_200));
    println!("two writers: at most {} KiB", first.max(second) >> 10);
    assert!(first.max(second) < SHARED_BOUND, "{first} {second}");
    another.close().await.unwrap();
    Hand(&*store).clean().await;
}

/// Row 13: a reader that stays on an old state makes the journal grow; when it goes, the journal is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_used_again_when_a_reader_goes() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path);
    churn(&store, &path, 10).await;
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    let pinned = churn(&store, &path, 600).await;
    assert!(pinned > BOUND / 2, "the reader was in nobody's way: {pinned}");
    reader.execute_batch("ROLLBACK").unwrap();
    // Enough to fill the pinned length once more, were it not used again.
    let after = churn(&store, &path, 1_600).await;
    println!("pinned {} KiB, afterwards {} KiB", pinned >> 10, after >> 10);
    assert!(after < pinned + SHARED_BOUND / 2, "the journal grows on: {pinned}, then {after}");
    drop(reader);
    Hand(&*store).clean().await;
    store.close().await.unwrap();
    assert_eq!(journal_bytes(&path), 0, "closing leaves no journal behind");
}
