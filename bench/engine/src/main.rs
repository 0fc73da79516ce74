//! What the embedded store and the engine reach on this machine: durable jobs per second through the library, in one
//! process, every event recorded, every answer after a sync. The disk's own rate is measured beside each row.
//!
//! `bench-engine [SECONDS]` prints the table; `bench-engine flat` shows that the cost of a job does not grow with what
//! waits and what lies behind; `bench-engine one NAME [SECONDS]` runs a single row.

mod disk;
mod flat;
mod letters;
mod load;
mod measure;
mod raw;

use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = |at: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(5.0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match args.first().map(String::as_str) {
        Some("flat") => runtime.block_on(flat::run()),
        Some("one") => {
            let name = args.get(1).map(String::as_str).unwrap_or_default();
            let span = Duration::from_secs_f64(seconds(2));
            runtime.block_on(load::row(name, span));
        }
        _ => {
            let span = Duration::from_secs_f64(seconds(0));
            println!(
                "{:<44} {:>11} {:>10} {:>10} {:>14} {:>14} {:>7}",
                "200-byte payload, synchronous=FULL",
                "jobs/s",
                "p50 ms",
                "p99 ms",
                "append+sync/s",
                "overwrite+sync/s",
                "RSS MB"
            );
            for name in load::ROWS {
                runtime.block_on(load::row(name, span));
            }
        }
    }
}
