//! Idempotency keys: taken before their request is run, completed with its answer.
//!
//! A claim looks first, and writes only what it must; inside the transaction it looks again, since the look before was only a
//! shortcut.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value as Sql;
use rusqlite::{Row, params, params_from_iter};

use super::batch::{Batch, Memory};
use super::claim::ClaimAnswer;
use super::statements::Statements;
use super::wheres::Wheres;
use super::{Sqlite, job, sql};
use crate::Answer;
use crate::error::{StoreError, Trouble};
use crate::id::JobId;
use crate::idempotency::record::{self, Cells, Found, Stored};
use crate::idempotency::{
    Claimed, Finish, Idempotency, KeyClaim, KeyCounts, KeyHold, KeyQuery, KeyRecord, KeyState, KeyedRequest,
    KeysSwept, Meeting, Standing, StoredResponse,
};
use crate::job::{Enqueued, NewJob, validate};
use crate::seal::Cell;
use crate::time::Timestamp;
use crate::told::{self, KeyOf};

/// The lane of what is counted for no queue.
const NO_LANE: i64 = 0;

impl Idempotency for Sqlite {
    fn claim_key(&self, now: Timestamp, claim: KeyClaim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            record::validate_claim(&claim)?;
            let claim = Arc::new(claim);
            let asked = Arc::clone(&claim);
            match self.readers.look(move |statements| look(statements, now, &asked)).await {
                Ok(Some(known)) => return Ok(known),
                Ok(None) => {}
                // More come at once than can look first: the writer looks, too, and takes many at a time.
                Err(error) if matches!(error.trouble(), Trouble::Overloaded) => {}
                Err(error) => return Err(error),
            }
            ClaimAnswer::submitted(&self.writer, now, claim).await
        })
    }

    fn renew_key(&self, now: Timestamp, hold: KeyHold, hold_for: Duration) -> Answer<'_, Finish> {
        let until = now.after(hold_for).millis();
        Box::pin(self.write(move |batch| {
            let renewed =
                batch.run(sql!("idempotency_renew"), params![hold.record, hold.incarnation, until])?;
            if renewed > 0 { Ok(Finish::Done) } else { still_ours(batch, hold) }
        }))
    }

    fn complete_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        response: StoredResponse,
        keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(async move {
            record::validate_response(&response)?;
            self.write(move |batch| {
                let completed = complete(batch, now, hold, &response, keep_for)?;
                if completed { Ok(Finish::Done) } else { still_ours(batch, hold) }
            })
            .await
        })
    }

    fn enqueue_for_key(
        &self,
        now: Timestamp,
        jobs: Vec<NewJob>,
        request: KeyedRequest,
    ) -> Answer<'_, Option<Vec<Enqueued>>> {
        Box::pin(async move {
            validate(&jobs)?;
            let KeyedRequest { hold, keep_for, answer } = request;
            self.add(move |batch| {
                let ours = held(batch, hold)?;
                if ours.is_none_or(|ours| ours.state == KeyState::Completed) {
                    return Ok(None);
                }
                let added = job::enqueue(batch, now, &jobs)?;
                let response = answer(&added);
                record::validate_response(&response)?;
                complete(batch, now, hold, &response, keep_for)?;
                Ok(Some(added))
            })
            .await
        })
    }

    fn release_key(&self, now: Timestamp, hold: KeyHold, why: Option<String>) -> Answer<'_, Finish> {
        Box::pin(self.write(move |batch| release(batch, now, hold, why.as_deref())))
    }

    fn give_up_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        why: String,
        keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(self.write(move |batch| give_up(batch, now, hold, &why, keep_for)))
    }

    fn keys(&self, query: KeyQuery) -> Answer<'_, Vec<KeyRecord>> {
        Box::pin(self.readers.read(move |batch| keys(batch, query)))
    }

    fn key(&self, record: i64) -> Answer<'_, Option<(KeyRecord, Option<StoredResponse>)>> {
        Box::pin(self.readers.read(move |batch| key(batch, record)))
    }

    fn reset_key(
        &self,
        now: Timestamp,
        record: i64,
        seen: KeyState,
        why: Option<String>,
    ) -> Answer<'_, Option<KeyRecord>> {
        Box::pin(self.write(move |batch| reset(batch, now, record, seen, why.as_deref())))
    }

    fn key_standing(&self) -> Answer<'_, (u64, u64)> {
        Box::pin(self.readers.read(|batch| {
            let counts = batch.first(sql!("idempotency_standing"), [record::COUNTED], |row| {
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
            })?;
            Ok(counts.unwrap_or_default())
        }))
    }

    fn count_keys(&self, now: Timestamp, counts: KeyCounts) -> Answer<'_, ()> {
        Box::pin(async move {
            if counts == KeyCounts::default() {
                return Ok(());
            }
            self.write(move |batch| {
                for (metric, n) in counts.metrics() {
                    batch.tally.add(now, NO_LANE, metric, i64::try_from(n).unwrap_or(i64::MAX));
                }
                Ok(())
            })
            .await
        })
    }

    fn sweep_keys(&self, now: Timestamp, keep_for: Duration, limit: u32) -> Answer<'_, KeysSwept> {
        Box::pin(async move {
            // Mostly there is nothing to do, and then nothing is written.
            let idle = self
                .readers
                .read(move |batch| {
                    let lapsed =
                        batch.first(sql!("idempotency_lapsed"), params![now.millis(), 1], |_| Ok(()))?;
                    let expired =
                        batch.first(sql!("idempotency_expired"), params![now.millis(), 1], |_| Ok(()))?;
                    Ok(lapsed.is_none() && expired.is_none())
                })
                .await?;
            if idle {
                return Ok(KeysSwept::default());
            }
            self.write(move |batch| sweep(batch, now, keep_for, limit)).await
        })
    }
}

impl Sqlite {
    /// Completes a key inside the caller's own transaction on the same file: the answer is known if and only if what the request
    /// did is there. When the hold is [`Finish::Lost`], the caller must roll back: somebody else has run the request, or may, or
    /// this holder has completed it before, and what it did is there already.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_store::{Claimed, Finish, Idempotency, KeyClaim, Sqlite, SqliteOptions, StoredResponse, Timestamp};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// let store = Sqlite::open(&path, SqliteOptions::default())?;
    /// let now = Timestamp::from_system(std::time::SystemTime::now());
    /// let claim = KeyClaim {
    ///     principal: "alice".to_owned(),
    ///     key: "order-7".to_owned(),
    ///     endpoint: "POST /orders".to_owned(),
    ///     request_hash: "1f0c".to_owned(),
    ///     hold_for: Duration::from_secs(30),
    ///     keep_for: Duration::from_hours(24),
    ///     rerun: false,
    ///     job: None,
    /// };
    /// let Claimed::Taken { hold, .. } = store.claim_key(now, claim).await? else { panic!("it is new") };
    /// let mut mine = rusqlite::Connection::open(&path).unwrap();
    /// let transaction = mine.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    /// transaction.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER); INSERT INTO orders VALUES (7)").unwrap();
    /// let created = StoredResponse { status: 201, headers: Vec::new(), body: Some(b"7".to_vec()) };
    /// let finish = store.complete_key_in(&transaction, now, hold, &created, Duration::from_hours(24))?;
    /// match finish {
    ///     Finish::Done => transaction.commit().unwrap(),
    ///     Finish::Lost => transaction.rollback().unwrap(),
    /// }
    /// # Ok::<(), redrive_store::StoreError>(()) }).unwrap();
    /// ```
    pub fn complete_key_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        now: Timestamp,
        hold: KeyHold,
        response: &StoredResponse,
        keep_for: Duration,
    ) -> Result<Finish, StoreError> {
        record::validate_response(response)?;
        let statements = Statements::new(transaction, &self.keeper);
        let mut memory = Memory::default();
        let batch = Batch::begin(&statements, &mut memory)?;
        let completed = complete(&batch, now, hold, response, keep_for)?;
        batch.finish()?;
        Ok(if completed { Finish::Done } else { Finish::Lost })
    }
}

/// Reads the columns of `idempotency_find.sql` behind the first two.
fn read_found(row: &Row<'_>) -> rusqlite::Result<Option<Found>> {
    let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_millis));
    let Some(id) = row.get(2)? else { return Ok(None) };
    Ok(Some(Found {
        id,
        endpoint: row.get(3)?,
        standing: Standing {
            request_hash: row.get(4)?,
            state: KeyState::from_number(row.get(5)?),
            leased_until: time(6)?,
            expires_at: time(7)?,
        },
        job: row.get::<_, Option<i64>>(8)?.map(JobId),
        created_at: Timestamp::from_millis(row.get(9)?),
        ended_at: time(10)?,
        cells: Cells { status: row.get(11)?, head: row.get(12)?, body: row.get(13)? },
    }))
}

/// What the claim is answered with, unless something is to be written. One statement, which is a transaction of its own.
fn look(
    statements: &Statements<'_>,
    now: Timestamp,
    claim: &KeyClaim,
) -> Result<Option<Claimed>, StoreError> {
    let (key_epoch, store_id, found) =
        statements.get(sql!("idempotency_find"))?.query_row([&claim.principal, &claim.key], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?, read_found(row)?))
        })?;
    let keeper = statements.keeper();
    if store_id.cast_unsigned() != keeper.store_id() {
        return Err(Trouble::Replaced.into());
    }
    let Some(found) = found else { return Ok(None) };
    let meeting = Standing::meets(Some(&found.standing), claim, now);
    if let Some(seals) = keeper.known(key_epoch) {
        return found.claimed(meeting, &seals);
    }
    // The keys were changed: they and the row are looked at in one moment.
    let transaction = statements.connection().unchecked_transaction()?;
    let mut memory = Memory::default();
    let batch = Batch::begin(statements, &mut memory)?;
    let known = find(&batch, claim)?.map(|found| {
        let meeting = Standing::meets(Some(&found.standing), claim, now);
        found.claimed(meeting, &batch.seals)
    });
    drop(batch);
    drop(transaction);
    known.transpose().map(Option::flatten)
}

fn find(batch: &Batch<'_, '_>, claim: &KeyClaim) -> Result<Option<Found>, StoreError> {
    Ok(batch.first(sql!("idempotency_find"), [&claim.principal, &claim.key], read_found)?.flatten())
}

/// Takes the key, or tells what is known of it by now. Of a store that is about to move nobody takes one: what would be in progress
/// then could not be completed here any more.
pub(super) fn take(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    claim: &KeyClaim,
) -> Result<Claimed, StoreError> {
    let found = find(batch, claim)?;
    let meeting = Standing::meets(found.as_ref().map(|found| &found.standing), claim, now);
    let takes =
        matches!(meeting, Meeting::TakesAsNew | Meeting::TakesAgain | Meeting::Lapses { takes: true });
    if takes && batch.is_draining(now) {
        return Err(Trouble::Moving.into());
    }
    let until = now.after(claim.hold_for).millis();
    let Some(found) = found else { return take_as_new(batch, now, claim) };
    let record = found.id;
    match meeting {
        Meeting::TakesAsNew => {
            batch.run(sql!("idempotency_delete"), [record])?;
            return take_as_new(batch, now, claim);
        }
        Meeting::Lapses { takes } => {
            let of =
                KeyOf { record, principal: &claim.principal, key: &claim.key, endpoint: &found.endpoint };
            become_unknown(batch, now, of, told::FELL_SILENT, claim.keep_for)?;
            if !takes {
                return Ok(Claimed::Unknown { since: now, job: found.job });
            }
        }
        Meeting::TakesAgain => {}
        Meeting::Mismatch | Meeting::Replays | Meeting::InFlight | Meeting::Unknown => {
            let nothing_to_write = || Trouble::Database("a claim met nothing".to_owned()).into();
            return found.claimed(meeting, &batch.seals)?.ok_or_else(nothing_to_write);
        }
    }
    let incarnation = batch.next_event();
    batch.run(
        sql!("idempotency_take"),
        params![record, claim.endpoint, incarnation, until, claim.job.map(|job| job.0)],
    )?;
    Ok(Claimed::Taken { hold: KeyHold { record, incarnation }, again: true })
}

fn take_as_new(batch: &mut Batch<'_, '_>, now: Timestamp, claim: &KeyClaim) -> Result<Claimed, StoreError> {
    let id = batch.next_event();
    batch.run(
        sql!("idempotency_insert"),
        params![
            id,
            claim.principal,
            claim.key,
            claim.endpoint,
            claim.request_hash,
            now.after(claim.hold_for).millis(),
            claim.job.map(|job| job.0),
            now.millis()
        ],
    )?;
    Ok(Claimed::Taken { hold: KeyHold { record: id, incarnation: id }, again: false })
}

fn become_unknown(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    of: KeyOf<'_>,
    why: &str,
    keep_for: Duration,
) -> Result<(), StoreError> {
    let expires_at = now.after(keep_for).millis();
    batch.run(sql!("idempotency_unknown"), params![of.record, now.millis(), expires_at])?;
    let (source_id, caller_id) = (batch.name(told::SOURCE)?, of.caller_id());
    batch.event(now, &told::idempotency_unknown(source_id, &caller_id, of, why))?;
    Ok(())
}

/// A record that a holder still has.
struct Held {
    state: KeyState,
    principal: String,
    key: String,
    endpoint: String,
}

impl Held {
    fn of(&self, hold: KeyHold) -> KeyOf<'_> {
        let Held { principal, key, endpoint, .. } = self;
        KeyOf { record: hold.record, principal, key, endpoint }
    }
}

fn held(batch: &Batch<'_, '_>, hold: KeyHold) -> Result<Option<Held>, StoreError> {
    batch.first(sql!("idempotency_hold"), params![hold.record, hold.incarnation], |row| {
        let state = KeyState::from_number(row.get(0)?);
        Ok(Held { state, principal: row.get(1)?, key: row.get(2)?, endpoint: row.get(3)? })
    })
}

/// Nothing was changed: the holder has said it all already, or it holds nothing any more.
fn still_ours(batch: &Batch<'_, '_>, hold: KeyHold) -> Result<Finish, StoreError> {
    Ok(if held(batch, hold)?.is_some() { Finish::Done } else { Finish::Lost })
}

/// Answers whether it was completed just now.
fn complete(
    batch: &Batch<'_, '_>,
    now: Timestamp,
    hold: KeyHold,
    response: &StoredResponse,
    keep_for: Duration,
) -> Result<bool, StoreError> {
    let head = record::write_head(response);
    let head = batch.seals.seal_bytes(Cell::KeyHeaders, hold.record, &head)?;
    let body = response.body.as_deref();
    let body = body.map(|body| batch.seals.seal_bytes(Cell::KeyBody, hold.record, body)).transpose()?;
    let completed = batch.run(
        sql!("idempotency_complete"),
        params![
            hold.record,
            hold.incarnation,
            response.status,
            head,
            body,
            now.millis(),
            now.after(keep_for).millis()
        ],
    )?;
    Ok(completed > 0)
}

pub(super) fn release(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    hold: KeyHold,
    why: Option<&str>,
) -> Result<Finish, StoreError> {
    let open = |ours: &Held| ours.state != KeyState::Completed;
    let Some(ours) = held(batch, hold)?.filter(open) else { return Ok(Finish::Lost) };
    batch.run(sql!("idempotency_delete"), [hold.record])?;
    if let Some(why) = why {
        let of = ours.of(hold);
        let (source_id, caller_id) = (batch.name(told::SOURCE)?, of.caller_id());
        batch.event(now, &told::idempotency_released(source_id, &caller_id, of, why))?;
    }
    Ok(Finish::Done)
}

fn give_up(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    hold: KeyHold,
    why: &str,
    keep_for: Duration,
) -> Result<Finish, StoreError> {
    let Some(ours) = held(batch, hold)? else { return Ok(Finish::Lost) };
    if ours.state == KeyState::InProgress {
        become_unknown(batch, now, ours.of(hold), why, keep_for)?;
    }
    Ok(Finish::Done)
}

/// Reads the columns of `idempotency_list.sql`, with which those of `idempotency_read.sql` begin.
fn read_stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        id: row.get(0)?,
        principal: row.get(1)?,
        key: row.get(2)?,
        endpoint: row.get(3)?,
        request_hash: row.get(4)?,
        state: row.get(5)?,
        created_at: row.get(6)?,
        leased_until: row.get(7)?,
        ended_at: row.get(8)?,
        expires_at: row.get(9)?,
        status: row.get(10)?,
        head: row.get(11)?,
        job: row.get(12)?,
    })
}

fn keys(batch: &Batch<'_, '_>, query: KeyQuery) -> Result<Vec<KeyRecord>, StoreError> {
    let mut wheres = Wheres::default();
    match query.state {
        // Said as the indexes of these say it, since they know the few among the many.
        Some(KeyState::InProgress) => wheres.must("state = 0", []),
        Some(KeyState::UnknownOutcome) => wheres.must("state = 2", []),
        Some(KeyState::Completed) => wheres.must("state = 1", []),
        None => {}
    }
    if let Some(key) = query.key {
        wheres.must("key = ?", [Sql::from(key)]);
    }
    if let Some(principal) = query.principal {
        wheres.must("principal = ?", [Sql::from(principal)]);
    }
    if let Some(before) = query.before {
        wheres.must("id < ?", [Sql::from(before)]);
    }
    let (conditions, values) = wheres.finish();
    let text =
        format!("{}{conditions} ORDER BY id DESC LIMIT {}", sql!("idempotency_list").trim_end(), query.limit);
    let mut statement = batch.connection().prepare_cached(&text)?;
    let rows = statement
        .query_and_then(params_from_iter(values), |row| read_stored(row)?.into_record(&batch.seals))?;
    rows.collect()
}

fn key(
    batch: &Batch<'_, '_>,
    record: i64,
) -> Result<Option<(KeyRecord, Option<StoredResponse>)>, StoreError> {
    let found = batch.first(sql!("idempotency_read"), [record], |row| {
        let stored = read_stored(row)?;
        let cells = Cells { status: stored.status, head: stored.head.clone(), body: row.get(13)? };
        Ok((stored, cells))
    })?;
    let Some((stored, cells)) = found else { return Ok(None) };
    Ok(Some((stored.into_record(&batch.seals)?, cells.into_response(record, &batch.seals)?)))
}

fn reset(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    record: i64,
    seen: KeyState,
    why: Option<&str>,
) -> Result<Option<KeyRecord>, StoreError> {
    let stored = batch.first(sql!("idempotency_read"), [record], read_stored)?;
    let Some(stored) = stored.filter(|stored| stored.state == seen.number()) else { return Ok(None) };
    let found = stored.into_forgotten(&batch.seals);
    batch.run(sql!("idempotency_delete"), [record])?;
    let KeyRecord { principal, key, endpoint, .. } = &found;
    let of = KeyOf { record, principal, key, endpoint };
    let (source_id, caller_id) = (batch.name(told::SOURCE)?, of.caller_id());
    batch.event(now, &told::idempotency_reset(source_id, &caller_id, of, seen, why))?;
    Ok(Some(found))
}

fn sweep(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    keep_for: Duration,
    limit: u32,
) -> Result<KeysSwept, StoreError> {
    let lapsed = batch.all(sql!("idempotency_lapsed"), params![now.millis(), limit], |row| {
        let text = |at| row.get::<_, String>(at);
        Ok((row.get(0)?, text(1)?, text(2)?, text(3)?))
    })?;
    for (record, principal, key, endpoint) in &lapsed {
        let of = KeyOf { record: *record, principal, key, endpoint };
        become_unknown(batch, now, of, told::FELL_SILENT, keep_for)?;
    }
    let expired = batch.all(sql!("idempotency_expired"), params![now.millis(), limit], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    let few = record::few_of(&expired);
    for (record, _) in &expired[..few] {
        batch.run(sql!("idempotency_delete"), [record])?;
    }
    let limit = limit as usize;
    let more = lapsed.len() >= limit || expired.len() >= limit || few < expired.len();
    Ok(KeysSwept { lapsed: lapsed.len() as u64, expired: few as u64, more })
}
