//! Snapshots of files and restoring them: R-T3 and rows 50 to 56 of the fault catalogue. Every test compares whole trees,
//! names as bytes, content, modes and links.
#![cfg(target_os = "linux")]
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod again;
mod child;
mod conflict;
mod damage;
mod disk;
mod locked;
mod property;
mod race;
mod round_trip;
mod special;
mod sweep;
mod tree;
