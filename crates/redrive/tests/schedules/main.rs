//! Schedules on real stores: one tick is one job, whoever looks, whenever somebody is killed, and whatever the clock does.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod killed;
mod many;
mod race;
mod skewed;
mod ticks;
mod world;
