//! `Engine::simulate` on recordings that a real engine made, on both stores, with a clock that moves only when it is told to.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod outage;
mod reading;
mod same;
mod world;
