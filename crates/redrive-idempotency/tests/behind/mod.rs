//! A service that is written byte for byte, the proxy before it, and clients that speak to it by hand.

// Each test file uses what it needs.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{Engine, Shutdown};
use redrive_idempotency::Guard;
use redrive_idempotency::proxy::{Ended, Notable, Proxy, ProxyOptions};
use redrive_idempotency::rules::{Guarded, Rules};
use redrive_policy::{Backoff, Curve, Policy, PolicySpec};
use redrive_store::{KeyQuery, KeyRecord};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Nothing here takes that long unless it is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A service whose every connection is handled by a function of the connection and its number.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Service {
    pub(crate) async fn start<F, Fut>(handle: F) -> Service
    where
        F: Fn(Talk, usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Service::at(TcpListener::bind("127.0.0.1:0").await.unwrap(), handle)
    }

    pub(crate) fn at<F, Fut>(listener: TcpListener, handle: F) -> Service
    where
        F: Fn(Talk, usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(handle(Talk { stream, rest: Vec::new() }, number));
            }
        });
        Service { address, connections, accepting }
    }

    /// Answers every request with these bytes, on a connection that it then closes.
    pub(crate) async fn saying(answer: &'static str) -> Service {
        Service::start(move |mut talk, _| async move {
            talk.request().await;
            talk.say(answer).await;
        })
        .await
    }

    pub(crate) fn count(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One side of a connection, by hand.
pub(crate) struct Talk {
    pub(crate) stream: TcpStream,
    rest: Vec<u8>,
}

impl Talk {
    pub(crate) async fn to(address: SocketAddr) -> Talk {
        Talk { stream: TcpStream::connect(address).await.unwrap(), rest: Vec::new() }
    }

    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
    }

    /// Everything up to and with this mark; `None` when the other side ends before it comes.
    pub(crate) async fn until(&mut self, mark: &str) -> Option<String> {
        loop {
            if let Some(at) = self.rest.windows(mark.len()).position(|bytes| bytes == mark.as_bytes()) {
                let rest = self.rest.split_off(at + mark.len());
                return Some(String::from_utf8(std::mem::replace(&mut self.rest, rest)).unwrap());
            }
            let mut chunk = [0; 4096];
            match timeout(PATIENCE, self.stream.read(&mut chunk)).await.expect("the other side is silent") {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.rest.extend_from_slice(&chunk[..read]),
            }
        }
    }

    pub(crate) async fn hear(&mut self, mark: &str) -> String {
        let heard = self.until(mark).await;
        heard.unwrap_or_else(|| panic!("no {mark:?} in {:?}", String::from_utf8_lossy(&self.rest)))
    }

    /// Everything until the other side ends.
    pub(crate) async fn all(&mut self) -> String {
        let mut all = std::mem::take(&mut self.rest);
        // A reset ends it, too.
        let _ = timeout(PATIENCE, self.stream.read_to_end(&mut all)).await.expect("no end");
        String::from_utf8(all).unwrap()
    }

    /// A head, and the body that its Content-Length names.
    pub(crate) async fn request(&mut self) -> (String, String) {
        let head = self.hear("\r\n\r\n").await;
        let named = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let length = named.unwrap_or(0);
        while self.rest.len() < length {
            let mut chunk = [0; 4096];
            let read = timeout(PATIENCE, self.stream.read(&mut chunk)).await.expect("no body").unwrap();
            assert!(read > 0, "the body broke off");
            self.rest.extend_from_slice(&chunk[..read]);
        }
        let rest = self.rest.split_off(length);
        (head, String::from_utf8(std::mem::replace(&mut self.rest, rest)).unwrap())
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        self.rest.is_empty()
            && timeout(Duration::from_millis(200), self.stream.peek(&mut byte)).await.is_err()
    }
}

/// A proxy that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) shutdown: Shutdown,
    pub(crate) serving: JoinHandle<Ended>,
    notable: Arc<Mutex<Vec<Notable>>>,
    _folder: tempfile::TempDir,
}

/// Waits of a few milliseconds, so that nobody waits for a test.
pub(crate) fn quick() -> Policy {
    let mut spec: PolicySpec = (*Policy::standard()).clone();
    "quick".clone_into(&mut spec.name);
    spec.backoff = Backoff::new(Curve::constant(Duration::from_millis(20)));
    spec.entries.clear();
    spec.max_retries = 3;
    spec.into()
}

impl Running {
    pub(crate) async fn before(service: SocketAddr) -> Running {
        Running::with(service, |_, _| {}).await
    }

    pub(crate) async fn with(
        service: SocketAddr,
        change: impl FnOnce(&mut Rules, &mut ProxyOptions),
    ) -> Running {
        Running::with_admin(service, change, None).await
    }

    pub(crate) async fn with_admin(
        service: SocketAddr,
        change: impl FnOnce(&mut Rules, &mut ProxyOptions),
        admin: Option<TcpListener>,
    ) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Running::at(listener, service, change, admin)
    }

    pub(crate) fn at(
        listener: TcpListener,
        service: SocketAddr,
        change: impl FnOnce(&mut Rules, &mut ProxyOptions),
        admin: Option<TcpListener>,
    ) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let store = Engine::open_store(folder.path().join("redrive.db")).unwrap();
        let engine = Engine::builder(store).policy(quick()).build().unwrap();
        let mut guarded = Guarded::whatever_carries_a_key();
        let mut options = ProxyOptions::new(format!("http://{service}").parse().unwrap());
        "quick".clone_into(&mut options.policy);
        change(&mut guarded.routes[0].rules, &mut options);
        let notable = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notable);
        let tell = move |notable| told.lock().unwrap().push(notable);
        let proxy = Proxy::new(Guard::of_proxy(&engine, guarded), options, tell).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let wish = shutdown.clone();
        let serving = tokio::spawn(async move { proxy.serve(listener, admin, &wish).await.unwrap() });
        Running { address, engine, shutdown, serving, notable, _folder: folder }
    }

    pub(crate) async fn talk(&self) -> Talk {
        Talk::to(self.address).await
    }

    /// Says something, and hears everything until the proxy closes.
    pub(crate) async fn ask(&self, text: impl AsRef<[u8]>) -> String {
        let mut talk = self.talk().await;
        talk.say(text).await;
        talk.all().await
    }

    /// A POST with a key.
    pub(crate) async fn post(&self, key: &str, body: &str) -> String {
        self.ask(post(key, body)).await
    }

    pub(crate) fn notable(&self) -> Vec<Notable> {
        self.notable.lock().unwrap().clone()
    }

    pub(crate) async fn records(&self) -> Vec<KeyRecord> {
        self.engine.store().keys(KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

pub(crate) fn post(key: &str, body: &str) -> String {
    format!(
        "POST /do HTTP/1.1\r\nHost: here\r\nIdempotency-Key: {key}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The first line of an answer.
pub(crate) fn line(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[track_caller]
pub(crate) fn is_problem(answer: &str, status: u16, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(&format!("\"type\":\"urn:redrive:problem:{code}\"")), "{answer}");
}
