//! What a server may do and must bear: every limit has a number here.

use std::time::Duration;

/// How deep JSON nests that comes in, and that is told as JSON.
pub(crate) const MAX_DEPTH: usize = 64;

/// The settings of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerSettings {
    /// The most bytes in the body of a request.
    pub max_body: usize,
    /// The most bytes of all bodies at a time; the first 64 KiB of each are not counted.
    pub max_bodies: usize,
    /// How deep JSON may nest.
    pub max_depth: usize,
    /// The most items in one batch.
    pub max_batch: usize,
    /// The longest long poll.
    pub max_wait: Duration,
    /// The names that it answers to, beside those of this machine; in lower case, without ports.
    pub hosts: Vec<String>,
    /// The origins of pages that may ask, beside its own; in lower case.
    pub origins: Vec<String>,
    /// The programs that jobs which came in over the API may run.
    pub commands: Vec<String>,
    /// What calls that came in over the API may reach.
    pub guard: redrive::Guard,
    /// How many connections there may be.
    pub max_connections: usize,
    /// How many of them from one address, this machine's excepted.
    pub max_connections_per_address: usize,
    /// How long a client may take over the head of a request, and over the handshake before it.
    pub head_within: Duration,
    /// How long a connection may be silent between two requests.
    pub idle_for: Duration,
    /// How long a body may take in all, and how long a client may read nothing at all of an answer.
    pub body_within: Duration,
    /// How long a client may take over reading an answer, however short it is.
    pub read_within: Duration,
    /// How many bytes a second a client must send or read beyond that.
    pub least_rate: u64,
    /// How often a client hears that its stream of events lives.
    pub heartbeat: Duration,
    /// How long what runs may take at the end.
    pub drain_for: Duration,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            max_body: 8 << 20,
            max_bodies: 128 << 20,
            max_depth: MAX_DEPTH,
            max_batch: 1_000,
            max_wait: Duration::from_mins(1),
            hosts: Vec::new(),
            origins: Vec::new(),
            commands: Vec::new(),
            guard: redrive::Guard::default(),
            max_connections: 10_000,
            max_connections_per_address: 1_000,
            head_within: Duration::from_secs(10),
            idle_for: Duration::from_secs(75),
            body_within: Duration::from_mins(5),
            read_within: Duration::from_secs(20),
            least_rate: 1_024,
            heartbeat: Duration::from_secs(15),
            drain_for: Duration::from_secs(25),
        }
    }
}

impl ServerSettings {
    /// What a configuration says, and the rest as it always is.
    pub fn of(config: &redrive_policy::ServerConfig) -> ServerSettings {
        let usual = ServerSettings::default();
        let count = |said: Option<u32>, usual| said.and_then(|n| usize::try_from(n).ok()).unwrap_or(usual);
        ServerSettings {
            max_body: config.max_body.unwrap_or(usual.max_body),
            // Whoever allows larger ones wants more than one of them.
            max_bodies: usual.max_bodies.max(config.max_body.unwrap_or(0).saturating_mul(4)),
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            commands: config.commands.clone(),
            guard: redrive::Guard::of(config),
            max_connections: count(config.max_connections, usual.max_connections),
            max_connections_per_address: count(
                config.max_connections_per_address,
                usual.max_connections_per_address,
            ),
            drain_for: config.drain_for.unwrap_or(usual.drain_for),
            ..usual
        }
    }
}
