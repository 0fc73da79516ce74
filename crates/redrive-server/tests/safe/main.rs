//! A server that stands on a network without fear: slow and odd clients, tokens, names, TLS, and secrets that stay where they are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::print_stdout)]

mod acts;
mod encoded;
mod front;
mod guarded;
mod matrix;
mod own;
mod redaction;
mod silent;
mod slow;
mod smuggling;
mod streams;
mod tls;
mod tls_faults;
mod tokens;
mod world;
