//! Doing something until it is done: again after a lost connection, a deadlock or a restart, never twice, and not for ever.

use std::rc::Rc;

use super::desk::Room;
use super::fault::Fault;
use super::group::{Committed, Failed, Group};
use super::housekeeping::{Fold, Folded};
use super::line::{Line, args, column};
use super::memory::learn;
use super::patience::Patience;
use super::texts::sql;
use super::tx::{Tx, seals};
use super::verb::{AnyQuestion, AnyVerb};
use crate::error::{StoreError, Trouble};

/// A fresh id for one group of writes.
fn operation_id() -> Result<String, Fault> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Fault::Final(Trouble::Database(error.to_string()).into()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// Whether the transaction of this number and operation was committed; nothing while it is under way. In this order, and as two
/// statements: what ended before the second one began is seen by it.
async fn outcome(line: &Line, operation: &str, number: i64) -> Result<Option<bool>, Fault> {
    let row = line.first(sql!("operation_under_way"), args![number]).await?;
    let row = row.ok_or_else(|| Fault::corrupt("a question without an answer"))?;
    if column(&row, 0)? {
        return Ok(None);
    }
    Ok(Some(line.first(sql!("operation_find"), args![operation]).await?.is_some()))
}

impl Room {
    /// Does a group until it is done, or until that is hopeless.
    pub(super) async fn insist(&self, group: &mut Group) -> Result<Committed, StoreError> {
        let operation = operation_id().map_err(Fault::into_error)?;
        let mut patience = Patience::new(self.pool.down_since());
        loop {
            let tried = match self.pool.line().await {
                Err(fault) => Err(Failed::from(fault)),
                Ok(line) => {
                    let tried = match self.look_back(&line).await {
                        Ok(()) => Box::pin(group.run(self, &line, &operation)).await,
                        Err(fault) => Err(fault.into()),
                    };
                    if let Err(Failed { fault: Fault::Lost(_), .. }) = &tried {
                        line.discard();
                    }
                    tried
                }
            };
            match tried {
                Ok(committed) => {
                    self.remember(operation);
                    return Ok(committed);
                }
                Err(failed) => {
                    if self.overcome(failed, &operation, &mut patience).await? {
                        // It was committed, only the answer was lost. What it read of the clock does not matter.
                        let now = crate::time::Timestamp::default();
                        return Ok(Committed { now, soonest: Some(now), latest: None, idle: Vec::new() });
                    }
                }
            }
        }
    }

    /// Waits until the same may be tried again. `true` when there is no need: it had been committed.
    async fn overcome(
        &self,
        failed: Failed,
        operation: &str,
        patience: &mut Patience,
    ) -> Result<bool, StoreError> {
        let Failed { fault, maybe } = failed;
        if let Fault::Lost(why) = &fault {
            self.pool.note(false);
            self.doubts.set(true);
            tracing::warn!(%why, "the database does not answer");
        }
        if let Some(number) = maybe
            && self.was_committed(operation, number, patience).await?
        {
            self.pool.note(true);
            return Ok(true);
        }
        match patience.after(&fault) {
            Some(delay) => tokio::time::sleep(delay).await,
            None => return Err(fault.into_error()),
        }
        Ok(false)
    }

    /// Whether a transaction whose answer was lost had been committed. Asks until somebody knows.
    async fn was_committed(
        &self,
        operation: &str,
        number: i64,
        patience: &mut Patience,
    ) -> Result<bool, StoreError> {
        let mut last = String::new();
        loop {
            let asked = async {
                let line = self.pool.line().await?;
                let known = outcome(&line, operation, number).await;
                if let Err(Fault::Lost(_)) = &known {
                    line.discard();
                }
                known
            };
            let fault = match asked.await {
                Ok(Some(committed)) => return Ok(committed),
                // The server has not noticed yet that we are gone.
                Ok(None) => Fault::Lost("a transaction of ours is still under way".to_owned()),
                Err(fault) => fault,
            };
            if let Fault::Lost(words) | Fault::Again(words) = &fault {
                last.clone_from(words);
            }
            match patience.after(&fault) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(Trouble::UnknownOutcome(last).into()),
            }
        }
    }

    /// A verb in a transaction of its own.
    pub(super) async fn carry_out(self: Rc<Room>, mut verb: Box<dyn AnyVerb>) {
        let _busy = self.busy();
        let outcome = self.insist_on_verb(&mut *verb).await;
        if outcome.is_ok() {
            self.to_fold.set(true);
        }
        verb.answer(outcome);
    }

    /// Adds up the counters' changes, a bounded number at a time.
    pub(super) async fn add_up(&self, forget: bool) {
        let _busy = self.busy();
        loop {
            let (mut verb, folded) = super::verb::verb(Fold { forget });
            let outcome = self.insist_on_verb(&mut *verb).await;
            verb.answer(outcome);
            match folded.await {
                Ok(Ok(Folded { more: true, .. })) if !self.is_closing() => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the counters' changes were not added up");
                    break;
                }
                _ => break,
            }
        }
    }

    async fn insist_on_verb(&self, verb: &mut dyn AnyVerb) -> Result<(), StoreError> {
        let operation = operation_id().map_err(Fault::into_error)?;
        let mut patience = Patience::new(self.pool.down_since());
        loop {
            let tried = match self.pool.line().await {
                Err(fault) => Err(Failed::from(fault)),
                Ok(line) => {
                    let tried = match self.look_back(&line).await {
                        Ok(()) => self.try_verb(&line, verb, &operation).await,
                        Err(fault) => Err(fault.into()),
                    };
                    if let Err(Failed { fault: Fault::Lost(_), .. }) = &tried {
                        line.discard();
                    }
                    tried
                }
            };
            match tried {
                Ok(()) => {
                    self.remember(operation);
                    return Ok(());
                }
                Err(failed) => {
                    if self.overcome(failed, &operation, &mut patience).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn try_verb(&self, line: &Line, verb: &mut dyn AnyVerb, operation: &str) -> Result<(), Failed> {
        let lacking = self.memory.borrow().lacks(verb.needs());
        learn(line, &self.memory, &lacking).await?;
        let (mut tx, ()) =
            Tx::begin(line, &self.memory, &self.keeper, self.clock, verb.isolation(), async {}).await?;
        if let Err(fault) = verb.run(&mut tx).await {
            tx.abandon().await;
            return Err(fault.into());
        }
        let number = tx.number();
        let made_ready = tx.batch.soonest.is_some();
        match tx.commit(operation).await {
            Ok(()) => {
                if made_ready {
                    self.news.set(true);
                    self.wake_herald.notify_one();
                    self.look_again();
                    self.look_soon();
                }
                Ok(())
            }
            Err(fault @ Fault::Lost(_)) => Err(Failed { fault, maybe: Some(number) }),
            Err(fault) => Err(fault.into()),
        }
    }

    /// A look at one moment of the store.
    pub(super) async fn look_up(self: Rc<Room>, mut question: Box<dyn AnyQuestion>) {
        let _busy = self.busy();
        let mut patience = Patience::new(self.pool.down_since());
        let outcome = loop {
            if question.abandoned() {
                return;
            }
            let asked = async {
                let line = self.pool.line().await?;
                let asked = async {
                    line.say("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
                    let epoch = line.first(sql!("key_epoch_read"), args![]).await?;
                    let epoch = epoch.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
                    let seals = seals(&line, &self.keeper, column(&epoch, 0)?).await?;
                    line.allow(question.may_take());
                    let answered = question.ask(&line, &self.memory, &seals).await;
                    line.say("COMMIT").await?;
                    answered
                };
                let asked = asked.await;
                if let Err(Fault::Lost(_)) = &asked {
                    line.discard();
                }
                asked
            };
            match asked.await {
                Ok(()) => {
                    self.pool.note(true);
                    break Ok(());
                }
                Err(fault) => match patience.after(&fault) {
                    Some(delay) => {
                        if let Fault::Lost(_) = fault {
                            self.pool.note(false);
                        }
                        tokio::time::sleep(delay).await;
                    }
                    None => break Err(fault.into_error()),
                },
            }
        };
        question.answer(outcome);
    }
}
