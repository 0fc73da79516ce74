//! A server of the test's own, on either store, with letters in it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, Shutdown};
use redrive::{Fail, Override};
use redrive_server::{Server, ServerSettings};
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use serde_json::{Value, json};

/// A server that listens on a free port.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    server: Server,
    address: SocketAddr,
    pub(crate) client: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// Does the same on every store that can be had here.
pub(crate) async fn on_each<F: Future<Output = ()>>(mut check: impl FnMut(Site) -> F) {
    check(Site::sqlite().await).await;
    if redrive_testing::shared().is_some() {
        check(Site::postgres().await).await;
    }
}

impl Site {
    pub(crate) async fn sqlite() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap();
        Site::on(Arc::new(store), folder).await
    }

    async fn postgres() -> Site {
        let shared = redrive_testing::shared().expect("it was there a moment ago");
        let options = PostgresOptions { create: true, schema: Some(shared.schema()), ..Default::default() };
        let store = Postgres::open(shared.url(), options).await.unwrap();
        Site::on(Arc::new(store), tempfile::tempdir().unwrap()).await
    }

    async fn on(store: Arc<dyn Store>, folder: tempfile::TempDir) -> Site {
        let engine = Engine::builder(store).build().unwrap();
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

    /// So many jobs of the kind `call`, which are not retried.
    pub(crate) async fn enqueue(&self, queue: &str, numbers: std::ops::Range<u64>) {
        let once = Override { max_retries: Some(0), ..Override::default() };
        let job =
            |n| self.engine.job("call", &json!({ "n": n })).queue(queue).overrides(&once).build().unwrap();
        self.engine.enqueue_many(numbers.map(job).collect()).await.unwrap();
    }

    /// Runs what is due; each job answers as `answer` says to its payload.
    pub(crate) async fn work(&self, answer: impl Fn(&Value) -> Result<(), Fail> + Send + Sync + 'static) {
        let answer = Arc::new(answer);
        let worker = self.engine.worker().queues(["default", "mail", "sms"]).concurrency(4);
        let worker = worker.handle("call", move |payload: Value, _| {
            let answer = Arc::clone(&answer);
            async move { answer(&payload) }
        });
        worker.run_until_empty().await.unwrap();
    }

    /// A worker that goes on until it is told to end, and moves redrives and tasks on.
    pub(crate) fn working(
        &self,
        answer: impl Fn(&Value) -> Result<(), Fail> + Send + Sync + 'static,
    ) -> (Shutdown, tokio::task::JoinHandle<()>) {
        let answer = Arc::new(answer);
        let worker = self.engine.worker().queues(["default", "mail", "sms", "tasks"]).concurrency(4);
        let worker = worker.handle("call", move |payload: Value, _| {
            let answer = Arc::clone(&answer);
            async move { answer(&payload) }
        });
        let shutdown = Shutdown::new();
        let ends = shutdown.clone();
        let running = tokio::spawn(async move {
            worker.run(&ends).await.unwrap();
        });
        (shutdown, running)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(self.url(path)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn get_ok(&self, path: &str) -> Value {
        let (status, answer) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        self.client.get(self.url(path)).send().await.unwrap().text().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn post_ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn put_ok(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.put(self.url(path)).json(body).send().await.unwrap();
        let (status, answer) = (answer.status().as_u16(), answer.json().await.unwrap());
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn post_text(&self, path: &str, media: &str, body: String) -> (u16, Value) {
        let post = self.client.post(self.url(path)).header("content-type", media).body(body);
        let answer = post.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// With a token.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = self.client.request(method.parse().unwrap(), self.url(path)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn export(&self, token: &str) -> String {
        let request = self.client.get(self.url("/v1/dead-letters/export")).bearer_auth(token);
        request.send().await.unwrap().text().await.unwrap()
    }

    /// The acts that were recorded, the oldest first.
    pub(crate) async fn acts(&self) -> Vec<Value> {
        let filter = redrive_store::EventFilter {
            types: vec!["operator_act".to_owned()],
            order: redrive_store::Order::OldestFirst,
            ..Default::default()
        };
        let events = self.engine.store().events(filter, 100).await.unwrap();
        events.into_iter().map(|event| event.data).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.shutdown().signal();
    }
}

/// Waits for something to come true, and fails when it does not.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true: {what}");
}
