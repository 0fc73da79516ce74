//! The rows of the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redrive::Fail;
use redrive::engine::{Engine, Shutdown};
use redrive_store::NewJob;
use tokio::task::JoinSet;

use crate::disk;
use crate::measure::{Bench, quantile, rss_mb};
use crate::raw;

pub const ROWS: &[&str] = &[
    "raw-enqueue",
    "raw-mixed",
    "enqueue-1",
    "enqueue-64",
    "enqueue-256",
    "bulk-500",
    "drain-64",
    "mixed-64+64",
    "mixed-256+256",
    "latency-500/s",
];

/// 200 bytes of JSON.
pub fn payload() -> Vec<u8> {
    let mut text = String::from("\"");
    text.push_str(&"x".repeat(198));
    text.push('"');
    text.into_bytes()
}

pub fn job() -> NewJob {
    NewJob::new("bench", payload())
}

/// One row: its name, its rate, its latencies, and the disk's rates right before it.
pub async fn row(name: &str, span: Duration) {
    let bench = Bench::new();
    let (append, overwrite) = disk::rates(bench.folder.path());
    let (rate, mut latencies) = match name {
        "raw-enqueue" => (raw::enqueue(bench.folder.path(), span), Vec::new()),
        "raw-mixed" => (raw::mixed(bench.folder.path(), span), Vec::new()),
        "enqueue-1" => enqueue(&bench.engine, 1, 1, span).await,
        "enqueue-64" => enqueue(&bench.engine, 64, 1, span).await,
        "enqueue-256" => enqueue(&bench.engine, 256, 1, span).await,
        "bulk-500" => enqueue(&bench.engine, 4, 500, span).await,
        "drain-64" => drain(&bench.engine, 200_000).await,
        "mixed-64+64" => mixed(&bench.engine, 64, 64, span).await,
        "mixed-256+256" => mixed(&bench.engine, 256, 256, span).await,
        "latency-500/s" => latency(&bench.engine, 500, span).await,
        _ => panic!("no such row; there are {ROWS:?}"),
    };
    let (p50, p99) = (quantile(&mut latencies, 0.5), quantile(&mut latencies, 0.99));
    println!(
        "{:<44} {rate:>11.0} {:>10} {:>10} {append:>14.0} {overwrite:>14.0} {:>7.0}",
        label(name),
        shown(p50),
        shown(p99),
        rss_mb()
    );
}

/// A latency, or nothing where none was measured.
fn shown(milliseconds: f64) -> String {
    if milliseconds.is_nan() { "-".to_owned() } else { format!("{milliseconds:.2}") }
}

fn label(name: &str) -> String {
    match name {
        "raw-enqueue" => "(bare SQLite: 64 inserts a commit)".to_owned(),
        "raw-mixed" => "(bare SQLite: 64 in, taken, out a commit)".to_owned(),
        "enqueue-1" => "1 caller enqueues, waiting for its answer".to_owned(),
        "enqueue-64" => "64 callers enqueue, each waiting".to_owned(),
        "enqueue-256" => "256 callers enqueue, each waiting".to_owned(),
        "bulk-500" => "bulk: 4 callers, 500 jobs a call".to_owned(),
        "drain-64" => "drain: 200,000 waiting, 64 slots".to_owned(),
        "mixed-64+64" => "mixed: 64 producers + 64 slots, end to end".to_owned(),
        "mixed-256+256" => "mixed: 256 producers + 256 slots".to_owned(),
        _ => "enqueue to start at 500 jobs/s".to_owned(),
    }
}

async fn enqueue(engine: &Engine, callers: usize, at_once: usize, span: Duration) -> (f64, Vec<Duration>) {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let engine = engine.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < span {
                let asked = Instant::now();
                engine.enqueue_many(vec![job(); at_once]).await.expect("enqueued");
                latencies.push(asked.elapsed());
            }
            latencies
        });
    }
    let mut latencies = Vec::new();
    while let Some(some) = tasks.join_next().await {
        latencies.extend(some.expect("a caller"));
    }
    ((latencies.len() * at_once) as f64 / began.elapsed().as_secs_f64(), latencies)
}

/// A worker whose handler does nothing but count.
fn worker(
    engine: &Engine,
    slots: usize,
    done: &Arc<AtomicU64>,
    shutdown: &Shutdown,
) -> tokio::task::JoinHandle<()> {
    let done = Arc::clone(done);
    let shutdown = shutdown.clone();
    let worker = engine.worker().concurrency(slots).handle("bench", move |_: String, _| {
        let done = Arc::clone(&done);
        async move {
            done.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Fail>(())
        }
    });
    tokio::spawn(async move {
        worker.run(&shutdown).await.expect("a worker");
    })
}

/// Ends when the store says that everything is finished, not when the last handler has run.
async fn until_empty(engine: &Engine) {
    while engine.store().unfinished(Vec::new(), Vec::new()).await.expect("an answer") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn drain(engine: &Engine, jobs: usize) -> (f64, Vec<Duration>) {
    for _ in 0..jobs / 5_000 {
        engine.enqueue_many(vec![job(); 5_000]).await.expect("enqueued");
    }
    let (done, shutdown) = (Arc::new(AtomicU64::new(0)), Shutdown::new());
    let began = Instant::now();
    let task = worker(engine, 64, &done, &shutdown);
    until_empty(engine).await;
    let rate = jobs as f64 / began.elapsed().as_secs_f64();
    shutdown.signal();
    task.await.expect("a worker");
    (rate, Vec::new())
}

async fn mixed(engine: &Engine, producers: usize, slots: usize, span: Duration) -> (f64, Vec<Duration>) {
    let (done, shutdown) = (Arc::new(AtomicU64::new(0)), Shutdown::new());
    let task = worker(engine, slots, &done, &shutdown);
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..producers {
        let engine = engine.clone();
        tasks.spawn(async move {
            let mut n = 0_u64;
            while began.elapsed() < span {
                engine.enqueue(job()).await.expect("enqueued");
                n += 1;
            }
            n
        });
    }
    let mut jobs = 0;
    while let Some(some) = tasks.join_next().await {
        jobs += some.expect("a producer");
    }
    // What producers were ahead of the workers counts against the rate: everything has to be finished.
    until_empty(engine).await;
    let rate = jobs as f64 / began.elapsed().as_secs_f64();
    shutdown.signal();
    task.await.expect("a worker");
    (rate, Vec::new())
}

async fn latency(engine: &Engine, per_second: u32, span: Duration) -> (f64, Vec<Duration>) {
    let shutdown = Shutdown::new();
    let origin = Instant::now();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<Duration>();
    let worker = engine.worker().concurrency(64).handle("bench", move |sent: u64, _| {
        let sender = sender.clone();
        async move {
            let sent = Duration::from_nanos(sent);
            sender.send(origin.elapsed() - sent).expect("a listener");
            Ok::<_, Fail>(())
        }
    });
    let ends = shutdown.clone();
    let task = tokio::spawn(async move { worker.run(&ends).await.expect("a worker") });
    let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second);
    let began = Instant::now();
    let mut jobs = 0;
    while began.elapsed() < span {
        tick.tick().await;
        let engine = engine.clone();
        tokio::spawn(async move {
            let sent = origin.elapsed().as_nanos() as u64;
            engine.enqueue(NewJob::new("bench", sent.to_string())).await.expect("enqueued");
        });
        jobs += 1;
    }
    let rate = f64::from(jobs) / began.elapsed().as_secs_f64();
    until_empty(engine).await;
    shutdown.signal();
    task.await.expect("a worker");
    let mut latencies = Vec::new();
    while let Ok(latency) = receiver.try_recv() {
        latencies.push(latency);
    }
    (rate, latencies)
}
