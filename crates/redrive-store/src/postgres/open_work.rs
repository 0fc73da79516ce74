//! What goes on and might be moved on, tasks and redrives, a page at a time.

use std::cell::RefCell;

use tokio_postgres::Row;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::sql;
use super::verb::Question;
use crate::redrive::{OpenRun, RunId};
use crate::seal::Seals;
use crate::task::{OpenTask, TaskId};

/// A page of the tasks that go on.
pub(super) struct OpenTasks {
    /// By this clock; absent: by the database's.
    pub(super) now: Option<i64>,
    pub(super) holder: i64,
    pub(super) after: Option<TaskId>,
    pub(super) limit: u32,
}

impl Question for OpenTasks {
    type Answer = Vec<OpenTask>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<OpenTask>, Fault> {
        let (after, limit) = (self.after.map_or(0, |after| after.0), i64::from(self.limit));
        let asked = args![self.now, self.holder, after, limit];
        let read = |row: &Row| {
            let (id, version) = (TaskId(column(row, 0)?), column(row, 1)?);
            Ok(OpenTask { id, version, held: column(row, 2)?, waits: column(row, 3)? })
        };
        line.all(sql!("task_open"), asked).await?.iter().map(read).collect()
    }
}

/// A page of the runs that go on.
pub(super) struct OpenRuns {
    /// By this clock; absent: by the database's.
    pub(super) now: Option<i64>,
    pub(super) holder: i64,
    pub(super) after: Option<RunId>,
    pub(super) limit: u32,
}

impl Question for OpenRuns {
    type Answer = Vec<OpenRun>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<OpenRun>, Fault> {
        let (after, limit) = (self.after.map_or(0, |after| after.0), i64::from(self.limit));
        let asked = args![self.now, self.holder, after, limit];
        let read = |row: &Row| {
            Ok(OpenRun { id: RunId(column(row, 0)?), version: column(row, 1)?, held: column(row, 2)? })
        };
        line.all(sql!("run_open"), asked).await?.iter().map(read).collect()
    }
}
