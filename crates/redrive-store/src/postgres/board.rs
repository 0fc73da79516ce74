//! The board. Whoever changes a notice takes its row, so that those who change others do not wait; who waited for it sees that it comes
//! too late.

use std::cell::RefCell;
use std::collections::HashMap;

use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::sql;
use super::tx::{Isolation, Tx};
use super::verb::{Question, Verb};
use super::{Postgres, enqueue, event};
use crate::Answer;
use crate::board::{Board, Notice, NoticeChange, Posted, StoredNotice, bound_row, most, validate};
use crate::event::NewEvent;
use crate::job::{NewJob, is_name};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

impl Board for Postgres {
    fn notice(&self, space: String, name: String) -> Answer<'_, Option<Notice>> {
        Box::pin(async move {
            if !is_name(&space) || !is_name(&name) {
                return Ok(None);
            }
            Ok(self.read(Notices { space, which: Which::Named(name) }).await?.pop())
        })
    }

    fn notices(&self, space: String, after: Option<String>, limit: u32) -> Answer<'_, Vec<Notice>> {
        let after = after.unwrap_or_default();
        Box::pin(self.list(space, Which::After { after, most: most(limit) }))
    }

    fn due_notices(&self, now: Timestamp, space: String, limit: u32) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.list(space, Which::Due { by: now.millis(), most: most(limit) }))
    }

    fn post(
        &self,
        now: Timestamp,
        changes: Vec<NoticeChange>,
        jobs: Vec<NewJob>,
        events: Vec<NewEvent>,
    ) -> Answer<'_, Posted> {
        Box::pin(async move {
            validate(&changes, &jobs, &events)?;
            self.write(Post { now, changes, jobs, events }).await
        })
    }
}

impl Postgres {
    /// Nothing is put up under what is no name.
    async fn list(&self, space: String, which: Which) -> Result<Vec<Notice>, crate::StoreError> {
        let after_what_is_no_text = matches!(&which, Which::After { after, .. } if after.contains('\0'));
        if !is_name(&space) || after_what_is_no_text {
            return Ok(Vec::new());
        }
        self.read(Notices { space, which }).await
    }
}

/// Notices of a space.
struct Notices {
    space: String,
    which: Which,
}

enum Which {
    Named(String),
    After { after: String, most: i64 },
    Due { by: i64, most: i64 },
}

impl Question for Notices {
    type Answer = Vec<Notice>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Notice>, Fault> {
        let space = &self.space;
        let rows = match &self.which {
            Which::Named(name) => line.all(sql!("notice_read"), args![*space, *name]).await?,
            Which::After { after, most } => {
                line.all(sql!("notice_list"), args![*space, *after, *most]).await?
            }
            Which::Due { by, most } => line.all(sql!("notice_due"), args![*space, *by, *most]).await?,
        };
        let read = |row: &Row| {
            let stored = StoredNotice {
                space: column(row, 0)?,
                name: column(row, 1)?,
                version: column(row, 2)?,
                value: column(row, 3)?,
                due_at: column(row, 4)?,
                changed_at: column(row, 5)?,
            };
            Ok(stored.into_notice(seals)?)
        };
        rows.iter().map(read).collect()
    }
}

/// Changes notices, and adds what belongs to it.
struct Post {
    now: Timestamp,
    changes: Vec<NoticeChange>,
    jobs: Vec<NewJob>,
    events: Vec<NewEvent>,
}

impl Verb for Post {
    type Answer = Posted;

    fn needs(&self) -> Vec<Need> {
        enqueue::needs(self.jobs.iter()).chain(event::needs(self.events.iter())).collect()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Taking
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Posted, Fault> {
        let Some(ids) = self.take(tx).await? else { return Ok(Posted::Outrun) };
        let now = tx.now(self.now);
        let versions = self.change(tx, now, &ids).await?;
        let mut claims = enqueue::claim(tx.line, &tx.memory, self.jobs.iter()).await?;
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for new in &self.jobs {
            jobs.push(enqueue::apply_one(tx, &mut claims, (self.now, now), new, new.parent, None)?);
        }
        event::append(tx, now, &self.events)?;
        Ok(Posted::Done { versions, jobs })
    }
}

impl Post {
    /// Takes the notices that are there; nothing when one of them is not what was seen.
    async fn take(&self, tx: &Tx<'_>) -> Result<Option<Vec<Option<i64>>>, Fault> {
        if self.changes.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let spaces: Vec<&str> = self.changes.iter().map(|change| &*change.space).collect();
        let names: Vec<&str> = self.changes.iter().map(|change| &*change.name).collect();
        let rows = tx.line.all(sql!("notice_take"), args![spaces, names]).await?;
        let mut there: HashMap<(&str, &str), (i64, i64)> = HashMap::with_capacity(rows.len());
        for row in &rows {
            there.insert((column(row, 1)?, column(row, 2)?), (column(row, 0)?, column(row, 3)?));
        }
        let mut ids = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let found = there.get(&(&*change.space, &*change.name));
            if found.map(|(_, version)| *version) != change.seen {
                return Ok(None);
            }
            ids.push(found.map(|(id, _)| *id));
        }
        Ok(Some(ids))
    }

    /// Writes what was taken; answers the new versions.
    async fn change(
        &self,
        tx: &mut Tx<'_>,
        now: Timestamp,
        ids: &[Option<i64>],
    ) -> Result<Vec<Option<i64>>, Fault> {
        let mut versions = Vec::with_capacity(ids.len());
        let (mut gone, mut changed, mut new) = (Vec::new(), Written::default(), Written::default());
        for (change, id) in self.changes.iter().zip(ids) {
            let Some(value) = &change.value else {
                gone.extend(*id);
                versions.push(None);
                continue;
            };
            let version = tx.batch.next_event()?;
            let bound = bound_row(&change.space, &change.name);
            let value = tx.seals.seal_text(Cell::NoticeValue, bound, value)?.into_owned();
            let to = if id.is_some() { &mut changed } else { &mut new };
            to.push(id.unwrap_or(version), version, change, value);
            versions.push(Some(version));
        }
        let (line, at) = (tx.line, now.millis());
        if !gone.is_empty() {
            exactly(gone.len() as u64, line.run(sql!("notice_delete"), args![gone]).await?)?;
        }
        if !changed.ids.is_empty() {
            let Written { ids, versions, values, due, .. } = &changed;
            let row = args![*ids, *versions, *values, at, *due];
            exactly(ids.len() as u64, line.run(sql!("notice_change"), row).await?)?;
        }
        if !new.ids.is_empty() {
            let Written { ids, spaces, names, values, due, .. } = &new;
            let row = args![*ids, *spaces, *names, *values, at, *due];
            if line.run(sql!("notice_insert"), row).await? < ids.len() as u64 {
                // Looked at again, this is outrun, and what was written here is undone.
                return Err(Fault::Again("a notice was put up in the same moment".to_owned()));
            }
        }
        Ok(versions)
    }
}

/// Notices on their way, a column at a time.
#[derive(Default)]
struct Written<'a> {
    ids: Vec<i64>,
    versions: Vec<i64>,
    spaces: Vec<&'a str>,
    names: Vec<&'a str>,
    values: Vec<String>,
    due: Vec<Option<i64>>,
}

impl<'a> Written<'a> {
    fn push(&mut self, id: i64, version: i64, change: &'a NoticeChange, value: String) {
        self.ids.push(id);
        self.versions.push(version);
        self.spaces.push(&change.space);
        self.names.push(&change.name);
        self.values.push(value);
        self.due.push(change.due_at.map(Timestamp::millis));
    }
}
