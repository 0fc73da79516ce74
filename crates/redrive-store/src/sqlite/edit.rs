//! Payloads of letters: replacing one, and keeping what it was.

use rusqlite::params;

use super::batch::Batch;
use super::sql;
use crate::dead_letter::{Edited, PayloadVersion};
use crate::error::StoreError;
use crate::id::JobId;
use crate::row::count;
use crate::seal::Cell;
use crate::time::Timestamp;
use crate::told;

pub(super) fn edit(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    id: JobId,
    edits: u32,
    payload: &[u8],
    edited_by: &str,
) -> Result<Edited, StoreError> {
    let letter = batch.first(sql!("letter_edit"), [id.0], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, count(row.get(2)?)))
    })?;
    let Some((stored, death, before)) = letter else { return Ok(Edited::NotDead) };
    if before != edits {
        return Ok(Edited::Changed { edits: before });
    }
    let version = before + 1;
    let number = batch.next_event();
    let old = batch.seals.open_bytes(Cell::JobPayload, id.0, stored)?;
    let old = batch.seals.seal_bytes(Cell::VersionPayload, number, &old)?;
    batch
        .run(sql!("payload_version_insert"), params![number, id.0, version, now.millis(), edited_by, old])?;
    batch.run(
        sql!("job_payload_put"),
        params![id.0, batch.seals.seal_bytes(Cell::JobPayload, id.0, payload)?],
    )?;
    let source_id = batch.name(told::SOURCE)?;
    batch.event(now, &told::payload_edited(source_id, id, death, version, edited_by))?;
    Ok(Edited::Done { version })
}

pub(super) fn versions(batch: &Batch<'_, '_>, id: JobId) -> Result<Vec<PayloadVersion>, StoreError> {
    let mut statement = batch.statement(sql!("payload_version_list"))?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(PayloadVersion {
            version: count(row.get(1)?),
            at: Timestamp::from_millis(row.get(2)?),
            edited_by: row.get(3)?,
            payload: batch.seals.open_bytes(Cell::VersionPayload, row.get(0)?, row.get(4)?)?,
        })
    };
    statement.query_and_then([id.0], read)?.collect()
}
