//! Slow clients (reliability 57): each is cut in its time, and nobody else waits for it.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, read_to_end, until};

const LONG: Duration = Duration::from_secs(10);

/// Times that a test can wait for.
async fn impatient() -> World {
    World::with(|settings| {
        settings.head_within = Duration::from_millis(300);
        settings.idle_for = Duration::from_millis(900);
        settings.read_within = Duration::from_millis(500);
        settings.body_within = Duration::from_secs(3);
        settings.least_rate = 100_000;
    })
    .await
}

/// How long it takes until the other side ends the connection.
async fn ends_after(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    assert!(read_to_end(stream, LONG).await.closed, "the connection is still open");
    began.elapsed()
}

/// Reliability 57: a connection that says nothing, and a head that does not end, have their time.
#[tokio::test]
async fn a_head_has_its_time() {
    let world = impatient().await;
    let mut silent = world.connect().await;
    let mut slow = world.connect().await;
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let drip = tokio::spawn(async move {
        let (mut reading, mut writing) = slow.into_split();
        let began = Instant::now();
        let dripping = tokio::spawn(async move {
            while writing.write_all(b"X-A: b\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let mut bytes = Vec::new();
        let _ = tokio::time::timeout(LONG, reading.read_to_end(&mut bytes)).await.expect("it is still open");
        dripping.abort();
        began.elapsed()
    });
    let silence = ends_after(&mut silent).await;
    let dripped = drip.await.unwrap();
    for took in [silence, dripped] {
        assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(3), "{took:?}");
    }
}

/// Reliability 57: between two requests a connection may be silent for longer than a head may take, and not for ever.
#[tokio::test]
async fn between_requests_there_is_time_but_not_for_ever() {
    let world = impatient().await;
    let mut stream = world.connect().await;
    for _ in 0..2 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let n = stream.read(&mut answer).await.unwrap();
        assert!(answer[..n].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..n]));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = ends_after(&mut stream).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Reliability 57: a body must come at a certain pace.
#[tokio::test]
async fn a_body_must_come_at_a_certain_pace() {
    let world = impatient().await;
    let mut stream = world.connect().await;
    let head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{";
    stream.write_all(head).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let began = Instant::now();
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(LONG, reading.read_to_end(&mut bytes)).await.expect("it is still open");
    dripping.abort();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 400") || text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(4));
    assert!(world.events("operator_act").await.is_empty());
}

/// Reliability 57: whoever does not read an answer is cut, and others are answered meanwhile.
#[tokio::test]
async fn who_does_not_read_is_cut() {
    let world = impatient().await;
    // An answer that no buffer of a system holds is made of many small requests, none of which is read.
    let mut stream = world.connect().await;
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let began = Instant::now();
    let written = tokio::time::timeout(LONG, async {
        loop {
            if stream.write_all(request).await.is_err() {
                break;
            }
        }
    })
    .await;
    assert!(written.is_ok(), "it is still served");
    assert!(began.elapsed() < LONG);
    assert_eq!(world.enqueue(None).await.0, 201);
}

/// Reliability 57: connections are counted, whoever is one too many is told so, and a place that was left is free again.
#[tokio::test]
async fn one_too_many_is_told_so() {
    let world = World::with(|settings| settings.max_connections = 3).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = world.connect().await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 512];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        held.push(stream);
    }
    let turned_away = world.raw(b"", LONG).await;
    assert_eq!((turned_away.status(), turned_away.closed), (Some(503), true));
    held.pop();
    until("a place is free", || async {
        let answer = world.raw(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", LONG).await;
        answer.status() == Some(200)
    })
    .await;
}

/// Reliability 57: a head that is too long, or has too many headers, is refused.
#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let world = World::new().await;
    let long = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: {}\r\n\r\n", "a".repeat(100_000));
    let many = "X-A: b\r\n".repeat(200);
    let many = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    for head in [long, many] {
        let mut stream = world.connect().await;
        // It may be refused before all of it is sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let answer = read_to_end(&mut stream, LONG).await;
        assert!(answer.closed && matches!(answer.status(), Some(431) | None), "{}", answer.text);
    }
    assert_eq!(world.enqueue(None).await.0, 201);
}

/// Reliability 58: who is refused in the middle of a large body hears why, although it is still sending; and who never stops sending is
/// cut all the same.
#[tokio::test]
async fn who_is_refused_while_sending_hears_why() {
    let world = World::with(|_| {}).await;
    for length in [9_usize << 20, 24 << 20, 1 << 40] {
        let mut client = world.connect().await;
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = client.split();
        let sends = async {
            let some = vec![b' '; 64 * 1024];
            let mut left = length;
            // Nobody reads before all is sent: most clients are so.
            while left > 0 && writing.write_all(&some[..left.min(some.len())]).await.is_ok() {
                left -= left.min(some.len());
            }
            left
        };
        let left = tokio::time::timeout(LONG, sends).await.expect("it is read without end");
        if length > 1 << 30 {
            assert!(left > 0, "all of it was read");
            continue;
        }
        assert_eq!(left, 0, "it was cut while it sent {length} bytes");
        let mut answer = Vec::new();
        tokio::time::timeout(LONG, reading.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("too-large"), "{answer}");
    }
}

/// R-C4: at the end nothing new is taken, whoever is idle is sent away at once, and the server ends.
#[tokio::test]
async fn at_the_end_who_is_idle_is_sent_away() {
    let world = World::new().await;
    assert_eq!(world.enqueue(None).await.0, 201);
    let mut idle = world.connect().await;
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 512];
    assert!(idle.read(&mut answer).await.unwrap() > 0);
    let began = Instant::now();
    world.server.shutdown().signal();
    let drained = tokio::time::timeout(LONG, world.serving).await.expect("it does not end").unwrap().unwrap();
    assert_eq!(drained.cut, 0);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(read_to_end(&mut idle, LONG).await.closed);
    assert!(TcpStream::connect(world.address).await.is_err());
}

/// R-C4: what does not finish in its time at the end is cut and counted; who asks twice waits for nothing.
#[tokio::test]
async fn at_the_end_what_does_not_finish_is_cut() {
    for twice in [false, true] {
        let world = World::with(|settings| {
            settings.drain_for = if twice { Duration::from_mins(10) } else { Duration::from_millis(200) };
        })
        .await;
        let mut half = world.connect().await;
        let head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        half.write_all(head).await.unwrap();
        // Answered by now: the half request before it has been read as well.
        assert_eq!(world.enqueue(None).await.0, 201);
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.server.shutdown().signal();
        if twice {
            world.server.shutdown().signal();
        }
        let drained = tokio::time::timeout(LONG, world.serving).await.expect("it does not end");
        assert_eq!(drained.unwrap().unwrap().cut, 1, "twice: {twice}");
    }
}

/// Reliability 57: slowhttptest, in each of its ways, and others are answered in time while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn slowhttptest_stops_nobody() {
    let Ok(program) = which("slowhttptest") else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "slowhttptest is missing");
        eprintln!("SKIPPED: slowhttptest is not installed");
        return;
    };
    let world = World::new().await;
    let url = world.url("/v1/jobs");
    for mode in [&["-H"][..], &["-B"], &["-X", "-w", "1", "-y", "2", "-z", "8", "-n", "2"]] {
        let mut attack = tokio::process::Command::new(&program)
            .args(mode)
            .args(["-c", "400", "-r", "200", "-i", "2", "-l", "6", "-p", "3", "-t", "POST", "-u", &url])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        for _ in 0..20 {
            let began = Instant::now();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let answer = client.get(world.url("/livez")).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{mode:?}");
            assert!(began.elapsed() < Duration::from_secs(2), "{mode:?}: {:?}", began.elapsed());
            assert_eq!(world.enqueue(None).await.0, 201, "{mode:?}");
        }
        attack.kill().await.unwrap();
    }
}

fn which(program: &str) -> Result<std::path::PathBuf, ()> {
    let path = std::env::var_os("PATH").ok_or(())?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file()).ok_or(())
}

/// Reliability 57, row of the drain: a head that arrived by half does not hold up the end of the server.
#[tokio::test]
async fn half_a_head_does_not_hold_up_the_end() {
    let world = World::new().await;
    let mut stream = world.connect().await;
    stream.write_all(b"POST /v1/jobs HTTP/1.1\r\nHost: loc").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    world.server.shutdown().signal();
    let drained = world.serving.await.unwrap().unwrap();
    assert_eq!(drained.cut, 0);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
