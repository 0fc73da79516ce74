//! The outbox: calls that wait for the network, in their order.

use std::time::Duration;

use rusqlite::types::Value as Sql;
use rusqlite::{Row, params, params_from_iter};

use super::batch::Batch;
use super::wheres::Wheres;
use super::{Sqlite, sql};
use crate::Answer;
use crate::error::StoreError;
use crate::idempotency::record::few_of;
use crate::job::few_enough;
use crate::outbox::record::{self, MAX_HOLD, StoredItem};
use crate::outbox::{Added, ItemQuery, ItemState, NewItem, NextSend, Outbox, OutboxItem, SendEnd};
use crate::row::count;
use crate::seal::Cell;
use crate::time::Timestamp;
use crate::told::{self, ItemMove, ItemOf};

/// How many failed items are put back in one transaction.
const AT_ONCE: u32 = 500;

impl Outbox for Sqlite {
    fn add_item(&self, now: Timestamp, item: NewItem) -> Answer<'_, Added> {
        Box::pin(async move {
            record::validate_item(&item)?;
            self.add(move |batch| add(batch, now, &item)).await
        })
    }

    fn pending_lanes(&self) -> Answer<'_, Vec<String>> {
        Box::pin(self.readers.read(|batch| batch.all(sql!("outbox_lanes"), [], |row| row.get(0))))
    }

    fn hold_lane(&self, now: Timestamp, lane: String, holder: i64, hold_for: Duration) -> Answer<'_, bool> {
        let until = now.after(hold_for.min(MAX_HOLD)).millis();
        Box::pin(self.write(move |batch| {
            Ok(batch.run(sql!("outbox_hold"), params![lane, holder, now.millis(), until])? > 0)
        }))
    }

    fn leave_lane(&self, lane: String, holder: i64) -> Answer<'_, ()> {
        Box::pin(self.write(move |batch| batch.run(sql!("outbox_leave"), params![lane, holder]).map(drop)))
    }

    fn begin_send(&self, now: Timestamp, lane: String, holder: i64) -> Answer<'_, NextSend> {
        Box::pin(self.write(move |batch| begin(batch, now, &lane, holder)))
    }

    fn end_send(
        &self,
        now: Timestamp,
        item: i64,
        holder: i64,
        end: SendEnd,
        last: Option<String>,
        last_status: Option<u16>,
    ) -> Answer<'_, bool> {
        Box::pin(async move {
            record::validate_last(last.as_deref())?;
            let ended = record::Ended { end, last, last_status };
            self.write(move |batch| finish(batch, now, item, holder, &ended)).await
        })
    }

    fn retry_items(&self, now: Timestamp, items: Vec<i64>) -> Answer<'_, Vec<i64>> {
        Box::pin(async move {
            few_enough(items.len())?;
            if !items.is_empty() {
                return self.write(move |batch| retry(batch, now, &items)).await;
            }
            // However many there are, nobody waits for more than a few of them.
            let (mut retried, mut after) = (Vec::new(), i64::MIN);
            loop {
                let failed: Vec<i64> = self
                    .readers
                    .read(move |batch| {
                        batch.all(sql!("outbox_failed"), params![after, AT_ONCE], |row| row.get(0))
                    })
                    .await?;
                let Some(last) = failed.last().copied() else { return Ok(retried) };
                after = last;
                retried.extend(self.write(move |batch| retry(batch, now, &failed)).await?);
            }
        })
    }

    fn discard_item(&self, now: Timestamp, item: i64) -> Answer<'_, bool> {
        Box::pin(self.write(move |batch| discard(batch, now, item)))
    }

    fn items(&self, query: ItemQuery) -> Answer<'_, Vec<OutboxItem>> {
        Box::pin(self.readers.read(move |batch| items(batch, query)))
    }

    fn item(&self, item: i64) -> Answer<'_, Option<OutboxItem>> {
        Box::pin(self.readers.read(move |batch| read(batch, item)))
    }

    fn sweep_items(&self, sent_before: Timestamp, limit: u32) -> Answer<'_, u64> {
        Box::pin(async move {
            // Mostly there is nothing to do, and then nothing is written.
            let nothing = self.readers.read(move |batch| {
                Ok(old_items(batch, sent_before, 1)?.is_empty()
                    && old_saves(batch, sent_before, 1)?.is_empty())
            });
            if nothing.await? {
                return Ok(0);
            }
            self.write(move |batch| sweep(batch, sent_before, limit)).await
        })
    }

    fn saved_key(&self, now: Timestamp, name: String, fresh: String) -> Answer<'_, String> {
        Box::pin(async move {
            record::validate_saved(&name, &fresh)?;
            let asked = name.clone();
            let known = self
                .readers
                .read(move |batch| batch.first(sql!("saved_key_find"), [&asked], |row| row.get(0)))
                .await?;
            if let Some(known) = known {
                return Ok(known);
            }
            self.add(move |batch| {
                let known = batch.first(sql!("saved_key_find"), [&name], |row| row.get(0))?;
                if let Some(known) = known {
                    return Ok(known);
                }
                batch.run(sql!("saved_key_put"), params![name, fresh, now.millis()])?;
                Ok(fresh.clone())
            })
            .await
        })
    }

    fn forget_saved_key(&self, name: String, key: String) -> Answer<'_, bool> {
        Box::pin(self.write(move |batch| Ok(batch.run(sql!("saved_key_forget"), [&name, &key])? > 0)))
    }
}

/// Items that were sent before a time, each with the size of its call.
fn old_items(batch: &Batch<'_, '_>, before: Timestamp, limit: u32) -> Result<Vec<(i64, u64)>, StoreError> {
    batch.all(sql!("outbox_old"), params![before.millis(), limit], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })
}

/// Saves whose key was made before a time and which no item has.
fn old_saves(batch: &Batch<'_, '_>, before: Timestamp, limit: u32) -> Result<Vec<String>, StoreError> {
    batch.all(sql!("saved_key_old"), params![before.millis(), limit], |row| row.get(0))
}

fn sweep(batch: &Batch<'_, '_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let old = old_items(batch, before, limit)?;
    let few = few_of(&old);
    for (item, _) in &old[..few] {
        batch.run(sql!("outbox_delete"), [item])?;
    }
    // An item that has just gone holds its key no longer.
    let left = limit.saturating_sub(u32::try_from(few).unwrap_or(u32::MAX));
    let saves = old_saves(batch, before, left)?;
    for name in &saves {
        batch.run(sql!("saved_key_drop"), [name])?;
    }
    Ok(few as u64 + saves.len() as u64)
}

/// Reads the columns of `outbox_list.sql`.
fn read_item(row: &Row<'_>) -> rusqlite::Result<StoredItem> {
    Ok(StoredItem {
        id: row.get(0)?,
        lane: row.get(1)?,
        key: row.get(2)?,
        call: row.get(3)?,
        state: row.get(4)?,
        sends: row.get(5)?,
        created_at: row.get(6)?,
        not_before: row.get(7)?,
        sent_at: row.get(8)?,
        ended_at: row.get(9)?,
        last: row.get(10)?,
        last_status: row.get(11)?,
    })
}

fn read(batch: &Batch<'_, '_>, item: i64) -> Result<Option<OutboxItem>, StoreError> {
    batch.first(sql!("outbox_read"), [item], read_item)?.map(|item| item.into_item(&batch.seals)).transpose()
}

fn tell(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    of: ItemOf<'_>,
    sends: u32,
    moved: ItemMove,
) -> Result<(), StoreError> {
    let (source_id, caller_id) = (batch.name(told::SOURCE)?, of.caller_id());
    batch.event(now, &told::outbox_moved(source_id, &caller_id, of, sends, moved))?;
    Ok(())
}

fn add(batch: &mut Batch<'_, '_>, now: Timestamp, new: &NewItem) -> Result<Added, StoreError> {
    let found = batch.first(sql!("outbox_find"), [&new.lane, &new.key], |row| {
        Ok((row.get(0)?, ItemState::from_number(row.get(1)?), row.get::<_, String>(2)?))
    })?;
    if let Some((item, state, call_hash)) = found {
        return Ok(if call_hash == new.call_hash { Added::Known(item, state) } else { Added::Other(item) });
    }
    let item = batch.next_event();
    let call = new.call.to_string();
    let call = batch.seals.seal_text(Cell::OutboxCall, item, &call)?;
    batch.run(sql!("outbox_insert"), params![item, new.lane, new.key, call, new.call_hash, now.millis()])?;
    tell(batch, now, ItemOf { item, lane: &new.lane, key: &new.key }, 0, ItemMove::Added)?;
    Ok(Added::New(item))
}

/// Until when a lane is held by this holder.
fn held_until(batch: &Batch<'_, '_>, lane: &str, holder: i64) -> Result<Option<Timestamp>, StoreError> {
    batch.first(sql!("outbox_held"), params![lane, holder], |row| Ok(Timestamp::from_millis(row.get(0)?)))
}

fn begin(batch: &Batch<'_, '_>, now: Timestamp, lane: &str, holder: i64) -> Result<NextSend, StoreError> {
    if held_until(batch, lane, holder)?.is_none_or(|until| until <= now) {
        return Ok(NextSend::NotOurs);
    }
    let Some(next) = batch.first(sql!("outbox_next"), [lane], read_item)? else {
        return Ok(NextSend::Empty);
    };
    if next.not_before > now.millis() {
        return Ok(NextSend::NotBefore(Timestamp::from_millis(next.not_before)));
    }
    batch.run(sql!("outbox_begin"), params![next.id, now.millis()])?;
    let mut next = next.into_item(&batch.seals)?;
    next.sends = next.sends.saturating_add(1);
    next.sent_at = Some(now);
    Ok(NextSend::Item(Box::new(next)))
}

/// Who has the lane says so. When its time is over that still holds, as long as nobody else took the lane.
fn finish(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    item: i64,
    holder: i64,
    ended: &record::Ended,
) -> Result<bool, StoreError> {
    let Some(found) = read(batch, item)?.filter(|found| found.state == ItemState::Pending) else {
        return Ok(false);
    };
    if held_until(batch, &found.lane, holder)?.is_none() {
        return Ok(false);
    }
    let after = ended.after(now, &found);
    let last = batch.seals.seal_some(Cell::OutboxLast, item, ended.last.as_deref())?;
    let [not_before, sent_at, ended_at] =
        [Some(after.not_before), after.sent_at, after.ended_at].map(|at| at.map(Timestamp::millis));
    batch.run(
        sql!("outbox_end"),
        params![
            item,
            after.state.number(),
            after.sends,
            not_before,
            sent_at,
            ended_at,
            last,
            ended.last_status
        ],
    )?;
    if let Some(moved) = after.told {
        tell(batch, now, ItemOf { item, lane: &found.lane, key: &found.key }, after.sends, moved)?;
    }
    Ok(true)
}

fn retry(batch: &mut Batch<'_, '_>, now: Timestamp, items: &[i64]) -> Result<Vec<i64>, StoreError> {
    let mut retried = Vec::with_capacity(items.len());
    for &item in items {
        let found = batch.first(sql!("outbox_retry"), params![item, now.millis()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        if let Some((lane, key)) = found {
            tell(batch, now, ItemOf { item, lane: &lane, key: &key }, 0, ItemMove::Retried)?;
            retried.push(item);
        }
    }
    Ok(retried)
}

fn discard(batch: &mut Batch<'_, '_>, now: Timestamp, item: i64) -> Result<bool, StoreError> {
    let found = batch.first(sql!("outbox_discard"), [item], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, count(row.get(2)?)))
    })?;
    let Some((lane, key, sends)) = found else { return Ok(false) };
    tell(batch, now, ItemOf { item, lane: &lane, key: &key }, sends, ItemMove::Discarded)?;
    Ok(true)
}

fn items(batch: &Batch<'_, '_>, query: ItemQuery) -> Result<Vec<OutboxItem>, StoreError> {
    let mut wheres = Wheres::default();
    if let Some(state) = query.state {
        // Said as the indexes say it.
        wheres.must(&format!("state = {}", state.number()), []);
    }
    if let Some(lane) = query.lane {
        wheres.must("lane = ?", [Sql::from(lane)]);
    }
    if let Some(after) = query.after {
        wheres.must("id > ?", [Sql::from(after)]);
    }
    let (conditions, values) = wheres.finish();
    let text = format!("{}{conditions} ORDER BY id LIMIT {}", sql!("outbox_list").trim_end(), query.limit);
    let mut statement = batch.connection().prepare_cached(&text)?;
    let rows =
        statement.query_and_then(params_from_iter(values), |row| read_item(row)?.into_item(&batch.seals))?;
    rows.collect()
}
