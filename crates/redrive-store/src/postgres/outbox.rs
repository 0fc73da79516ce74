//! The outbox: calls that wait for the network, in their order.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::Row;

use super::Postgres;
use super::fault::Fault;
use super::idempotency::names;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{sql, storable};
use super::tx::{Isolation, Tx};
use super::verb::{Question, Verb};
use super::wheres::Wheres;
use crate::Answer;
use crate::idempotency::record::few_of;
use crate::job::few_enough;
use crate::outbox::record::{self, Ended, MAX_HOLD, StoredItem};
use crate::outbox::{Added, ItemQuery, ItemState, NewItem, NextSend, Outbox, OutboxItem, SendEnd};
use crate::row::count;
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;
use crate::told::{self, ItemMove, ItemOf};

/// How many failed items are put back in one transaction.
const AT_ONCE: i64 = 500;

impl Outbox for Postgres {
    fn add_item(&self, now: Timestamp, item: NewItem) -> Answer<'_, Added> {
        Box::pin(async move {
            record::validate_item(&item)?;
            self.write(AddItem { now, item }).await
        })
    }

    fn pending_lanes(&self) -> Answer<'_, Vec<String>> {
        Box::pin(self.read(PendingLanes))
    }

    fn hold_lane(&self, now: Timestamp, lane: String, holder: i64, hold_for: Duration) -> Answer<'_, bool> {
        Box::pin(self.write(HoldLane { now, lane, holder, hold_for }))
    }

    fn leave_lane(&self, lane: String, holder: i64) -> Answer<'_, ()> {
        Box::pin(self.write(LeaveLane { lane, holder }))
    }

    fn begin_send(&self, now: Timestamp, lane: String, holder: i64) -> Answer<'_, NextSend> {
        Box::pin(self.write(BeginSend { now, lane, holder }))
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
            let last = last.as_deref().map(storable);
            self.write(EndSend { now, item, holder, end, last, last_status }).await
        })
    }

    fn retry_items(&self, now: Timestamp, items: Vec<i64>) -> Answer<'_, Vec<i64>> {
        Box::pin(async move {
            few_enough(items.len())?;
            if !items.is_empty() {
                return self.write(RetryItems { now, items }).await;
            }
            // However many there are, nobody waits for more than a few of them.
            let (mut retried, mut after) = (Vec::new(), i64::MIN);
            loop {
                let items = self.read(FailedItems { after }).await?;
                let Some(last) = items.last().copied() else { return Ok(retried) };
                after = last;
                retried.extend(self.write(RetryItems { now, items }).await?);
            }
        })
    }

    fn discard_item(&self, now: Timestamp, item: i64) -> Answer<'_, bool> {
        Box::pin(self.write(DiscardItem { now, item }))
    }

    fn items(&self, query: ItemQuery) -> Answer<'_, Vec<OutboxItem>> {
        Box::pin(self.read(ItemsOf { query }))
    }

    fn item(&self, item: i64) -> Answer<'_, Option<OutboxItem>> {
        Box::pin(self.read(ItemOfId { item }))
    }

    fn sweep_items(&self, sent_before: Timestamp, limit: u32) -> Answer<'_, u64> {
        Box::pin(async move {
            // Mostly there is nothing to do, and then nothing is written.
            if self.read(NothingOld { sent_before }).await? {
                return Ok(0);
            }
            self.write(SweepItems { sent_before, limit }).await
        })
    }

    fn saved_key(&self, now: Timestamp, name: String, fresh: String) -> Answer<'_, String> {
        Box::pin(async move {
            record::validate_saved(&name, &fresh)?;
            match self.read(SavedKey { name: name.clone() }).await? {
                Some(known) => Ok(known),
                None => self.write(SaveKey { now, name, fresh }).await,
            }
        })
    }

    fn forget_saved_key(&self, name: String, key: String) -> Answer<'_, bool> {
        Box::pin(self.write(ForgetSavedKey { name, key }))
    }
}

/// Reads the columns of `outbox_list.sql`.
fn stored(row: &Row) -> Result<StoredItem, Fault> {
    Ok(StoredItem {
        id: column(row, 0)?,
        lane: column(row, 1)?,
        key: column(row, 2)?,
        call: column(row, 3)?,
        state: column(row, 4)?,
        sends: column(row, 5)?,
        created_at: column(row, 6)?,
        not_before: column(row, 7)?,
        sent_at: column(row, 8)?,
        ended_at: column(row, 9)?,
        last: column(row, 10)?,
        last_status: column(row, 11)?,
    })
}

fn read(row: &Row, seals: &Seals) -> Result<OutboxItem, Fault> {
    Ok(stored(row)?.into_item(seals)?)
}

async fn item(line: &Line, seals: &Seals, id: i64) -> Result<Option<OutboxItem>, Fault> {
    line.first(sql!("outbox_read"), args![id]).await?.map(|row| read(&row, seals)).transpose()
}

fn tell(tx: &mut Tx<'_>, now: Timestamp, of: ItemOf<'_>, sends: u32, moved: ItemMove) -> Result<(), Fault> {
    let (source_id, caller_id) = (tx.memory.borrow().name(told::SOURCE)?, of.caller_id());
    tx.batch.event(now, told::outbox_moved(source_id, &caller_id, of, sends, moved))?;
    Ok(())
}

/// Adds an item, unless it is there. Of two that add the same one, one is undone and then finds it.
struct AddItem {
    now: Timestamp,
    item: NewItem,
}

impl Verb for AddItem {
    type Answer = Added;

    fn needs(&self) -> Vec<Need> {
        names(&["outbox_added"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Added, Fault> {
        let (now, new) = (tx.now(self.now), &self.item);
        if let Some(row) = tx.line.first(sql!("outbox_find"), args![new.lane, new.key]).await? {
            let (id, state) = (column(&row, 0)?, ItemState::from_number(column(&row, 1)?));
            let same = column::<String>(&row, 2)? == new.call_hash;
            return Ok(if same { Added::Known(id, state) } else { Added::Other(id) });
        }
        let id = tx.batch.next_event()?;
        let call = new.call.to_string();
        let call = tx.seals.seal_text(Cell::OutboxCall, id, &call)?.into_owned();
        let at = now.millis();
        let row = args![id, new.lane, new.key, call, new.call_hash, at];
        tx.line.run(sql!("outbox_insert"), row).await?;
        tell(tx, now, ItemOf { item: id, lane: &new.lane, key: &new.key }, 0, ItemMove::Added)?;
        Ok(Added::New(id))
    }
}

/// The lanes in which something is pending, by name.
struct PendingLanes;

impl Question for PendingLanes {
    type Answer = Vec<String>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<String>, Fault> {
        line.all(sql!("outbox_lanes"), args![]).await?.iter().map(|row| column(row, 0)).collect()
    }
}

/// Somebody takes a lane to send from it.
struct HoldLane {
    now: Timestamp,
    lane: String,
    holder: i64,
    hold_for: Duration,
}

impl Verb for HoldLane {
    type Answer = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let now = tx.now(self.now);
        let (until, now) = (now.after(self.hold_for.min(MAX_HOLD)).millis(), now.millis());
        Ok(tx.line.run(sql!("outbox_hold"), args![storable(&self.lane), self.holder, now, until]).await? > 0)
    }
}

/// Lets a lane go.
struct LeaveLane {
    lane: String,
    holder: i64,
}

impl Verb for LeaveLane {
    type Answer = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.line.run(sql!("outbox_leave"), args![storable(&self.lane), self.holder]).await?;
        Ok(())
    }
}

/// Until when a lane is held by this holder; nobody else takes it in this transaction.
async fn held_until(tx: &Tx<'_>, lane: &str, holder: i64) -> Result<Option<Timestamp>, Fault> {
    let row = tx.line.first(sql!("outbox_held"), args![lane, holder]).await?;
    row.map(|row| Ok(Timestamp::from_millis(column(&row, 0)?))).transpose()
}

/// The next item of a lane, whose send is counted.
struct BeginSend {
    now: Timestamp,
    lane: String,
    holder: i64,
}

impl Verb for BeginSend {
    type Answer = NextSend;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<NextSend, Fault> {
        let (now, lane) = (tx.now(self.now), storable(&self.lane));
        if held_until(tx, &lane, self.holder).await?.is_none_or(|until| until <= now) {
            return Ok(NextSend::NotOurs);
        }
        let Some(row) = tx.line.first(sql!("outbox_next"), args![lane]).await? else {
            return Ok(NextSend::Empty);
        };
        let mut next = read(&row, &tx.seals)?;
        if next.not_before > now {
            return Ok(NextSend::NotBefore(tx.by_callers_clock(next.not_before, self.now)));
        }
        exactly(1, tx.line.run(sql!("outbox_begin"), args![next.id, now.millis()]).await?)?;
        next.sends = next.sends.saturating_add(1);
        next.sent_at = Some(now);
        Ok(NextSend::Item(Box::new(next)))
    }
}

/// How a send ended. Who has the lane says so; when its time is over that still holds, as long as nobody else took the lane.
struct EndSend {
    now: Timestamp,
    item: i64,
    holder: i64,
    end: SendEnd,
    last: Option<String>,
    last_status: Option<u16>,
}

impl Verb for EndSend {
    type Answer = bool;

    fn needs(&self) -> Vec<Need> {
        names(&["outbox_sent", "outbox_failed"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let (now, id) = (tx.now(self.now), self.item);
        let found = item(tx.line, &tx.seals, id).await?;
        let Some(found) = found.filter(|found| found.state == ItemState::Pending) else { return Ok(false) };
        if held_until(tx, &found.lane, self.holder).await?.is_none() {
            return Ok(false);
        }
        // A time that was counted from the caller's clock is kept as far away by ours.
        let end = match self.end {
            SendEnd::Again(at) => SendEnd::Again(tx.by_our_clock(at, self.now)),
            SendEnd::NeverLeft(at) => SendEnd::NeverLeft(tx.by_our_clock(at, self.now)),
            SendEnd::Sent => SendEnd::Sent,
            SendEnd::Failed => SendEnd::Failed,
        };
        let ended = Ended { end, last: self.last.clone(), last_status: self.last_status };
        let after = ended.after(now, &found);
        let last = tx.seals.seal_some(Cell::OutboxLast, id, ended.last.as_deref())?.map(Cow::into_owned);
        let [sent_at, ended_at] = [after.sent_at, after.ended_at].map(|at| at.map(Timestamp::millis));
        let (state, sends) = (after.state.number(), i64::from(after.sends));
        let (not_before, last_status) = (after.not_before.millis(), ended.last_status.map(i64::from));
        let row = args![id, state, sends, not_before, sent_at, ended_at, last, last_status];
        exactly(1, tx.line.run(sql!("outbox_end"), row).await?)?;
        if let Some(moved) = after.told {
            tell(tx, now, ItemOf { item: id, lane: &found.lane, key: &found.key }, after.sends, moved)?;
        }
        Ok(true)
    }
}

/// The next few items that failed.
struct FailedItems {
    after: i64,
}

impl Question for FailedItems {
    type Answer = Vec<i64>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<i64>, Fault> {
        let rows = line.all(sql!("outbox_failed"), args![self.after, AT_ONCE]).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }
}

/// Puts failed items back.
struct RetryItems {
    now: Timestamp,
    items: Vec<i64>,
}

impl Verb for RetryItems {
    type Answer = Vec<i64>;

    fn needs(&self) -> Vec<Need> {
        names(&["outbox_retried"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<i64>, Fault> {
        let now = tx.now(self.now);
        let rows = tx.line.all(sql!("outbox_retry"), args![self.items, now.millis()]).await?;
        let read = |row: &Row| Ok((column(row, 0)?, (column(row, 1)?, column(row, 2)?)));
        let mut back: HashMap<i64, (String, String)> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
        let mut retried = Vec::with_capacity(back.len());
        for &id in &self.items {
            if let Some((lane, key)) = back.remove(&id) {
                tell(tx, now, ItemOf { item: id, lane: &lane, key: &key }, 0, ItemMove::Retried)?;
                retried.push(id);
            }
        }
        Ok(retried)
    }
}

/// Takes an item out that is not sent.
struct DiscardItem {
    now: Timestamp,
    item: i64,
}

impl Verb for DiscardItem {
    type Answer = bool;

    fn needs(&self) -> Vec<Need> {
        names(&["outbox_discarded"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let (now, id) = (tx.now(self.now), self.item);
        let Some(row) = tx.line.first(sql!("outbox_discard"), args![id]).await? else { return Ok(false) };
        let of = ItemOf { item: id, lane: column(&row, 0)?, key: column(&row, 1)? };
        tell(tx, now, of, count(column(&row, 2)?), ItemMove::Discarded)?;
        Ok(true)
    }
}

/// Items in their order.
struct ItemsOf {
    query: ItemQuery,
}

impl Question for ItemsOf {
    type Answer = Vec<OutboxItem>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<OutboxItem>, Fault> {
        let ItemQuery { state, lane, after, limit } = &self.query;
        let mut wheres = Wheres::default();
        if let Some(state) = state {
            // Said as the indexes say it.
            wheres.must(&format!("o.state = {}", state.number()));
        }
        if let Some(lane) = lane {
            wheres.must_be("o.lane = {}", lane);
        }
        if let Some(after) = after {
            wheres.must_with("o.id > {}", *after);
        }
        let behind = format!("ORDER BY o.id LIMIT {limit}");
        let text = wheres.query(line.texts().schema(), sql!("outbox_list"), &behind);
        line.all_of(&text, &wheres.args()).await?.iter().map(|row| read(row, seals)).collect()
    }
}

/// One item.
struct ItemOfId {
    item: i64,
}

impl Question for ItemOfId {
    type Answer = Option<OutboxItem>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Self::Answer, Fault> {
        item(line, seals, self.item).await
    }
}

/// Whether nothing was sent before that time, and no save is that old that no item is for.
struct NothingOld {
    sent_before: Timestamp,
}

impl Question for NothingOld {
    type Answer = bool;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<bool, Fault> {
        Ok(line.first(sql!("outbox_over"), args![self.sent_before.millis()]).await?.is_none())
    }
}

/// Forgets items that were sent before a time, and keys of saves that are as old and that no item has.
struct SweepItems {
    sent_before: Timestamp,
    limit: u32,
}

impl Verb for SweepItems {
    type Answer = u64;

    fn isolation(&self) -> Isolation {
        // Takes what it needs, and leaves what others have.
        Isolation::Taking
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Fault> {
        let (before, most) = (self.sent_before.millis(), i64::from(self.limit));
        let rows = tx.line.all(sql!("outbox_old"), args![before, most]).await?;
        let read = |row: &Row| Ok((column(row, 0)?, column::<i64>(row, 1)?.unsigned_abs()));
        let old: Vec<(i64, u64)> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
        let gone: Vec<i64> = old[..few_of(&old)].iter().map(|(id, _)| *id).collect();
        let items = tx.line.run(sql!("outbox_delete"), args![gone]).await?;
        // An item that has just gone holds its key no longer.
        let left = most.saturating_sub(i64::try_from(items).unwrap_or(i64::MAX));
        let rows = tx.line.all(sql!("saved_key_old"), args![before, left]).await?;
        let saves: Vec<String> = rows.iter().map(|row| column(row, 0)).collect::<Result<_, Fault>>()?;
        Ok(items + tx.line.run(sql!("saved_key_drop"), args![saves]).await?)
    }
}

/// The key of a logical save that was kept.
struct SavedKey {
    name: String,
}

impl Question for SavedKey {
    type Answer = Option<String>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Option<String>, Fault> {
        let row = line.first(sql!("saved_key_find"), args![self.name]).await?;
        row.map(|row| column(&row, 0)).transpose()
    }
}

/// Keeps a key, unless one is kept. Of two that do, one is undone and then finds the other's.
struct SaveKey {
    now: Timestamp,
    name: String,
    fresh: String,
}

impl Verb for SaveKey {
    type Answer = String;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<String, Fault> {
        if let Some(row) = tx.line.first(sql!("saved_key_find"), args![self.name]).await? {
            return column(&row, 0);
        }
        let now = tx.now(self.now).millis();
        tx.line.run(sql!("saved_key_put"), args![self.name, self.fresh, now]).await?;
        Ok(self.fresh.clone())
    }
}

/// Forgets the key of a logical save, if it is still this one.
struct ForgetSavedKey {
    name: String,
    key: String,
}

impl Verb for ForgetSavedKey {
    type Answer = bool;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        Ok(tx.line.run(sql!("saved_key_forget"), args![storable(&self.name), storable(&self.key)]).await? > 0)
    }
}
