//! Hundreds who follow the stream of events: what they cost while nothing happens, and how soon all of them hear of something.

use std::io;
use std::time::{Duration, Instant};

use redrive_testing::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::line::Line;
use crate::place::Place;
use crate::{Measured, folder, job};

/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(10);
/// How many events all of them hear of.
const TOLD: usize = 20;

/// One follower alone and then `count`, on each store.
pub async fn follow(count: usize) -> io::Result<()> {
    let folder = folder()?;
    let cluster = crate::cluster();
    let mut stores = vec![("SQLite", format!("sqlite:{}", folder.path().join("follow.db").display()))];
    stores.extend(cluster.as_ref().map(|cluster| ("PostgreSQL", cluster.url())));
    for (name, store) in &stores {
        for many in [0, 1, count] {
            let place = Place::redrive(store, folder.path())?;
            let cluster = cluster.as_ref().filter(|_| *name == "PostgreSQL");
            one(&format!("{name}, {many} who follow"), &place, many, cluster).await?;
        }
    }
    Ok(())
}

async fn one(name: &str, place: &Place, count: usize, cluster: Option<&Cluster>) -> io::Result<()> {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let mut following = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", place.port)).await?;
        stream
            .write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
            .await?;
        let heard = heard.clone();
        following.push(tokio::spawn(async move {
            let (mut bytes, mut told) = (Vec::new(), 0);
            while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
                let events = bytes.windows(6).filter(|six| six == b"\ndata:").count();
                for _ in told..events {
                    // Whoever measures has gone: so may this.
                    let _ = heard.send(Instant::now());
                }
                told = events;
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let transactions = || match cluster {
        Some(cluster) => {
            let sql = "SELECT sum(xact_commit) FROM pg_stat_database";
            cluster.psql("postgres", sql).trim().parse::<f64>().unwrap_or(f64::NAN)
        }
        None => f64::NAN,
    };
    let (began, before, asked) = (Instant::now(), place.cpu()?, transactions());
    tokio::time::sleep(IDLE).await;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = (place.cpu()? - before) / seconds * 100.0;
    let asked = (transactions() - asked) / seconds;
    let mut line = Line::open(place.port).await?;
    let mut measured = Measured::default();
    for _ in 0..if count == 0 { 0 } else { TOLD } {
        let sent = Instant::now();
        line.post("/v1/jobs", job().as_bytes()).await?;
        let mut last = sent;
        for _ in 0..count {
            last = hears.recv().await.ok_or(io::ErrorKind::BrokenPipe)?.max(last);
        }
        measured.took(last - sent);
    }
    // What cannot be counted, or happened to nobody, is not told.
    let asked = if asked.is_nan() { String::new() } else { format!(" and {asked:.0} transactions a second") };
    let heard = measured.percentile(50.0);
    let heard = if count == 0 { String::new() } else { format!("; all have heard after {heard:.1} ms (p50)") };
    println!("{name}: {cpu:.1} % of one core{asked} while nothing happens{heard}");
    for one in following {
        one.abort();
    }
    Ok(())
}
