//! Real processes on a real PostgreSQL, killed, restarted, failed over and lied to about the time (reliability rows 2, 17, 36 to 39).
//!
//! Each test starts this very binary again as a worker or a producer (see [`child`]). What they were told is done stands in journals
//! outside of the database; afterwards [`history`] reads the event log and holds it against them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::print_stdout)]

mod child;
mod failover;
mod history;
mod killed;
mod restarted;
mod skewed;
mod world;
