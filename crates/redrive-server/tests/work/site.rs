//! A server of the test's own, on either store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, JobBuilder};
use redrive::{Override, Policy};
use redrive_policy::{Config, Format};
use redrive_server::{Server, ServerSettings};
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

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

/// A server that listens on a free port.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// Retries that are not waited for, two of them.
fn quick() -> Policy {
    let wish = Override {
        initial: Some(Duration::from_millis(5)),
        cap: Some(Duration::from_millis(10)),
        max_retries: Some(2),
        ..Override::default()
    };
    Policy::standard().with_override(&wish)
}

impl Site {
    pub(crate) async fn new(kind: Kind) -> Site {
        Site::configured(kind, "").await
    }

    /// A server whose configuration says this.
    pub(crate) async fn configured(kind: Kind, config: &str) -> Site {
        let config = Config::parse(config, Format::Toml, "redrive.toml").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match kind {
            Kind::Sqlite => {
                Arc::new(Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap())
            }
            Kind::Postgres => {
                let shared = redrive_testing::shared().expect("it was there a moment ago");
                let schema = Some(shared.schema());
                let options = PostgresOptions { create: true, schema, ..Default::default() };
                Arc::new(Postgres::open(shared.url(), options).await.unwrap())
            }
        };
        let engine = Engine::builder(store).config(&config).policy(quick()).build().unwrap();
        let server = Server::new(&engine, ServerSettings::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Site { engine, server, address, client, _folder: folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Somebody keeps the store in order and moves redrives on, as the process around a server does.
    pub(crate) async fn attend(&self) {
        let present = self.engine.worker().only_present().register().await.unwrap();
        self.server.present_as(present.id());
        let shutdown = self.server.shutdown().clone();
        tokio::spawn(async move { present.run(&shutdown).await });
    }

    pub(crate) fn job(&self, number: usize) -> JobBuilder {
        self.engine.job("greet", &json!({ "number": number })).queue("q")
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(self.url(path)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn lease(&self, body: Value) -> Vec<Value> {
        let (status, answer) = self.post("/v1/queues/q/lease", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn settle(&self, items: Value) -> Vec<Value> {
        let (status, answer) = self.post("/v1/leases/settle", &json!({ "items": items })).await;
        assert_eq!(status, 200, "{answer}");
        answer["items"].as_array().unwrap().clone()
    }

    /// How many long polls wait.
    pub(crate) async fn waiting(&self) -> u64 {
        let text = self.client.get(self.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let name = "redrive_http_requests_under_way{method=\"POST\",route=\"/v1/queues/{queue}/lease\"}";
        let line = text.lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    /// Attempts so far, and where the job stands.
    pub(crate) async fn stands(&self, id: &str) -> (u32, String) {
        let record = self.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
        let state = format!("{:?}", record.state);
        (record.attempts, state.split([' ', '(', '{']).next().unwrap_or_default().to_owned())
    }
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
