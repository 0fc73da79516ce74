//! The outbox: calls that wait for the network, in their order.

use std::time::Duration;

use super::Postgres;
use crate::Answer;
use crate::error::Trouble;
use crate::outbox::{Added, ItemQuery, NewItem, NextSend, Outbox, OutboxItem, SendEnd};
use crate::time::Timestamp;

impl Outbox for Postgres {
    fn add_item(&self, _now: Timestamp, _item: NewItem) -> Answer<'_, Added> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn pending_lanes(&self) -> Answer<'_, Vec<String>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn hold_lane(
        &self,
        _now: Timestamp,
        _lane: String,
        _holder: i64,
        _hold_for: Duration,
    ) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn leave_lane(&self, _lane: String, _holder: i64) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn begin_send(&self, _now: Timestamp, _lane: String, _holder: i64) -> Answer<'_, NextSend> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn end_send(
        &self,
        _now: Timestamp,
        _item: i64,
        _holder: i64,
        _end: SendEnd,
        _last: Option<String>,
        _last_status: Option<u16>,
    ) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn retry_items(&self, _now: Timestamp, _items: Vec<i64>) -> Answer<'_, Vec<i64>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn discard_item(&self, _now: Timestamp, _item: i64) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn items(&self, _query: ItemQuery) -> Answer<'_, Vec<OutboxItem>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn item(&self, _item: i64) -> Answer<'_, Option<OutboxItem>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn sweep_items(&self, _sent_before: Timestamp, _limit: u32) -> Answer<'_, u64> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn saved_key(&self, _now: Timestamp, _name: String, _fresh: String) -> Answer<'_, String> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn forget_saved_key(&self, _name: String) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }
}
