//! What SQLite itself gives on this disk, for the ratio: one thread, a bare table, a commit for every 64, nobody to
//! answer, no events, no leases, no counters.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::load::payload;

const GROUP: i64 = 64;

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE job (id INTEGER PRIMARY KEY, run_at INTEGER NOT NULL, taken INTEGER NOT NULL, payload BLOB NOT NULL);
             CREATE INDEX due ON job (run_at, id) WHERE taken = 0;",
        )
        .expect("a schema");
    connection
}

/// Inserts only.
pub fn enqueue(folder: &Path, span: Duration) -> f64 {
    let connection = open(&folder.join("raw.db"));
    let (body, began, mut next) = (payload(), Instant::now(), 0);
    while began.elapsed() < span {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begun");
        insert(&connection, &mut next, &body);
        connection.execute_batch("COMMIT").expect("committed");
    }
    next as f64 / began.elapsed().as_secs_f64()
}

/// Inserts, claims and completions, all in one commit.
pub fn mixed(folder: &Path, span: Duration) -> f64 {
    let connection = open(&folder.join("raw.db"));
    let (body, began, mut next, mut done) = (payload(), Instant::now(), 0, 0_u64);
    let mut held: Vec<i64> = Vec::new();
    while began.elapsed() < span {
        connection.execute_batch("BEGIN IMMEDIATE").expect("begun");
        insert(&connection, &mut next, &body);
        let mut delete = connection.prepare_cached("DELETE FROM job WHERE id = ?1").expect("a statement");
        for id in held.drain(..) {
            delete.execute([id]).expect("completed");
            done += 1;
        }
        let mut claim = connection
            .prepare_cached("SELECT id, payload FROM job WHERE taken = 0 ORDER BY run_at, id LIMIT ?1")
            .expect("a statement");
        let ids = claim.query_map([GROUP], |row| row.get::<_, i64>(0)).expect("a claim");
        held.extend(ids.map(|id| id.expect("an id")));
        let mut take =
            connection.prepare_cached("UPDATE job SET taken = 1 WHERE id = ?1").expect("a statement");
        for id in &held {
            take.execute([id]).expect("taken");
        }
        connection.execute_batch("COMMIT").expect("committed");
    }
    done as f64 / began.elapsed().as_secs_f64()
}

fn insert(connection: &Connection, next: &mut i64, body: &[u8]) {
    let mut insert =
        connection.prepare_cached("INSERT INTO job VALUES (?1, ?1, 0, ?2)").expect("a statement");
    for _ in 0..GROUP {
        insert.execute(rusqlite::params![*next, body]).expect("inserted");
        *next += 1;
    }
}
