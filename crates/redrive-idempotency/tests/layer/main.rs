//! The layer from inside: what reaches a service, what becomes of its key when something breaks, and completion in its own transaction.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod effects;
#[path = "../shared/place.rs"]
mod place;
mod support;

mod guard;
mod idem;
mod killed;
mod race;
mod service;
mod within;
