//! What the store promises to those who mend: groups, redrives, queues and counts by the hour.

use std::time::Duration;

use super::Postgres;
use crate::Answer;
use crate::error::Trouble;
use crate::letter_group::{Group, GroupQuery, GroupState, Groups};
use crate::metric::{MetricCount, Metrics, MetricsQuery};
use crate::queue::{Queue, Queues};
use crate::redrive::{Judged, NewRun, Redrives, Run, RunId, RunStep, Stepped};
use crate::time::Timestamp;

impl Groups for Postgres {
    fn groups(&self, _: GroupQuery, _: u32) -> Answer<'_, Vec<Group>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn set_group_state(
        &self,
        _: Timestamp,
        _: String,
        _: GroupState,
        _: Option<String>,
    ) -> Answer<'_, Option<Group>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }
}

impl Redrives for Postgres {
    fn start_run(&self, _: Timestamp, _: NewRun) -> Answer<'_, RunId> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn runs(&self, _: bool, _: u32) -> Answer<'_, Vec<Run>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn run(&self, _: RunId) -> Answer<'_, Option<Run>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn hold_run(&self, _: Timestamp, _: RunId, _: i64, _: Duration) -> Answer<'_, Option<Run>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn advance_run(&self, _: Timestamp, _: RunStep) -> Answer<'_, Option<Stepped>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn cancel_run(&self, _: Timestamp, _: RunId, _: String) -> Answer<'_, bool> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn judged(&self, _: RunId, _: Option<u32>) -> Answer<'_, Vec<Judged>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }
}

impl Queues for Postgres {
    fn queues(&self) -> Answer<'_, Vec<Queue>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn pause_queue(&self, _: Timestamp, _: String, _: Option<String>) -> Answer<'_, bool> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }

    fn resume_queue(&self, _: Timestamp, _: String) -> Answer<'_, Option<bool>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }
}

impl Metrics for Postgres {
    fn metrics(&self, _: MetricsQuery) -> Answer<'_, Vec<MetricCount>> {
        Box::pin(async { Err(Trouble::Database("this is not there yet".to_owned()).into()) })
    }
}
