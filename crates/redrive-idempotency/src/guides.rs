//! The pages that show Rust, read as documentation so that their examples are compiled and run. Nothing else is here.

/// Idempotency keys.
#[cfg(feature = "axum")]
#[doc = include_str!("../../../docs/idempotency.md")]
struct Idempotency;
