//! Handlers that panic, behind the real listener.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use redrive::engine::Engine;
use redrive_store::{Sqlite, SqliteOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A body that breaks while it is sent.
struct Breaking;

impl http_body::Body for Breaking {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
        panic!("hunter2: in a body")
    }
}

async fn at_once() -> &'static str {
    panic!("hunter2: at once")
}

async fn later() -> &'static str {
    tokio::task::yield_now().await;
    panic!("hunter2: later")
}

async fn in_a_task() -> &'static str {
    tokio::spawn(async { panic!("hunter2: in a task") }).await.unwrap()
}

/// Reliability row 24: a handler that panics, at whatever place, costs its request: it is answered with 500, in JSON, with nothing of what
/// the panic said; the connection goes on, other connections too, and nothing is left that would hold up the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_costs_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap();
    let engine = Engine::builder(Arc::new(store)).build().unwrap();
    let server = Server::new(&engine, ServerSettings::default());
    let router = Router::new()
        .route("/at-once", get(at_once))
        .route("/later", get(later))
        .route("/in-a-task", get(in_a_task))
        .route("/body", get(async || Response::new(Body::new(Breaking))))
        .route("/fine", get(async || "fine"));
    let app = App::routing(&server, router);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let one = server.clone();
    let serving = tokio::spawn(async move { serve_app(&one, app, listener, None).await });
    let ask = async |stream: &mut TcpStream, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = [0; 4096];
        let n = timeout(Duration::from_secs(10), stream.read(&mut bytes)).await.unwrap().unwrap_or(0);
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    let mut kept = TcpStream::connect(at).await.unwrap();
    for path in ["/at-once", "/later", "/in-a-task"] {
        let answer = ask(&mut kept, path).await;
        assert!(answer.starts_with("HTTP/1.1 500"), "{path}: {answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("\"internal\""), "{answer}");
        assert!(!answer.contains("hunter2"), "{answer}");
        assert!(ask(&mut kept, "/fine").await.ends_with("fine"), "after {path}, on the same connection");
    }
    let mut broken = TcpStream::connect(at).await.unwrap();
    let answer = ask(&mut broken, "/body").await;
    assert!(!answer.contains("hunter2"), "{answer}");
    assert!(ask(&mut kept, "/fine").await.ends_with("fine"));
    assert!(ask(&mut TcpStream::connect(at).await.unwrap(), "/fine").await.ends_with("fine"));
    server.shutdown().signal();
    let drained = timeout(Duration::from_secs(10), serving).await.expect("it does not end");
    assert_eq!((drained.unwrap().unwrap().cut, server.connections()), (0, 0));
}
