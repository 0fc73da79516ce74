//! Thousands of workers that wait: what they cost while nothing happens, and how soon one of them wakes.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::line::Line;
use crate::place::Place;
use crate::{Measured, folder, job, leases, settle};

/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(10);
/// How many jobs wake somebody.
const WAKES: usize = 200;

pub async fn polls(count: usize) -> io::Result<()> {
    let folder = folder()?;
    let place = Place::redrive(&format!("sqlite:{}", folder.path().join("polls.db").display()), folder.path())?;
    let (woken, mut wakes) = mpsc::unbounded_channel();
    let mut waiting = Vec::with_capacity(count);
    for _ in 0..count {
        let mut line = Line::open(place.port).await?;
        let woken = woken.clone();
        waiting.push(tokio::spawn(async move {
            let body = br#"{"max":1,"lease_ms":60000,"wait_ms":55000}"#;
            loop {
                line.send("/v1/queues/bench/lease", body).await?;
                let answer = line.answer().await?;
                if answer.status != 200 {
                    return Err(io::Error::other(format!("{}", answer.status)));
                }
                let leases = leases(answer.body);
                if leases.is_empty() {
                    continue;
                }
                if woken.send((Instant::now(), leases.clone())).is_err() {
                    return Ok::<_, io::Error>(());
                }
                settle(&mut line, &leases).await?;
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (began, before) = (Instant::now(), place.cpu()?);
    tokio::time::sleep(IDLE).await;
    let idle = (place.cpu()? - before) / began.elapsed().as_secs_f64() * 100.0;
    let mut line = Line::open(place.port).await?;
    let mut measured = Measured::default();
    for _ in 0..WAKES {
        let sent = Instant::now();
        line.post("/v1/jobs", job().as_bytes()).await?;
        let Some((at, _)) = wakes.recv().await else { return Err(io::ErrorKind::BrokenPipe.into()) };
        measured.took(at - sent);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (memory, _) = place.memory()?;
    println!(
        "{count} long polls: {idle:.1} % of one core while nothing happens, {memory:.0} MB; woken after {:.2} ms (p50), {:.2} ms (p99), {:.2} ms at most",
        measured.percentile(50.0),
        measured.percentile(99.0),
        measured.percentile(100.0)
    );
    for one in waiting {
        one.abort();
    }
    Ok(())
}
