//! The child's side: this very binary, run again to move one task on until it is over, or until somebody kills it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Clock, Engine, SystemClock};
use redrive_store::{Sqlite, SqliteOptions, Store, TaskId, Timestamp};

use crate::support::{finish, quick, run, worker};

const FOLDER: &str = "REDRIVE_TEST_FOLDER";
const AHEAD: &str = "REDRIVE_TEST_AHEAD";
/// Short, since nobody waits for those who were killed: the clock of the next process is ahead of it.
const LEASE: Duration = Duration::from_secs(5);

/// The machine's clock, some time ahead: what a dead process had is free for the next one at once.
#[derive(Debug)]
struct Ahead(SystemClock, Duration);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.0.now().after(self.1)
    }

    fn steady(&self) -> Duration {
        self.0.steady() + self.1
    }
}

/// The engine of the process that comes as the n-th to this store.
pub(crate) fn engine(folder: &Path, nth: u32) -> (Engine, Arc<dyn Store>) {
    let store: Arc<dyn Store> =
        Arc::new(Sqlite::open(&folder.join("redrive.db"), SqliteOptions::default()).unwrap());
    let ahead = Ahead(SystemClock::new(), Duration::from_mins(1) * nth);
    let engine = Engine::builder(Arc::clone(&store))
        .policy(quick())
        .clock(Arc::new(ahead))
        .snapshots_in(folder.join("snapshots"), Vec::new())
        .build()
        .unwrap();
    (engine, store)
}

/// Not a test of its own: what a child does. Without a folder there is nothing to do.
#[test]
fn moves_the_task_on() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let nth = std::env::var(AHEAD).unwrap().parse().unwrap();
    run(async {
        let (engine, store) = engine(&PathBuf::from(folder), nth);
        finish(&engine, TaskId(1), worker(&engine).lease_for(LEASE)).await;
        store.close().await.unwrap();
    });
}

/// Makes this command the n-th process that comes to this store.
pub(crate) fn dress(command: &mut Command, folder: &Path, nth: u32) {
    command
        .args(["--exact", "child::moves_the_task_on", "--nocapture", "--test-threads=1", "--quiet"])
        .env(FOLDER, folder)
        .env(AHEAD, nth.to_string())
        .env("RUST_BACKTRACE", "0");
}
