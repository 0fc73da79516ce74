//! What the server does in a second, beside an axum handler that does nothing, in one run.
//!
//! The server is the real binary; the client is this process with one thread. Both share the machine's cores. Every job is on disk
//! before its answer is sent (`synchronous=FULL`).

mod follow;
mod line;
mod place;
mod polls;

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use line::Line;
use place::Place;
use redrive_testing::{Cluster, Settings};

const CONNECTIONS: usize = 64;
const SECONDS: u64 = 5;
const BATCH: usize = 100;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["bare"] => place::bare(),
        ["polls", polls] => runtime.block_on(polls::polls(polls.parse().map_err(io::Error::other)?)),
        ["memory", jobs] => runtime.block_on(memory(jobs.parse().map_err(io::Error::other)?)),
        ["follow", count] => runtime.block_on(follow::follow(count.parse().map_err(io::Error::other)?)),
        ["rates"] => runtime.block_on(rates(true)),
        ["postgres"] => runtime.block_on(rates(false)),
        [] => {
            runtime.block_on(rates(true))?;
            runtime.block_on(polls::polls(5_000))?;
            runtime.block_on(follow::follow(500))?;
            runtime.block_on(memory(1_000_000))
        }
        _ => Err(io::Error::other("nothing, `rates`, `postgres`, `polls N`, `follow N`, `memory JOBS`, or `bare`")),
    }
}

/// A folder on a disk: a temporary one may be in memory.
pub fn folder() -> io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(std::env::var("TMPDIR").unwrap_or_else(|_| "/var/tmp".to_owned()))
}

/// A job of 200 bytes.
pub fn job() -> String {
    format!(r#"{{"queue":"bench","kind":"nothing","payload":{{"pad":"{}"}}}}"#, "x".repeat(190))
}

fn jobs() -> String {
    format!(r#"{{"jobs":[{}]}}"#, vec![job(); BATCH].join(","))
}

/// A PostgreSQL of our own, which is sure of what it has written.
pub fn cluster() -> Option<Cluster> {
    Cluster::is_possible().then(|| {
        let options = vec![("max_connections", "300".to_owned())];
        Cluster::start_with(Settings { fsync: true, options })
    })
}

async fn rates(on_both: bool) -> io::Result<()> {
    println!("{:<52} {:>11} {:>7} {:>8} {:>8}", "64 connections, jobs of 200 bytes", "jobs/s", "ratio", "p50 ms", "p99 ms");
    let bare = {
        let place = Place::bare()?;
        let mut told = enqueue(place.port, &job(), 1).await?;
        told.row("bare handler, one by one", None);
        told.rate()
    };
    let folder = folder()?;
    let cluster = cluster();
    let mut stores = vec![("SQLite", format!("sqlite:{}", folder.path().join("bench.db").display()))];
    stores.retain(|_| on_both);
    stores.extend(cluster.as_ref().map(|cluster| ("PostgreSQL", cluster.url())));
    for (name, store) in &stores {
        let place = Place::redrive(store, folder.path())?;
        enqueue(place.port, &job(), 1).await?.row(&format!("{name}, enqueue one by one"), Some(bare));
        enqueue(place.port, &jobs(), BATCH).await?.row(&format!("{name}, enqueue in batches of 100"), Some(bare));
        work(place.port).await?.row(&format!("{name}, lease and settle in batches of 100"), Some(bare));
    }
    let place = Place::bare()?;
    enqueue(place.port, &job(), 1).await?.row("bare handler, once more", Some(bare));
    Ok(())
}

/// How it went.
#[derive(Default)]
pub struct Measured {
    jobs: u64,
    seconds: f64,
    latencies: Vec<u32>,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    /// In milliseconds.
    pub fn percentile(&mut self, percent: f64) -> f64 {
        if self.latencies.is_empty() {
            return f64::NAN;
        }
        self.latencies.sort_unstable();
        let at = (self.latencies.len() - 1) as f64 * percent / 100.0;
        f64::from(self.latencies[at as usize]) / 1000.0
    }

    fn row(&mut self, name: &str, bare: Option<f64>) {
        let ratio = bare.map_or_else(String::new, |bare| format!("{:.2}", self.rate() / bare));
        println!(
            "{name:<52} {:>11.0} {ratio:>7} {:>8.2} {:>8.2}",
            self.rate(),
            self.percentile(50.0),
            self.percentile(99.0)
        );
    }

    pub fn took(&mut self, time: Duration) {
        self.latencies.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }
}

/// Every connection does its turn as often as it can; the answer of a turn is how many jobs it dealt with.
async fn connections<F, T>(port: u16, turn: F) -> io::Result<Measured>
where
    F: Fn(Line) -> T + Copy + Send + 'static,
    T: Future<Output = io::Result<(Line, u64)>> + Send,
{
    let warm_until = Instant::now() + Duration::from_millis(500);
    let until = warm_until + Duration::from_secs(SECONDS);
    let mut lines = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut line = Line::open(port).await?;
        lines.push(tokio::spawn(async move {
            let mut measured = Measured::default();
            while Instant::now() < until {
                let began = Instant::now();
                let done;
                (line, done) = turn(line).await?;
                if began >= warm_until {
                    measured.jobs += done;
                    measured.took(began.elapsed());
                }
            }
            Ok::<_, io::Error>(measured)
        }));
    }
    let mut sum = Measured { seconds: SECONDS as f64, ..Measured::default() };
    for line in lines {
        let one = line.await.map_err(io::Error::other)??;
        sum.jobs += one.jobs;
        sum.latencies.extend(one.latencies);
    }
    Ok(sum)
}

async fn enqueue(port: u16, body: &str, each: usize) -> io::Result<Measured> {
    let body: &'static str = body.to_owned().leak();
    connections(port, move |mut line| async move {
        let answer = line.post("/v1/jobs", body.as_bytes()).await?;
        if answer.status != 201 {
            return Err(io::Error::other(format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body))));
        }
        Ok((line, each as u64))
    })
    .await
}

/// Leases 100 and settles them as done.
async fn work(port: u16) -> io::Result<Measured> {
    connections(port, move |mut line| async move {
        let leases = lease(&mut line, BATCH, 0).await?;
        let done = leases.len() as u64;
        settle(&mut line, &leases).await?;
        Ok((line, done))
    })
    .await
}

/// The proofs of what was leased.
pub async fn lease(line: &mut Line, max: usize, wait_ms: u64) -> io::Result<Vec<String>> {
    let body = format!(r#"{{"max":{max},"lease_ms":60000,"wait_ms":{wait_ms}}}"#);
    let answer = line.post("/v1/queues/bench/lease", body.as_bytes()).await?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body))));
    }
    Ok(leases(answer.body))
}

/// What stands in an answer as `"lease":"…"`.
pub fn leases(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    text.split(r#""lease":""#).skip(1).filter_map(|rest| rest.split_once('"')).map(|(lease, _)| lease.to_owned()).collect()
}

pub async fn settle(line: &mut Line, leases: &[String]) -> io::Result<()> {
    if leases.is_empty() {
        return Ok(());
    }
    let items: Vec<String> =
        leases.iter().map(|lease| format!(r#"{{"lease":"{lease}","outcome":"succeeded"}}"#)).collect();
    let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
    let answer = line.post("/v1/leases/settle", body.as_bytes()).await?;
    if answer.status != 200 {
        return Err(io::Error::other(format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body))));
    }
    Ok(())
}

/// What the server weighs after so many jobs came and went.
async fn memory(total: u64) -> io::Result<()> {
    let folder = folder()?;
    let place = Place::redrive(&format!("sqlite:{}", folder.path().join("memory.db").display()), folder.path())?;
    let (jobs, mut line) = (jobs(), Line::open(place.port).await?);
    let (fresh, _) = place.memory()?;
    let mut added = 0;
    while added < total {
        let answer = line.post("/v1/jobs", jobs.as_bytes()).await?;
        if answer.status != 201 {
            return Err(io::Error::other(format!("{}", answer.status)));
        }
        added += BATCH as u64;
    }
    let (waiting, _) = place.memory()?;
    loop {
        let leases = lease(&mut line, BATCH, 0).await?;
        if leases.is_empty() {
            break;
        }
        settle(&mut line, &leases).await?;
    }
    let (done, most) = place.memory()?;
    println!("memory: {fresh:.0} MB at the start, {waiting:.0} MB with {total} jobs waiting, {done:.0} MB when all are done, {most:.0} MB at most");
    Ok(())
}
