//! SIGKILL at every n-th write of a fixed script: nothing acknowledged is lost, nothing settled twice, and the script goes
//! on to its end without an operator (reliability row 1).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use redrive_store::{Housekeeping, Sqlite, SqliteOptions};

use crate::journal::{Acknowledged, Journal};
use crate::process::{Process, can_trace, traced, was_killed};
use crate::script::Script;

/// The number of points below which the sweep is not what it says.
const LEAST: usize = 200;

/// Kills at the n-th call of one kind on one file.
#[derive(Clone, Copy)]
struct Series {
    name: &'static str,
    task: &'static str,
    /// Whether a store is there already, left by a process that was killed.
    warm: bool,
    file: Option<&'static str>,
    calls: &'static str,
    /// The first n, and how much further the next one is.
    from: usize,
    stride: usize,
    most: usize,
}

/// Beginning in nothing: making the file, the change to a journal ahead, the migration, the reserve. Then, on a store that
/// a killed process left: commits of one caller and of several, and checkpoints.
const SERIES: &[Series] = &[
    Series {
        name: "making it, every write",
        task: "script 1",
        warm: false,
        file: None,
        calls: "pwrite64",
        from: 1,
        stride: 1,
        most: 70,
    },
    Series {
        name: "making it, the rest",
        task: "script 1",
        warm: false,
        file: None,
        calls: "fsync,fdatasync,ftruncate,unlink,fallocate",
        from: 1,
        stride: 1,
        most: 12,
    },
    Series {
        name: "first commits",
        task: "script 1",
        warm: false,
        file: Some("redrive.db-wal"),
        calls: "pwrite64",
        from: 70,
        stride: 60,
        most: 10,
    },
    Series {
        name: "commits",
        task: "script 1",
        warm: true,
        file: Some("redrive.db-wal"),
        calls: "pwrite64",
        from: 2,
        stride: 17,
        most: 88,
    },
    Series {
        name: "syncs of commits",
        task: "script 1",
        warm: true,
        file: Some("redrive.db-wal"),
        calls: "fsync,fdatasync",
        from: 1,
        stride: 3,
        most: 45,
    },
    Series {
        name: "checkpoints at the end",
        task: "script 1",
        warm: true,
        file: Some("redrive.db"),
        calls: "pwrite64,fsync,fdatasync,ftruncate",
        from: 1,
        stride: 2,
        most: 25,
    },
    Series {
        name: "checkpoints beside commits",
        task: "heavy 1",
        warm: true,
        file: Some("redrive.db"),
        calls: "pwrite64",
        from: 1,
        stride: 110,
        most: 20,
    },
];

/// Reliability row 1; R-D1, R-D2, R-E1; invariants I1, I2, I3, I5, I7, I9
#[test]
fn killed_at_any_write_it_loses_nothing() {
    if !can_trace() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let template = home.path().join("template");
    make_template(&template);
    let left = Mutex::new(SERIES.iter().rev().collect::<Vec<_>>());
    let points = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(series) = left.lock().unwrap().pop() else { break };
                    let killed = run_series(series, &template);
                    points.lock().unwrap().push((series.name, killed));
                }
            });
        }
    });
    let points = points.into_inner().unwrap();
    let all: usize = points.iter().map(|(_, killed)| killed).sum();
    println!("killed at {all} points: {points:?}");
    assert!(points.iter().all(|(_, killed)| *killed > 0), "a series never killed: {points:?}");
    assert!(all >= LEAST, "only {all} points");
}

fn run_series(series: &Series, template: &Path) -> usize {
    for index in 0..series.most {
        let n = series.from + index * series.stride;
        let outcome = std::panic::catch_unwind(|| run_point(series, n, template));
        match outcome {
            Ok(true) => {}
            Ok(false) => return index,
            Err(cause) => {
                println!("{}: killed at call {n} of {}", series.name, series.calls);
                std::panic::resume_unwind(cause);
            }
        }
    }
    series.most
}

/// One life and what comes after it. Answers whether it was killed at all.
fn run_point(series: &Series, n: usize, template: &Path) -> bool {
    let home = tempfile::tempdir().unwrap();
    let (store, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
    if series.warm {
        copy_store(template, home.path());
    }
    let trace = format!("trace={}", series.calls);
    let inject = format!("inject={}:signal=KILL:when={n}", series.calls);
    let mut interference = vec!["-e", &trace, "-e", &inject];
    let on = series.file.map(|file| home.path().join(file));
    if let Some(on) = &on {
        interference.extend(["-P", on.to_str().unwrap()]);
    }
    let status = Process::spawn(&mut traced(&interference, series.task, &store, &journal)).end();
    let told = Acknowledged::read(&journal);
    if !was_killed(status) {
        assert!(status.success() && told.finished, "the script failed by itself: {status:?}");
        assert!(told.lines > 100, "a hollow script");
        return false;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Sqlite::open(&store, SqliteOptions::default()).unwrap());
        told.holds(&store).await;
        // A shorter script on top, then everything to its end.
        let script = Script { hour: 2, rounds: 2, payload_bytes: 100 };
        let journal = Arc::new(Journal::open(&journal));
        script.run(&store, &journal).await;
        Script { hour: 3, ..script }.drain(&store, &journal).await;
        Acknowledged::read(&home.path().join("journal")).holds(&store).await;
        store.close().await.unwrap();
    });
    true
}

/// A store as a killed process leaves it: with a journal that nobody has copied into the main file.
fn make_template(template: &Path) {
    std::fs::create_dir(template).unwrap();
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store =
            Arc::new(Sqlite::open(&home.path().join("redrive.db"), SqliteOptions::default()).unwrap());
        let journal = Arc::new(Journal::open(&home.path().join("journal")));
        Script { hour: 0, rounds: 3, payload_bytes: 100 }.run(&store, &journal).await;
        copy_store(home.path(), template);
        store.close().await.unwrap();
    });
}

fn copy_store(from: &Path, to: &Path) {
    for name in ["redrive.db", "redrive.db-wal", "journal"] {
        let (from, to): (PathBuf, PathBuf) = (from.join(name), to.join(name));
        std::fs::copy(&from, &to).unwrap();
    }
}
