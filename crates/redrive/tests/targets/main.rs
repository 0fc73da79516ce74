//! Traffic protection with the real engine on real stores (R-P15): a target that gets sick and heals, limits that all engines
//! share, and ten thousand jobs that fail together.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod busy;
mod many;
mod shared;
mod sick;
mod skewed;
mod storm;
mod support;
mod trust;
