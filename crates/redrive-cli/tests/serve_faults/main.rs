//! `redrive serve` among faults (issue 8; reliability rows 2, 5, 7, 8, 27, 29, 59, 70 to 72): servers that are killed under limits, pushes,
//! drains and followers, without files and with a failing disk. What was answered is there, and what was promised to others holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../counting_server/mod.rs"]
mod counting_server;
#[path = "../serve_home/mod.rs"]
mod serve_home;

mod breaker;
mod crowded;
mod disk;
mod drained;
mod followed;
mod line;
mod names;
mod pair;
mod protected;
mod pushed;
mod workers;

use std::time::{Duration, Instant};

use serve_home::PATIENCE;

/// Waits until this holds.
fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, holds);
}

/// The same with more patience.
fn until_within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
