//! Completing an idempotency key in the transaction of what it answers for, the caller's own or one that enqueues: the answer is there
//! if and only if that is.

use std::time::Duration;

use super::enqueue;
use super::enqueue_in::Guest;
use super::fault::Fault;
use super::key_rows::KeyAnswers;
use super::key_take::{Record, answer_row};
use super::line::args;
use super::memory::Need;
use super::texts::sql;
use super::tx::{Isolation, Tx};
use super::verb::Verb;
use crate::error::{StoreError, Trouble};
use crate::idempotency::record::validate_response;
use crate::idempotency::{Finish, KeyHold, KeyState, KeyedRequest, StoredResponse};
use crate::job::{Enqueued, NewJob};
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

/// Enqueues for a request, and completes its key.
pub(super) struct EnqueueForKey {
    pub(super) now: Timestamp,
    pub(super) jobs: Vec<NewJob>,
    pub(super) request: KeyedRequest,
}

impl Verb for EnqueueForKey {
    type Answer = Option<Vec<Enqueued>>;

    fn needs(&self) -> Vec<Need> {
        enqueue::needs(self.jobs.iter()).collect()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Taking
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Vec<Enqueued>>, Fault> {
        let KeyedRequest { hold, keep_for, answer } = &self.request;
        let rows = tx.line.all(sql!("idempotency_wait"), args![hold.record]).await?;
        let Some(record) = rows.first().map(Record::read).transpose()? else { return Ok(None) };
        if record.incarnation != hold.incarnation || record.standing.state == KeyState::Completed {
            return Ok(None);
        }
        let now = tx.now(self.now);
        let mut claims = enqueue::claim(tx.line, &tx.memory, self.jobs.iter()).await?;
        let mut added = Vec::with_capacity(self.jobs.len());
        for new in &self.jobs {
            added.push(enqueue::apply_one(tx, &mut claims, (self.now, now), new, new.parent, None)?);
        }
        let response = answer(&added);
        validate_response(&response)?;
        let row = answer_row(&tx.seals, record.id, now, &response, *keep_for)?;
        tx.batch.keys.answers.push(row);
        Ok(Some(added))
    }
}
