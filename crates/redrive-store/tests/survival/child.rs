//! The child's side: this very binary, run again by another test with a task in its environment.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_store::{Durability, Housekeeping, Jobs, NewJob, Sqlite, SqliteOptions};

use crate::given::{Hand, at};
use crate::journal::Journal;
use crate::keys;
use crate::processes;
use crate::script::Script;

/// Without a task there is nothing to do: this is no test, but how the others run a process of their own.
#[test]
fn does_what_it_is_told() {
    let Ok(task) = std::env::var("REDRIVE_TEST_TASK") else { return };
    let path = PathBuf::from(std::env::var_os("REDRIVE_TEST_STORE").unwrap());
    let journal = PathBuf::from(std::env::var_os("REDRIVE_TEST_JOURNAL").unwrap());
    let sign = journal.with_extension("sign");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let lines = journal;
        let journal = Arc::new(Journal::open(&lines));
        let (task, number) = task.split_once(' ').unwrap_or((&task, "0"));
        let number: i64 = number.parse().unwrap();
        let durability = match task {
            "flood-relaxed" => Durability::RelaxedMayLoseAcknowledgedWork,
            _ => Durability::Full,
        };
        let options = SqliteOptions { durability, ..SqliteOptions::default() };
        let store = Arc::new(Sqlite::open(&path, options).unwrap());
        match task {
            "script" => {
                let script = Script { hour: number, rounds: 12, payload_bytes: 200 };
                script.run(&store, &journal).await;
            }
            // Large enough that the journal is copied into the main file while the script runs.
            "heavy" => {
                let script = Script { hour: number, rounds: 12, payload_bytes: 150_000 };
                script.run(&store, &journal).await;
            }
            "flood" | "flood-relaxed" => flood(&store, &journal).await,
            "mixed" => processes::mixed(&store, &journal, number).await,
            "hold" => processes::hold(&store, &journal, &sign).await,
            "add-one" => {
                journal.enqueued(Hand(&*store).add(NewJob::new("a", "x")).await);
            }
            "stubborn" => {
                stubborn(&store, &journal, 200, 200).await;
            }
            "stubborn-heavy" => {
                let mut told = stubborn(&store, &journal, 150, 300_000).await;
                // A checkpoint runs beside: where the machine is busy its failure comes late, and must come all the same.
                let began = std::time::Instant::now();
                while !told && began.elapsed() < std::time::Duration::from_secs(20) {
                    told = stubborn(&store, &journal, 10, 300_000).await;
                }
            }
            "keys" => keys::take_and_complete(&store, &lines).await,
            "out-of-files" => out_of_files(&store, &journal).await,
            other => panic!("what is {other}?"),
        }
        store.close().await.unwrap();
        journal.finished();
    });
}

/// Adds jobs for as long as it lives, from several callers.
async fn flood(store: &Arc<Sqlite>, journal: &Arc<Journal>) {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (store, journal) = (Arc::clone(store), Arc::clone(journal));
        callers.spawn(async move {
            loop {
                let added = store.enqueue(at(0), vec![NewJob::new("a", vec![7; 3_000])]).await.unwrap();
                journal.enqueued(added[0].id);
            }
        });
    }
    callers.join_all().await;
}

/// Goes on asking, whatever it is told; answers whether it was refused anything.
async fn stubborn(store: &Sqlite, journal: &Journal, times: usize, bytes: usize) -> bool {
    let mut refused = false;
    for _ in 0..times {
        match store.enqueue(at(0), vec![NewJob::new("a", vec![7; bytes])]).await {
            Ok(added) => journal.enqueued(added[0].id),
            Err(error) => {
                refused = true;
                journal.refused(&error);
            }
        }
    }
    refused
}

/// Takes every descriptor that there is, and works on.
async fn out_of_files(store: &Sqlite, journal: &Journal) {
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    for _ in 0..50 {
        journal.enqueued(Hand(store).add(NewJob::new("a", "x")).await);
    }
    Hand(store).clean().await;
    drop(taken);
}
