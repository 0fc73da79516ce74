//! The store for many machines: one PostgreSQL database, any number of processes.
//!
//! A thread of its own talks to the database over a few connections. Callers' verbs are gathered into one transaction and
//! answered after its commit; leases are taken with `SKIP LOCKED`, the database's clock decides what is due, and `NOTIFY` is
//! only a hint: polling is the truth. No superuser, no extension, no session state, so a pooler in between is welcome.

mod backup;
mod batch;
mod check;
#[cfg(feature = "sqlite")]
mod copy;
mod dead_letter;
mod desk;
mod edit;
mod enqueue;
mod enqueue_in;
mod event;
mod fault;
mod group;
mod heads;
mod housekeeping;
mod idempotency;
mod insist;
mod job;
mod key_look;
mod key_rows;
mod key_take;
mod leasable;
mod lease;
mod letter_group;
mod line;
mod memory;
mod mend;
mod metric;
mod migrate;
mod open;
mod operation;
mod outbox;
mod patience;
mod pool;
mod queue;
mod redrive;
mod reseal;
mod settle;
mod status;
mod store;
mod take;
mod task;
mod texts;
mod timeline;
mod tls;
mod tx;
mod verb;
mod watch;
mod wheres;
mod worker;

#[cfg(feature = "sqlite")]
pub(crate) use copy::PostgresEnd;
pub use enqueue_in::enqueue_in;

use std::time::Duration;

use crate::error::StoreError;
use crate::job::{Enqueued, NewJob};
use crate::seal::{Keeper, KeyRing};
use crate::time::Timestamp;
use desk::{Handle, Opening};
use open::Address;
use tx::Clock;

/// Where a URL leads, for people: without a password.
#[cfg(feature = "sqlite")]
pub(crate) fn location_of(url: &str) -> String {
    Address::parse(url, None).map_or_else(|_| open::shown(url), |address| address.location())
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Whether the schema is made when there is none.
    pub create: bool,
    /// The schema that the tables are in; absent: what the URL says, else `redrive`.
    pub schema: Option<String>,
    /// Whether callers' clocks decide instead of the database's. For tests, which make time pass by themselves.
    pub caller_clock: bool,
    /// The most connections of this process, one to listen not included.
    pub connections: usize,
    /// How long to wait for a database that does not answer while the store is opened; 30 s is the most.
    pub open_within: Duration,
    /// The keys that values are encrypted with (R-D7); absent: they are not, and an encrypted store is refused. An empty
    /// store is encrypted with the first of them from now on.
    pub keys: Option<KeyRing>,
    /// Whether a store that holds plain values may be encrypted from now on, too: otherwise keys for it are refused.
    pub encrypt: bool,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            create: true,
            schema: None,
            caller_clock: false,
            connections: 4,
            open_within: Duration::from_secs(30),
            keys: None,
            encrypt: false,
        }
    }
}

/// The store for many machines.
pub struct Postgres {
    desk: Handle,
    store_id: u64,
    location: String,
    address: Address,
    clock: Clock,
    keeper: Keeper,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("location", &self.location).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens a store, brings its schema up to date, and makes it if it may. The URL is one as libpq knows it; several hosts
    /// may be named, and the one that takes writes is used.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Postgres, StoreError> {
        let address = Address::parse(url, options.schema.as_deref())?;
        let location = address.location();
        let clock = if options.caller_clock { Clock::Caller } else { Clock::Database };
        let opening = Opening {
            address: address.clone(),
            create: options.create,
            clock,
            connections: options.connections,
            keys: options.keys.clone(),
            within: options.open_within,
            encrypt: options.encrypt,
        };
        let (desk, store_id) = Handle::open(opening).await?;
        let store_id = store_id.cast_unsigned();
        let keeper = Keeper::new(options.keys, store_id);
        Ok(Postgres { desk, store_id, location, address, clock, keeper })
    }

    /// Enqueues inside the caller's own transaction, as [`enqueue_in`] does, in a store that may be encrypted.
    pub async fn enqueue_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        now: Timestamp,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        enqueue_in::enqueue_with(&self.keeper, transaction, self.address.schema(), now, jobs).await
    }

    /// The schema that this redrive writes.
    pub fn schema() -> i64 {
        migrate::newest()
    }
}
