//! What stands in a row of the outbox, said once for every store.

use super::{ItemState, NewItem, OutboxItem};
use crate::error::StoreError;
use crate::event::must_be_name;
use crate::row::{count, parse_json};
use crate::seal::{Cell, Seals};
use crate::task::step::json_fits;
use crate::time::Timestamp;

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
