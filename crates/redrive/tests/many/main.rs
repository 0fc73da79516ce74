//! However many tasks and redrives are open, and whoever else is there: everybody's turn comes, and what is idle costs little.
// Test code outside of the test functions themselves: what goes wrong is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod idle;
mod rules;
mod runs;
// These take less of it than those who share it.
#[allow(dead_code, unused_macros)]
#[path = "../tasks/support.rs"]
mod support;
mod tasks;
