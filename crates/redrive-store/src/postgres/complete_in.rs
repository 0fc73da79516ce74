//! Completing an idempotency key inside the caller's own transaction: the answer is there if and only if what it answers for is.

use std::time::Duration;

use super::enqueue_in::Guest;
use super::fault::Fault;
use super::key_rows::KeyAnswers;
use super::key_take::{Record, answer_row};
use super::line::args;
use super::texts::sql;
use crate::error::{StoreError, Trouble};
use crate::idempotency::record::validate_response;
use crate::idempotency::{Finish, KeyHold, KeyState, StoredResponse};
use crate::seal::Keeper;
use crate::time::Timestamp;

/// By the database's clock, unless another time is given.
pub(super) async fn complete(
    keeper: &Keeper,
    guest: &Guest<'_>,
    now: Option<i64>,
    hold: KeyHold,
    response: &StoredResponse,
    keep_for: Duration,
) -> Result<Finish, StoreError> {
    validate_response(response)?;
    let completed = async {
        let store = guest.store().await?;
        if store.id.cast_unsigned() != keeper.store_id() {
            return Err(StoreError::from(Trouble::Replaced).into());
        }
        let seals = guest.seals(keeper, store.key_epoch).await?;
        // Somebody who has taken hold of it is waited for.
        let rows = guest.all(sql!("idempotency_wait"), args![hold.record]).await?;
        let Some(record) = rows.first().map(Record::read).transpose()? else { return Ok(Finish::Lost) };
        // Completed already, also by the same holder: a transaction whose commit was not heard of has done all this before.
        if record.incarnation != hold.incarnation || record.standing.state == KeyState::Completed {
            return Ok(Finish::Lost);
        }
        let now = now.map_or(store.now, Timestamp::from_millis);
        let mut answers = KeyAnswers::default();
        answers.push(answer_row(&seals, record.id, now, response, keep_for)?);
        guest.run(sql!("idempotency_complete"), &answers.args()).await?;
        Ok(Finish::Done)
    };
    completed.await.map_err(Fault::into_error)
}
