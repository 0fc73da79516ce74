//! Queues: pausing them, and letting them go on.

use rusqlite::params;

use super::batch::Batch;
use super::sql;
use crate::error::StoreError;
use crate::queue::Queue;
use crate::time::Timestamp;
use crate::told;

pub(super) fn queues(batch: &Batch<'_, '_>) -> Result<Vec<Queue>, StoreError> {
    batch.all(sql!("queue_list"), [], |row| {
        Ok(Queue {
            name: row.get(0)?,
            paused_at: row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis),
            paused_why: row.get(2)?,
        })
    })
}

/// Whether any queue is paused. Looked up once after somebody else has written.
pub(super) fn some_are_paused(batch: &mut Batch<'_, '_>) -> Result<bool, StoreError> {
    if let Some(paused) = &batch.memory.paused {
        return Ok(!paused.is_empty());
    }
    let paused = batch.all(sql!("queue_paused"), [], |row| row.get::<_, i64>(0))?;
    let some = !paused.is_empty();
    batch.memory.paused = Some(paused.into_iter().collect());
    Ok(some)
}

/// Whether the queue of a lane is paused; asked after [`some_are_paused`].
pub(super) fn is_paused(batch: &mut Batch<'_, '_>, lane: i64) -> Result<bool, StoreError> {
    let queue_id = batch.lane_of(lane)?.queue_id;
    Ok(batch.memory.paused.as_ref().is_some_and(|paused| paused.contains(&queue_id)))
}

fn standing(batch: &Batch<'_, '_>, queue: &str) -> Result<Option<(i64, bool)>, StoreError> {
    batch.first(sql!("queue_standing"), [queue], |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(super) fn pause(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    queue: &str,
    why: Option<&str>,
) -> Result<bool, StoreError> {
    batch.run(sql!("queue_intern"), [queue])?;
    let Some((id, false)) = standing(batch, queue)? else { return Ok(false) };
    batch.run(sql!("queue_pause"), params![id, now.millis(), why])?;
    batch.memory.paused = None;
    tell(batch, now, "queue_paused", queue, why)?;
    Ok(true)
}

pub(super) fn resume(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    queue: &str,
) -> Result<Option<bool>, StoreError> {
    let Some((id, paused)) = standing(batch, queue)? else { return Ok(None) };
    if !paused {
        return Ok(Some(false));
    }
    let none: Option<i64> = None;
    batch.run(sql!("queue_pause"), params![id, none, none])?;
    batch.memory.paused = None;
    // Its work may be due: whoever waits looks again in this very transaction.
    batch.memory.idle.clear();
    tell(batch, now, "queue_resumed", queue, None)?;
    Ok(Some(true))
}

fn tell(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    event_type: &'static str,
    queue: &str,
    why: Option<&str>,
) -> Result<(), StoreError> {
    let source_id = batch.name(told::SOURCE)?;
    batch.event(now, &told::queue_moved(source_id, event_type, queue, why))?;
    Ok(())
}
