//! A server on a store of its own, and a client of it.

use std::sync::Arc;

use redrive::engine::Engine;
use redrive_server::{Server, ServerSettings};
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

/// A server that ends with its test.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) url: String,
    client: reqwest::Client,
    _folder: Option<tempfile::TempDir>,
}

impl Site {
    /// On a file of its own.
    pub(crate) async fn sqlite() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
        Site::on(Arc::new(store), Some(folder), ServerSettings::default()).await
    }

    /// On each store that is there.
    pub(crate) async fn both() -> Vec<Site> {
        let mut sites = vec![Site::sqlite().await];
        if let Some(shared) = redrive_testing::shared() {
            let options =
                PostgresOptions { create: true, schema: Some(shared.schema()), ..PostgresOptions::default() };
            let store = Postgres::open(shared.url(), options).await.unwrap();
            sites.push(Site::on(Arc::new(store), None, ServerSettings::default()).await);
        }
        sites
    }

    async fn on(store: Arc<dyn Store>, folder: Option<tempfile::TempDir>, settings: ServerSettings) -> Site {
        let engine = Engine::builder(store).build().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::new(&engine, settings);
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Site { engine, server, url, client, _folder: folder }
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        told(self.ask(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        told(self.ask(Method::POST, path).json(body).send().await.unwrap()).await
    }

    /// A body of any bytes that says it is JSON.
    pub(crate) async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
        let request = self.ask(Method::POST, path).header("content-type", "application/json").body(body);
        told(request.send().await.unwrap()).await
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.shutdown().now();
    }
}

/// The status of an answer and its JSON; a problem must say its own status.
pub(crate) async fn told(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
    if status >= 400 {
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{json}");
        assert_eq!(json["status"], status, "{json}");
    }
    (status, json)
}
