//! Never twice: idempotency keys as a tower layer, as a proxy, and from the client's side (R-I1 to R-I8).
//!
//! A request's key is taken in the store before its handler runs, and completed with the answer. Whoever sends the same again gets
//! that answer; nobody runs it a second time.

pub mod client;
#[cfg(feature = "outbox")]
pub mod outbox;
