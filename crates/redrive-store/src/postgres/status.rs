//! Counting without looking: the store's status, from counters and a few bounded glances.

use std::cell::RefCell;
use std::collections::HashMap;

use redrive_policy::{Cause, Class};

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::sql;
use super::verb::Question;
use crate::idempotency::record;
use crate::seal::Seals;
use crate::status::{LaneCounts, StoreStatus};
use crate::time::Timestamp;

/// Jobs that wait for their time are counted up to here.
const GLANCE: i64 = 10_000;

/// What the database's clock shows.
pub(super) struct ClockOf;

impl Question for ClockOf {
    type Answer = Timestamp;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Timestamp, Fault> {
        let row = line.first(sql!("clock_read"), args![]).await?;
        let row = row.ok_or_else(|| Fault::corrupt("the database does not know the time"))?;
        Ok(Timestamp::from_millis(column(&row, 0)?))
    }
}

/// Counts of everything.
pub(super) struct StatusOf {
    /// By this clock; absent: by the database's.
    pub(super) now: Option<i64>,
}

fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

impl Question for StatusOf {
    type Answer = StoreStatus;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<StoreStatus, Fault> {
        let mut status = StoreStatus::default();
        if let Some(row) = line.first(sql!("store_counts"), args![]).await? {
            (status.events, status.failed_events) = (number(column(&row, 0)?), number(column(&row, 1)?));
        }
        for row in line.all(sql!("dead_count_list"), args![]).await? {
            let cause: Cause = column::<String>(&row, 0)?.parse().unwrap_or(Cause::Unknown);
            let letters = number(column(&row, 1)?);
            status.dead_letters += letters;
            if cause.class() == Class::Transient {
                status.retry_candidates += letters;
            }
            *status.by_cause.entry(cause).or_default() += letters;
        }
        let rows = line.all(sql!("lane_counts"), args![]).await?;
        let mut waiting = Vec::new();
        for row in &rows {
            if column::<i64>(row, 3)? > 0 {
                waiting.push(column(row, 0)?);
            }
        }
        let glances = self.glance(line, waiting).await?;
        for row in &rows {
            let (oldest_due, scheduled) = glances.get(&column(row, 0)?).copied().unwrap_or_default();
            status.lanes.push(LaneCounts {
                queue: column(row, 1)?,
                kind: column(row, 2)?,
                ready: number(column(row, 3)?),
                scheduled,
                leased: number(column(row, 4)?),
                dead: number(column(row, 5)?),
                succeeded: number(column(row, 6)?),
                cancelled: number(column(row, 7)?),
                oldest_due,
                paused_at: column::<Option<i64>>(row, 8)?.map(Timestamp::from_millis),
            });
        }
        if let Some(row) = line.first(sql!("worker_count"), args![self.now]).await? {
            status.workers = number(column(&row, 0)?);
        }
        if let Some(row) = line.first(sql!("for_people"), args![record::COUNTED]).await? {
            (status.unknown_outcomes, status.outbox_failed) =
                (number(column(&row, 0)?), number(column(&row, 1)?));
        }
        Ok(status)
    }
}

impl StatusOf {
    /// When the oldest became due and how many are not, by lane.
    async fn glance(
        &self,
        line: &Line,
        lanes: Vec<i64>,
    ) -> Result<HashMap<i64, (Option<Timestamp>, u64)>, Fault> {
        let mut glances: HashMap<i64, (Option<Timestamp>, u64)> = HashMap::new();
        if lanes.is_empty() {
            return Ok(glances);
        }
        let mut rows = line.all(sql!("ready_later"), args![lanes, self.now, GLANCE]).await?;
        rows.extend(line.all(sql!("ready_reserved"), args![self.now, GLANCE]).await?);
        for row in rows {
            let glance = glances.entry(column(&row, 0)?).or_default();
            let oldest = column::<Option<i64>>(&row, 1)?.map(Timestamp::from_millis);
            glance.0 = [glance.0, oldest].into_iter().flatten().min();
            glance.1 += number(column(&row, 2)?);
        }
        Ok(glances)
    }
}
