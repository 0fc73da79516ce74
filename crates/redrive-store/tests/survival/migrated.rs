//! A store of an older schema becomes one of today's, whole, sealed or not (R-D1, reliability row 36).

use std::path::Path;

use redrive_policy::Cause;
use redrive_store::{
    DeadLetter, DeadLetters, GroupCounts, GroupQuery, GroupState, Groups, Housekeeping, JobId, JobState,
    KeyRing, LeaseToken, LetterFilter, NewJob, NewTask, Redriven, Sqlite, SqliteOptions, TaskStep, Tasks,
};

use crate::given::{Hand, at, dead, job, retry, success};

const FIRST: &str = include_str!("../../migrations/sqlite/0001_jobs.sql");
const SECOND: &str = include_str!("../../migrations/sqlite/0002_recovery.sql");

/// What was in the store before.
struct Before {
    letters: Vec<DeadLetter>,
    running: LeaseToken,
    redriven_and_running: LeaseToken,
    waiting: JobId,
    redriven: JobId,
}

/// A store of today with one of everything, closed.
async fn filled(path: &Path, options: SqliteOptions) -> Before {
    let store = Sqlite::open(path, options).unwrap();
    let hand = Hand(&store);
    let worker = hand.worker().await;
    let called = NewJob { caller_id: Some("order-1".to_owned()), ..job("a") };
    hand.letter(at(1), worker, called, Cause::Network).await;
    hand.letter(at(2), worker, job("a"), Cause::Network).await;
    let other = hand.add(job("b")).await;
    let leased = hand.take(at(3), worker, &["b"]).await;
    assert_eq!(leased.token.job, other);
    hand.done(at(3), leased.token, dead(Cause::Timeout, "too slow")).await;
    let waiting = hand.add(job("c")).await;
    let leased = hand.take(at(4), worker, &["c"]).await;
    hand.done(at(4), leased.token, retry(at(5))).await;
    hand.add(job("d")).await;
    let running = hand.take(at(4), worker, &["d"]).await.token;
    hand.add(job("e")).await;
    let leased = hand.take(at(4), worker, &["e"]).await;
    hand.done(at(4), leased.token, success()).await;
    let redriven = hand.letter(at(5), worker, job("f"), Cause::Network).await;
    let again = hand.letter(at(5), worker, job("g"), Cause::Network).await;
    assert_eq!(store.redrive(at(6), vec![redriven, again], "redriven").await.unwrap(), [Redriven::Ready; 2]);
    let redriven_and_running = hand.take(at(6), worker, &["g"]).await.token;
    let letters = store.letters(LetterFilter::default(), 10).await.unwrap();
    assert_eq!(letters.len(), 3);
    store.close().await.unwrap();
    Before { letters, running, redriven_and_running, waiting, redriven }
}

/// The same rows in a file of an older schema, as the redrive of then would have written them.
fn in_the_schema(number: i64, from: &Path, to: &Path) {
    let schema = if number == 1 { FIRST.to_owned() } else { [FIRST, SECOND].concat() };
    let old = rusqlite::Connection::open(to).unwrap();
    old.execute("ATTACH ?1 AS today", [from.to_str().unwrap()]).unwrap();
    let application: i64 = old.query_row("PRAGMA today.application_id", [], |row| row.get(0)).unwrap();
    old.execute_batch(&format!(
        "BEGIN; {schema} PRAGMA application_id = {application}; PRAGMA user_version = {number}; DELETE FROM store;"
    ))
    .unwrap();
    let names = |text: &str| -> Vec<String> {
        let mut statement = old.prepare(text).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for table in names("SELECT name FROM main.sqlite_master WHERE type = 'table'") {
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}', 'main')"));
        let values: Vec<String> = columns
            .iter()
            .map(|column| match (table.as_str(), column.as_str()) {
                ("dead_letter", "context" | "report") => {
                    format!("(SELECT r.{column} FROM today.letter_report r WHERE r.job_id = x.job_id)")
                }
                // Nobody remembered that a job was redriven.
                ("lease", "flags") if number == 1 => "flags & 7".to_owned(),
                _ => column.clone(),
            })
            .collect();
        let (columns, values) = (columns.join(", "), values.join(", "));
        old.execute_batch(&format!(
            "INSERT INTO main.{table} ({columns}) SELECT {values} FROM today.{table} x"
        ))
        .unwrap();
    }
    old.execute_batch("COMMIT").unwrap();
}

async fn comes_through(options: SqliteOptions) {
    let home = tempfile::tempdir().unwrap();
    let (today, path) = (home.path().join("today.db"), home.path().join("redrive.db"));
    let before = filled(&today, options.clone()).await;
    in_the_schema(1, &today, &path);
    let store = Sqlite::open(&path, options).unwrap();
    let hand = Hand(&store);
    hand.clean().await;
    assert_eq!(store.letters(LetterFilter::default(), 10).await.unwrap(), before.letters);
    let by_caller = LetterFilter { caller_id: Some("order-1".to_owned()), ..LetterFilter::default() };
    assert_eq!(store.letters(by_caller, 10).await.unwrap(), before.letters[2..]);
    let groups = store.groups(GroupQuery::default(), 10).await.unwrap();
    let seen: Vec<_> =
        groups.iter().map(|group| (group.sample.as_str(), group.counts, group.state)).collect();
    let letters = |letters| GroupCounts { letters, failures: letters, ..GroupCounts::default() };
    let open = GroupState::Open;
    assert_eq!(seen, [("it is dead", letters(2), open), ("too slow", letters(1), open)]);
    assert_eq!((groups[0].first_seen, groups[0].last_seen), (at(1), at(2)));
    assert_eq!(groups[0].cause, Cause::Network);

    // Everybody goes on where they were.
    hand.done(at(10), before.running, success()).await;
    hand.done(at(10), before.redriven_and_running, dead(Cause::Network, "it is dead")).await;
    let JobState::Dead(letter) = hand.record(before.redriven_and_running.job).await.state else {
        panic!("no letter");
    };
    assert_eq!(letter.redrives, 1);
    let worker = hand.worker().await;
    for (kind, id) in [("c", before.waiting), ("f", before.redriven)] {
        let leased = hand.take(at(10), worker, &[kind]).await;
        assert_eq!(leased.token.job, id);
        hand.done(at(11), leased.token, success()).await;
    }
    let ids = before.letters.iter().map(|letter| letter.id).collect();
    assert_eq!(store.redrive(at(12), ids, "redriven").await.unwrap(), [Redriven::Ready; 3]);
    let leased = hand.take(at(12), worker, &["b"]).await;
    hand.done(at(13), leased.token, success()).await;
    let groups = store.groups(GroupQuery::default(), 10).await.unwrap();
    let slow = groups.iter().find(|group| group.fingerprint == "print of too slow").unwrap();
    assert_eq!(slow.state, GroupState::Resolved);
    hand.clean().await;
    store.close().await.unwrap();
}

/// R-D1, R-T1: what was mended comes through a second time, and tasks can be started.
#[tokio::test]
async fn a_store_of_the_second_schema_comes_through() {
    let home = tempfile::tempdir().unwrap();
    let (today, path) = (home.path().join("today.db"), home.path().join("redrive.db"));
    let before = filled(&today, SqliteOptions::default()).await;
    in_the_schema(2, &today, &path);
    let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
    let then = Sqlite::open(&today, SqliteOptions::default()).unwrap();
    Hand(&store).clean().await;
    assert_eq!(store.letters(LetterFilter::default(), 10).await.unwrap(), before.letters);
    let groups = GroupQuery::default;
    assert_eq!(store.groups(groups(), 10).await.unwrap(), then.groups(groups(), 10).await.unwrap());
    assert_eq!(Hand(&store).everything().await, Hand(&then).everything().await);
    assert_eq!(store.tasks(false, None, 10).await.unwrap(), []);
    let task = NewTask {
        name: "first".to_owned(),
        place: None,
        plan: serde_json::json!(1),
        subtasks: 1,
        progress: serde_json::json!(0),
    };
    let task = store.start_task(at(9), task).await.unwrap();
    let begin = vec![(0, job("a"))];
    let step =
        TaskStep { task, version: 1, begin, mark: Vec::new(), progress: None, end: None, events: Vec::new() };
    let first = store.advance_task(at(9), step).await.unwrap().expect("the first step").jobs[0];
    assert!(first > before.redriven_and_running.job);
    Hand(&store).clean().await;
}

/// R-D1
#[tokio::test]
async fn a_store_of_the_first_schema_comes_through() {
    comes_through(SqliteOptions::default()).await;
}

/// R-D1, R-D7: sealed values are not touched by it.
#[tokio::test]
async fn a_sealed_store_of_the_first_schema_comes_through() {
    let line = KeyRing::generate("first").unwrap();
    let keys = Some(KeyRing::parse("first", &line).unwrap());
    comes_through(SqliteOptions { keys, ..SqliteOptions::default() }).await;
}
