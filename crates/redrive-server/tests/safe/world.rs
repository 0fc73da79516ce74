//! A server of the test's own, on either store, and clients that speak to its socket directly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, NewToken, Scope};
use redrive_server::{Drained, Server, ServerSettings};
use redrive_store::{Event, EventFilter, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Which store a server is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    /// Those that can be had here.
    pub(crate) fn all() -> Vec<Kind> {
        let postgres = redrive_testing::shared().map(|_| Kind::Postgres);
        [Some(Kind::Sqlite), postgres].into_iter().flatten().collect()
    }
}

/// A store that several servers may share.
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl Ground {
    pub(crate) async fn new(kind: Kind) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match kind {
            Kind::Sqlite => {
                Arc::new(Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap())
            }
            Kind::Postgres => {
                let shared = redrive_testing::shared().expect("it was there a moment ago");
                let options =
                    PostgresOptions { create: true, schema: Some(shared.schema()), ..Default::default() };
                Arc::new(Postgres::open(shared.url(), options).await.unwrap())
            }
        };
        Ground { store, _folder: folder }
    }
}

/// A server that listens on a free port.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    pub(crate) serving: JoinHandle<std::io::Result<Drained>>,
    _ground: Option<Ground>,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(|_| ()).await
    }

    /// On SQLite, with other settings than the usual.
    pub(crate) async fn with(set: impl FnOnce(&mut ServerSettings)) -> World {
        let ground = Ground::new(Kind::Sqlite).await;
        let world = World::on(&ground, set).await;
        World { _ground: Some(ground), ..world }
    }

    pub(crate) async fn on(ground: &Ground, set: impl FnOnce(&mut ServerSettings)) -> World {
        let engine = Engine::builder(Arc::clone(&ground.store)).build().unwrap();
        let mut settings = ServerSettings::default();
        set(&mut settings);
        let server = Server::new(&engine, settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let one = server.clone();
        let serving = tokio::spawn(async move { one.serve(listener).await });
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        World { engine, server, address, client, serving, _ground: None }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Enqueues a job; the status.
    pub(crate) async fn enqueue(&self, token: Option<&str>) -> (u16, Value) {
        let body = serde_json::json!({ "kind": "greet", "queue": "q", "payload": {} });
        let mut request = self.client.post(self.url("/v1/jobs")).json(&body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// A token with these scopes.
    pub(crate) async fn token(&self, scopes: &[Scope], queues: &[&str]) -> (String, String) {
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let new = NewToken { name: "test".into(), scopes: scopes.to_vec(), queues, expires_at: None };
        let (token, text) = self.engine.create_token(new, "cli:test", None).await.unwrap();
        (token.id, text.reveal().to_owned())
    }

    /// The events of this type, the oldest first.
    pub(crate) async fn events(&self, event_type: &str) -> Vec<Event> {
        let filter = EventFilter { types: vec![event_type.to_owned()], ..EventFilter::default() };
        let mut events = self.engine.query(filter, 1_000).await.unwrap();
        events.reverse();
        events
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the connection ends, or for so long.
    pub(crate) async fn raw(&self, bytes: &[u8], within: Duration) -> Raw {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_to_end(&mut stream, within).await
    }
}

/// What came back over a socket.
pub(crate) struct Raw {
    pub(crate) text: String,
    /// Whether the other side ended the connection.
    pub(crate) closed: bool,
}

impl Raw {
    pub(crate) fn status(&self) -> Option<u16> {
        self.text.split(' ').nth(1)?.parse().ok()
    }
}

/// Reads until the other side ends the connection, or for so long.
pub(crate) async fn read_to_end(stream: &mut TcpStream, within: Duration) -> Raw {
    let mut bytes = Vec::new();
    let ended = timeout(within, stream.read_to_end(&mut bytes)).await;
    Raw { text: String::from_utf8_lossy(&bytes).into_owned(), closed: ended.is_ok() }
}

/// Waits for something to come true, and fails when it does not.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true: {what}");
}
