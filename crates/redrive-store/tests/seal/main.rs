//! Encryption at rest (R-D7): what can be read in the files, taking keys into use, rotating them under load and through a
//! kill, and what is told when a key is missing or wrong.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod filled;
#[path = "../given/mod.rs"]
mod given;
mod keys;
mod plaintext;
mod rotation;

use std::path::Path;

use redrive_store::{KeyRing, Resealed, Sqlite, SqliteOptions, Store, StoreError};

use given::at;

/// Keys that are the same in every process of a test.
const OLD: &str = "old AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEW: &str = "new AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
/// Another key of the same name.
const OLD_BUT_WRONG: &str = "old AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";

fn ring(lines: &[&str]) -> Option<KeyRing> {
    (!lines.is_empty()).then(|| KeyRing::parse("test", &lines.join("\n")).unwrap())
}

/// The store with these keys.
fn open(path: &Path, lines: &[&str]) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, SqliteOptions { keys: ring(lines), encrypt: true, ..SqliteOptions::default() })
}

/// Seals everything anew, so many rows at a time.
async fn rotate(store: &dyn Store, limit: u32) -> Resealed {
    let mut left = u64::MAX;
    loop {
        let round = store.reseal(at(0), limit).await.unwrap();
        assert!(round.left <= left.saturating_add(10_000), "it does not come nearer to its end");
        left = round.left;
        if round.over {
            return round;
        }
    }
}
