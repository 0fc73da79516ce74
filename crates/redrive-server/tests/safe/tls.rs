//! TLS: what is spoken, whose key is read, and a certificate that is exchanged while the server runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive_server::{Tls, TlsTrouble};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto, version};

use crate::world::World;

/// Makes a certificate for localhost; whether it can be made here.
pub(crate) fn certificate(folder: &Path, name: &str) -> bool {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    let Ok(made) = made else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "openssl is missing");
        eprintln!("SKIPPED: openssl is not installed");
        return false;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    true
}

/// Asks over TLS, knowing the certificates of this file; nothing when it is shown another one.
pub(crate) async fn ask(
    world: &World,
    at: std::net::SocketAddr,
    cert: &Path,
    speaks: &'static SupportedProtocolVersion,
) -> Option<String> {
    let mut roots = RootCertStore::empty();
    for known in CertificateDer::pem_file_iter(cert).unwrap() {
        roots.add(known.unwrap()).unwrap();
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[speaks])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(at).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    stream
        .write_all(b"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.unwrap();
    assert!(!world.serving.is_finished());
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Design.md §6: TLS 1.2 and 1.3 are spoken; a new certificate is shown without a restart, and a broken one leaves the old.
#[tokio::test]
async fn a_certificate_is_exchanged_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    if !certificate(folder.path(), "one") {
        return;
    }
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let tls = Tls::load(&cert, &key).unwrap();
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (server, shown) = (world.server.clone(), tls.clone());
    let serving = tokio::spawn(async move { server.serve_tls(listener, &shown).await });
    for speaks in [&version::TLS12, &version::TLS13] {
        let answer = ask(&world, at, &cert, speaks).await.expect("it is spoken");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Who speaks plainly is not answered.
    let mut plain = TcpStream::connect(at).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let answer = crate::world::read_to_end(&mut plain, Duration::from_secs(5)).await;
    assert!(answer.closed && !answer.text.contains("HTTP/1.1"), "{}", answer.text);
    // Another certificate, of which the old client knows nothing.
    let old = folder.path().join("old.pem");
    std::fs::copy(&cert, &old).unwrap();
    assert!(certificate(folder.path(), "two"));
    assert!(ask(&world, at, &old, &version::TLS13).await.is_some(), "the old one, until it is read again");
    tls.reload().unwrap();
    assert!(ask(&world, at, &old, &version::TLS13).await.is_none());
    assert!(ask(&world, at, &cert, &version::TLS13).await.is_some());
    // What cannot be used changes nothing.
    let new = folder.path().join("new.pem");
    std::fs::copy(&cert, &new).unwrap();
    std::fs::write(&cert, "nonsense").unwrap();
    assert!(matches!(tls.reload(), Err(TlsTrouble::Nothing { .. })));
    assert!(ask(&world, at, &new, &version::TLS13).await.is_some());
    world.server.shutdown().now();
    assert_eq!(serving.await.unwrap().unwrap().cut, 0);
}

/// Reliability 73: a key that others can read is refused, and so is one that does not fit.
#[tokio::test]
async fn a_key_that_others_can_read_is_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !certificate(folder.path(), "one") || !certificate(other.path(), "two") {
        return;
    }
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    for mode in [0o644, 0o640, 0o604, 0o660] {
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        let refused = Tls::load(&cert, &key).unwrap_err();
        assert!(matches!(refused, TlsTrouble::KeyIsOpen { mode: found, .. } if found == mode), "{refused}");
    }
    assert!(matches!(Tls::load(&cert, other.path().join("key.pem")), Err(TlsTrouble::Unfit(_))));
    assert!(matches!(Tls::load(&cert, folder.path().join("none.pem")), Err(TlsTrouble::Read { .. })));
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(Tls::load(&cert, &key).is_ok());
}
