//! What the store promises to those who mend: groups, redrives, queues and counts by the hour.

use std::time::Duration;

use super::{Sqlite, letter_group, metric, queue, redrive};
use crate::Answer;
use crate::event::must_be_name;
use crate::job::few_enough;
use crate::letter_group::{Group, GroupQuery, GroupState, Groups};
use crate::metric::{MetricCount, Metrics, MetricsQuery};
use crate::queue::{Queue, Queues};
use crate::redrive::{Judged, NewRun, OpenRun, Redrives, Run, RunId, RunStep, Stepped};
use crate::time::Timestamp;

impl Groups for Sqlite {
    fn groups(&self, query: GroupQuery, limit: u32) -> Answer<'_, Vec<Group>> {
        Box::pin(self.readers.read(move |batch| letter_group::groups(batch, &query, limit)))
    }

    fn set_group_state(
        &self,
        now: Timestamp,
        fingerprint: String,
        state: GroupState,
        note: Option<String>,
    ) -> Answer<'_, Option<Group>> {
        Box::pin(
            self.write(move |batch| {
                letter_group::set_state(batch, now, &fingerprint, state, note.as_deref())
            }),
        )
    }
}

impl Redrives for Sqlite {
    fn start_run(&self, now: Timestamp, run: NewRun) -> Answer<'_, RunId> {
        Box::pin(self.write(move |batch| redrive::start(batch, now, &run)))
    }

    fn runs(&self, open_only: bool, limit: u32) -> Answer<'_, Vec<Run>> {
        Box::pin(self.readers.read(move |batch| redrive::runs(batch, open_only, limit)))
    }

    fn open_runs(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<RunId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenRun>> {
        Box::pin(self.readers.read(move |batch| redrive::open_runs(batch, now, holder, after, limit)))
    }

    fn run(&self, id: RunId) -> Answer<'_, Option<Run>> {
        Box::pin(self.readers.read(move |batch| redrive::run(batch, id)))
    }

    fn hold_run(
        &self,
        now: Timestamp,
        id: RunId,
        holder: i64,
        hold_for: Duration,
    ) -> Answer<'_, Option<Run>> {
        Box::pin(self.write(move |batch| redrive::hold(batch, now, id, holder, hold_for)))
    }

    fn advance_run(&self, now: Timestamp, step: RunStep) -> Answer<'_, Option<Stepped>> {
        Box::pin(async move {
            few_enough(step.ids.len())?;
            self.write(move |batch| redrive::advance(batch, now, &step)).await
        })
    }

    fn cancel_run(&self, now: Timestamp, id: RunId, why: String) -> Answer<'_, bool> {
        Box::pin(self.write(move |batch| redrive::cancel(batch, now, id, &why)))
    }

    fn judged(&self, id: RunId, step: Option<u32>) -> Answer<'_, Vec<Judged>> {
        Box::pin(self.readers.read(move |batch| redrive::judged(batch, id, step)))
    }
}

impl Queues for Sqlite {
    fn queues(&self) -> Answer<'_, Vec<Queue>> {
        Box::pin(self.readers.read(|batch| queue::queues(batch)))
    }

    fn pause_queue(&self, now: Timestamp, queue: String, why: Option<String>) -> Answer<'_, bool> {
        Box::pin(async move {
            must_be_name("queue", &queue)?;
            self.write(move |batch| queue::pause(batch, now, &queue, why.as_deref())).await
        })
    }

    fn resume_queue(&self, now: Timestamp, queue: String) -> Answer<'_, Option<bool>> {
        Box::pin(self.write(move |batch| queue::resume(batch, now, &queue)))
    }
}

impl Metrics for Sqlite {
    fn metrics(&self, query: MetricsQuery) -> Answer<'_, Vec<MetricCount>> {
        Box::pin(self.readers.read(move |batch| metric::metrics(batch, &query)))
    }
}
