//! A key that is missing, wrong or late: nothing is served and nothing is written.

use redrive_store::{
    Events, Housekeeping, Jobs, NewJob, Sqlite, SqliteOptions, StoreError, Trouble, enqueue_in,
};

use crate::filled::fill;
use crate::given::{Hand, at, job, wants};
use crate::{NEW, OLD, OLD_BUT_WRONG, open, rotate};

fn words<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    answer.unwrap_err().to_string()
}

/// R-D7: without its key a store does not open, and says which key it needs; nothing in it changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_or_wrong_key_is_a_clear_error() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path, &[OLD]).unwrap();
    fill(&store).await;
    store.close().await.unwrap();
    drop(store);
    let before = std::fs::read(&path).unwrap();
    assert_eq!(words(open(&path, &[])), "the store is encrypted with key `old`, which was not given");
    assert_eq!(
        words(open(&path, &[NEW])),
        "the store is encrypted with key `old`, which was not given (given: new)"
    );
    assert_eq!(
        words(open(&path, &[OLD_BUT_WRONG])),
        "the key given as `old` is not the one that the store was encrypted with"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before, "a store that was refused was written to");
    Hand(&open(&path, &[NEW, OLD]).unwrap()).clean().await;
}

/// R-D7: the store says which key seals. Another order in somebody's ring changes nothing until it is rotated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_of_a_ring_waits_for_a_rotation() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let (old, new) = (open(&path, &[OLD, NEW]).unwrap(), open(&path, &[NEW, OLD]).unwrap());
    Hand(&new).add(job("a")).await;
    let only_old = open(&path, &[OLD]).unwrap();
    assert_eq!(Hand(&only_old).take(at(0), Hand(&only_old).worker().await, &["a"]).await.job.payload, b"a");
    assert_eq!(rotate(&new, 100).await.retired, ["old"]);
    // With one commit it holds for those who run already.
    Hand(&old).add(job("b")).await;
    let only_new = open(&path, &[NEW]).unwrap();
    assert_eq!(Hand(&only_new).take(at(0), Hand(&only_new).worker().await, &["b"]).await.job.payload, b"b");
    let told = words(only_old.enqueue(at(0), vec![job("c")]).await);
    assert_eq!(told, "the store is encrypted with key `new`, which was not given (given: old)");
    // Once more is nothing to do; without a key there is nothing to do it with.
    let again = rotate(&new, 100).await;
    assert!(again.over && again.cells == 0 && again.retired.is_empty());
    Hand(&only_new).clean().await;
}

/// R-D7: a process without the key that was there before serves nothing and writes nothing from the moment on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_without_the_key_is_stopped_when_it_comes() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let plain = open(&path, &[]).unwrap();
    let worker = Hand(&plain).worker().await;
    Hand(&plain).add(job("before")).await;
    let sealed = open(&path, &[OLD]).unwrap();
    let said = "the store is encrypted with key `old`, which was not given";
    assert_eq!(words(plain.enqueue(at(0), vec![job("a")]).await), said);
    assert_eq!(words(redrive_store::Leases::lease(&plain, at(0), wants(worker, &["before"], 1)).await), said);
    assert_eq!(words(plain.event("event_x".to_owned()).await), said);
    assert_eq!(words(plain.reseal(at(0), 10).await), said);
    let status = sealed.status(at(0)).await.unwrap();
    assert_eq!(status.lanes.iter().map(|lane| lane.ready).sum::<u64>(), 1);
    assert!(matches!(
        Sqlite::open(&home.path().join("other.db"), SqliteOptions::default())
            .unwrap()
            .reseal(at(0), 10)
            .await
            .unwrap_err()
            .trouble(),
        Trouble::NoKey
    ));
}

/// R-D7: inside somebody's own transaction jobs are sealed, too; without a key at hand they are refused, not left plain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_enqueued_in_anothers_transaction_is_sealed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path, &[OLD]).unwrap();
    let mut theirs = rusqlite::Connection::open(&path).unwrap();
    let immediate = rusqlite::TransactionBehavior::Immediate;
    let transaction = theirs.transaction_with_behavior(immediate).unwrap();
    let refused = enqueue_in(&transaction, at(0), &[NewJob::new("a", "canary-payload")]);
    assert_eq!(words(refused), "the store is encrypted with key `old`, which was not given");
    transaction.rollback().unwrap();
    let transaction = theirs.transaction_with_behavior(immediate).unwrap();
    let added = store.enqueue_in(&transaction, at(0), &[NewJob::new("a", "canary-payload")]).unwrap();
    transaction.commit().unwrap();
    let raw: Vec<u8> = theirs.query_row("SELECT payload FROM job", [], |row| row.get(0)).unwrap();
    assert!(!raw.windows(6).any(|part| part == b"canary"), "it stands there readable");
    assert_eq!(Hand(&store).record(added[0].id).await.job.unwrap().payload, b"canary-payload");
    Hand(&store).clean().await;
}

/// R-D7: a value that was moved to another row or changed is told by its place; the rest of the store goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_was_moved_is_told_by_its_place() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path, &[OLD]).unwrap();
    let hand = Hand(&store);
    let (one, other, third) = (hand.add(job("a")).await, hand.add(job("b")).await, hand.add(job("c")).await);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute(
        "UPDATE job SET payload = (SELECT payload FROM job WHERE id = ?1) WHERE id = ?2",
        [one.0, other.0],
    )
    .unwrap();
    let said = "job.payload of row 2 cannot be decrypted: it was changed, or it belongs somewhere else";
    assert_eq!(words(store.job(other).await), said);
    assert_eq!(hand.record(third).await.job.unwrap().payload, b"c");
    let report = store.check().await.unwrap();
    assert_eq!(report.violations.iter().map(|found| found.what.as_str()).collect::<Vec<_>>(), [said]);
    assert!(report.checked.contains(&"every sealed value opens".to_owned()));
}
