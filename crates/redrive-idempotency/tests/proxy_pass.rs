//! What the proxy does not guard passes as it is (R-I6): heads, bodies, streams, other protocols, and nothing is sent twice.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod behind;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use behind::{PATIENCE, Running, Service, is_problem, line};
use redrive_idempotency::proxy::Ended;
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

/// A service that answers with what it was asked.
async fn echo() -> Service {
    Service::start(|mut talk, _| async move {
        let (head, body) = talk.request().await;
        let said = format!("{head}{body}");
        talk.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len())).await;
    })
    .await
}

/// R-I6: method, target, host and headers reach the service as they were sent; what belongs to the connection does not.
#[tokio::test]
async fn a_head_passes_as_it_was_sent() {
    let service = echo().await;
    let proxy = Running::before(service.address).await;
    let told = proxy
        .ask(
            "FROB /a%20b//c/..;x?q=%7B&&y HTTP/1.1\r\nHost: Example.COM:81\r\nX-OddCase: 1\r\nX-Twice: a\r\nX-Twice: b\r\n\
             Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nCookie: a=b\r\n\r\n",
        )
        .await;
    let (_, said) = told.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        said,
        "FROB /a%20b//c/..;x?q=%7B&&y HTTP/1.1\r\nHost: Example.COM:81\r\nX-OddCase: 1\r\nX-Twice: a\r\nX-Twice: b\r\nCookie: a=b\r\n\r\n"
    );
}

/// R-I6: a status with a phrase of its own, headers in their case, several cookies: all of it reaches the client.
#[tokio::test]
async fn an_answer_passes_as_it_was_given() {
    let service = Service::saying(
        "HTTP/1.1 299 Rather Splendid\r\nDate: Sun, 15 Nov 2026 08:00:00 GMT\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
         X-OddCase: yes\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let proxy = Running::before(service.address).await;
    let told = proxy.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert_eq!((line(head), body), ("HTTP/1.1 299 Rather Splendid", "ok"));
    for header in
        ["Set-Cookie: a=1", "Set-Cookie: b=2", "X-OddCase: yes", "Date: Sun, 15 Nov 2026 08:00:00 GMT"]
    {
        assert!(head.contains(header), "{header} in {head}");
    }
    assert!(!head.contains("X-Hop"), "{head}");
}

/// R-I6: answers that have no body have none, whatever their headers say.
#[tokio::test]
async fn answers_without_a_body_have_none() {
    for (method, answer, status) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", "HTTP/1.1 200 OK"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "HTTP/1.1 304 Not Modified"),
    ] {
        let service = Service::saying(answer).await;
        let proxy = Running::before(service.address).await;
        let told = proxy.ask(format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert_eq!((line(head), body), (status, ""), "{method}");
        if method == "HEAD" {
            assert!(head.to_lowercase().contains("content-length: 5000"), "{head}");
        } else {
            assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
        }
    }
}

/// R-I6: a body in chunks passes piece by piece in both directions, and what stands behind it too.
#[tokio::test]
async fn bodies_stream_both_ways_with_their_trailers() {
    let service = Service::start(|mut talk, _| async move {
        talk.hear("\r\n\r\n").await;
        // The answer begins before the request has ended.
        talk.hear("one\r\n").await;
        talk.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nfirst\r\n")
            .await;
        let rest = talk.hear("0\r\nx-check: 7\r\n\r\n").await;
        assert!(rest.starts_with("3\r\ntwo\r\n"), "{rest}");
        talk.say("6\r\nsecond\r\n0\r\nX-Sum: 42\r\n\r\n").await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    let mut talk = proxy.talk().await;
    talk.say(
        "PUT /up HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: TE, close\r\nTransfer-Encoding: chunked\r\n\
         Trailer: X-Check\r\n\r\n3\r\none\r\n",
    )
    .await;
    talk.hear("first").await;
    talk.say("3\r\ntwo\r\n0\r\nX-Check: 7\r\n\r\n").await;
    let rest = talk.all().await;
    assert!(rest.contains("6\r\nsecond\r\n0\r\nx-sum: 42\r\n\r\n"), "{rest}");
}

/// R-I6: events reach the client when they happen, not when there are enough of them.
#[tokio::test]
async fn events_are_not_held_back() {
    let service = Service::start(|mut talk, _| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        // Only when the other side has seen the first and hung up does this come to an end.
        talk.all().await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    let mut talk = proxy.talk().await;
    talk.say("GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await;
    talk.hear("data: 1\n\n").await;
}

/// R-I6: a client that reads slowly slows the service down; nothing is piled up between them.
#[tokio::test]
async fn a_slow_reader_holds_the_service_back() {
    let sent = Arc::new(Mutex::new(0_usize));
    let counting = Arc::clone(&sent);
    let service = Service::start(move |mut talk, _| {
        let counting = Arc::clone(&counting);
        async move {
            talk.request().await;
            talk.say("HTTP/1.1 200 OK\r\n\r\n").await;
            let piece = vec![b'x'; 1 << 16];
            for _ in 0..2_000 {
                if talk.stream.write_all(&piece).await.is_err() {
                    return;
                }
                *counting.lock().unwrap() += piece.len();
            }
        }
    })
    .await;
    let proxy = Running::before(service.address).await;
    let mut talk = proxy.talk().await;
    talk.say("GET /much HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    talk.hear("\r\n\r\n").await;
    let mut last = 0;
    let stalled = timeout(PATIENCE, async {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = *sent.lock().unwrap();
            if now == last && now > 0 {
                return now;
            }
            last = now;
        }
    });
    let stalled = stalled.await.expect("the service is never held back");
    assert!(stalled < 64 << 20, "{stalled} bytes were taken from the service that nobody reads");
}

/// R-I6: a client that asks before it sends is told to go on when the service says so, and not before.
#[tokio::test]
async fn a_client_that_asks_first_waits_for_the_service() {
    let service = Service::start(|mut talk, number| async move {
        let head = talk.hear("\r\n\r\n").await;
        assert!(head.to_lowercase().contains("expect: 100-continue"), "{head}");
        if number == 0 {
            assert!(talk.is_silent().await, "the body came before it was asked for");
            talk.say("HTTP/1.1 100 Continue\r\n\r\n").await;
            talk.hear("body").await;
            talk.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        } else {
            talk.say("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .await;
        }
    })
    .await;
    let proxy = Running::before(service.address).await;
    let head = "PUT /big HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    let mut talk = proxy.talk().await;
    talk.say(head).await;
    assert_eq!(talk.hear("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    talk.say("body").await;
    assert!(talk.hear("\r\n\r\n").await.starts_with("HTTP/1.1 200 OK"));
    let mut talk = proxy.talk().await;
    talk.say(head).await;
    let refused = talk.hear("\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 417 "), "{refused}");
}

/// R-I6: when both sides want another protocol, its bytes pass in both directions.
#[tokio::test]
async fn another_protocol_is_tunnelled() {
    let service = Service::start(|mut talk, _| async move {
        let head = talk.hear("\r\n\r\n").await.to_lowercase();
        assert!(head.contains("upgrade: websocket") && head.contains("connection: upgrade"), "{head}");
        talk.say(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
        )
        .await;
        talk.hear("ping").await;
        talk.say("pong").await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    let mut talk = proxy.talk().await;
    talk.say("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    let head = talk.hear("\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 101 ") && head.to_lowercase().contains("upgrade: websocket"),
        "{head}"
    );
    talk.hear("hello").await;
    talk.say("ping").await;
    assert_eq!(talk.all().await, "pong");
}

/// R-I6: an answer of HTTP/1.0 without a length ends where the service ends; a client of HTTP/1.0 gets one likewise.
#[tokio::test]
async fn the_older_protocol_is_spoken_on_both_sides() {
    let service = Service::start(|mut talk, _| async move {
        let (head, _) = talk.request().await;
        assert!(
            head.starts_with("GET /old HTTP/1.1\r\n") && head.to_lowercase().contains("\r\nhost: "),
            "{head}"
        );
        talk.say("HTTP/1.0 200 Fine\r\nX: y\r\n\r\nall of it").await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    let told = proxy.ask("GET /old HTTP/1.0\r\n\r\n").await;
    assert!(told.ends_with("\r\n\r\nall of it"), "{told}");
    let told = proxy.ask("GET /old HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(line(&told).starts_with("HTTP/1.1 200 ") && told.contains("all of it"), "{told}");
}

/// R-I6: a target that names a host counts for more than the header, and reaches the service as a path.
#[tokio::test]
async fn an_absolute_target_becomes_a_path() {
    let service = echo().await;
    let proxy = Running::before(service.address).await;
    let told =
        proxy.ask("GET http://user@other:99/p?q HTTP/1.1\r\nHost: lies\r\nConnection: close\r\n\r\n").await;
    assert!(told.contains("GET /p?q HTTP/1.1\r\nHost: other:99\r\n"), "{told}");
    let told = proxy.ask("GET http://other HTTP/1.1\r\nHost: lies\r\nConnection: close\r\n\r\n").await;
    assert!(told.contains("GET / HTTP/1.1\r\nHost: other\r\n"), "{told}");
}

/// R-I6: an answer in a coding that nobody asked for is not passed off as its content.
#[tokio::test]
async fn an_answer_in_a_coding_that_nobody_asked_for_is_refused() {
    let service = Service::saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nConnection: close\r\n\r\n2\r\nxx\r\n0\r\n\r\n",
    )
    .await;
    let proxy = Running::before(service.address).await;
    is_problem(
        &proxy.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await,
        502,
        "upstream-lost",
    );
}

/// R-I6: what one side could read otherwise than the other is refused, and never reaches the service.
#[tokio::test]
async fn requests_of_two_meanings_are_refused() {
    let service = echo().await;
    let proxy = Running::before(service.address).await;
    for (request, status) in [
        ("CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n", "501"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 4\r\n\r\nabcd", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        ("POST foo HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("POST foo:80 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "400"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
    ] {
        let mut talk = proxy.talk().await;
        talk.say(request).await;
        let head = talk.hear("\r\n").await;
        assert_eq!(head.split(' ').nth(1), Some(status), "{request:?}: {head}");
    }
    assert_eq!(service.count(), 0);
}

/// R-I6: a length beside a Transfer-Encoding cannot smuggle a second request past the proxy.
#[tokio::test]
async fn two_lengths_never_become_two_requests() {
    let service = echo().await;
    let proxy = Running::before(service.address).await;
    for lengths in
        ["Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4"]
    {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{lengths}\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        let answers = proxy.ask(request).await;
        // The length counts for nothing (RFC 9112 §6.3): the service sees chunks alone, and the connection is over with this request.
        let (head, seen) = answers.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("connection: close"), "{answers}");
        assert_eq!(seen, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
}

/// R-I6: a head without end, too many headers, or one that never comes to its end: the client is turned away.
#[tokio::test]
async fn heads_are_bounded_in_length_and_time() {
    let service = echo().await;
    let proxy =
        Running::with(service.address, |_, options| options.client_timeout = Duration::from_millis(300))
            .await;
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = "X-Again: 1\r\n".repeat(300);
    for head in [long, format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")] {
        let mut talk = proxy.talk().await;
        // The rest may find the door closed.
        let _ = talk.stream.write_all(head.as_bytes()).await;
        let answer = talk.hear("\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let mut talk = proxy.talk().await;
    talk.say("GET / HTTP/1.1\r\nHost: a\r\nX-Never").await;
    talk.all().await;
    assert_eq!(service.count(), 0);
}

/// R-I6: a client that falls silent in the middle of its body does not hold the service for ever.
#[tokio::test]
async fn a_body_that_stops_is_not_waited_for() {
    let (ended, told) = tokio::sync::oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let service = Service::start(move |mut talk, _| {
        let ended = Arc::clone(&ended);
        async move {
            talk.all().await;
            ended.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    })
    .await;
    let proxy =
        Running::with(service.address, |_, options| options.client_timeout = Duration::from_millis(300))
            .await;
    let mut talk = proxy.talk().await;
    talk.say("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").await;
    timeout(PATIENCE, told).await.expect("the service is held").unwrap();
}

/// R-I6: a client that takes nothing of its answer is let go, and its place is another's.
#[tokio::test]
async fn a_client_that_reads_nothing_is_let_go() {
    let service = Service::start(|mut talk, _| async move {
        let (head, _) = talk.request().await;
        let length = if head.starts_with("GET /much") { 64 << 20 } else { 2 };
        talk.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
        // It breaks off when the proxy lets go.
        let _ = talk.stream.write_all(&vec![b'o'; length]).await;
    })
    .await;
    let proxy = Running::with(service.address, |_, options| {
        options.client_timeout = Duration::from_millis(300);
        options.max_connections = 1;
    })
    .await;
    let mut reads_nothing = proxy.talk().await;
    reads_nothing.say("GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await;
    reads_nothing.hear("200 OK").await;
    // There is room for one: it is served once the other is gone.
    let told = proxy.ask("GET /few HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(told.ends_with("\r\n\r\noo"), "{told}");
}

/// R-I6: without a key nothing is sent twice, and the client is told what is known.
#[tokio::test]
async fn what_is_not_guarded_is_never_sent_twice() {
    let get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let lost = Service::start(|mut talk, _| async move { drop(talk.request().await) }).await;
    let proxy = Running::before(lost.address).await;
    is_problem(&proxy.ask(get).await, 502, "upstream-lost");
    assert_eq!(lost.count(), 1);

    let busy = Service::saying("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    let proxy = Running::before(busy.address).await;
    assert_eq!(line(&proxy.ask(get).await), "HTTP/1.1 503 Busy");
    assert_eq!(busy.count(), 1);

    let silent = Service::start(|mut talk, _| async move { drop(talk.all().await) }).await;
    let proxy =
        Running::with(silent.address, |_, options| options.upstream_timeout = Duration::from_millis(200))
            .await;
    is_problem(&proxy.ask(get).await, 504, "upstream-timeout");
    assert_eq!(silent.count(), 1);

    let gone = silent.address;
    drop(silent);
    tokio::task::yield_now().await;
    let proxy = Running::before(gone).await;
    let answer = timeout(PATIENCE, async {
        loop {
            let answer = proxy.ask(get).await;
            if answer.contains("upstream-unreachable") {
                return answer;
            }
        }
    });
    is_problem(&answer.await.unwrap(), 502, "upstream-unreachable");
}

/// A service that says one thing to whoever asks for the stream, then nothing; and "oo" to everybody else. Tells how many listen.
async fn quiet() -> (Service, Arc<AtomicUsize>) {
    let listening = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&listening);
    let service = Service::start(move |mut talk, _| {
        let counting = Arc::clone(&counting);
        async move {
            let (head, _) = talk.request().await;
            if head.starts_with("GET /stream") {
                counting.fetch_add(1, Ordering::SeqCst);
                if head.starts_with("GET /stream/late") {
                    sleep(Duration::from_millis(600)).await;
                }
                talk.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").await;
                let mut byte = [0];
                let _ = tokio::io::AsyncReadExt::read(&mut talk.stream, &mut byte).await;
                counting.fetch_sub(1, Ordering::SeqCst);
            } else {
                talk.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\noo").await;
            }
        }
    })
    .await;
    (service, listening)
}

async fn comes_to(count: &AtomicUsize, wanted: usize) {
    let waiting = async {
        while count.load(Ordering::SeqCst) != wanted {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("it never comes to that");
}

/// R-I6: who leaves a stream that says nothing gives its place back, whether it left before or after the stream began.
#[tokio::test]
async fn a_client_that_leaves_a_quiet_stream_gives_its_place_back() {
    let (service, listening) = quiet().await;
    let proxy = Running::with(service.address, |_, options| options.max_connections = 2).await;
    let mut leaving = Vec::new();
    for _ in 0..2 {
        let mut talk = proxy.talk().await;
        talk.say("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n").await;
        talk.hear("data: 1\n\n").await;
        leaving.push(talk);
    }
    assert_eq!(listening.load(Ordering::SeqCst), 2);
    drop(leaving);
    comes_to(&listening, 0).await;
    for _ in 0..2 {
        let mut talk = proxy.talk().await;
        talk.say("GET /stream/late HTTP/1.1\r\nHost: a\r\n\r\n").await;
        comes_to(&listening, 1).await;
        drop(talk);
        comes_to(&listening, 0).await;
    }
    let told = proxy.ask("GET /few HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(told.ends_with("\r\n\r\noo"), "{told}");
}

/// R-I6: a drain waits for nobody who is gone.
#[tokio::test]
async fn a_drain_does_not_wait_for_who_is_gone() {
    let (service, _) = quiet().await;
    let mut proxy = Running::with(service.address, |_, options| options.drain_for = PATIENCE * 5).await;
    let mut talk = proxy.talk().await;
    talk.say("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n").await;
    talk.hear("data: 1\n\n").await;
    proxy.shutdown.signal();
    drop(talk);
    assert_eq!(timeout(PATIENCE, &mut proxy.serving).await.expect("it waits").unwrap(), Ended::Whole);
}

/// R-I6: a client that says nothing more after its request, and still listens, gets the whole of its answer.
#[tokio::test]
async fn who_has_asked_and_listens_gets_the_whole_answer() {
    for key in ["", "Idempotency-Key: k\r\n"] {
        let service = Service::start(|mut talk, _| async move {
            talk.request().await;
            sleep(Duration::from_millis(300)).await;
            talk.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\none ").await;
            sleep(Duration::from_millis(2_500)).await;
            talk.say("two").await;
        })
        .await;
        let proxy = Running::before(service.address).await;
        let mut talk = proxy.talk().await;
        talk.say(format!(
            "POST /do HTTP/1.1\r\nHost: a\r\n{key}Content-Length: 2\r\nConnection: close\r\n\r\nab"
        ))
        .await;
        talk.stream.shutdown().await.unwrap();
        let told = talk.all().await;
        assert!(told.contains("one ") && told.contains("two"), "{told}");
    }
}

/// R-I6: both sides of a connection that says nothing are asked by the system whether they are there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn silent_peers_are_asked_for_a_sign_of_life() {
    let (service, listening) = quiet().await;
    let proxy = Running::before(service.address).await;
    let mut talk = proxy.talk().await;
    talk.say("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n").await;
    talk.hear("data: 1\n\n").await;
    assert_eq!(listening.load(Ordering::SeqCst), 1);
    let ours = talk.stream.local_addr().unwrap().port();
    let has_timer = |line: &str, local: Option<u16>, remote: u16| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = |place: usize| {
            fields.get(place)?.split(':').nth(1).and_then(|port| u16::from_str_radix(port, 16).ok())
        };
        port(2) == Some(remote)
            && local.is_none_or(|local| port(1) == Some(local))
            && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
    };
    let waiting = async {
        loop {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let client = table.lines().any(|line| has_timer(line, Some(proxy.address.port()), ours));
            let upstream = table.lines().any(|line| has_timer(line, None, service.address.port()));
            if client && upstream {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(5), waiting).await.expect("nobody asks");
}

/// R-I6: a proxy that is told to be its own service says so at once, instead of asking itself until there is no room left.
#[tokio::test]
async fn a_proxy_before_itself_finds_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    let proxy = Running::at(listener, own, |_, _| {}, None);
    let get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    is_problem(&proxy.ask(get).await, 508, "proxy-request-refused");
    is_problem(&proxy.post("k", "x").await, 508, "proxy-request-refused");
    assert!(proxy.records().await.is_empty());
    let leads = async |url: &str, to: &str| {
        url.parse::<redrive_idempotency::proxy::UpstreamUrl>().unwrap().leads_to(to.parse().unwrap()).await
    };
    assert!(leads("http://127.0.0.1:7412", "127.0.0.1:7412").await);
    assert!(leads("http://localhost:7412", "0.0.0.0:7412").await);
    assert!(!leads("http://127.0.0.1:3000", "127.0.0.1:7412").await);
    assert!(!leads("http://127.0.0.2:7412", "127.0.0.1:7412").await);
}
