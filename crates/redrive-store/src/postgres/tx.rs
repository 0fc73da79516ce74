//! One writing transaction: the database's clock, the numbers of its events, and what it is going to write.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::{join, try_join};

use super::batch::Batch;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::sql;
use crate::id::EventSeq;
use crate::time::Timestamp;

/// Whose clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// The database's, so that machines whose clocks differ agree.
    Database,
    /// Each caller's: for tests, which make time pass by themselves.
    Caller,
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
    pub(super) batch: Batch,
    clock: Clock,
    at: Timestamp,
    number: i64,
}

impl<'a> Tx<'a> {
    /// Begins. Whatever `beside` asks goes out with it, and is answered with it.
    pub(super) async fn begin<T>(
        line: &'a Line,
        memory: &Rc<RefCell<Memory>>,
        clock: Clock,
        isolation: Isolation,
        beside: impl Future<Output = T>,
    ) -> Result<(Tx<'a>, T), Fault> {
        let words = match isolation {
            Isolation::Taking => "BEGIN",
            Isolation::Moment => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        };
        let opening =
            async { try_join(line.say(words), line.first(sql!("transaction_open"), args![])).await };
        let (opened, beside) = join(opening, beside).await;
        let read = opened.and_then(|((), row)| {
            let row = row.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
            Ok((Timestamp::from_millis(column(&row, 0)?), column(&row, 1)?, column(&row, 2)?))
        });
        let (at, first_event, number) = match read {
            Ok(read) => read,
            Err(fault) => {
                undo(line).await;
                return Err(fault);
            }
        };
        let batch = Batch::new(Rc::clone(memory), first_event);
        Ok((Tx { line, memory: Rc::clone(memory), batch, clock, at, number }, beside))
    }

    /// The time, for a caller whose clock says `now`.
    pub(super) fn now(&self, now: Timestamp) -> Timestamp {
        match self.clock {
            Clock::Database => self.at,
            Clock::Caller => now,
        }
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
        let ahead = self.now(now).millis().saturating_sub(now.millis());
        Timestamp::from_millis(time.millis().saturating_sub(ahead))
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

/// The connection goes back to the others: it must not keep a transaction.
async fn undo(line: &Line) {
    if let Err(fault) = line.say("ROLLBACK").await {
        tracing::debug!(?fault, "a transaction could not be undone, and ends with its connection");
    }
}
