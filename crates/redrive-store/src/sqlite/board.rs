//! The board.

use rusqlite::{Row, params};

use super::batch::Batch;
use super::{Sqlite, event, job, sql};
use crate::Answer;
use crate::board::{Board, Notice, NoticeChange, Posted, StoredNotice, bound_row, most, validate};
use crate::error::StoreError;
use crate::event::NewEvent;
use crate::job::NewJob;
use crate::seal::Cell;
use crate::time::Timestamp;

impl Board for Sqlite {
    fn notice(&self, space: String, name: String) -> Answer<'_, Option<Notice>> {
        Box::pin(self.readers.read(move |batch| {
            let found = batch.first(sql!("notice_read"), [&space, &name], read)?;
            found.map(|found| found.into_notice(&batch.seals)).transpose()
        }))
    }

    fn notices(&self, space: String, after: Option<String>, limit: u32) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.readers.read(move |batch| {
            let after = after.unwrap_or_default();
            opened(batch, batch.all(sql!("notice_list"), params![space, after, most(limit)], read)?)
        }))
    }

    fn due_notices(&self, now: Timestamp, space: String, limit: u32) -> Answer<'_, Vec<Notice>> {
        Box::pin(self.readers.read(move |batch| {
            opened(batch, batch.all(sql!("notice_due"), params![space, now.millis(), most(limit)], read)?)
        }))
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
            // What is only said anew, or taken down, needs no room that is kept for the end of work.
            let is_new = |change: &NoticeChange| change.seen.is_none() && change.value.is_some();
            let adds = !jobs.is_empty() || !events.is_empty() || changes.iter().any(is_new);
            self.hand_over(adds, move |batch| post(batch, now, &changes, &jobs, &events)).await
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredNotice> {
    Ok(StoredNotice {
        space: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        value: row.get(3)?,
        due_at: row.get(4)?,
        changed_at: row.get(5)?,
    })
}

fn opened(batch: &Batch<'_, '_>, found: Vec<StoredNotice>) -> Result<Vec<Notice>, StoreError> {
    found.into_iter().map(|found| found.into_notice(&batch.seals)).collect()
}

fn post(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    changes: &[NoticeChange],
    jobs: &[NewJob],
    events: &[NewEvent],
) -> Result<Posted, StoreError> {
    // All are looked at before anything is written: whoever is outrun shares this transaction with others.
    let mut ids = Vec::with_capacity(changes.len());
    for change in changes {
        let found: Option<(i64, i64)> =
            batch.first(sql!("notice_version"), [&change.space, &change.name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        if found.map(|(_, version)| version) != change.seen {
            return Ok(Posted::Outrun);
        }
        ids.push(found.map(|(id, _)| id));
    }
    let mut versions = Vec::with_capacity(changes.len());
    for (change, id) in changes.iter().zip(ids) {
        let Some(value) = &change.value else {
            if let Some(id) = id {
                batch.run(sql!("notice_delete"), [id])?;
            }
            versions.push(None);
            continue;
        };
        let version = batch.next_event();
        let (space, name) = (&change.space, &change.name);
        let value = batch.seals.seal_text(Cell::NoticeValue, bound_row(space, name), value)?;
        let due_at = change.due_at.map(Timestamp::millis);
        batch.run(
            sql!("notice_put"),
            params![id.unwrap_or(version), space, name, version, value, due_at, now.millis()],
        )?;
        versions.push(Some(version));
    }
    let jobs = job::enqueue(batch, now, jobs)?;
    event::append(batch, now, events)?;
    Ok(Posted::Done { versions, jobs })
}
