//! Alerts on a real store, delivered to a webhook on this machine and to commands.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;
mod oldest;
mod own;
mod sink;
mod strangers;
mod unreadable;
mod webhook;
mod world;
