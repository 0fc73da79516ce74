//! One writing transaction: the database's clock, the numbers of its events, and what it is going to write.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{join, try_join, try_join3};

use super::batch::Batch;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::sql;
use crate::error::{StoreError, Trouble};
use crate::id::EventSeq;
use crate::seal::{Keeper, KeyRow, Seals};
use crate::time::Timestamp;

/// Whose clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// The database's, so that machines whose clocks differ agree.
    Database,
    /// Each caller's: for tests, which make time pass by themselves.
    Caller,
}

/// A server that hears nothing more from us, although the connection seems to be there, lets go of what we had locked. Said in each
/// transaction: a pooler gives us another session each time.
macro_rules! forgotten {
    () => {
        "SET LOCAL idle_in_transaction_session_timeout = '15s'"
    };
}

/// What takes goes by the indexes made for it. The planner's numbers are always old here: a queue is empty in one minute and has a
/// million rows in the next, and a plan for the one reads or sorts the whole of the other, each time that somebody takes a hundred.
macro_rules! by_index {
    () => {
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; \
         SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
    };
}

/// How sure the reads of a transaction are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Takes what it needs by deleting or locking it.
    Taking,
    /// Reads one moment; the database undoes it when others changed what it read and writes.
    Moment,
}

pub(super) struct Tx<'a> {
    pub(super) line: &'a Line,
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) keeper: &'a Keeper,
    /// The keys that hold in this transaction.
    pub(super) seals: Arc<Seals>,
    pub(super) batch: Batch,
    clock: Clock,
    at: Timestamp,
    number: i64,
    /// No work is to be handed out: the store is about to move.
    pub(super) draining: bool,
    /// The queues whose work is not handed out.
    paused: Vec<i64>,
}

impl<'a> Tx<'a> {
    /// Begins. Whatever `beside` asks goes out with it, and is answered with it.
    pub(super) async fn begin<T>(
        line: &'a Line,
        memory: &Rc<RefCell<Memory>>,
        keeper: &'a Keeper,
        clock: Clock,
        isolation: Isolation,
        beside: impl Future<Output = T>,
    ) -> Result<(Tx<'a>, T), Fault> {
        let (words, open) = match isolation {
            Isolation::Taking => {
                (concat!("BEGIN;", forgotten!(), ";", by_index!()), sql!("transaction_open"))
            }
            Isolation::Moment => (
                concat!("BEGIN ISOLATION LEVEL REPEATABLE READ;", forgotten!()),
                sql!("transaction_open_moment"),
            ),
        };
        let opening = async {
            let number = line.first(sql!("transaction_number"), args![]);
            try_join3(line.say(words), number, line.first(open, args![])).await
        };
        let (opened, beside) = join(opening, beside).await;
        let read = async {
            let missing = || Fault::corrupt("the store's own row is missing");
            let ((), number, row) = opened?;
            let (number, row) = (number.ok_or_else(missing)?, row.ok_or_else(missing)?);
            if column::<i64>(&row, 4)?.cast_unsigned() != keeper.store_id() {
                return Err(StoreError::from(Trouble::Replaced).into());
            }
            let seals = seals(line, keeper, column(&row, 2)?).await?;
            let at = Timestamp::from_millis(column(&row, 0)?);
            Ok::<_, Fault>((
                at,
                column(&row, 1)?,
                column(&number, 0)?,
                seals,
                column(&row, 3)?,
                column(&row, 5)?,
            ))
        };
        let (at, first_event, number, seals, draining, paused): (_, _, _, _, _, Vec<i64>) = match read.await {
            Ok(read) => read,
            Err(fault) => {
                undo(line).await;
                return Err(fault);
            }
        };
        memory.borrow_mut().some_paused = !paused.is_empty();
        let batch = Batch::new(Rc::clone(memory), Arc::clone(&seals), first_event);
        Ok((
            Tx { line, memory: Rc::clone(memory), keeper, seals, batch, clock, at, number, draining, paused },
            beside,
        ))
    }

    /// The time, for a caller whose clock says `now`.
    pub(super) fn now(&self, now: Timestamp) -> Timestamp {
        match self.clock {
            Clock::Database => self.at,
            Clock::Caller => now,
        }
    }

    /// Whether the work of this lane is not handed out.
    pub(super) fn is_paused(&self, lane: i64) -> bool {
        !self.paused.is_empty()
            && self.memory.borrow().lane_of(lane).is_some_and(|lane| self.paused.contains(&lane.queue_id))
    }

    /// Whether the database's clock decides.
    pub(super) fn is_by_our_clock(&self) -> bool {
        self.clock == Clock::Database
    }

    /// The database's own time.
    pub(super) fn now_of_database(&self) -> Timestamp {
        self.at
    }

    /// A time that a caller counted from its own `now`, by the clock that decides.
    pub(super) fn by_our_clock(&self, time: Timestamp, now: Timestamp) -> Timestamp {
        let ahead = self.now(now).millis().saturating_sub(now.millis());
        Timestamp::from_millis(time.millis().saturating_add(ahead))
    }

    /// The same the other way: what a caller's own clock will show then.
    pub(super) fn by_callers_clock(&self, time: Timestamp, now: Timestamp) -> Timestamp {
        by_callers_clock(time, now, self.now(now))
    }

    /// Whether what this transaction tells comes after that event in the stream.
    pub(super) fn comes_after(&self, event: EventSeq) -> bool {
        self.batch.is_after(event.0)
    }

    /// This transaction's own number.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Writes what was said and commits. From the moment this is polled nobody knows what became of it until it answers,
    /// except by the operation's id.
    pub(super) async fn commit(&mut self, operation: &str) -> Result<(), Fault> {
        let at = self.at.millis();
        let line = self.line;
        let last = async {
            let remembered = async { line.run(sql!("operation_insert"), args![operation, at]).await };
            try_join(remembered, line.say("COMMIT")).await.map(|_| ())
        };
        self.batch.write_and(line, last).await
    }

    /// Ends without a trace.
    pub(super) async fn abandon(self) {
        undo(self.line).await;
    }
}

/// What a caller whose clock says `callers_now` sees on it at that time, while the clock that decides says `now`.
pub(super) fn by_callers_clock(time: Timestamp, callers_now: Timestamp, now: Timestamp) -> Timestamp {
    let ahead = now.millis().saturating_sub(callers_now.millis());
    Timestamp::from_millis(time.millis().saturating_sub(ahead))
}

/// The keys that hold in this epoch. Refuses a store whose keys we do not have.
pub(super) async fn seals(line: &Line, keeper: &Keeper, epoch: i64) -> Result<Arc<Seals>, Fault> {
    if let Some(seals) = keeper.known(epoch) {
        return Ok(seals);
    }
    Ok(keeper.learn(epoch, &keys(line).await?)?)
}

/// The keys of the store, the oldest first.
pub(super) async fn keys(line: &Line) -> Result<Vec<KeyRow>, Fault> {
    let rows = line.all(sql!("seal_key_list"), args![]).await?;
    rows.iter().map(|row| Ok(KeyRow { key_id: column(row, 0)?, proof: column(row, 1)? })).collect()
}

/// The connection goes back to the others: it must not keep a transaction.
async fn undo(line: &Line) {
    if let Err(fault) = line.say("ROLLBACK").await {
        tracing::debug!(?fault, "a transaction could not be undone, and ends with its connection");
    }
}
