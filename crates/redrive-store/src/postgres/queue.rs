//! Queues: which there are, and stopping their work for a while.

use std::cell::RefCell;

use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use crate::queue::Queue;
use crate::seal::Seals;
use crate::time::Timestamp;
use crate::told;

/// Every queue, by name.
pub(super) struct QueuesOf;

impl Question for QueuesOf {
    type Answer = Vec<Queue>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<Queue>, Fault> {
        let read = |row: &Row| {
            Ok(Queue {
                name: column(row, 0)?,
                paused_at: column::<Option<i64>>(row, 1)?.map(Timestamp::from_millis),
                paused_why: column(row, 2)?,
            })
        };
        line.all(sql!("queue_list"), args![]).await?.iter().map(read).collect()
    }
}

/// Its work is handed out no more.
pub(super) struct Pause {
    pub(super) now: Timestamp,
    pub(super) queue: String,
    pub(super) why: Option<String>,
}

impl Verb for Pause {
    type Answer = bool;

    fn needs(&self) -> Vec<Need> {
        vec![Need::Name(told::SOURCE.to_owned()), Need::Name("queue_paused".to_owned())]
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let now = tx.now(self.now);
        let mut known = find(tx, &self.queue).await?;
        if known.is_none() {
            tx.line.run(sql!("queue_intern"), args![self.queue.as_str()]).await?;
            known = find(tx, &self.queue).await?;
        }
        let (id, paused) =
            known.ok_or_else(|| Fault::Again(format!("the queue {:?} is gone", self.queue)))?;
        if paused {
            return Ok(false);
        }
        let why = self.why.as_deref().map(storable);
        exactly(1, tx.line.run(sql!("queue_pause"), args![id, Some(now.millis()), why]).await?)?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        let row = told::queue_moved(source_id, "queue_paused", &self.queue, self.why.as_deref());
        tx.batch.event(now, row)?;
        Ok(true)
    }
}

/// Its work is handed out again.
pub(super) struct Resume {
    pub(super) now: Timestamp,
    pub(super) queue: String,
}

impl Verb for Resume {
    type Answer = Option<bool>;

    fn needs(&self) -> Vec<Need> {
        vec![Need::Name(told::SOURCE.to_owned()), Need::Name("queue_resumed".to_owned())]
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<bool>, Fault> {
        let now = tx.now(self.now);
        let Some((id, paused)) = find(tx, &self.queue).await? else { return Ok(None) };
        if !paused {
            return Ok(Some(false));
        }
        exactly(1, tx.line.run(sql!("queue_pause"), args![id, None::<i64>, None::<&str>]).await?)?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        tx.batch.event(now, told::queue_moved(source_id, "queue_resumed", &self.queue, None))?;
        // To whoever waits it is as if its work were new.
        tx.batch.soonest = Some(now);
        Ok(Some(true))
    }
}

/// The number of a queue, and whether it is paused.
async fn find(tx: &Tx<'_>, queue: &str) -> Result<Option<(i64, bool)>, Fault> {
    let Some(row) = tx.line.first(sql!("queue_find"), args![queue]).await? else { return Ok(None) };
    Ok(Some((column(&row, 0)?, column::<Option<i64>>(&row, 1)?.is_some())))
}
