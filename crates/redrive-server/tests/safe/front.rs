//! Who is let in: names, origins, and whoever is on this machine (reliability 64, 65).

use std::time::Duration;

use redrive::engine::Scope;

use crate::world::World;

const LONG: Duration = Duration::from_secs(5);

/// Reliability 64: a name that is not ours is refused, whatever it resolves to; so is a page of another origin.
#[tokio::test]
async fn a_foreign_name_and_a_foreign_page_are_refused() {
    let world = World::with(|settings| {
        settings.hosts = vec!["redrive.example.com".into()];
        settings.origins = vec!["https://ops.example.com".into()];
    })
    .await;
    let port = world.address.port();
    for (headers, status) in [
        ("Host: localhost".to_owned(), 200),
        (format!("Host: 127.0.0.1:{port}"), 200),
        ("Host: [::1]:80".to_owned(), 200),
        ("Host: LOCALHOST.".to_owned(), 200),
        ("Host: Redrive.Example.com:443".to_owned(), 200),
        ("Host: evil.example.com".to_owned(), 403),
        ("Host: localhost.evil.example.com".to_owned(), 403),
        ("Host: evil@localhost".to_owned(), 403),
        ("Host: 127.0.0.1.nip.io".to_owned(), 403),
        ("Host: 192.0.2.1".to_owned(), 403),
        ("Host: ".to_owned(), 403),
        ("X-A: b".to_owned(), 400),
        ("Host: localhost\r\nHost: evil.example.com".to_owned(), 400),
        ("Host: localhost:7411\r\nOrigin: http://localhost:7411".to_owned(), 200),
        ("Host: localhost:7411\r\nOrigin: http://localhost:7412".to_owned(), 403),
        ("Host: localhost\r\nOrigin: https://ops.example.com".to_owned(), 200),
        ("Host: localhost\r\nOrigin: https://evil.example.com".to_owned(), 403),
        ("Host: localhost\r\nOrigin: null".to_owned(), 403),
        ("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: null".to_owned(), 403),
    ] {
        let request = format!("GET /v1/queues HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
        let answer = world.raw(request.as_bytes(), LONG).await;
        assert_eq!(answer.status(), Some(status), "{headers}: {}", answer.text);
        assert!(!answer.text.to_ascii_lowercase().contains("access-control-allow"), "{}", answer.text);
    }
    // An address in the first line beats the header.
    let request =
        "GET http://evil.example.com/v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(world.raw(request.as_bytes(), LONG).await.status(), Some(403));
    // Health is everybody's.
    let request = "GET /livez HTTP/1.1\r\nHost: evil.example.com\r\nConnection: close\r\n\r\n";
    assert_eq!(world.raw(request.as_bytes(), LONG).await.status(), Some(200));
}

/// Design.md §6: what came through a proxy on this machine did not come from this machine.
#[tokio::test]
async fn through_a_proxy_nobody_is_here() {
    let world = World::new().await;
    for (header, status) in
        [("X-A: b", 200), ("X-Forwarded-For: 192.0.2.1", 401), ("Forwarded: for=192.0.2.1", 401)]
    {
        let request =
            format!("GET /v1/queues HTTP/1.1\r\nHost: localhost\r\n{header}\r\nConnection: close\r\n\r\n");
        let answer = world.raw(request.as_bytes(), LONG).await;
        assert_eq!(answer.status(), Some(status), "{header}: {}", answer.text);
    }
}

/// Design.md §6: nobody who comes from elsewhere is let in without a token, whatever name he calls us by.
#[tokio::test]
async fn from_elsewhere_a_token_is_needed() {
    let Some(elsewhere) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but its own");
        return;
    };
    let world = World::new().await;
    let listener = tokio::net::TcpListener::bind((elsewhere, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = world.server.clone();
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let ask = async || {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        assert!(!stream.peer_addr().unwrap().ip().is_loopback());
        let mut stream = stream;
        let request = b"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.unwrap();
        crate::world::read_to_end(&mut stream, LONG).await.status()
    };
    assert_eq!(ask().await, Some(401));
    world.server.shutdown().now();
    serving.await.unwrap().unwrap();
}

/// An address of this machine that is not its loopback.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only says by which address it would be.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Reliability 65: ten thousand tries. What is wrong with a token is never told, the answers are the same to the byte, most are told to
/// wait, and a token that holds is never kept waiting.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tries_gain_nothing() {
    let world = World::new().await;
    let (id, good) = world.token(&[Scope::Read], &[]).await;
    let (revoked, gone) = world.token(&[Scope::Read], &[]).await;
    world.engine.revoke_token(&revoked, "cli:test", None).await.unwrap();
    let secret = "A".repeat(43);
    let mut first = Vec::new();
    for bad in [
        format!("rdv_{id}_{secret}"),
        format!("rdv_nobodyhere_{secret}"),
        gone,
        "nonsense".into(),
        String::new(),
    ] {
        let answer = world.client.get(world.url("/v1/queues")).bearer_auth(&bad).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        assert!(answer.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        let mut told: serde_json::Value = answer.json().await.unwrap();
        // The id of the request is its own.
        told.as_object_mut().unwrap().remove("instance");
        first.push(told.to_string());
    }
    assert!(first.iter().all(|told| *told == first[0]), "{first:?}");
    let mut counts = std::collections::BTreeMap::new();
    for n in 0..10_000 {
        let bad = format!("rdv_{id}_{n:043}");
        let answer = world.client.get(world.url("/v1/queues")).bearer_auth(bad).send().await.unwrap();
        *counts.entry(answer.status().as_u16()).or_insert(0) += 1;
        if answer.status() == 429 {
            assert!(answer.headers().contains_key("retry-after"));
        }
        if n % 1_000 == 0 {
            let answer = world.client.get(world.url("/v1/queues")).bearer_auth(&good).send().await.unwrap();
            assert_eq!(answer.status(), 200, "who holds a token waits for nobody");
        }
    }
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [401, 429], "{counts:?}");
    assert!(counts[&429] > 9_800, "{counts:?}");
    // Some of it is written down, and not all.
    let refused = world.events("operator_refused").await;
    assert!(!refused.is_empty() && refused.len() < 200, "{}", refused.len());
    assert!(refused.iter().all(|event| !event.data.to_string().contains("rdv_")), "no token is written down");
}
