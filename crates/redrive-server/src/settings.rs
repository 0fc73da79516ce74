//! What a server may do and must bear: every limit has a number here.

use std::time::Duration;

/// The settings of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerSettings {
    /// The most bytes in the body of a request.
    pub max_body: usize,
    /// How deep JSON may nest.
    pub max_depth: usize,
    /// The most items in one batch.
    pub max_batch: usize,
    /// The longest long poll.
    pub max_wait: Duration,
    /// What calls that came in over the API may reach.
    pub guard: redrive::Guard,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            max_body: 8 << 20,
            max_depth: 64,
            max_batch: 1_000,
            max_wait: Duration::from_secs(60),
            guard: redrive::Guard::default(),
        }
    }
}
