//! The embedded store: one SQLite file, one thread that writes, a few that read.
//!
//! Everything acknowledged is on the disk: the journal is synced before an answer goes out. Several processes may open the
//! same file; each has a writer of its own, and they take turns.

mod backup;
mod batch;
mod board;
mod check;
mod checkpoint;
mod claim;
#[cfg(feature = "postgres")]
mod copy;
mod dead_letter;
mod edit;
mod event;
mod heads;
mod idempotency;
mod job;
mod job_list;
mod lease;
mod letter_group;
mod letter_import;
mod mend;
mod metric;
mod migrate;
mod moved;
mod open;
mod operation;
mod outbox;
mod parked;
mod queue;
mod reader;
mod redrive;
mod reseal;
mod reserve;
mod settle;
mod statements;
mod status;
mod store_file;
mod task;
mod wheres;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;

#[cfg(feature = "postgres")]
pub(crate) use backup::{sync, whole};
#[cfg(feature = "postgres")]
pub(crate) use copy::SqliteEnd;

use crate::dead_letter::{
    DeadLetter, DeadLetters, Edited, Heads, ImportedLetter, LetterFilter, PayloadVersion, Redriven,
};
use crate::error::{StoreError, Trouble};
use crate::event::{Aside, Event, EventFilter, EventId, Events, ImportedEvent, NewEvent, Scrap};
use crate::id::{EventSeq, JobId, WorkerId};
use crate::job::list::{JobPage, JobQuery};
use crate::job::{Enqueued, JobRecord, Jobs, MAX_BATCH, NewJob, RunNow, few_enough, fits, validate};
use crate::lease::{LeaseRequest, LeaseToken, LeasedJob, Leases, Renewal, Seized};
use crate::row;
use crate::seal::{Keeper, KeyRing};
use crate::settle::{Settled, Settlement};
use crate::status::StoreStatus;
use crate::time::{Timestamp, whole_millis as millis};
use crate::worker::{Takes, WorkerPresence, Workers};
use crate::{Answer, CheckReport, Housekeeping, Pruned, Resealed};

use batch::{Batch, Memory};
use checkpoint::Checkpoints;
use operation::{Follow, LeaseAnswer, LeaseCall, call};
use reader::Readers;
use reserve::Reserve;
use statements::Statements;
use store_file::StoreFile;
use writer::Writer;

/// The text of a query, from the file named after it.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// How sure "acknowledged" is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// What was acknowledged survives a power cut.
    #[default]
    Full,
    /// What was acknowledged survives the death of the process, but **a power cut may take the last seconds of
    /// acknowledged work**. For work that can be had again.
    RelaxedMayLoseAcknowledgedWork,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Whether the file is made when there is none.
    pub create: bool,
    /// How sure "acknowledged" is.
    pub durability: Durability,
    /// The keys of an encrypted store. An empty store is encrypted with the first of them from now on.
    pub keys: Option<KeyRing>,
    /// Whether a store that holds plain values may be encrypted from now on, too: otherwise keys for it are refused.
    pub encrypt: bool,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { create: true, durability: Durability::Full, keys: None, encrypt: false }
    }
}

/// The embedded store.
///
/// ```
/// use redrive_store::{Jobs, NewJob, Sqlite, SqliteOptions, Timestamp};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default())?;
/// let now = Timestamp::from_system(std::time::SystemTime::now());
/// let job = store.enqueue(now, vec![NewJob::new("greet", "{}")]).await?;
/// assert_eq!(job[0].id.to_string(), "job_1");
/// # Ok::<(), redrive_store::StoreError>(()) }).unwrap();
/// ```
pub struct Sqlite {
    path: PathBuf,
    store_id: u64,
    keeper: Arc<Keeper>,
    writer: Writer,
    readers: Readers,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens a store, brings its schema up to date, and makes it if it may. Blocks.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Sqlite, StoreError> {
        let mut connection = open::open(path, options.create, options.durability)?;
        let store_id = open::store_id(&connection)?;
        let keeper = Arc::new(Keeper::new(options.keys, store_id));
        // Before anything is served or written: a store whose keys we do not have is refused here.
        reseal::take_keys(&mut connection, &keeper, options.encrypt)?;
        let readers = Readers::start(&keeper, || open::connect_reader(path))?;
        let thread_trouble = |error: std::io::Error| StoreError::from(Trouble::Database(error.to_string()));
        let checkpoints =
            Checkpoints::start(open::connect(path, options.durability)?).map_err(thread_trouble)?;
        let file = StoreFile::of(path)?;
        let writer = Writer::start(connection, Arc::clone(&keeper), file, checkpoints, Reserve::keep(path))
            .map_err(thread_trouble)?;
        Ok(Sqlite { path: path.to_owned(), store_id, keeper, writer, readers })
    }

    /// The schema that this redrive writes.
    pub fn schema() -> i64 {
        migrate::newest()
    }

    /// Enqueues inside the caller's own transaction, as [`enqueue_in`] does, in a store that may be encrypted.
    pub fn enqueue_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        now: Timestamp,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        enqueue_with(&self.keeper, transaction, now, jobs)
    }

    /// Runs a write in the next transaction.
    async fn write<T: Send + 'static>(
        &self,
        wish: impl FnMut(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_over(false, wish).await
    }

    /// Runs a write that brings work in, which a full disk refuses first.
    async fn add<T: Send + 'static>(
        &self,
        wish: impl FnMut(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.hand_over(true, wish).await
    }

    fn hand_over<T: Send + 'static>(
        &self,
        adds_work: bool,
        wish: impl FnMut(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> {
        let (operation, answer) = call(adds_work, wish);
        self.writer.submit(operation);
        async { answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into())) }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.readers.stop();
        self.writer.stop();
    }
}

/// Enqueues inside the caller's own transaction on the same file: the jobs are there if and only if it commits.
///
/// The connection may be any that has the store's file open as its main database. A worker notices new work within a
/// moment of the commit. An encrypted store is refused, since no key is at hand here: use [`Sqlite::enqueue_in`].
///
/// ```
/// use redrive_store::{NewJob, Sqlite, SqliteOptions, Timestamp, enqueue_in};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let store = Sqlite::open(&path, SqliteOptions::default())?;
/// let mut mine = rusqlite::Connection::open(&path).unwrap();
/// let transaction = mine.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
/// transaction.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER); INSERT INTO orders VALUES (7)").unwrap();
/// let now = Timestamp::from_system(std::time::SystemTime::now());
/// enqueue_in(&transaction, now, &[NewJob::new("ship", "{\"order\":7}")])?;
/// transaction.commit().unwrap();
/// # Ok::<(), redrive_store::StoreError>(())
/// ```
pub fn enqueue_in(
    transaction: &rusqlite::Transaction<'_>,
    now: Timestamp,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, StoreError> {
    enqueue_with(&Keeper::new(None, open::store_id(transaction)?), transaction, now, jobs)
}

fn enqueue_with(
    keeper: &Keeper,
    transaction: &rusqlite::Transaction<'_>,
    now: Timestamp,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, StoreError> {
    validate(jobs)?;
    let mut memory = Memory::default();
    let statements = Statements::new(transaction, keeper);
    let mut batch = Batch::begin(&statements, &mut memory)?;
    let enqueued = job::enqueue(&mut batch, now, jobs)?;
    batch.finish()?;
    Ok(enqueued)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
        let words = error.to_string();
        // What we wrote ourselves and cannot read is not what we wrote.
        if let FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) = error {
            return Trouble::Corrupt(words).into();
        }
        if let Some(trouble) = moved::refused(&words) {
            return trouble.into();
        }
        // The journal's index lives beside it and is made anew whenever it is missing: that it has no room to grow is no
        // failure of the disk.
        let index_is_full = error
            .sqlite_error()
            .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        StoreError::from(match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Trouble::Full,
            Some(_) if index_is_full => Trouble::Full,
            Some(ErrorCode::ReadOnly) => Trouble::ReadOnly(words),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Corrupt(words),
            Some(ErrorCode::SystemIoFailure) => Trouble::Broken(words),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Trouble::Busy { seconds: open::PATIENCE.as_secs() }
            }
            _ => Trouble::Database(words),
        })
    }
}

impl Jobs for Sqlite {
    fn enqueue(&self, now: Timestamp, jobs: Vec<NewJob>) -> Answer<'_, Vec<Enqueued>> {
        Box::pin(async move {
            validate(&jobs)?;
            self.add(move |batch| job::enqueue(batch, now, &jobs)).await
        })
    }

    fn job(&self, id: JobId) -> Answer<'_, Option<JobRecord>> {
        Box::pin(self.readers.read(move |batch| job::job(batch, id)))
    }

    fn list_jobs(&self, now: Timestamp, query: JobQuery) -> Answer<'_, JobPage> {
        Box::pin(self.readers.read(move |batch| job_list::list(batch, now, &query)))
    }

    fn run_now(&self, now: Timestamp, id: JobId) -> Answer<'_, RunNow> {
        Box::pin(self.write(move |batch| job::run_now(batch, now, id)))
    }

    fn cancel(&self, now: Timestamp, id: JobId, why: String) -> Answer<'_, Option<bool>> {
        Box::pin(self.write(move |batch| job::cancel(batch, now, id, &why)))
    }

    fn unfinished(&self, queues: Vec<String>, kinds: Vec<String>) -> Answer<'_, bool> {
        Box::pin(self.readers.read(move |batch| job::unfinished(batch, &queues, &kinds)))
    }
}

impl Leases for Sqlite {
    fn lease(&self, now: Timestamp, mut request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        request.max = request.max.min(MAX_BATCH);
        Box::pin(async move {
            let (operation, answer) = LeaseCall::submitted(now, request);
            self.writer.submit(operation);
            LeaseAnswer::new(&self.writer, now, answer).await
        })
    }

    fn begin(&self, now: Timestamp, tokens: Vec<LeaseToken>) -> Answer<'_, Vec<bool>> {
        Box::pin(async move {
            few_enough(tokens.len())?;
            self.write(move |batch| lease::begin(batch, now, &tokens)).await
        })
    }

    fn renew(
        &self,
        now: Timestamp,
        worker: WorkerId,
        presence_for: Duration,
        tokens: Vec<LeaseToken>,
    ) -> Answer<'_, Vec<Renewal>> {
        Box::pin(async move {
            few_enough(tokens.len())?;
            self.write(move |batch| lease::renew(batch, now, worker, presence_for, &tokens)).await
        })
    }

    fn settle(&self, now: Timestamp, settlements: Vec<Settlement>) -> Answer<'_, Vec<Settled>> {
        Box::pin(async move {
            few_enough(settlements.len())?;
            self.write(move |batch| settle::settle(batch, now, &settlements)).await
        })
    }

    fn seize_expired(
        &self,
        now: Timestamp,
        reaper: WorkerId,
        lease_for: Duration,
        max: usize,
    ) -> Answer<'_, Vec<Seized>> {
        let max = max.min(MAX_BATCH);
        Box::pin(self.write(move |batch| lease::seize_expired(batch, now, reaper, lease_for, max)))
    }
}

impl DeadLetters for Sqlite {
    fn letters(&self, filter: LetterFilter, limit: u32) -> Answer<'_, Vec<DeadLetter>> {
        Box::pin(self.readers.read(move |batch| dead_letter::letters(batch, &filter, limit)))
    }

    fn redrive(
        &self,
        now: Timestamp,
        ids: Vec<JobId>,
        event_type: &'static str,
    ) -> Answer<'_, Vec<Redriven>> {
        Box::pin(async move {
            few_enough(ids.len())?;
            self.write(move |batch| redrive::redrive(batch, now, &ids, event_type)).await
        })
    }

    fn letter_heads(&self, filter: LetterFilter, limit: u32, look_at: u32) -> Answer<'_, Heads> {
        Box::pin(self.readers.read(move |batch| heads::heads(batch, &filter, limit, look_at)))
    }

    fn count_letters(&self, filter: LetterFilter) -> Answer<'_, u64> {
        Box::pin(self.readers.read(move |batch| heads::count(batch, &filter)))
    }

    fn edit_payload(
        &self,
        now: Timestamp,
        id: JobId,
        edits: u32,
        payload: Vec<u8>,
        edited_by: String,
    ) -> Answer<'_, Edited> {
        Box::pin(async move {
            fits(&payload)?;
            self.write(move |batch| edit::edit(batch, now, id, edits, &payload, &edited_by)).await
        })
    }

    fn payload_versions(&self, id: JobId) -> Answer<'_, Vec<PayloadVersion>> {
        Box::pin(self.readers.read(move |batch| edit::versions(batch, id)))
    }

    fn discard(
        &self,
        now: Timestamp,
        ids: Vec<JobId>,
        event_type: &'static str,
        why: Option<String>,
    ) -> Answer<'_, Vec<bool>> {
        Box::pin(async move {
            few_enough(ids.len())?;
            self.write(move |batch| dead_letter::discard(batch, now, &ids, event_type, why.as_deref())).await
        })
    }

    fn import_letters(&self, now: Timestamp, letters: Vec<ImportedLetter>) -> Answer<'_, Vec<Enqueued>> {
        Box::pin(async move {
            few_enough(letters.len())?;
            letters.iter().try_for_each(ImportedLetter::validate)?;
            self.add(move |batch| letter_import::import(batch, now, &letters)).await
        })
    }
}

impl Events for Sqlite {
    fn append(&self, now: Timestamp, events: Vec<NewEvent>) -> Answer<'_, Vec<(EventSeq, EventId)>> {
        Box::pin(async move {
            few_enough(events.len())?;
            events.iter().try_for_each(NewEvent::validate)?;
            self.add(move |batch| event::append(batch, now, &events)).await
        })
    }

    fn import(&self, now: Timestamp, events: Vec<ImportedEvent>, scraps: Vec<Scrap>) -> Answer<'_, u64> {
        Box::pin(async move {
            few_enough(events.len().saturating_add(scraps.len()))?;
            events.iter().try_for_each(ImportedEvent::validate)?;
            self.add(move |batch| event::import(batch, now, &events, &scraps)).await
        })
    }

    fn events(&self, filter: EventFilter, limit: u32) -> Answer<'_, Vec<Event>> {
        Box::pin(self.readers.read(move |batch| event::events(batch, &filter, limit)))
    }

    fn event(&self, id: String) -> Answer<'_, Option<Event>> {
        Box::pin(self.readers.read(move |batch| event::event(batch, &id)))
    }

    fn causality(&self, seq: EventSeq, limit: u32) -> Answer<'_, Vec<Event>> {
        Box::pin(self.readers.read(move |batch| event::causality(batch, seq, limit)))
    }

    fn wait_for_events(&self, after: EventSeq, wait: Duration) -> Answer<'_, EventSeq> {
        Box::pin(async move {
            let (operation, answer) = Follow::submitted(after, wait);
            self.writer.submit(operation);
            answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
        })
    }

    fn asides(&self, after: i64, limit: u32) -> Answer<'_, Vec<Aside>> {
        Box::pin(self.readers.read(move |batch| event::asides(batch, after, limit)))
    }
}

impl Workers for Sqlite {
    fn register(&self, now: Timestamp, label: String, presence_for: Duration) -> Answer<'_, WorkerId> {
        Box::pin(self.write(move |batch| {
            let id = batch.next_event();
            batch.run(
                sql!("worker_insert"),
                rusqlite::params![id, label, now.millis(), millis(presence_for)],
            )?;
            Ok(WorkerId(id))
        }))
    }

    fn takes(&self, worker: WorkerId, takes: Takes) -> Answer<'_, ()> {
        Box::pin(self.write(move |batch| {
            let (queues, kinds) = (row::names(&takes.queues), row::names(&takes.kinds));
            batch.run(sql!("worker_takes"), rusqlite::params![worker.0, queues, kinds])?;
            Ok(())
        }))
    }

    fn unregister(&self, _: Timestamp, worker: WorkerId) -> Answer<'_, ()> {
        Box::pin(self.write(move |batch| lease::unregister(batch, worker)))
    }

    fn workers(&self, now: Timestamp) -> Answer<'_, Vec<WorkerPresence>> {
        Box::pin(self.readers.read(move |batch| {
            batch.all(sql!("worker_list"), [now.millis()], |row| {
                Ok(WorkerPresence {
                    id: WorkerId(row.get(0)?),
                    label: row.get(1)?,
                    started_at: Timestamp::from_millis(row.get(2)?),
                    seen_at: Timestamp::from_millis(row.get(3)?),
                    expires_at: Timestamp::from_millis(row.get(4)?),
                    takes: row::takes(row.get(5)?, row.get(6)?),
                })
            })
        }))
    }
}

impl Housekeeping for Sqlite {
    fn store_id(&self) -> u64 {
        self.store_id
    }

    fn location(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    fn answers(&self) -> bool {
        self.writer.writes()
    }

    fn status(&self, now: Timestamp) -> Answer<'_, StoreStatus> {
        Box::pin(self.readers.read(move |batch| status::status(batch, now)))
    }

    fn check(&self) -> Answer<'_, CheckReport> {
        Box::pin(self.readers.read(|batch| check::check(batch)))
    }

    fn backup<'a>(&'a self, to: &'a Path) -> Answer<'a, ()> {
        let to = to.to_owned();
        Box::pin(async move {
            // On a thread and a connection of its own: `VACUUM INTO` may not run inside a transaction.
            let path = self.path.clone();
            let (reply, answer) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || drop(reply.send(backup::copy(&path, &to))));
            answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
        })
    }

    fn prune(
        &self,
        now: Timestamp,
        events_before: Timestamp,
        letters_before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Pruned> {
        Box::pin(self.write(move |batch| {
            let letters = dead_letter::purge(batch, now, letters_before, limit)?;
            let (events, more) = event::prune(batch, events_before, limit)?;
            let more = more
                | letter_group::prune(batch, letters_before, limit)?
                | redrive::prune(batch, letters_before, limit)?
                | task::prune(batch, events_before, events_before.min(letters_before), limit)?
                | metric::prune(batch, events_before, limit)?;
            Ok(Pruned { events, letters, more: more || letters >= u64::from(limit) })
        }))
    }

    fn reseal(&self, now: Timestamp, limit: u32) -> Answer<'_, Resealed> {
        Box::pin(async move {
            let keeper = Arc::clone(&self.keeper);
            let round = self.write(move |batch| reseal::round(batch, &keeper, now, limit)).await?;
            if !round.swept {
                return Ok(round.resealed);
            }
            // On a thread and a connection of its own, as a backup.
            let path = self.path.clone();
            let (reply, answer) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || drop(reply.send(reseal::wipe(&path))));
            answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))?;
            let keeper = Arc::clone(&self.keeper);
            let retired = self.write(move |batch| reseal::retire(batch, &keeper)).await?;
            Ok(Resealed { retired, over: true, ..round.resealed })
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.readers.stop();
            self.writer.stop();
            Ok(())
        })
    }
}
