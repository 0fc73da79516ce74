//! The store for many machines: one PostgreSQL database, any number of processes.
//!
//! A thread of its own talks to the database over a few connections. Callers' verbs are gathered into one transaction and
//! answered after its commit; leases are taken with `SKIP LOCKED`, the database's clock decides what is due, and `NOTIFY` is
//! only a hint: polling is the truth. No superuser, no extension, no session state, so a pooler in between is welcome.

mod backup;
mod batch;
mod board;
mod check;
mod complete_in;
#[cfg(feature = "sqlite")]
mod copy;
mod dead_letter;
mod desk;
mod edit;
mod enqueue;
mod enqueue_in;
mod event;
mod fault;
mod follow;
mod group;
mod heads;
mod housekeeping;
mod idempotency;
mod insist;
mod job;
mod job_list;
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
mod open_work;
mod operation;
mod outbox;
mod parked;
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
use crate::idempotency::{Finish, KeyHold, StoredResponse};
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

    /// Completes a key inside the caller's own transaction on the database that the store is in: what the request did there and that
    /// it was answered are there together, or neither is. `now` is the caller's clock, by which the database's own decides.
    ///
    /// [`Finish::Lost`] means that another holder has the key, that it was reset, or that it is completed already, perhaps by this very
    /// transaction, run before, whose commit was not heard of: nothing was written, and the caller must roll back. The record is the transaction's until its end, and whoever wants it waits for that.
    ///
    /// ```no_run
    /// # async fn example(store: &redrive_store::Postgres, client: &mut tokio_postgres::Client, hold: redrive_store::KeyHold)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_store::{Finish, StoredResponse, Timestamp};
    ///
    /// let transaction = client.transaction().await?;
    /// transaction.execute("INSERT INTO orders VALUES (7)", &[]).await?;
    /// let now = Timestamp::from_system(std::time::SystemTime::now());
    /// let response = StoredResponse { status: 201, body: Some(b"7".to_vec()), ..StoredResponse::default() };
    /// let day = std::time::Duration::from_secs(86_400);
    /// match store.complete_key_in(&transaction, now, hold, &response, day).await? {
    ///     Finish::Done => transaction.commit().await?,
    ///     Finish::Lost => transaction.rollback().await?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn complete_key_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        now: Timestamp,
        hold: KeyHold,
        response: &StoredResponse,
        keep_for: Duration,
    ) -> Result<Finish, StoreError> {
        let guest = enqueue_in::Guest { transaction, schema: self.address.schema() };
        complete_in::complete(&self.keeper, &guest, self.time(now), hold, response, keep_for).await
    }

    /// The schema that this redrive writes.
    pub fn schema() -> i64 {
        migrate::newest()
    }
}
