//! What the store reaches on this machine: durable jobs per second through the library, in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use redrive_store::*;

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

fn job() -> NewJob {
    NewJob::new("bench", vec![b'x'; 200])
}

fn request(worker: WorkerId, max: usize) -> LeaseRequest {
    LeaseRequest {
        worker,
        queues: vec!["default".into()],
        kinds: vec!["bench".into()],
        reserved_only: false,
        max,
        lease_for: Duration::from_secs(30),
        begin: true,
        wait: Duration::from_secs(1),
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(4.0);
    let run = Duration::from_secs_f64(seconds);
    runtime.block_on(async {
        for callers in if std::env::args().nth(2).is_some() { vec![] } else { vec![1, 64, 256] } {
            let folder = tempfile::tempdir_in(".").unwrap();
            let store = Arc::new(Sqlite::open(&folder.path().join("s.db"), SqliteOptions::default()).unwrap());
            let began = Instant::now();
            let mut tasks = Vec::new();
            for _ in 0..callers {
                let store = Arc::clone(&store);
                tasks.push(tokio::spawn(async move {
                    let mut n = 0u64;
                    while began.elapsed() < run {
                        store.enqueue(now(), vec![job()]).await.unwrap();
                        n += 1;
                    }
                    n
                }));
            }
            let mut n = 0;
            for task in tasks {
                n += task.await.unwrap();
            }
            println!("enqueue {callers:>3} callers {:>9.0}/s", n as f64 / began.elapsed().as_secs_f64());
            println!("   n={n} {:?}", cpu_by_thread());
        }
        for (producers, slots) in [(64, 64)] {
            let folder = tempfile::tempdir_in(".").unwrap();
            let store = Arc::new(Sqlite::open(&folder.path().join("s.db"), SqliteOptions::default()).unwrap());
            let worker = store.register(now(), "bench".into(), Duration::from_secs(60)).await.unwrap();
            let began = Instant::now();
            let done = Arc::new(AtomicU64::new(0));
            let free = Arc::new(std::sync::atomic::AtomicUsize::new(slots));
            let wake = Arc::new(tokio::sync::Notify::new());
            let (s2, d2, f2, w2) = (Arc::clone(&store), Arc::clone(&done), Arc::clone(&free), Arc::clone(&wake));
            let claimer = tokio::spawn(async move {
                let mut leases = (0u64, 0u64);
                loop {
                    while f2.load(Ordering::Acquire) == 0 {
                        w2.notified().await;
                    }
                    tokio::task::yield_now().await;
                    let leased = s2.lease(now(), request(worker, f2.load(Ordering::Acquire))).await.unwrap();
                    f2.fetch_sub(leased.len(), Ordering::AcqRel);
                    leases = (leases.0 + 1, leases.1 + leased.len() as u64);
                    if leases.0 % 10_000 == 0 {
                        println!("leases {leases:?}");
                    }
                    for leased in leased {
                        let (s3, d3, f3, w3) = (s2.clone(), d2.clone(), f2.clone(), w2.clone());
                        tokio::spawn(async move {
                            let ending = Ending::Succeeded { latency: Duration::ZERO, exit_code: None, max_retries: 3, output: None };
                            let settle = s3.settle(now(), vec![Settlement { token: leased.token, ending }]);
                            f3.fetch_add(1, Ordering::AcqRel);
                            w3.notify_one();
                            settle.await.unwrap();
                            d3.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                }
            });
            let mut tasks = Vec::new();
            for _ in 0..producers {
                let store = Arc::clone(&store);
                tasks.push(tokio::spawn(async move {
                    let mut n = 0u64;
                    while began.elapsed() < run {
                        store.enqueue(now(), vec![job()]).await.unwrap();
                        n += 1;
                    }
                    n
                }));
            }
            let mut n = 0;
            for task in tasks {
                n += task.await.unwrap();
            }
            let secs = began.elapsed().as_secs_f64();
            println!("mixed {producers}+{slots}: enqueued {:>8.0}/s settled {:>8.0}/s", n as f64 / secs, done.load(Ordering::Relaxed) as f64 / secs);
            println!("   n={n} {:?}", cpu_by_thread());
            claimer.abort();
            let report = store.check().await.unwrap();
            println!("clean: {:?}", report.violations);
        }
    });
}

/// CPU seconds of each thread, so that a busy machine does not hide what our own work costs.
pub fn cpu_by_thread() -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let name = stat[stat.find('(').unwrap() + 1..stat.rfind(')').unwrap()].to_owned();
        let rest: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks: f64 = rest[11].parse::<f64>().unwrap() + rest[12].parse::<f64>().unwrap();
        all.push((name, ticks / 100.0));
    }
    all
}
