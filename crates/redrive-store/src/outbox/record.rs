//! What stands in a row of the outbox, said once for every store.

use std::time::Duration;

use super::{ItemState, NewItem, OutboxItem, SendEnd};
use crate::error::{Refusal, StoreError, Trouble};
use crate::event::must_be_name;
use crate::row::{count, parse_json};
use crate::seal::{Cell, Seals};
use crate::task::step::json_fits;
use crate::time::Timestamp;
use crate::told::ItemMove;

/// The longest that a lane is held without a word.
pub(crate) const MAX_HOLD: Duration = Duration::from_hours(1);
/// The most bytes of what became of a send.
const MAX_LAST_BYTES: usize = 64 << 10;

pub(crate) fn validate_item(item: &NewItem) -> Result<(), StoreError> {
    must_be_name("lane", &item.lane)?;
    must_be_name("key", &item.key)?;
    must_be_name("hash of the call", &item.call_hash)?;
    json_fits("the call", &item.call)
}

pub(crate) fn validate_saved(name: &str, key: &str) -> Result<(), StoreError> {
    must_be_name("name of a save", name)?;
    must_be_name("key", key)
}

pub(crate) fn validate_last(last: Option<&str>) -> Result<(), StoreError> {
    let bytes = last.map_or(0, str::len);
    if bytes > MAX_LAST_BYTES {
        let what = "what became of the send";
        return Err(Trouble::Refused(Refusal::TooLarge { what, bytes, most: MAX_LAST_BYTES }).into());
    }
    Ok(())
}

/// An item as its columns say it.
#[derive(Debug)]
pub(crate) struct StoredItem {
    pub(crate) id: i64,
    pub(crate) lane: String,
    pub(crate) key: String,
    pub(crate) call: String,
    pub(crate) state: i64,
    pub(crate) sends: i64,
    pub(crate) created_at: i64,
    pub(crate) not_before: i64,
    pub(crate) sent_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) last: Option<String>,
    pub(crate) last_status: Option<i64>,
}

impl StoredItem {
    /// The item, with what is sealed opened.
    pub(crate) fn into_item(self, seals: &Seals) -> Result<OutboxItem, StoreError> {
        Ok(OutboxItem {
            id: self.id,
            lane: self.lane,
            key: self.key,
            call: parse_json(&seals.open_text(Cell::OutboxCall, self.id, self.call)?),
            state: ItemState::from_number(self.state),
            sends: count(self.sends),
            created_at: Timestamp::from_millis(self.created_at),
            not_before: Timestamp::from_millis(self.not_before),
            sent_at: self.sent_at.map(Timestamp::from_millis),
            ended_at: self.ended_at.map(Timestamp::from_millis),
            last: seals.open_some(Cell::OutboxLast, self.id, self.last)?,
            last_status: self.last_status.and_then(|status| u16::try_from(status).ok()),
        })
    }
}

/// How a send ended, and what the far side said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: SendEnd,
    pub(crate) last: Option<String>,
    pub(crate) last_status: Option<u16>,
}

/// What an item is after that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) state: ItemState,
    pub(crate) sends: u32,
    pub(crate) not_before: Timestamp,
    pub(crate) sent_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    /// What is told, when that is the end.
    pub(crate) told: Option<ItemMove>,
}

impl Ended {
    /// What this makes of an item whose send was begun, and so counted.
    pub(crate) fn after(&self, now: Timestamp, found: &OutboxItem) -> After {
        let waits = After {
            state: ItemState::Pending,
            sends: found.sends,
            not_before: found.not_before,
            sent_at: found.sent_at,
            ended_at: None,
            told: None,
        };
        let (state, moved) = match self.end {
            SendEnd::Again(not_before) => return After { not_before, ..waits },
            SendEnd::NeverLeft(not_before) => {
                let sends = found.sends.saturating_sub(1);
                return After { not_before, sends, sent_at: found.sent_at.filter(|_| sends > 0), ..waits };
            }
            SendEnd::Sent => (ItemState::Sent, ItemMove::Sent(self.last_status)),
            SendEnd::Failed => (ItemState::Failed, ItemMove::Failed(self.last_status)),
        };
        After { state, ended_at: Some(now), told: Some(moved), ..waits }
    }
}
