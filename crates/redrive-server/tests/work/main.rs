//! Workers of any language: they pull over HTTP or are pushed to, and what they say is decided on by the engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::print_stdout)]

mod clients;
mod guide;
mod pull;
mod push;
mod site;
mod void;
