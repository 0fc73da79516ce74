//! The server: one handler, with the layer before it or without.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use redrive::engine::Engine;
use redrive_idempotency::IdempotencyLayer;
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};

/// Serves until standard input ends; the first line that it prints is its port.
pub fn serve(store: &str) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let router = Router::new().route("/v1/bookmarks", post(save));
        let store: Option<Arc<dyn Store>> = match store {
            "none" => None,
            url => Some(open(url).await?),
        };
        let router = match &store {
            None => router,
            Some(store) => {
                let engine = Engine::builder(Arc::clone(store)).build().map_err(io::Error::other)?;
                router.layer(IdempotencyLayer::new(&engine))
            }
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let ended = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
        // Connections that are kept do not end by themselves, so nobody waits for them.
        tokio::select! {
            served = axum::serve(listener, router) => served?,
            ended = ended => drop(ended?),
        }
        if let Some(store) = store {
            store.close().await.map_err(io::Error::other)?;
        }
        Ok(())
    })
}

pub async fn open(url: &str) -> io::Result<Arc<dyn Store>> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        return Ok(Arc::new(Sqlite::open(Path::new(path), SqliteOptions::default()).map_err(io::Error::other)?));
    }
    Ok(Arc::new(Postgres::open(url, PostgresOptions::default()).await.map_err(io::Error::other)?))
}

/// What is measured against: it reads the body and answers with 200 bytes.
async fn save(body: Bytes) -> (StatusCode, Bytes) {
    (StatusCode::CREATED, body)
}
