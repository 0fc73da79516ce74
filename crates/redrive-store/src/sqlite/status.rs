//! Counting without looking: the store's status, from counters and a few bounded glances.

use redrive_policy::{Cause, Class};
use rusqlite::params;

use super::batch::Batch;
use super::sql;
use crate::error::StoreError;
use crate::idempotency::record;
use crate::status::{LaneCounts, StoreStatus};
use crate::time::Timestamp;

/// Jobs that wait for their time are counted up to here.
const GLANCE: i64 = 10_000;

pub(super) fn status(batch: &Batch<'_, '_>, now: Timestamp) -> Result<StoreStatus, StoreError> {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let (events, failed_events) =
        batch.first(sql!("store_counts"), [], |row| Ok((row.get(0)?, row.get(1)?)))?.unwrap_or_default();
    let mut status = StoreStatus {
        events: number(events),
        failed_events: number(failed_events),
        ..StoreStatus::default()
    };
    let causes = batch
        .all(sql!("dead_count_list"), [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    for (cause, letters) in causes {
        let cause: Cause = cause.parse().unwrap_or(Cause::Unknown);
        status.dead_letters += number(letters);
        if cause.class() == Class::Transient {
            status.retry_candidates += number(letters);
        }
        *status.by_cause.entry(cause).or_default() += number(letters);
    }
    let lanes = batch.all(sql!("lane_counts"), [], |row| {
        let lane = LaneCounts {
            queue: row.get(1)?,
            kind: row.get(2)?,
            ready: number(row.get(3)?),
            scheduled: 0,
            leased: number(row.get(4)?),
            dead: number(row.get(5)?),
            succeeded: number(row.get(6)?),
            cancelled: number(row.get(7)?),
            oldest_due: None,
            paused_at: row.get::<_, Option<i64>>(8)?.map(Timestamp::from_millis),
        };
        Ok((row.get::<_, i64>(0)?, lane))
    })?;
    let reserved = batch.all(sql!("ready_reserved"), params![now.millis(), GLANCE], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, i64>(2)?))
    })?;
    for (id, mut lane) in lanes {
        if lane.ready > 0 {
            glance(batch, now, id, &mut lane)?;
        }
        for (_, oldest, later) in reserved.iter().filter(|(of, ..)| *of == id) {
            lane.scheduled += number(*later);
            let oldest = oldest.map(Timestamp::from_millis);
            lane.oldest_due = [lane.oldest_due, oldest].into_iter().flatten().min();
        }
        status.lanes.push(lane);
    }
    status.workers =
        number(batch.first(sql!("worker_count"), [now.millis()], |row| row.get(0))?.unwrap_or(0));
    let (unknown, failed) = batch
        .first(sql!("for_people"), [record::COUNTED], |row| Ok((row.get(0)?, row.get(1)?)))?
        .unwrap_or_default();
    (status.unknown_outcomes, status.outbox_failed) = (number(unknown), number(failed));
    Ok(status)
}

/// When the oldest became due and how many are not, a rank at a time.
fn glance(batch: &Batch<'_, '_>, now: Timestamp, id: i64, lane: &mut LaneCounts) -> Result<(), StoreError> {
    let mut rank = i64::MIN;
    while let Some((next, first)) = batch.first(sql!("ready_scan"), params![id, rank, 1], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })? {
        rank = next;
        if first <= now.millis() {
            let first = Timestamp::from_millis(first);
            lane.oldest_due = Some(lane.oldest_due.map_or(first, |oldest| oldest.min(first)));
        }
        let later: i64 = batch
            .first(sql!("ready_later"), params![id, rank, now.millis(), GLANCE], |row| row.get(0))?
            .unwrap_or(0);
        lane.scheduled += u64::try_from(later).unwrap_or(0);
    }
    Ok(())
}
