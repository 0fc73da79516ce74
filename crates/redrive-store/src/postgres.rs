//! The store for many machines: one PostgreSQL database, any number of processes.
//!
//! A thread of its own talks to the database over a few connections. Callers' verbs are gathered into one transaction and
//! answered after its commit; leases are taken with `SKIP LOCKED`, the database's clock decides what is due, and `NOTIFY` is
//! only a hint: polling is the truth. No superuser, no extension, no session state, so a pooler in between is welcome.

mod batch;
mod check;
mod dead_letter;
mod desk;
mod enqueue;
mod event;
mod fault;
mod group;
mod housekeeping;
mod job;
mod leasable;
mod lease;
mod line;
mod memory;
mod migrate;
mod open;
mod operation;
mod patience;
mod pool;
mod reseal;
mod settle;
mod status;
mod store;
mod take;
mod texts;
mod tx;
mod verb;
mod watch;
mod wheres;
mod worker;

use crate::error::StoreError;
use crate::seal::KeyRing;
use desk::{Handle, Opening};
use open::Address;
use tx::Clock;

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
    /// The keys that values are encrypted with (R-D7); absent: they are not, and an encrypted store is refused.
    pub keys: Option<KeyRing>,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions { create: true, schema: None, caller_clock: false, connections: 4, keys: None }
    }
}

/// The store for many machines.
pub struct Postgres {
    desk: Handle,
    store_id: u64,
    location: String,
    clock: Clock,
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
            address,
            create: options.create,
            clock,
            connections: options.connections,
            keys: options.keys,
        };
        let (desk, store_id) = Handle::open(opening).await?;
        Ok(Postgres { desk, store_id: store_id.cast_unsigned(), location, clock })
    }

    /// The schema that this redrive writes.
    pub fn schema() -> i64 {
        migrate::newest()
    }
}
