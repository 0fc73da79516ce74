//! TLS at its worst: handshakes that do not end, clients that are too old, and certificates that are exchanged under load.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redrive_server::{Drained, Tls};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::rustls::version;

use crate::tls::{ask, certificate};
use crate::world::{World, read_to_end};

const LONG: Duration = Duration::from_secs(10);

/// A server that speaks TLS, with little patience.
struct Secure {
    world: World,
    tls: Tls,
    at: std::net::SocketAddr,
    serving: JoinHandle<std::io::Result<Drained>>,
}

impl Secure {
    async fn new(folder: &Path, head_within: Duration) -> Secure {
        let tls = Tls::load(folder.join("cert.pem"), folder.join("key.pem")).unwrap();
        let world = World::with(|settings| settings.head_within = head_within).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (server, shown) = (world.server.clone(), tls.clone());
        let serving = tokio::spawn(async move { server.serve_tls(listener, &shown).await });
        Secure { world, tls, at, serving }
    }
}

/// A hello of this version, which knows of no later one.
fn hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session; a cipher of TLS 1.2 and one of before; no compression; the curves and signatures of our certificate.
    body.extend([0, 0, 4, 0xc0, 0x2b, 0xc0, 0x09, 1, 0]);
    let extensions = [0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3];
    body.extend([0, u8::try_from(extensions.len()).unwrap()]);
    body.extend(extensions);
    let length = u8::try_from(body.len()).unwrap();
    let mut hello = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    hello
}

/// Design.md §6: whoever speaks TLS 1.1 or less is refused with the alert for that, and so is whoever speaks no TLS at all.
#[tokio::test]
async fn old_clients_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    if !certificate(folder.path(), "one") {
        return;
    }
    let secure = Secure::new(folder.path(), LONG).await;
    // The same hello is good or not, by its version alone.
    for (minor, expected) in [(1, [21, 2, 70]), (2, [21, 2, 70]), (3, [22, 2, 0])] {
        let mut stream = TcpStream::connect(secure.at).await.unwrap();
        stream.write_all(&hello(minor)).await.unwrap();
        let mut answer = [0; 7];
        let read = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer);
        tokio::time::timeout(LONG, read).await.expect("it answers").unwrap();
        assert_eq!([answer[0], answer[5], answer[6]], expected, "minor {minor}: {answer:?}");
    }
    for plain in [&b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b"\x00\xff\x16\x03nonsense"] {
        let mut stream = TcpStream::connect(secure.at).await.unwrap();
        stream.write_all(plain).await.unwrap();
        let answer = read_to_end(&mut stream, LONG).await;
        assert!(answer.closed && !answer.text.contains("HTTP/"), "{}", answer.text);
    }
    assert!(ask(&secure.world, secure.at, &folder.path().join("cert.pem"), &version::TLS13).await.is_some());
}

/// Reliability 57: a handshake has its time, whether it stops or drips; meanwhile others are answered, and the end of the server waits
/// for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_handshake_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    if !certificate(folder.path(), "one") {
        return;
    }
    let cert = folder.path().join("cert.pem");
    let secure = Secure::new(folder.path(), Duration::from_secs(1)).await;
    let mut slow = tokio::task::JoinSet::new();
    for number in 0..200_u32 {
        let at = secure.at;
        slow.spawn(async move {
            let began = Instant::now();
            let (mut reading, mut writing) = TcpStream::connect(at).await.unwrap().into_split();
            writing.write_all(&hello(3)[..20]).await.unwrap();
            if number % 2 == 0 {
                tokio::spawn(async move {
                    for byte in &hello(3)[20..] {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        if writing.write_all(&[*byte]).await.is_err() {
                            break;
                        }
                    }
                });
            } else {
                // It stays open, and silent.
                std::mem::forget(writing);
            }
            let mut rest = Vec::new();
            let read = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut rest);
            let _ = tokio::time::timeout(LONG, read).await.expect("it is cut");
            began.elapsed()
        });
    }
    for _ in 0..5 {
        let began = Instant::now();
        assert!(ask(&secure.world, secure.at, &cert, &version::TLS13).await.is_some());
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    }
    while let Some(took) = slow.join_next().await {
        let took = took.unwrap();
        assert!(took > Duration::from_millis(800) && took < Duration::from_secs(5), "{took:?}");
    }
    // And at the end, with all the patience of the world.
    drop(secure);
    let secure = Secure::new(folder.path(), Duration::from_mins(10)).await;
    let mut half = TcpStream::connect(secure.at).await.unwrap();
    half.write_all(&hello(3)[..20]).await.unwrap();
    // Answered by now: the half one before it has been accepted.
    assert!(ask(&secure.world, secure.at, &cert, &version::TLS13).await.is_some());
    let began = Instant::now();
    secure.world.server.shutdown().signal();
    let drained = tokio::time::timeout(LONG, secure.serving).await.expect("it ends").unwrap().unwrap();
    assert!(drained.cut == 0 && began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(read_to_end(&mut half, LONG).await.closed);
}

/// Reliability 73: certificates are exchanged under load, broken pairs among them: a key of another certificate, half a file, a key that
/// others can read, none at all. Every connection is answered, under a certificate that was whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_exchanged_under_load() {
    let (folder, one, two) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !certificate(one.path(), "one") || !certificate(two.path(), "two") {
        return;
    }
    let put = |from: &Path, name: &str| {
        std::fs::copy(from.join(name), folder.path().join(name)).unwrap();
    };
    let put_both = |from: &Path| ["cert.pem", "key.pem"].into_iter().for_each(|name| put(from, name));
    put_both(one.path());
    let secure = Arc::new(Secure::new(folder.path(), LONG).await);
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Whoever knows both is answered whatever is shown.
    let both = folder.path().join("both.pem");
    let texts = [one.path(), two.path()].map(|from| std::fs::read_to_string(from.join("cert.pem")).unwrap());
    std::fs::write(&both, texts.concat()).unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (secure, over, answered) = (Arc::clone(&secure), Arc::clone(&over), Arc::clone(&answered));
        let both = both.clone();
        clients.push(tokio::spawn(async move {
            while !over.load(Ordering::Acquire) {
                let answer = ask(&secure.world, secure.at, &both, &version::TLS13).await;
                assert!(answer.expect("a whole certificate").starts_with("HTTP/1.1 200"));
                answered.fetch_add(1, Ordering::AcqRel);
            }
        }));
    }
    let key = folder.path().join("key.pem");
    for round in 0..10 {
        let (now, other) = if round % 2 == 0 { (&two, &one) } else { (&one, &two) };
        put_both(now.path());
        secure.tls.reload().unwrap();
        let before = answered.load(Ordering::Acquire);
        put(other.path(), "key.pem");
        secure.tls.reload().unwrap_err();
        std::fs::write(&key, &std::fs::read(now.path().join("key.pem")).unwrap()[..60]).unwrap();
        secure.tls.reload().unwrap_err();
        put(now.path(), "key.pem");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).unwrap();
        secure.tls.reload().unwrap_err();
        std::fs::remove_file(&key).unwrap();
        secure.tls.reload().unwrap_err();
        // The one before all this is still shown, and no other.
        let shown = now.path().join("cert.pem");
        assert!(ask(&secure.world, secure.at, &shown, &version::TLS13).await.is_some(), "round {round}");
        let hidden = other.path().join("cert.pem");
        assert!(ask(&secure.world, secure.at, &hidden, &version::TLS13).await.is_none(), "round {round}");
        crate::world::until("others are answered", || async { answered.load(Ordering::Acquire) > before })
            .await;
    }
    over.store(true, Ordering::Release);
    for client in clients {
        client.await.unwrap();
    }
}
