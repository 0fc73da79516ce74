//! Taking keys into use, and sealing anew what is not under the newest one (R-D7).
//!
//! A rotation begins with one commit after which every transaction that begins seals with the new key. Those that began before
//! may still write under the old one, so the cursor starts only when the last of them is over; then it goes through the tables
//! once. It is kept in the store and survives a kill.

use tokio_postgres::Row;

use super::batch::EVENTS_PER_TRANSACTION;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::texts::sql;
use super::tx::{Tx, keys, seals};
use super::verb::Verb;
use crate::Resealed;
use crate::effects::sample_row;
use crate::error::Trouble;
use crate::seal::{Cell, Keeper};
use crate::time::Timestamp;

/// A table with sealed cells: how its rows are listed, how one is written back, and its cells in that order.
struct Table {
    list: &'static str,
    update: &'static str,
    cells: &'static [Cell],
}

impl Table {
    /// The most rows that one statement reads. Plans and answers may be as large as many others together.
    fn stretch(&self) -> i64 {
        let is_large = |cell: &Cell| {
            matches!(
                cell,
                Cell::TaskPlan | Cell::TaskProgress | Cell::KeyBody | Cell::OutboxCall | Cell::NoticeValue
            )
        };
        if self.cells.iter().any(is_large) { 4 } else { 200 }
    }
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
pub(super) async fn take_keys(line: &Line, keeper: &Keeper, encrypt: bool) -> Result<(), Fault> {
    if let Some(first) = keeper.first()
        && keys(line).await?.is_empty()
    {
        line.say("BEGIN").await?;
        let taken = take_first(line, keeper, first, encrypt).await;
        line.say(if taken.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        taken?;
    }
    let epoch = line.first(sql!("key_epoch_read"), args![]).await?;
    let epoch = epoch.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
    seals(line, keeper, column(&epoch, 0)?).await.map(|_| ())
}

async fn take_first(line: &Line, keeper: &Keeper, first: &str, encrypt: bool) -> Result<(), Fault> {
    // The one who gets to change the epoch decides; others wait here, and then see that there is a key.
    line.run(sql!("key_epoch_next"), args![]).await?;
    if !keys(line).await?.is_empty() {
        return Ok(());
    }
    let untouched = line.first(sql!("store_is_untouched"), args![]).await?;
    let untouched: bool = untouched.map_or(Ok(false), |row| column(&row, 0))?;
    if !untouched && !encrypt {
        return Err(crate::StoreError::from(Trouble::NotEncrypted(first.to_owned())).into());
    }
    let row = keeper.row(first, untouched)?;
    let now = Timestamp::from_system(std::time::SystemTime::now()).millis();
    line.run(sql!("seal_key_put"), args![row.key_id, row.proof, now]).await?;
    Ok(())
}

/// One round of a rotation.
pub(super) struct Reseal {
    pub(super) now: Timestamp,
    pub(super) limit: u32,
}

/// How far a rotation has come.
struct Cursor {
    step: usize,
    reached: i64,
    cells: u64,
}

impl Verb for Reseal {
    type Answer = Resealed;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Resealed, Fault> {
        let keeper = tx.keeper;
        let key = keeper.first().ok_or(Trouble::NoKey).map_err(crate::StoreError::from)?.to_owned();
        let known = tx.line.first(sql!("reseal_read"), args![]).await?;
        if tx.seals.current() != Some(&key) {
            let row = keeper.row(&key, tx.seals.is_whole())?;
            let now = tx.now(self.now).millis();
            tx.line.run(sql!("seal_key_put"), args![row.key_id, row.proof, now]).await?;
            tx.line.run(sql!("reseal_end"), args![]).await?;
            tx.line.run(sql!("key_epoch_next"), args![]).await?;
            // From this commit on everybody seals with it. Nothing is swept before that.
            return Ok(Resealed { key, left: 1, ..Resealed::default() });
        }
        let (mut cursor, may_sweep) = match known {
            Some(row) if column::<String>(&row, 0)? == key => {
                let cursor = Cursor {
                    step: usize::try_from(column::<i64>(&row, 1)?).unwrap_or(0),
                    reached: column(&row, 2)?,
                    cells: u64::try_from(column::<i64>(&row, 3)?).unwrap_or(0),
                };
                (cursor, column(&row, 4)?)
            }
            _ if tx.seals.is_whole() && keys(tx.line).await?.len() == 1 => {
                return Ok(Resealed { key, over: true, ..Resealed::default() });
            }
            _ => (Cursor { step: 0, reached: i64::MIN, cells: 0 }, false),
        };
        let mut room = (i64::from(self.limit.max(1)), ROUND_BYTES);
        while may_sweep
            && let Some(table) = TABLES.get(cursor.step)
            && room.0 > 0
            && room.1 > 0
        {
            if !sweep(tx, table, &mut cursor, &mut room).await? {
                cursor = Cursor { step: cursor.step + 1, reached: i64::MIN, ..cursor };
            }
        }
        if cursor.step >= TABLES.len() {
            let retired = retire(tx, &key).await?;
            return Ok(Resealed { key, cells: cursor.cells, left: 0, over: true, retired });
        }
        let (step, cells) =
            (i64::try_from(cursor.step).unwrap_or(0), i64::try_from(cursor.cells).unwrap_or(0));
        tx.line.run(sql!("reseal_put"), args![key, step, cursor.reached, cells]).await?;
        let left = left(tx.line, &cursor).await?.max(1);
        Ok(Resealed { key, cells: cursor.cells, left, ..Resealed::default() })
    }
}

/// Goes on through one table. Answers whether there may be more of it.
async fn sweep(
    tx: &Tx<'_>,
    table: &Table,
    cursor: &mut Cursor,
    room: &mut (i64, usize),
) -> Result<bool, Fault> {
    let wanted = room.0.min(table.stretch());
    let rows = tx.line.all(table.list, args![cursor.reached, wanted]).await?;
    for row in &rows {
        let id: i64 = column(row, 0)?;
        cursor.cells += reseal_row(tx, table, id, row, &mut room.1).await?;
        cursor.reached = id;
        room.0 -= 1;
        if room.1 == 0 {
            return Ok(true);
        }
    }
    Ok(i64::try_from(rows.len()).unwrap_or(i64::MAX) == wanted)
}

/// Seals the cells of one row anew; answers how many.
async fn reseal_row(tx: &Tx<'_>, table: &Table, id: i64, row: &Row, room: &mut usize) -> Result<u64, Fault> {
    let mut values: Vec<Stored> = Vec::with_capacity(table.cells.len());
    let mut anew = 0;
    for (at, cell) in table.cells.iter().enumerate() {
        let stored = Stored::read(row, at + 1, *cell)?;
        if stored.is_stale(tx) {
            *room = room.saturating_sub(stored.len());
            anew += 1;
            values.push(stored.anew(tx, *cell, bound_row(*cell, row)?)?);
        } else {
            values.push(stored);
        }
    }
    if anew > 0 {
        let mut args = args![id].to_vec();
        args.extend(values.iter().map(Stored::arg));
        tx.line.run(table.update, &args).await?;
    }
    Ok(anew)
}

/// The number that a cell is bound to: that of its row, or that of the text behind the cell that names it.
fn bound_row(cell: Cell, row: &Row) -> Result<i64, Fault> {
    match cell {
        Cell::GroupSample | Cell::AckNote | Cell::NoticeValue => Ok(sample_row(column(row, 2)?)),
        _ => column(row, 0),
    }
}

/// A cell as it is stored.
enum Stored {
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl Stored {
    fn read(row: &Row, at: usize, cell: Cell) -> Result<Stored, Fault> {
        Ok(match cell {
            Cell::JobPayload | Cell::AsideText | Cell::VersionPayload | Cell::KeyHeaders | Cell::KeyBody => {
                Stored::Bytes(column(row, at)?)
            }
            _ => Stored::Text(column(row, at)?),
        })
    }

    fn len(&self) -> usize {
        match self {
            Stored::Text(text) => text.as_ref().map_or(0, String::len),
            Stored::Bytes(bytes) => bytes.as_ref().map_or(0, Vec::len),
        }
    }

    fn is_stale(&self, tx: &Tx<'_>) -> bool {
        match self {
            Stored::Text(text) => text.as_ref().is_some_and(|text| tx.seals.is_stale_text(text)),
            Stored::Bytes(bytes) => bytes.as_ref().is_some_and(|bytes| tx.seals.is_stale_bytes(bytes)),
        }
    }

    fn anew(self, tx: &Tx<'_>, cell: Cell, row: i64) -> Result<Stored, Fault> {
        Ok(match self {
            Stored::Text(Some(text)) => {
                let plain = tx.seals.open_text(cell, row, text)?;
                Stored::Text(Some(tx.seals.seal_text(cell, row, &plain)?.into_owned()))
            }
            Stored::Bytes(Some(bytes)) => {
                let plain = tx.seals.open_bytes(cell, row, bytes)?;
                Stored::Bytes(Some(tx.seals.seal_bytes(cell, row, &plain)?.into_owned()))
            }
            absent => absent,
        })
    }

    fn arg(&self) -> super::line::Arg<'_> {
        use super::line::Typed;
        match self {
            Stored::Text(text) => text.arg(),
            Stored::Bytes(bytes) => bytes.arg(),
        }
    }
}

/// How many numbers are still to be looked at.
async fn left(line: &Line, cursor: &Cursor) -> Result<u64, Fault> {
    let Some(row) = line.first(sql!("reseal_ends"), args![]).await? else { return Ok(0) };
    let mut left: u64 = 0;
    for step in cursor.step..TABLES.len() {
        let (first, last): (Option<i64>, Option<i64>) =
            (column(&row, 2 * step)?, column(&row, 2 * step + 1)?);
        let Some((first, last)) = first.zip(last) else { continue };
        let reached = if step == cursor.step { cursor.reached } else { i64::MIN };
        // Numbers of events, of lines kept aside, of replaced payloads, of keys, of items and of notices are as far apart as transactions are.
        let apart = if matches!(step, 4 | 5 | 8 | 12 | 13 | 14) { EVENTS_PER_TRANSACTION } else { 1 };
        let numbers = (last - reached.max(first - 1)).div_euclid(apart) + 1;
        left = left.saturating_add(u64::try_from(numbers).unwrap_or(0));
    }
    Ok(left)
}

/// The end of a rotation: every cell is under the newest key. Answers the keys that are no longer needed.
async fn retire(tx: &Tx<'_>, key: &str) -> Result<Vec<String>, Fault> {
    let rows = tx.line.all(sql!("seal_key_retire"), args![key]).await?;
    let retired = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<String>, _>>()?;
    let row = tx.keeper.row(key, true)?;
    tx.line.run(sql!("seal_key_prove"), args![row.key_id, row.proof]).await?;
    tx.line.run(sql!("reseal_end"), args![]).await?;
    tx.line.run(sql!("key_epoch_next"), args![]).await?;
    Ok(retired)
}

/// What does not open, at most so many, each as a line of text.
pub(super) async fn unsealable(
    line: &Line,
    seals: &crate::seal::Seals,
    most: usize,
) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for table in &TABLES {
        let mut reached = i64::MIN;
        loop {
            let rows = line.all(table.list, args![reached, table.stretch()]).await?;
            for row in &rows {
                reached = column(row, 0)?;
                for (at, cell) in table.cells.iter().enumerate() {
                    let bound = bound_row(*cell, row)?;
                    let opened = match Stored::read(row, at + 1, *cell)? {
                        Stored::Text(Some(text)) => seals.open_text(*cell, bound, text).map(drop),
                        Stored::Text(None) | Stored::Bytes(None) => Ok(()),
                        Stored::Bytes(Some(bytes)) => seals.open_bytes(*cell, bound, bytes).map(drop),
                    };
                    if let Err(error) = opened
                        && found.len() < most
                    {
                        found.push(error.to_string());
                    }
                }
            }
            if i64::try_from(rows.len()).unwrap_or(i64::MAX) < table.stretch() {
                break;
            }
        }
    }
    Ok(found)
}
