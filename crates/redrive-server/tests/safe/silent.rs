//! A database that does not answer: whoever asks is told so, and nobody waits for the others.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::Engine;
use redrive_server::{Server, ServerSettings};
use redrive_store::{Postgres, PostgresOptions};
use redrive_testing::{Wire, shared};
use serde_json::json;

/// Reliability 38: of many who ask while PostgreSQL is gone, each gets its 503 when the first does; and all is well when it is
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_ask_a_silent_database_are_told_together() {
    let Some(shared) = shared() else { return };
    let wire = Wire::before(shared.url()).await;
    let options = PostgresOptions { create: true, schema: Some(shared.schema()), ..Default::default() };
    let store = Arc::new(Postgres::open(wire.url(), options).await.unwrap());
    let engine = Engine::builder(store).build().unwrap();
    let server = Server::new(&engine, ServerSettings::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener).await });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = |at: usize| {
        let request = match at % 3 {
            0 => client.get(format!("http://{address}/v1/queues")),
            1 => client.post(format!("http://{address}/v1/jobs")).json(&json!({ "kind": "greet" })),
            _ => client.post(format!("http://{address}/v1/leases/extend")).json(&json!({ "items": [] })),
        };
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(ask(0).await, 200);
    wire.close();
    // What is known of tokens is fresh for a moment.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked: Vec<_> = (0..20).map(|at| tokio::spawn(ask(at))).collect();
    let answers = async {
        for answer in asked {
            assert_eq!(answer.await.unwrap(), 503);
        }
    };
    // One after the other it would be minutes.
    tokio::time::timeout(Duration::from_mins(1), answers).await.expect("they wait for each other");
    wire.open();
    let mut turns = 0;
    while ask(0).await != 200 {
        turns += 1;
        assert!(turns < 100, "it does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
