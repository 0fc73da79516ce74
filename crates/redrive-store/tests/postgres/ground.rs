//! How these tests open a store, and how they bound their time.

use std::future::Future;
use std::time::Duration;

use redrive_store::{Postgres, PostgresOptions, StoreError};

pub(crate) async fn try_open(url: &str, schema: &str) -> Result<Postgres, StoreError> {
    let options = PostgresOptions {
        create: true,
        schema: Some(schema.to_owned()),
        caller_clock: true,
        ..PostgresOptions::default()
    };
    Postgres::open(url, options).await
}

pub(crate) async fn open(url: &str, schema: &str) -> Postgres {
    try_open(url, schema).await.unwrap()
}

/// Whatever breaks, nobody waits for ever.
pub(crate) async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(Duration::from_mins(1), work).await;
    answer.unwrap_or_else(|_| panic!("{what} has no end"))
}

/// Runs SQL as the role of the tests, and answers its rows, `|` between columns.
pub(crate) fn psql(url: &str, sql: &str) -> String {
    let output = std::process::Command::new("psql")
        .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .output()
        .unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
