//! The cluster that ordinary tests share: each takes a schema of its own in the one database.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Cluster;

/// Where the shared cluster is named.
const VARIABLE: &str = "REDRIVE_TEST_POSTGRES";

/// The shared cluster, seen as [`APP`](crate::APP).
#[derive(Debug)]
pub struct Shared {
    url: String,
    schemas: AtomicU32,
    // Ends with the process.
    _own: Option<Cluster>,
}

/// The shared cluster: the one that is named in the environment, or one of this process. `None` where PostgreSQL is missing, which is
/// told loudly, and a failure in CI.
pub fn shared() -> Option<&'static Shared> {
    static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let schemas = AtomicU32::new(0);
        match std::env::var(VARIABLE) {
            Ok(url) => Some(Shared { url, schemas, _own: None }),
            Err(_) if Cluster::is_possible() => {
                let own = Cluster::start();
                Some(Shared { url: own.url(), schemas, _own: Some(own) })
            }
            Err(_) => None,
        }
    });
    shared.as_ref()
}

impl Shared {
    /// The database that all share, as `postgres://…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of a schema that nobody else uses; whoever opens a store there makes it.
    pub fn schema(&self) -> String {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        format!("t{}_{number}", std::process::id())
    }
}
