//! What happened by the hour: written with the transaction in which it happens, read for people.

use std::time::Duration;

use rusqlite::params;

use super::batch::Batch;
use super::sql;
use crate::error::StoreError;
use crate::metric::{Metric, MetricCount, MetricsQuery, hour_of};
use crate::time::Timestamp;

/// So much longer than events the counts are kept.
pub(super) const KEPT_LONGER: Duration = Duration::from_hours(60 * 24);

/// Writes what was counted in this transaction.
pub(super) fn write(batch: &mut Batch<'_, '_>) -> Result<(), StoreError> {
    for ((hour, lane, what), n) in batch.tally.take() {
        batch.run(sql!("hour_add"), params![hour, lane, what, n])?;
    }
    Ok(())
}

pub(super) fn metrics(batch: &Batch<'_, '_>, query: &MetricsQuery) -> Result<Vec<MetricCount>, StoreError> {
    let MetricsQuery { from_hour, to_hour, queue, by_hour, by_queue } = query;
    let counts =
        batch.all(sql!("hour_list"), params![from_hour, to_hour, queue, by_hour, by_queue], |row| {
            let metric = Metric::from_code(row.get(2)?);
            let n = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
            let (hour, queue) = (row.get(0)?, row.get(1)?);
            // A number that a newer redrive counts under is not shown by this one.
            Ok(metric.map(|metric| MetricCount { hour, queue, metric, n }))
        })?;
    Ok(counts.into_iter().flatten().collect())
}

/// Forgets what is older than events are kept, and then some.
pub(super) fn prune(batch: &Batch<'_, '_>, events_before: Timestamp, limit: u32) -> Result<bool, StoreError> {
    let before = hour_of(events_before.before(KEPT_LONGER));
    Ok(batch.run(sql!("hour_old"), params![before, limit])? >= limit as usize)
}
