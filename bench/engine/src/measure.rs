//! Counting and timing: latencies, memory, and a store in a folder of its own.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redrive::engine::Engine;
use redrive_store::{Sqlite, SqliteOptions, Timestamp};

/// A store that goes away with its folder. The folder is made here, not in a memory filesystem.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub store: Arc<Sqlite>,
    pub engine: Engine,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let path = folder.path().join("bench.db");
        let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).expect("a store"));
        let engine = Engine::builder(store.clone()).build().expect("an engine");
        Bench { folder, store, engine }
    }
}

pub fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// The value below which this share of the latencies lies, in milliseconds.
pub fn quantile(latencies: &mut [Duration], share: f64) -> f64 {
    if latencies.is_empty() {
        return f64::NAN;
    }
    latencies.sort_unstable();
    let at = ((latencies.len() - 1) as f64 * share).round() as usize;
    latencies[at].as_secs_f64() * 1e3
}

/// Memory of this process, in megabytes.
pub fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0");
    let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    kilobytes / 1024.0
}
