//! Snapshots of files and restoring them: R-T3 and rows 50 to 56 of the fault catalogue. Every test compares whole trees,
//! names as bytes, content, modes and links.
#![cfg(target_os = "linux")]

mod child;
mod round_trip;
mod sweep;
mod tree;
