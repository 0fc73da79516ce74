//! What redrive's tests stand on: throw-away PostgreSQL clusters, and a wire to them that is cut at will. Only a
//! dev-dependency, and never published.
//!
//! A cluster lives in a temporary folder, belongs to a user who is not root, and is gone with the process that started it,
//! however that one ends (see [`keeper`]). [`shared`] is the one that ordinary tests share: `./test.sh` starts it and names it in
//! `REDRIVE_TEST_POSTGRES`; a test that is run without it starts its own, once for the process.
// Test code: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod cluster;
mod keeper;
mod ordinary_user;
mod pgbouncer;
mod programs;
mod session;
mod shared;
mod wire;

pub use cluster::{Cluster, Settings};
pub use pgbouncer::Pgbouncer;
pub use session::Session;
pub use shared::{Shared, shared};
pub use wire::{Fault, Moment, Side, Wire};

/// The role that tests connect as: it owns its databases, and nothing else.
pub const APP: &str = "redrive_app";
