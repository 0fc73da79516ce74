//! The wire itself (R-D8, reliability row 36): a cut strikes where it was laid, once, and only there.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use redrive_testing::{Fault, Moment, Side, Wire, shared};
use tokio::process::Command;

/// Whether psql got through with it, and what it was told.
async fn psql(url: &str, sql: &str) -> (bool, String) {
    let output = Command::new("psql").args(["-XAtq", "-d", url, "-c", sql]).output().await.unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
}

/// Row 36: what is lost, and what the server has heard all the same, is as it was laid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_strikes_where_it_was_laid() {
    let Some(shared) = shared() else { return };
    let table = shared.schema();
    let wire = Wire::before(shared.url()).await;
    assert_eq!(psql(wire.url(), &format!("CREATE TABLE {table} (n int)")).await, (true, String::new()));
    let cuts = [
        (Side::Client, Fault::CutBefore, false),
        (Side::Client, Fault::CutWithin, false),
        (Side::Client, Fault::CutAfter, true),
        (Side::Server, Fault::CutBefore, true),
        (Side::Server, Fault::CutWithin, true),
    ];
    for (n, (side, fault, arrives)) in cuts.into_iter().enumerate() {
        let said = if side == Side::Client { "INSERT" } else { "INSERT 0 1" };
        wire.lay(Moment::Says(side, said, 0), fault);
        let sql = format!("INSERT INTO {table} VALUES ({n})");
        assert!(!psql(wire.url(), &sql).await.0, "{fault:?} of {side:?} was not noticed");
        assert!(wire.has_struck());
        // It strikes once: what comes next passes. What was heard is done as soon as the server gets to it.
        let count = format!("SELECT count(*) FROM {table} WHERE n = {n}");
        let began = Instant::now();
        while psql(wire.url(), &count).await.1 != u32::from(arrives).to_string() {
            assert!(began.elapsed() < Duration::from_secs(10), "{fault:?} of {side:?}");
        }
    }
    wire.lay(Moment::Message(Side::Client, 1_000), Fault::CutBefore);
    psql(wire.url(), "SELECT 1").await;
    let (asked, answered) = wire.counted();
    assert!((2..20).contains(&asked) && answered > asked, "{asked} and {answered} messages");
    wire.close();
    assert!(!psql(wire.url(), "SELECT 1").await.0, "the door is closed");
    wire.open();
    assert_eq!(psql(wire.url(), "SELECT 1").await.1, "1");
    wire.lay(Moment::Says(Side::Client, "SELECT", 0), Fault::Delay(Duration::from_millis(300)));
    let began = Instant::now();
    assert_eq!(psql(wire.url(), "SELECT 1").await.1, "1");
    assert!(began.elapsed() >= Duration::from_millis(300));
    wire.lay(Moment::Says(Side::Client, "SELECT", 0), Fault::Silence);
    let silent = tokio::time::timeout(Duration::from_millis(500), psql(wire.url(), "SELECT 1"));
    assert!(silent.await.is_err(), "it was answered");
}
