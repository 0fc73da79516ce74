//! Rotating keys while others work, and through a kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redrive_policy::Cause;
use redrive_store::{Ending, Housekeeping, Jobs, Leases, NewJob, Settled, Settlement, Sqlite, Workers};

use crate::filled::{fill, told};
use crate::given::{Hand, SECOND, at, dead, success, wants};
use crate::{NEW, OLD, open, rotate};

/// Adds, leases and settles until it is told to stop; answers how many jobs it saw through. Everything must succeed.
async fn work(store: Arc<Sqlite>, stop: Arc<AtomicBool>, number: usize) -> u64 {
    let worker = store.register(at(0), format!("worker {number}"), SECOND * 600).await.unwrap();
    let kind = format!("load-{number}");
    let mut seen = 0;
    while !stop.load(Ordering::Relaxed) {
        let payload = format!("payload {number}.{seen}");
        store.enqueue(at(0), vec![NewJob::new(kind.clone(), payload.clone())]).await.unwrap();
        let leased = store.lease(at(0), wants(worker, &[&kind], 1)).await.unwrap().pop().unwrap();
        assert_eq!(leased.job.payload, payload.as_bytes());
        let ending: Ending = if seen % 7 == 0 { dead(Cause::Network, "load") } else { success() };
        let settled = store.settle(at(0), vec![Settlement { token: leased.token, ending }]).await.unwrap();
        assert!(matches!(settled[0], Settled::Done { .. }));
        seen += 1;
    }
    seen
}

/// R-D7: rotation without downtime: two processes' worth of workers go on while a plain store is encrypted and then
/// rotated, no operation fails, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_go_on_while_keys_are_rotated() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let plain = open(&path, &[]).unwrap();
    fill(&plain).await;
    for _ in 0..10 {
        plain.enqueue(at(0), vec![NewJob::new("later", "much ado"); 100]).await.unwrap();
    }
    let before = told(&plain).await;
    plain.close().await.unwrap();
    let mut retired = Vec::new();
    for (lines, others) in [([OLD, NEW], [OLD, NEW]), ([NEW, OLD], [OLD, NEW])] {
        let store = Arc::new(open(&path, &lines).unwrap());
        let other = Arc::new(open(&path, &others).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = AtomicU64::new(0);
        let workers: Vec<_> = (0..4)
            .map(|number| {
                let store = if number % 2 == 0 { &store } else { &other };
                tokio::spawn(work(Arc::clone(store), Arc::clone(&stop), number))
            })
            .collect();
        loop {
            let round = store.reseal(at(0), 50).await.unwrap();
            rounds.fetch_add(1, Ordering::Relaxed);
            if round.over {
                retired.push(round.retired);
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let mut seen = 0;
        for worker in workers {
            seen += worker.await.unwrap();
        }
        println!("{} rounds beside {seen} jobs", rounds.load(Ordering::Relaxed));
        assert!(rounds.load(Ordering::Relaxed) > 20 && seen > 0, "it was no rotation under load");
        Hand(&*store).clean().await;
        store.close().await.unwrap();
        other.close().await.unwrap();
    }
    assert_eq!(retired, [vec![], vec!["old".to_owned()]]);
    // What was there before is all there, under the new key alone.
    let store = open(&path, &[NEW]).unwrap();
    let after = told(&store).await;
    for line in before.split("canary-").skip(1) {
        let word = &line[..4];
        assert!(after.contains(&format!("canary-{word}")), "canary-{word} is lost");
    }
    Hand(&store).clean().await;
}

/// A child that is killed at the end of the test, whatever happens.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// How far the rotation in this store has come, seen from outside.
fn cursor(path: &Path) -> Option<(i64, i64)> {
    let raw = rusqlite::Connection::open(path).unwrap();
    raw.busy_timeout(Duration::from_secs(10)).unwrap();
    raw.query_row("SELECT step, reached FROM reseal", [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

/// The child's side: this very binary, run again. Without a task there is nothing to do.
#[test]
fn rotates_a_row_at_a_time() {
    let Some(path) = std::env::var_os("REDRIVE_TEST_ROTATE").map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { rotate(&open(&path, &[NEW, OLD]).unwrap(), 1).await });
}

/// R-D7: killed in the middle of a rotation, at several places, a store is whole, serves under both keys, and the rotation
/// goes on where it was and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_is_killed_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path, &[OLD]).unwrap();
    fill(&store).await;
    for _ in 0..8 {
        store.enqueue(at(0), vec![NewJob::new("later", "much ado"); 100]).await.unwrap();
    }
    let before = told(&store).await;
    store.close().await.unwrap();
    let mut reached = (0, 0);
    for _ in 0..3 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "rotation::rotates_a_row_at_a_time", "--quiet"])
            .env("REDRIVE_TEST_ROTATE", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let began = Instant::now();
        while cursor(&path).is_none_or(|now| now <= (reached.0, reached.1 + 20)) {
            assert!(began.elapsed() < Duration::from_mins(1), "the rotation does not come on");
            assert!(child.0.try_wait().unwrap().is_none(), "it ended before it could be killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(child);
        let now = cursor(&path).unwrap();
        assert!(now > reached, "it began anew: {now:?} after {reached:?}");
        reached = now;
        let store = open(&path, &[OLD, NEW]).unwrap();
        Hand(&store).clean().await;
        assert_eq!(told(&store).await, before);
        store.close().await.unwrap();
        assert!(open(&path, &[NEW]).is_err() && open(&path, &[OLD]).is_err(), "half of it needs both keys");
    }
    let store = open(&path, &[NEW, OLD]).unwrap();
    let last = rotate(&store, 100).await;
    assert_eq!(last.retired, ["old"]);
    store.close().await.unwrap();
    let store = open(&path, &[NEW]).unwrap();
    assert_eq!(told(&store).await, before);
    Hand(&store).clean().await;
}
