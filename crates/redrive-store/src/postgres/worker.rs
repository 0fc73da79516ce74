//! Who is there: every start of a worker is a new incarnation, whose presence must be renewed.

use std::cell::RefCell;
use std::time::Duration;

use tokio_postgres::Row;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::id::WorkerId;
use crate::row;
use crate::seal::Seals;
use crate::time::{Timestamp, whole_millis as millis};
use crate::worker::{Takes, WorkerPresence};

/// A fresh incarnation.
pub(super) struct Register {
    pub(super) now: Timestamp,
    pub(super) label: String,
    pub(super) presence_for: Duration,
}

impl Verb for Register {
    type Answer = WorkerId;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<WorkerId, Fault> {
        let now = tx.now(self.now).millis();
        let values = (storable(&self.label), millis(self.presence_for));
        let row = tx.line.first(sql!("worker_insert"), args![values.0, now, values.1]).await?;
        let row = row.ok_or_else(|| Fault::corrupt("a worker got no number"))?;
        Ok(WorkerId(column(&row, 0)?))
    }
}

/// It says what it takes.
pub(super) struct TakesOnly {
    pub(super) worker: WorkerId,
    pub(super) takes: Takes,
}

impl Verb for TakesOnly {
    type Answer = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let (queues, kinds) = (row::names(&self.takes.queues), row::names(&self.takes.kinds));
        tx.line.run(sql!("worker_takes"), args![self.worker.0, queues, kinds]).await?;
        Ok(())
    }
}

/// Those whose presence lasts.
pub(super) struct WorkersOf {
    /// By this clock; absent: by the database's.
    pub(super) now: Option<i64>,
}

impl Question for WorkersOf {
    type Answer = Vec<WorkerPresence>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<WorkerPresence>, Fault> {
        let read = |row: &Row| {
            Ok(WorkerPresence {
                id: WorkerId(column(row, 0)?),
                label: column(row, 1)?,
                started_at: Timestamp::from_millis(column(row, 2)?),
                seen_at: Timestamp::from_millis(column(row, 3)?),
                expires_at: Timestamp::from_millis(column(row, 4)?),
                takes: row::takes(column(row, 5)?, column(row, 6)?),
            })
        };
        line.all(sql!("worker_list"), args![self.now]).await?.iter().map(read).collect()
    }
}
