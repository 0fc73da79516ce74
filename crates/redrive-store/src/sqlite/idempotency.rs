//! Idempotency keys: taken before their request is run, completed with its answer.

use std::time::Duration;

use super::Sqlite;
use crate::Answer;
use crate::error::Trouble;
use crate::idempotency::{
    Claimed, Finish, Idempotency, KeyClaim, KeyCounts, KeyHold, KeyQuery, KeyRecord, KeyState, KeysSwept,
    StoredResponse,
};
use crate::time::Timestamp;

impl Idempotency for Sqlite {
    fn claim_key(&self, _now: Timestamp, _claim: KeyClaim) -> Answer<'_, Claimed> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn renew_key(&self, _now: Timestamp, _hold: KeyHold, _hold_for: Duration) -> Answer<'_, Finish> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn complete_key(
        &self,
        _now: Timestamp,
        _hold: KeyHold,
        _response: StoredResponse,
        _keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn release_key(&self, _now: Timestamp, _hold: KeyHold, _why: Option<String>) -> Answer<'_, Finish> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn give_up_key(
        &self,
        _now: Timestamp,
        _hold: KeyHold,
        _why: String,
        _keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn keys(&self, _query: KeyQuery) -> Answer<'_, Vec<KeyRecord>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn key(&self, _record: i64) -> Answer<'_, Option<(KeyRecord, Option<StoredResponse>)>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn reset_key(
        &self,
        _now: Timestamp,
        _record: i64,
        _seen: KeyState,
        _why: Option<String>,
    ) -> Answer<'_, Option<KeyRecord>> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn key_standing(&self) -> Answer<'_, (u64, u64)> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn count_keys(&self, _now: Timestamp, _counts: KeyCounts) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }

    fn sweep_keys(&self, _now: Timestamp, _keep_for: Duration, _limit: u32) -> Answer<'_, KeysSwept> {
        Box::pin(std::future::ready(Err(Trouble::Database("not there yet".to_owned()).into())))
    }
}
