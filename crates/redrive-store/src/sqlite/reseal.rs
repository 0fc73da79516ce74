//! Taking keys into use, and sealing anew what is not under the newest one (R-D7).
//!
//! A rotation begins with one commit after which every process seals with the new key; so nothing can appear under the old
//! one behind the cursor, which goes through the tables once. It is kept in the store and survives a kill. At the end the
//! file is written anew, because deleted rows leave their bytes in it; only then the old keys are no longer needed.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, Row, TransactionBehavior, params, params_from_iter};

use super::batch::{Batch, Memory};
use super::statements::Statements;
use super::{Durability, open, sql};
use crate::Resealed;
use crate::effects;
use crate::error::{StoreError, Trouble};
use crate::seal::{Cell, Keeper, Seals};
use crate::time::Timestamp;

/// A table with sealed cells: how its rows are listed, how one is written back, and its cells in that order.
struct Table {
    list: &'static str,
    update: &'static str,
    cells: &'static [Cell],
}

/// New ones go at the end: a rotation under way has kept the number of its table.
static TABLES: [Table; 15] = [
    Table {
        list: sql!("job_sealed"),
        update: sql!("job_reseal"),
        cells: &[Cell::JobPayload, Cell::JobOverrides],
    },
    Table { list: sql!("progress_sealed"), update: sql!("progress_reseal"), cells: &[Cell::ProgressHint] },
    Table { list: sql!("lease_sealed"), update: sql!("lease_reseal"), cells: &[Cell::LeaseCancelWhy] },
    Table { list: sql!("letter_sealed"), update: sql!("letter_reseal"), cells: &[Cell::LetterMessage] },
    Table { list: sql!("event_sealed"), update: sql!("event_reseal"), cells: &[Cell::EventDetail] },
    Table {
        list: sql!("aside_sealed"),
        update: sql!("aside_reseal"),
        cells: &[Cell::AsideWhy, Cell::AsideText],
    },
    Table {
        list: sql!("letter_report_sealed"),
        update: sql!("letter_report_reseal"),
        cells: &[Cell::LetterContext, Cell::LetterReport],
    },
    Table {
        list: sql!("letter_group_sealed"),
        update: sql!("letter_group_reseal"),
        cells: &[Cell::GroupSample],
    },
    Table {
        list: sql!("payload_version_sealed"),
        update: sql!("payload_version_reseal"),
        cells: &[Cell::VersionPayload],
    },
    Table {
        list: sql!("task_sealed"),
        update: sql!("task_reseal"),
        cells: &[Cell::TaskProgress, Cell::TaskWhy, Cell::TaskReport],
    },
    Table { list: sql!("task_plan_sealed"), update: sql!("task_plan_reseal"), cells: &[Cell::TaskPlan] },
    Table { list: sql!("ack_sealed"), update: sql!("ack_reseal"), cells: &[Cell::AckNote] },
    Table {
        list: sql!("idempotency_sealed"),
        update: sql!("idempotency_reseal"),
        cells: &[Cell::KeyHeaders, Cell::KeyBody],
    },
    Table {
        list: sql!("outbox_sealed"),
        update: sql!("outbox_reseal"),
        cells: &[Cell::OutboxCall, Cell::OutboxLast],
    },
    Table { list: sql!("notice_sealed"), update: sql!("notice_reseal"), cells: &[Cell::NoticeValue] },
];

/// The most bytes that one round seals anew, so that large payloads do not make others wait.
const ROUND_BYTES: usize = 4 << 20;

/// At opening: takes the first key into use if the store has none yet, and refuses a store whose keys we do not have.
pub(super) fn take_keys(
    connection: &mut Connection,
    keeper: &Keeper,
    encrypt: bool,
) -> Result<(), StoreError> {
    let is_sealed = |connection: &Connection| {
        connection.query_row("SELECT EXISTS (SELECT 1 FROM seal_key)", [], |row| row.get::<_, bool>(0))
    };
    if let Some(first) = keeper.first()
        && !is_sealed(connection)?
    {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Looked at again: another process may have been first.
        if !is_sealed(&transaction)? {
            let (jobs, events): (i64, i64) =
                transaction.query_row(sql!("sequences_read"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let untouched = jobs == 1 && events == 1;
            if !untouched && !encrypt {
                return Err(Trouble::NotEncrypted(first.to_owned()).into());
            }
            let row = keeper.row(first, untouched)?;
            let now = Timestamp::from_system(std::time::SystemTime::now());
            transaction.execute(sql!("seal_key_put"), params![row.key_id, row.proof, now.millis()])?;
            transaction.execute(sql!("key_epoch_next"), [])?;
        }
        transaction.commit()?;
    }
    // Beginning is what looks at the keys.
    let mut memory = Memory::default();
    Batch::begin(&Statements::new(connection, keeper), &mut memory).map(drop)
}

/// What a round did.
pub(super) struct Round {
    pub(super) resealed: Resealed,
    /// Whether every cell is under the key: what is left is to wipe and to retire.
    pub(super) swept: bool,
}

/// How far a rotation has come.
struct Cursor {
    step: usize,
    reached: i64,
    cells: u64,
}

pub(super) fn round(
    batch: &mut Batch<'_, '_>,
    keeper: &Keeper,
    now: Timestamp,
    limit: u32,
) -> Result<Round, StoreError> {
    let key = keeper.first().ok_or(Trouble::NoKey)?.to_owned();
    batch.write_events()?;
    if batch.seals.current() != Some(&key) {
        let row = keeper.row(&key, batch.seals.is_whole())?;
        batch.run(sql!("seal_key_put"), params![row.key_id, row.proof, now.millis()])?;
        batch.run(sql!("reseal_end"), [])?;
        batch.change_keys()?;
    }
    let known = batch.first(sql!("reseal_read"), [], |row| {
        let cursor = Cursor {
            step: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            reached: row.get(2)?,
            cells: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
        };
        Ok((row.get::<_, String>(0)?, cursor))
    })?;
    let mut cursor = match known {
        Some((of, cursor)) if of == key => cursor,
        _ if batch.seals.is_whole() && batch.keys()?.len() == 1 => {
            let resealed = Resealed { key, over: true, ..Resealed::default() };
            return Ok(Round { resealed, swept: false });
        }
        _ => Cursor { step: 0, reached: 0, cells: 0 },
    };
    let mut room = (limit.max(1), ROUND_BYTES);
    while let Some(table) = TABLES.get(cursor.step)
        && room.0 > 0
        && room.1 > 0
    {
        if !sweep(batch, table, &mut cursor, &mut room)? {
            cursor = Cursor { step: cursor.step + 1, reached: 0, ..cursor };
        }
    }
    let (step, cells) = (i64::try_from(cursor.step).unwrap_or(0), i64::try_from(cursor.cells).unwrap_or(0));
    batch.run(sql!("reseal_put"), params![key, step, cursor.reached, cells])?;
    let left = left(batch, &cursor)?;
    let resealed = Resealed { key, cells: cursor.cells, left, ..Resealed::default() };
    Ok(Round { resealed, swept: cursor.step >= TABLES.len() })
}

/// Goes on through one table. Answers whether there may be more of it.
fn sweep(
    batch: &Batch<'_, '_>,
    table: &Table,
    cursor: &mut Cursor,
    room: &mut (u32, usize),
) -> Result<bool, StoreError> {
    let mut statement = batch.statement(table.list)?;
    let mut rows = statement.query(params![cursor.reached, room.0])?;
    while room.1 > 0 {
        let Some(row) = rows.next()? else { return Ok(room.0 == 0) };
        let id: i64 = row.get(0)?;
        let mut values: Vec<Value> = vec![id.into()];
        let mut anew = 0;
        for (at, cell) in table.cells.iter().enumerate() {
            let stored: Value = row.get(at + 1)?;
            if is_stale(&batch.seals, &stored) {
                room.1 = room.1.saturating_sub(bytes(&stored));
                anew += 1;
                let bound = bound_row(*cell, row)?;
                values.push(seal(&batch.seals, *cell, bound, open(&batch.seals, *cell, bound, stored)?)?);
            } else {
                values.push(stored);
            }
        }
        if anew > 0 {
            batch.statement(table.update)?.execute(params_from_iter(values))?;
        }
        cursor.cells += anew;
        cursor.reached = id;
        room.0 -= 1;
    }
    Ok(true)
}

/// The number that a cell is bound to: that of its row, or that of the text behind the cell that names it.
fn bound_row(cell: Cell, row: &Row<'_>) -> Result<i64, StoreError> {
    match cell {
        Cell::GroupSample | Cell::AckNote | Cell::NoticeValue => {
            Ok(effects::sample_row(&row.get::<_, String>(2)?))
        }
        _ => Ok(row.get(0)?),
    }
}

/// How many numbers are still to be looked at.
fn left(batch: &Batch<'_, '_>, cursor: &Cursor) -> Result<u64, StoreError> {
    let mut statement = batch.statement(sql!("reseal_ends"))?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    let mut left = 0;
    for step in cursor.step..TABLES.len() {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(2 * step)?, row.get(2 * step + 1)?);
        let Some((first, last)) = first.zip(last) else { continue };
        let reached = if step == cursor.step { cursor.reached } else { 0 };
        left += u64::try_from(last - reached.max(first - 1)).unwrap_or(0);
    }
    Ok(left)
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
    }
}

fn is_stale(seals: &Seals, stored: &Value) -> bool {
    match stored {
        Value::Text(text) => seals.is_stale_text(text),
        Value::Blob(bytes) => seals.is_stale_bytes(bytes),
        Value::Null | Value::Integer(_) | Value::Real(_) => false,
    }
}

fn open(seals: &Seals, cell: Cell, row: i64, stored: Value) -> Result<Value, StoreError> {
    Ok(match stored {
        Value::Text(text) => Value::Text(seals.open_text(cell, row, text)?),
        Value::Blob(bytes) => Value::Blob(seals.open_bytes(cell, row, bytes)?),
        other @ (Value::Null | Value::Integer(_) | Value::Real(_)) => other,
    })
}

fn seal(seals: &Seals, cell: Cell, row: i64, plain: Value) -> Result<Value, StoreError> {
    Ok(match plain {
        Value::Text(text) => Value::Text(seals.seal_text(cell, row, &text)?.into_owned()),
        Value::Blob(bytes) => Value::Blob(seals.seal_bytes(cell, row, &bytes)?.into_owned()),
        other @ (Value::Null | Value::Integer(_) | Value::Real(_)) => other,
    })
}

/// Writes the file anew and empties the journal, so that nothing of what was deleted or replaced is left in either. Writers
/// wait meanwhile.
pub(super) fn wipe(path: &Path) -> Result<(), StoreError> {
    let connection = open::connect(path, Durability::Full)?;
    // The copy is as large as the store: not in memory. All of it is sealed already.
    connection.execute_batch("PRAGMA temp_store = FILE; VACUUM")?;
    let began = Instant::now();
    loop {
        let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !busy {
            return Ok(());
        }
        if began.elapsed() > open::PATIENCE {
            return Err(Trouble::Busy { seconds: open::PATIENCE.as_secs() }.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The end of a rotation: every cell is under the newest key. Answers the keys that are no longer needed.
pub(super) fn retire(batch: &mut Batch<'_, '_>, keeper: &Keeper) -> Result<Vec<String>, StoreError> {
    let swept = batch.first(sql!("reseal_read"), [], |row| {
        Ok((row.get::<_, String>(0)?, usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0)))
    })?;
    let current = batch.seals.current().map(str::to_owned);
    // Somebody else may have ended it, or begun another one, while we wiped.
    let Some(key) = current.filter(|key| swept.is_some_and(|(of, step)| of == *key && step >= TABLES.len()))
    else {
        return Ok(Vec::new());
    };
    let retired = batch.all(sql!("seal_key_retire"), [&key], |row| row.get(0))?;
    let row = keeper.row(&key, true)?;
    batch.run(sql!("seal_key_prove"), params![row.key_id, row.proof])?;
    batch.run(sql!("reseal_end"), [])?;
    batch.change_keys()?;
    Ok(retired)
}

/// What does not open, at most so many, each as a line of text.
pub(super) fn unsealable(batch: &Batch<'_, '_>, most: usize) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for table in &TABLES {
        let mut statement = batch.statement(table.list)?;
        let mut rows = statement.query(params![i64::MIN, -1])?;
        while let Some(row) = rows.next()? {
            for (at, cell) in table.cells.iter().enumerate() {
                let stored: Value = row.get(at + 1)?;
                if let Err(error) = open(&batch.seals, *cell, bound_row(*cell, row)?, stored)
                    && found.len() < most
                {
                    found.push(error.to_string());
                }
            }
        }
    }
    Ok(found)
}
