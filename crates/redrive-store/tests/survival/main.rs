//! What is left of a store when the process, the power, the disk or the file fails under it.
//!
//! Real child processes (this binary, run again as [`child`]), real signals, real filesystems. Whatever a child was told
//! is done, it writes into a journal outside of the store; afterwards the store is opened and held against that journal.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod board;
mod bounds;
mod child;
mod damage;
mod disk;
mod files;
#[path = "../given/mod.rs"]
mod given;
mod group;
mod journal;
mod keys;
mod migrated;
mod power_cut;
mod process;
mod processes;
mod script;
mod sweep;
mod tasks;
