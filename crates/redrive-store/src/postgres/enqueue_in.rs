//! Enqueuing inside the caller's own transaction: the jobs are there if and only if it commits.
//!
//! The connection is the caller's, so nothing is kept between calls: names, lanes and numbers come from this transaction.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::{Row, Transaction};

use super::batch::{
    DeltaRow, Deltas, FullEventRow, FullEvents, JobRow, Jobs, Progress, ProgressRow, Readies, ReadyRow,
};
use super::fault::Fault;
use super::line::{Arg, args, column};
use super::texts::{adapt, sql, storable};
use crate::error::StoreError;
use crate::event::EventStatus;
use crate::id::JobId;
use crate::job::{Enqueued, NewJob, validate};
use crate::seal::{Cell, Keeper, KeyRow, Seals};
use crate::time::{Timestamp, whole_millis};

/// Enqueues inside the caller's transaction on the database that the store is in. `schema` is the store's, usually
/// `redrive`; `now` is the caller's clock, from which the times in `jobs` are counted.
///
/// Workers hear of the jobs when the transaction commits. A queue, a kind or a source that is new is taken for others, too,
/// until then: whoever names the same for the first time waits for the end of this transaction, as does whoever wants the
/// same unique key. An encrypted store is refused, since no key is at hand here: use [`Postgres::enqueue_in`].
///
/// [`Postgres::enqueue_in`]: super::Postgres::enqueue_in
///
/// ```no_run
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redrive_store::{NewJob, Timestamp, enqueue_in_postgres};
///
/// let transaction = client.transaction().await?;
/// transaction.execute("INSERT INTO orders VALUES (7)", &[]).await?;
/// let now = Timestamp::from_system(std::time::SystemTime::now());
/// enqueue_in_postgres(&transaction, "redrive", now, &[NewJob::new("ship", "{\"order\":7}")]).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
pub async fn enqueue_in(
    transaction: &Transaction<'_>,
    schema: &str,
    now: Timestamp,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, StoreError> {
    validate(jobs)?;
    let guest = Guest { transaction, schema };
    let store = guest.store().await.map_err(Fault::into_error)?;
    guest.enqueue(&Keeper::new(None, store.id.cast_unsigned()), &store, now, jobs).await
}

pub(super) async fn enqueue_with(
    keeper: &Keeper,
    transaction: &Transaction<'_>,
    schema: &str,
    now: Timestamp,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, StoreError> {
    validate(jobs)?;
    let guest = Guest { transaction, schema };
    let store = guest.store().await.map_err(Fault::into_error)?;
    guest.enqueue(keeper, &store, now, jobs).await
}

/// Somebody else's transaction.
pub(super) struct Guest<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) schema: &'a str,
}

/// What the store says of itself, and the time.
pub(super) struct Store {
    pub(super) id: i64,
    pub(super) now: Timestamp,
    pub(super) key_epoch: i64,
}

/// A lane's number and its queue's.
type Lanes<'a> = HashMap<(&'a str, &'a str), (i64, i64)>;

/// How often a unique key that changes hands is asked for.
const TRIES: usize = 20;

impl Guest<'_> {
    pub(super) async fn all(&self, text: &str, args: &[Arg<'_>]) -> Result<Vec<Row>, Fault> {
        Ok(self.transaction.query_typed(&adapt(text, self.schema), args).await?)
    }

    pub(super) async fn run(&self, text: &str, args: &[Arg<'_>]) -> Result<(), Fault> {
        self.transaction.execute_typed(&adapt(text, self.schema), args).await?;
        Ok(())
    }

    pub(super) async fn store(&self) -> Result<Store, Fault> {
        // The transaction's own number comes first: whoever reads an old key has a number from before the new one.
        self.run(sql!("transaction_number"), args![]).await?;
        let rows = self.all(sql!("store_now"), args![]).await?;
        let row = rows.first().ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
        let now = Timestamp::from_millis(column(row, 1)?);
        Ok(Store { id: column(row, 0)?, now, key_epoch: column(row, 2)? })
    }

    /// The keys that hold. Refuses a store whose keys we do not have.
    pub(super) async fn seals(&self, keeper: &Keeper, epoch: i64) -> Result<Arc<Seals>, Fault> {
        if let Some(seals) = keeper.known(epoch) {
            return Ok(seals);
        }
        let rows = self.all(sql!("seal_key_list"), args![]).await?;
        let read = |row: &Row| Ok(KeyRow { key_id: column(row, 0)?, proof: column(row, 1)? });
        let rows: Vec<KeyRow> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
        Ok(keeper.learn(epoch, &rows)?)
    }

    async fn enqueue(
        &self,
        keeper: &Keeper,
        store: &Store,
        callers_now: Timestamp,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, StoreError> {
        let enqueued = async {
            let seals = self.seals(keeper, store.key_epoch).await?;
            self.add(&seals, store, callers_now, jobs).await
        };
        enqueued.await.map_err(Fault::into_error)
    }

    async fn add(
        &self,
        seals: &Seals,
        store: &Store,
        callers_now: Timestamp,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Fault> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let now = store.now;
        let ahead = now.millis().saturating_sub(callers_now.millis());
        let by_our_clock = |time: Timestamp| Timestamp::from_millis(time.millis().saturating_add(ahead));
        let lanes = self.lanes(jobs).await?;
        let sources = self.names(jobs.iter().map(NewJob::source).chain(["job_enqueued"])).await?;
        let ids = self.numbers(jobs, &lanes).await?;
        let added = ids.iter().filter(|enqueued| !enqueued.existing).count();
        let mut event = self.first_event(added).await?;
        let mut rows = Rows::default();
        for (new, enqueued) in jobs.iter().zip(&ids).filter(|(_, enqueued)| !enqueued.existing) {
            let run_at = match new.run_at {
                None => now,
                Some(run_at) if run_at <= callers_now => now.min(by_our_clock(run_at)),
                Some(run_at) => by_our_clock(run_at),
            };
            let numbers = Numbers {
                id: enqueued.id,
                lane_id: lanes[&(new.queue(), &*new.kind)].0,
                source_id: sources[new.source()],
                type_id: sources["job_enqueued"],
                event,
            };
            rows.push(seals, new, &numbers, now, run_at, new.deadline_at.map(by_our_clock))?;
            event += 1;
        }
        self.write(&rows).await?;
        let told = store.id.to_string();
        self.run(sql!("notify"), args![told]).await?;
        Ok(ids)
    }

    async fn lanes<'j>(&self, jobs: &'j [NewJob]) -> Result<Lanes<'j>, Fault> {
        let mut lanes = Lanes::new();
        for new in jobs {
            let key = (new.queue(), &*new.kind);
            if lanes.contains_key(&key) {
                continue;
            }
            let mut found = self.all(sql!("lane_find"), args![key.0, key.1]).await?;
            if found.is_empty() {
                self.run(sql!("queue_intern"), args![key.0]).await?;
                self.run(sql!("lane_insert"), args![key.0, key.1]).await?;
                found = self.all(sql!("lane_find"), args![key.0, key.1]).await?;
            }
            let row = found.first().ok_or_else(|| unseen(key.1))?;
            lanes.insert(key, (column(row, 0)?, column(row, 1)?));
        }
        Ok(lanes)
    }

    async fn names<'j>(&self, names: impl Iterator<Item = &'j str>) -> Result<HashMap<&'j str, i64>, Fault> {
        let names: HashSet<&str> = names.collect();
        let mut numbers = HashMap::new();
        for name in names {
            let mut found = self.all(sql!("name_find"), args![name]).await?;
            if found.is_empty() {
                self.run(sql!("name_intern"), args![name]).await?;
                found = self.all(sql!("name_find"), args![name]).await?;
            }
            let row = found.first().ok_or_else(|| unseen(name))?;
            numbers.insert(name, column(row, 0)?);
        }
        Ok(numbers)
    }

    /// A number for each job; for a unique key that unfinished work has already, the number of that.
    async fn numbers(&self, jobs: &[NewJob], lanes: &Lanes<'_>) -> Result<Vec<Enqueued>, Fault> {
        let queue_of = |new: &NewJob| lanes[&(new.queue(), &*new.kind)].1;
        let mut seen = HashSet::new();
        let wanted = jobs.iter().filter_map(|new| Some((queue_of(new), new.unique_key.as_deref()?)));
        let wanted: Vec<(i64, &str)> = wanted.filter(|key| seen.insert(*key)).collect();
        let mut won: HashMap<(i64, String), i64> = HashMap::new();
        let mut lost: HashMap<(i64, String), i64> = HashMap::new();
        for _ in 0..TRIES {
            let missing = wanted.iter().filter(|(queue, key)| {
                let key = (*queue, (*key).to_owned());
                !won.contains_key(&key) && !lost.contains_key(&key)
            });
            let (queues, keys): (Vec<i64>, Vec<&str>) = missing.copied().unzip();
            if keys.is_empty() {
                break;
            }
            for row in self.all(sql!("unique_insert"), args![queues, keys]).await? {
                won.insert((column(&row, 0)?, column(&row, 1)?), column(&row, 2)?);
            }
            for row in self.all(sql!("unique_find"), args![queues, keys]).await? {
                let key = (column(&row, 0)?, column(&row, 1)?);
                if !won.contains_key(&key) {
                    lost.insert(key, column(&row, 2)?);
                }
            }
        }
        let plain = jobs.iter().filter(|new| new.unique_key.is_none()).count();
        let plain = i64::try_from(plain).unwrap_or(i64::MAX);
        let rows = self.all(sql!("job_number"), args![plain]).await?;
        let mut numbers = rows.iter();
        let mut enqueued = Vec::with_capacity(jobs.len());
        for new in jobs {
            let Some(key) = &new.unique_key else {
                let row = numbers.next().ok_or_else(|| Fault::corrupt("too few numbers were taken"))?;
                enqueued.push(Enqueued { id: JobId(column(row, 0)?), existing: false });
                continue;
            };
            let key = (queue_of(new), key.clone());
            if let Some(id) = lost.get(&key) {
                enqueued.push(Enqueued { id: JobId(*id), existing: true });
                continue;
            }
            let id = won.remove(&key).ok_or_else(|| Fault::Again("a unique key changes hands".to_owned()))?;
            // Whoever comes with the same key in this call comes too late.
            lost.insert(key, id);
            enqueued.push(Enqueued { id: JobId(id), existing: false });
        }
        Ok(enqueued)
    }

    async fn first_event(&self, count: usize) -> Result<i64, Fault> {
        if count == 0 {
            return Ok(0);
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = self.all(sql!("event_numbers"), args![count]).await?;
        let row = rows.first().ok_or_else(|| Fault::corrupt("no numbers for events"))?;
        column(row, 0)
    }

    async fn write(&self, rows: &Rows) -> Result<(), Fault> {
        if !rows.strangers.is_empty() {
            self.run(sql!("worker_stranger"), args![rows.strangers]).await?;
            self.run(sql!("progress_put"), &rows.progress.args()).await?;
        }
        self.run(sql!("job_insert"), &rows.jobs.args()).await?;
        self.run(sql!("ready_insert"), &rows.readies.args()).await?;
        self.run(sql!("event_insert"), &rows.events.args()).await?;
        self.run(sql!("delta_insert"), &rows.deltas().args()).await
    }
}

/// In a transaction that reads one moment, what others have made since is there and cannot be seen.
fn unseen(name: &str) -> Fault {
    Fault::Again(format!("{name:?} was made by another transaction that this one cannot see"))
}

/// The numbers that a new job has.
struct Numbers {
    id: JobId,
    lane_id: i64,
    source_id: i64,
    type_id: i64,
    event: i64,
}

/// What is going to be written.
#[derive(Default)]
struct Rows {
    jobs: Jobs,
    progress: Progress,
    readies: Readies,
    events: FullEvents,
    strangers: Vec<i64>,
    ready: HashMap<i64, i64>,
}

impl Rows {
    fn push(
        &mut self,
        seals: &Seals,
        new: &NewJob,
        numbers: &Numbers,
        now: Timestamp,
        run_at: Timestamp,
        deadline_at: Option<Timestamp>,
    ) -> Result<(), Fault> {
        let &Numbers { id: JobId(id), lane_id, source_id, type_id, event } = numbers;
        let (at, run_at, rank) = (now.millis(), run_at.millis(), -i64::from(new.priority));
        let overrides = new.overrides.as_deref().map(storable);
        self.jobs.push(JobRow {
            id,
            lane_id,
            payload: seals.seal_bytes(Cell::JobPayload, id, &new.payload)?.into_owned(),
            enqueued_at: at,
            run_at,
            rank,
            source_id,
            event,
            policy: new.policy.clone(),
            overrides: seals.seal_some(Cell::JobOverrides, id, overrides.as_deref())?.map(Cow::into_owned),
            caller_id: new.caller_id.clone(),
            idempotency_key: new.idempotency_key.clone(),
            unique_key: new.unique_key.clone(),
            timeout_ms: new.timeout.map(whole_millis),
            deadline_at: deadline_at.map(Timestamp::millis),
            origin: new.origin as i64,
            inline: new.inline,
            target: new.target.clone(),
        });
        self.events.push(FullEventRow {
            seq: event,
            at,
            type_id,
            source_id,
            status: EventStatus::Pending as i64,
            job_id: Some(id),
            lane_id: Some(lane_id),
            parent: new.parent.map(|parent| parent.0),
            attempt: None,
            retries: None,
            max_retries: None,
            latency_ms: None,
            exit_code: None,
            importance: None,
            hypothesis: None,
            caller_id: new.caller_id.clone(),
            tags: None,
            imported_at: None,
            detail: None,
        });
        if let Some(worker) = new.held_for {
            self.strangers.push(worker.0);
            self.progress.push(ProgressRow {
                job_id: id,
                run_at,
                held_for: Some(worker.0),
                fence: 0,
                attempts: 0,
                retries: 0,
                crashes: 0,
                last_delay_ms: None,
                hint: None,
                event,
            });
        }
        let place = new.held_for.map_or(lane_id, |worker| -worker.0);
        self.readies.push(ReadyRow { lane_id: place, rank, run_at, job_id: id });
        *self.ready.entry(lane_id).or_default() += 1;
        Ok(())
    }

    fn deltas(&self) -> Deltas {
        let mut deltas = Deltas::default();
        for (lane, count) in &self.ready {
            deltas.push(DeltaRow {
                lane_id: Some(*lane),
                ready: *count,
                leased: 0,
                dead: 0,
                succeeded: 0,
                cancelled: 0,
                discarded: 0,
                events: *count,
                failed_events: 0,
                cause: None,
                letters: 0,
                hours: None,
            });
        }
        deltas
    }
}
