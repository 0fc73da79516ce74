//! What was counted by the hour: with what is not added up yet.

use std::cell::RefCell;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::Memory;
use super::texts::{sql, storable};
use super::verb::Question;
use crate::metric::{Metric, MetricCount, MetricsQuery};
use crate::seal::Seals;

/// The counts of some hours.
pub(super) struct MetricsOf {
    pub(super) query: MetricsQuery,
}

impl Question for MetricsOf {
    type Answer = Vec<MetricCount>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<Vec<MetricCount>, Fault> {
        let MetricsQuery { from_hour, to_hour, queue, by_hour, by_queue } = &self.query;
        let queue = queue.as_deref().map(storable);
        let rows =
            line.all(sql!("hour_list"), args![*from_hour, *to_hour, queue, *by_hour, *by_queue]).await?;
        let mut counts = Vec::with_capacity(rows.len());
        for row in &rows {
            // What a later version counts is not ours to tell.
            let Some(metric) = Metric::from_code(column(row, 2)?) else { continue };
            let n = u64::try_from(column::<i64>(row, 3)?).unwrap_or(0);
            counts.push(MetricCount { hour: column(row, 0)?, queue: column(row, 1)?, metric, n });
        }
        Ok(counts)
    }
}
