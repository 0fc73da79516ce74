//! The client: connections that are kept, each with one request under way, in a process of its own with one thread.
//!
//! It writes HTTP/1.1 by hand and reads a status and a length, so that it costs little beside the server that is measured.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// No key.
    None,
    /// Another one each time.
    New,
    /// The same ones over and over.
    Again(u64),
}

/// How it went.
#[derive(Debug, Default)]
pub struct Measured {
    pub requests: u64,
    pub seconds: f64,
    pub other_status: u64,
    latencies: Vec<u32>,
}

impl Measured {
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
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
}

struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    request: Vec<u8>,
}

impl Line {
    async fn open(port: u16) -> io::Result<Line> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Line { stream, buffer: Vec::with_capacity(4096), request: Vec::with_capacity(1024) })
    }

    /// One request; answers its status.
    async fn exchange(&mut self, key: Option<u64>) -> io::Result<u16> {
        self.request.clear();
        self.request.extend_from_slice(
            b"POST /v1/bookmarks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
        );
        if let Some(key) = key {
            let line = format!("idempotency-key: 018f4c7e-7b1c-7d00-8000-{key:012x}\r\n");
            self.request.extend_from_slice(line.as_bytes());
        }
        self.request.extend_from_slice(b"content-length: 200\r\n\r\n");
        self.request.extend_from_slice(&[b'x'; 200]);
        self.stream.write_all(&self.request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, whole)) = head(&self.buffer)
                && self.buffer.len() >= whole
            {
                return Ok(status);
            }
        }
    }
}

/// The status, and how many bytes the whole answer has.
fn head(bytes: &[u8]) -> Option<(u16, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = text.get(9..12)?.parse().ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    Some((status, end + 4 + length))
}

/// Every connection sends as soon as it was answered.
pub async fn closed(port: u16, connections: usize, keys: Keys, first_key: u64, seconds: u64) -> io::Result<Measured> {
    let next = Arc::new(AtomicU64::new(first_key));
    let warm_until = Instant::now() + Duration::from_millis(500);
    let until = warm_until + Duration::from_secs(seconds);
    let mut lines = Vec::new();
    for _ in 0..connections {
        let (mut line, next) = (Line::open(port).await?, Arc::clone(&next));
        lines.push(tokio::spawn(async move {
            let mut measured = Measured::default();
            while Instant::now() < until {
                let began = Instant::now();
                let status = line.exchange(key(keys, &next)).await?;
                if began >= warm_until {
                    measured.requests += 1;
                    measured.other_status += u64::from(status != 201);
                    measured.latencies.push(micros(began.elapsed()));
                }
            }
            Ok::<_, io::Error>(measured)
        }));
    }
    gather(lines, seconds as f64).await
}

/// So many requests a second, whether or not the earlier ones were answered in time; a request's time begins when it was due.
pub async fn open(port: u16, connections: usize, keys: Keys, first_key: u64, rate: u64, seconds: u64) -> io::Result<Measured> {
    let next = Arc::new(AtomicU64::new(first_key));
    let due = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut lines = Vec::new();
    for _ in 0..connections {
        let (mut line, next, due) = (Line::open(port).await?, Arc::clone(&next), Arc::clone(&due));
        lines.push(tokio::spawn(async move {
            let mut measured = Measured::default();
            loop {
                let number = due.fetch_add(1, Ordering::Relaxed);
                let at = began + Duration::from_nanos(number * 1_000_000_000 / rate);
                if at >= began + Duration::from_secs(seconds) {
                    return Ok::<_, io::Error>(measured);
                }
                tokio::time::sleep_until(at.into()).await;
                // The timer is a millisecond coarse; what is measured begins when the request is really sent, unless it was late by more.
                let from = Instant::now().min(at + Duration::from_millis(2));
                let status = line.exchange(key(keys, &next)).await?;
                measured.requests += 1;
                measured.other_status += u64::from(status != 201);
                measured.latencies.push(micros(from.elapsed()));
            }
        }));
    }
    gather(lines, seconds as f64).await
}

fn key(keys: Keys, next: &AtomicU64) -> Option<u64> {
    match keys {
        Keys::None => None,
        Keys::New => Some(next.fetch_add(1, Ordering::Relaxed)),
        Keys::Again(of) => Some(next.fetch_add(1, Ordering::Relaxed) % of),
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

async fn gather(lines: Vec<tokio::task::JoinHandle<io::Result<Measured>>>, seconds: f64) -> io::Result<Measured> {
    let mut sum = Measured { seconds, ..Measured::default() };
    for line in lines {
        let one = line.await.map_err(io::Error::other)??;
        sum.requests += one.requests;
        sum.other_status += one.other_status;
        sum.latencies.extend(one.latencies);
    }
    Ok(sum)
}
