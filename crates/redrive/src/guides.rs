//! The pages that show Rust, read as documentation so that their examples are compiled and run. Nothing else is here.

/// The page a visitor reads first.
#[doc = include_str!("../../../README.md")]
struct English;

/// The same page in Japanese.
#[doc = include_str!("../../../README.ja.md")]
struct Japanese;

/// The library's guide, which shows what some features bring.
#[cfg(all(feature = "tower", feature = "reqwest-middleware"))]
#[doc = include_str!("../../../docs/retry.md")]
struct Retry;

/// Durable jobs.
#[cfg(all(feature = "engine", feature = "rusqlite"))]
#[doc = include_str!("../../../docs/jobs.md")]
struct Jobs;

/// Snapshots of files.
#[cfg(all(feature = "snapshot", target_os = "linux"))]
#[doc = include_str!("../../../docs/snapshots.md")]
struct Snapshots;

/// Encryption at rest.
#[cfg(feature = "engine")]
#[doc = include_str!("../../../docs/encryption.md")]
struct Encryption;
