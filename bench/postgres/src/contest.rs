//! What every contestant does, in the same loops: one trait, and a function for each row.
//!
//! Handlers do nothing but tell that they were started. A row that runs handlers ends when the *store* says that nothing is
//! unfinished, or when its time is over; then only what was finished counts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::cell::{Measured, Row};

/// How long a row may take beyond the time in which jobs are made.
pub const GRACE: Duration = Duration::from_secs(3);
/// What a worker gets to register, elect and warm up before the clock starts.
const SETTLING: Duration = Duration::from_secs(1);
/// Jobs of one bulk call.
pub const BULK: usize = 1_000;

/// A job's payload: 100 bytes as JSON.
#[derive(Clone, Serialize, Deserialize)]
pub struct Body {
    /// When its producer asked for it: microseconds since 1970, which have sixteen digits.
    sent: u64,
    pad: String,
}

impl Body {
    pub fn new() -> Body {
        Body { sent: micros(), pad: "x".repeat(66) }
    }

    /// The same as bytes, for whoever takes those.
    pub fn json() -> Vec<u8> {
        let body = Body::new();
        format!("{{\"sent\":{},\"pad\":\"{}\"}}", body.sent, body.pad).into_bytes()
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    since.as_micros() as u64
}

static STARTED: AtomicU64 = AtomicU64::new(0);
static LATENCIES: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

/// What every handler calls.
pub fn started(body: &Body) {
    let latency = Duration::from_micros(micros().saturating_sub(body.sent));
    LATENCIES.lock().expect("nobody panics with it").push(latency);
    STARTED.fetch_add(1, Ordering::Relaxed);
}

/// How many handlers were started.
pub fn starts() -> u64 {
    STARTED.load(Ordering::Relaxed)
}

pub fn forget_starts() {
    STARTED.store(0, Ordering::Relaxed);
    LATENCIES.lock().expect("nobody panics with it").clear();
}

/// A queue on PostgreSQL, as its own users would use it.
pub trait Contestant: Clone + Send + Sync + 'static {
    type Worker: Send;

    /// Opens a store in an empty database.
    fn open(url: &str) -> impl Future<Output = Self> + Send;

    /// Enqueues one job, and comes back when it is durable.
    fn push(&self) -> impl Future<Output = ()> + Send;

    /// Enqueues that many jobs in one call.
    fn push_many(&self, jobs: usize) -> impl Future<Output = ()> + Send;

    /// Starts a worker with so many slots.
    fn start(&self, slots: usize) -> impl Future<Output = Self::Worker> + Send;

    fn stop(worker: Self::Worker) -> impl Future<Output = ()> + Send;

    /// Whether the store has jobs that are not finished.
    fn unfinished(&self) -> impl Future<Output = bool> + Send;

    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Measures one row.
pub async fn measure<C: Contestant>(row: Row, url: &str, span: Duration) -> Measured {
    forget_starts();
    let queue = C::open(url).await;
    let measured = match row {
        Row::One => enqueue(&queue, 1, 1, span).await,
        Row::Many => enqueue(&queue, 64, 1, span).await,
        Row::Bulk => enqueue(&queue, 4, BULK, span).await,
        Row::Drain(slots) => drain(&queue, slots, span).await,
        Row::Mixed => mixed(&queue, span).await,
        Row::Latency => latency(&queue, 500, span).await,
    };
    queue.close().await;
    measured
}

/// Callers that wait for their answers before they ask again.
async fn enqueue<C: Contestant>(queue: &C, callers: usize, at_once: usize, span: Duration) -> Measured {
    let began = Instant::now();
    let mut latencies = Vec::new();
    let mut tasks = produce(queue, callers, at_once, began + span);
    while let Some(some) = tasks.join_next().await {
        latencies.extend(some.expect("a caller"));
    }
    let jobs = (latencies.len() * at_once) as u64;
    Measured { jobs, took: began.elapsed(), latencies, cut: false }
}

fn produce<C: Contestant>(
    queue: &C,
    callers: usize,
    at_once: usize,
    until: Instant,
) -> JoinSet<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let asked = Instant::now();
                match at_once {
                    1 => queue.push().await,
                    _ => queue.push_many(at_once).await,
                }
                latencies.push(asked.elapsed());
            }
            latencies
        });
    }
    tasks
}

/// Waits until that many jobs are finished. Answers how many are, and whether that had to be cut short.
async fn finished<C: Contestant>(queue: &C, jobs: u64, until: Instant) -> (u64, bool) {
    // The store is asked only when the answer may be yes: asking it is no part of the work.
    while starts() < jobs && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while Instant::now() < until {
        if !queue.unfinished().await {
            return (jobs, false);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (starts().min(jobs), true)
}

/// A backlog of 20,000 jobs for each second, and a worker that comes to it.
async fn drain<C: Contestant>(queue: &C, slots: usize, span: Duration) -> Measured {
    let backlog = (span.as_secs_f64() * 20_000.0) as u64;
    let (filling, mut jobs) = (Instant::now(), 0);
    while jobs < backlog && filling.elapsed() < span + GRACE {
        queue.push_many(BULK).await;
        jobs += BULK as u64;
    }
    let began = Instant::now();
    let worker = queue.start(slots).await;
    let (jobs, cut) = finished(queue, jobs, began + span + GRACE).await;
    let took = began.elapsed();
    C::stop(worker).await;
    Measured { jobs, took, latencies: Vec::new(), cut }
}

/// Producers and a worker at once. How far the producers were ahead counts against the rate.
async fn mixed<C: Contestant>(queue: &C, span: Duration) -> Measured {
    let worker = queue.start(64).await;
    tokio::time::sleep(SETTLING).await;
    let began = Instant::now();
    let mut tasks = produce(queue, 64, 1, began + span);
    let mut jobs = 0;
    while let Some(some) = tasks.join_next().await {
        jobs += some.expect("a producer").len() as u64;
    }
    let (jobs, cut) = finished(queue, jobs, began + span + GRACE).await;
    let took = began.elapsed();
    C::stop(worker).await;
    Measured { jobs, took, latencies: Vec::new(), cut }
}

/// From the call that enqueues a job to the start of its handler, at a rate that leaves the machine mostly idle.
async fn latency<C: Contestant>(queue: &C, per_second: u32, span: Duration) -> Measured {
    let worker = queue.start(64).await;
    tokio::time::sleep(SETTLING).await;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second);
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    while began.elapsed() < span {
        tick.tick().await;
        let queue = queue.clone();
        tasks.spawn(async move { queue.push().await });
    }
    let (jobs, took) = (tasks.len() as u64, began.elapsed());
    while let Some(pushed) = tasks.join_next().await {
        pushed.expect("a producer");
    }
    let (jobs, cut) = finished(queue, jobs, Instant::now() + GRACE).await;
    C::stop(worker).await;
    let latencies = std::mem::take(&mut *LATENCIES.lock().expect("nobody panics with it"));
    Measured { jobs, took, latencies, cut }
}
