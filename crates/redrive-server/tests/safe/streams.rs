//! Streams of events whose readers are slow, silent or gone.

use std::time::{Duration, Instant};

use redrive_store::NewEvent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::world::{World, until};

const LONG: Duration = Duration::from_secs(20);

/// A stream behind this place, in a socket that holds little enough.
async fn follow(world: &World, last: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1 << 18).unwrap();
    let mut stream = socket.connect(world.address).await.unwrap();
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Events that no buffer of a system holds.
async fn tell_much(world: &World) {
    for _ in 0..20 {
        let event = |_| NewEvent {
            event_type: "note".to_owned(),
            source: "test".to_owned(),
            data: serde_json::json!({ "text": "x".repeat(60_000) }),
            ..NewEvent::default()
        };
        world.engine.store().append(world.engine.now(), (0..20).map(event).collect()).await.unwrap();
    }
}

/// How many connections there are, without making one.
async fn metric(world: &World, name: &str) -> u64 {
    let text = world.client.get(world.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#')).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// R-E3: a stream on which nothing happens says that it lives, as often as it is set to.
#[tokio::test]
async fn a_silent_stream_says_that_it_lives() {
    let world = World::with(|settings| settings.heartbeat = Duration::from_millis(100)).await;
    let mut stream = follow(&world, "0").await;
    let began = Instant::now();
    let mut text = String::new();
    while text.matches("\n:\n\n").count() < 5 {
        let mut bytes = [0; 4096];
        let n = timeout(LONG, stream.read(&mut bytes)).await.expect("it says something").unwrap();
        assert!(n > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(450) && took < Duration::from_secs(5), "{took:?}");
}

/// R-E3, reliability 57: whoever does not read its stream is cut off, however much it has read before, and costs nothing then; it goes on
/// where it was, and misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_is_cut_off() {
    let world = World::with(|settings| {
        settings.read_within = Duration::from_millis(300);
        settings.body_within = Duration::from_secs(1);
        // What it has read would earn it an hour.
        settings.least_rate = 1_000;
    })
    .await;
    tell_much(&world).await;
    // One that never reads, and one that reads for a while.
    let silent = follow(&world, "0").await;
    let mut stalled = follow(&world, "0").await;
    let (mut read, mut pause_at) = (Vec::new(), 0);
    while read.len() < 8_000_000 {
        let mut bytes = vec![0; 65_536];
        let n = timeout(LONG, stalled.read(&mut bytes)).await.expect("it is told").unwrap();
        assert!(n > 0, "it ended too early");
        read.extend_from_slice(&bytes[..n]);
        // It keeps the server waiting now and then, and reads on: that is good enough.
        if read.len() >= pause_at {
            pause_at += 1_000_000;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let began = Instant::now();
    // The client that asks has one as well.
    until("both are cut", || async { metric(&world, "redrive_http_connections").await == 1 }).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop((silent, stalled));
    let text = String::from_utf8_lossy(&read);
    let last = text.rmatch_indices("\nid: ").find_map(|(at, _)| {
        let rest = &text[at + 5..];
        // Only what came whole.
        rest.contains("\n\n").then(|| rest.split('\n').next().unwrap().to_owned())
    });
    let last = last.unwrap();
    let mut seen: u64 = last.parse().unwrap();
    let behind =
        world.engine.store().wait_for_events(redrive_store::EventSeq::default(), Duration::ZERO).await;
    let behind = u64::try_from(behind.unwrap().0).unwrap();
    assert!(seen < behind);
    let mut stream = follow(&world, &last).await;
    let mut text = String::new();
    while seen < behind {
        let mut bytes = vec![0; 65_536];
        let n = timeout(LONG, stream.read(&mut bytes)).await.expect("it is told").unwrap();
        assert!(n > 0, "it ended too early");
        text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        while let Some(at) = text.find("\nid: ") {
            let Some(end) = text[at + 5..].find('\n') else { break };
            let next: u64 = text[at + 5..at + 5 + end].parse().unwrap();
            assert_eq!(next, seen + 1, "nothing is missed and nothing comes twice");
            seen = next;
            text.drain(..at + 5 + end);
        }
    }
}

/// Reliability 57: streams whose readers went away without a word end, and nothing is left of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_the_dead_end() {
    let world = World::with(|settings| settings.heartbeat = Duration::from_millis(50)).await;
    for _ in 0..50 {
        let mut stream = follow(&world, "0").await;
        let mut bytes = [0; 512];
        assert!(timeout(LONG, stream.read(&mut bytes)).await.unwrap().unwrap() > 0);
    }
    until("all are gone", || async { metric(&world, "redrive_http_connections").await == 1 }).await;
    let began = Instant::now();
    world.server.shutdown().signal();
    assert_eq!(timeout(LONG, world.serving).await.unwrap().unwrap().unwrap().cut, 0);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
