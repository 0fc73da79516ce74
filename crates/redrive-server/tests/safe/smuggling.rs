//! Requests that two programs could read in two ways (reliability 58): each is answered 400, and its connection ends.

use std::time::Duration;

use crate::world::World;

const LONG: Duration = Duration::from_secs(5);

/// Reliability 58: the corpus. What follows a doubtful request on its connection is never read as one.
#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused() {
    let world = World::new().await;
    let job = r#"{"kind":"smuggled","queue":"q","payload":{}}"#;
    let hidden = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{job}",
        job.len()
    );
    let post = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for (what, head, body) in [
        ("two lengths", format!("{post}Content-Length: 4\r\nContent-Length: 9\r\n"), "{}  "),
        ("the same length twice", format!("{post}Content-Length: 2\r\nContent-Length: 2\r\n"), "{}"),
        ("a list of lengths", format!("{post}Content-Length: 2, 2\r\n"), "{}"),
        ("a signed length", format!("{post}Content-Length: +2\r\n"), "{}"),
        (
            "a length and chunks",
            format!("{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
            "0\r\n\r\n",
        ),
        (
            "chunks and a length",
            format!("{post}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            "0\r\n\r\n",
        ),
        ("two codings", format!("{post}Transfer-Encoding: gzip, chunked\r\n"), "0\r\n\r\n"),
        ("a coding that is none", format!("{post}Transfer-Encoding: xchunked\r\n"), "0\r\n\r\n"),
        (
            "chunks twice",
            format!("{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            "0\r\n\r\n",
        ),
        ("a folded header", format!("{post}X-A: b\r\n c\r\nContent-Length: 2\r\n"), "{}"),
        ("a folded coding", format!("{post}Transfer-Encoding:\r\n chunked\r\n"), "0\r\n\r\n"),
        ("a space before the colon", format!("{post}Content-Length : 2\r\n"), "{}"),
        ("a NUL", format!("{post}X-A: b\0c\r\nContent-Length: 2\r\n"), "{}"),
        ("a bare carriage return", format!("{post}X-A: b\rc\r\nContent-Length: 2\r\n"), "{}"),
        ("bare line feeds", "POST /v1/jobs HTTP/1.1\nHost: localhost\nContent-Length: 2\n".to_owned(), "{}"),
        ("a name with a space", format!("{post}X A: b\r\n"), ""),
        (
            "HTTP/1.0 with chunks",
            "POST /v1/jobs HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n".to_owned(),
            "",
        ),
        ("no version", "GET /livez\r\nHost: a\r\n".to_owned(), ""),
    ] {
        let answer = world.raw(format!("{head}\r\n{body}{hidden}").as_bytes(), LONG).await;
        assert_eq!((answer.status(), answer.closed), (Some(400), true), "{what}: {}", answer.text);
        assert_eq!(answer.text.matches("HTTP/1.1 ").count(), 1, "{what}: {}", answer.text);
    }
    assert!(world.events("job_enqueued").await.is_empty());
    assert_eq!(world.engine.store().status(world.engine.now()).await.unwrap().lanes.len(), 0);
}

/// Reliability 58: a doubtful request is refused just the same when it comes together with a good one, or while that is answered.
#[tokio::test]
async fn what_follows_a_good_request_is_looked_at() {
    let world = World::new().await;
    let job = r#"{"kind":"smuggled","queue":"q","payload":{}}"#;
    let chunks = format!("{:x}\r\n{job}\r\n0\r\n\r\n", job.len());
    let post = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let both =
        format!("{post}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}", chunks.len());
    let bare = format!("{post}Content-Length: {}\r\n\r\n{job}", job.len()).replace("\r\n", "\n");
    let wrong = "POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for first in [
        "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        format!("{wrong}Content-Length: 2\r\n\r\n{{}}"),
        format!("{wrong}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"),
    ] {
        for second in [&both, &bare] {
            let answer = world.raw(format!("{first}{second}").as_bytes(), LONG).await;
            assert!(answer.closed, "{first:?}: {}", answer.text);
            assert!(!answer.text.contains(" 201 "), "{first:?}: {}", answer.text);
            assert!(answer.text.contains(" 400 "), "{first:?}: {}", answer.text);
        }
        // Two good ones are both answered.
        let good =
            format!("{post}Content-Length: {}\r\n\r\n{}", job.len(), job.replace("smuggled", "straight"));
        let answer = world.raw(format!("{first}{good}").as_bytes(), Duration::from_secs(1)).await;
        assert!(answer.text.contains(" 201 "), "{first:?}: {}", answer.text);
    }
    let kinds = world.events("job_enqueued").await;
    assert!(kinds.iter().all(|event| event.source == "straight"), "{kinds:?}");
}

/// Reliability 58: chunks that are none end the request and its connection.
#[tokio::test]
async fn bad_chunks_are_refused() {
    let world = World::new().await;
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in [
        "zz\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}x\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{}",
        "2\n{}\n0\n\n",
    ] {
        let answer = world.raw(format!("{head}{chunks}").as_bytes(), LONG).await;
        assert!(answer.closed, "{chunks:?}: {}", answer.text);
        assert_eq!(answer.status(), Some(400), "{chunks:?}: {}", answer.text);
    }
    let job = r#"{"kind":"greet","payload":{}}"#;
    let good = format!("{head}{:x}\r\n{job}\r\n0\r\n\r\n", job.len());
    let answer = world.raw(good.as_bytes(), Duration::from_secs(1)).await;
    assert_eq!(answer.status(), Some(201), "{}", answer.text);
}

/// Reliability 58: HTTP/2 is not spoken, neither by its first words nor by an upgrade.
#[tokio::test]
async fn http_2_is_not_spoken() {
    let world = World::new().await;
    let answer = world.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", LONG).await;
    assert!(answer.closed && answer.status() != Some(200), "{}", answer.text);
    let upgrade = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
    let answer = world.raw(upgrade, Duration::from_millis(500)).await;
    assert_eq!(answer.status(), Some(200), "{}", answer.text);
}
