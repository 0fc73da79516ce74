//! What the store promises to those who mend: letters, groups, redrives, queues and counts by the hour.

use std::time::Duration;

use super::open_work::OpenRuns;
use super::{Postgres, dead_letter, edit, heads, letter_group, metric, queue, redrive};
use crate::Answer;
use crate::dead_letter::{
    DeadLetter, DeadLetters, Edited, Heads, ImportedLetter, LetterFilter, PayloadVersion, Redriven,
};
use crate::error::{Refusal, StoreError, Trouble};
use crate::id::JobId;
use crate::job::{Enqueued, MAX_PAYLOAD_BYTES, few_enough, is_name};
use crate::letter_group::{Group, GroupQuery, GroupState, Groups};
use crate::metric::{MetricCount, Metrics, MetricsQuery};
use crate::queue::{Queue, Queues};
use crate::redrive::{Judged, NewRun, OpenRun, Redrives, Run, RunId, RunStep, Stepped};
use crate::time::Timestamp;

impl DeadLetters for Postgres {
    fn letters(&self, filter: LetterFilter, limit: u32) -> Answer<'_, Vec<DeadLetter>> {
        Box::pin(self.read(heads::LettersOf { filter, limit }))
    }

    fn letter_heads(&self, filter: LetterFilter, limit: u32, look_at: u32) -> Answer<'_, Heads> {
        Box::pin(self.read(heads::HeadsOf { filter, limit, look_at }))
    }

    fn count_letters(&self, filter: LetterFilter) -> Answer<'_, u64> {
        Box::pin(self.read(heads::CountOf { filter }))
    }

    fn redrive(
        &self,
        now: Timestamp,
        ids: Vec<JobId>,
        event_type: &'static str,
    ) -> Answer<'_, Vec<Redriven>> {
        Box::pin(async move {
            few_enough(ids.len())?;
            self.write(dead_letter::Redrive { now, ids, event_type }).await
        })
    }

    fn edit_payload(
        &self,
        now: Timestamp,
        id: JobId,
        edits: u32,
        payload: Vec<u8>,
        edited_by: String,
    ) -> Answer<'_, Edited> {
        Box::pin(async move {
            let bytes = payload.len();
            if bytes > MAX_PAYLOAD_BYTES {
                let refusal = Refusal::PayloadTooLarge { bytes, most: MAX_PAYLOAD_BYTES };
                return Err(Trouble::Refused(refusal).into());
            }
            self.write(edit::EditPayload { now, id, edits, payload, edited_by }).await
        })
    }

    fn payload_versions(&self, id: JobId) -> Answer<'_, Vec<PayloadVersion>> {
        Box::pin(self.read(edit::VersionsOf { id }))
    }

    fn discard(
        &self,
        now: Timestamp,
        ids: Vec<JobId>,
        event_type: &'static str,
        why: Option<String>,
    ) -> Answer<'_, Vec<bool>> {
        Box::pin(async move {
            few_enough(ids.len())?;
            self.write(dead_letter::Discard { now, ids, event_type, why }).await
        })
    }

    fn import_letters(&self, now: Timestamp, letters: Vec<ImportedLetter>) -> Answer<'_, Vec<Enqueued>> {
        Box::pin(async move {
            few_enough(letters.len())?;
            letters.iter().try_for_each(|letter| letter.job.validate())?;
            self.write(edit::ImportLetters { now, letters }).await
        })
    }
}

impl Groups for Postgres {
    fn groups(&self, query: GroupQuery, limit: u32) -> Answer<'_, Vec<Group>> {
        Box::pin(self.read(letter_group::GroupsOf { query, limit }))
    }

    fn set_group_state(
        &self,
        now: Timestamp,
        fingerprint: String,
        state: GroupState,
        note: Option<String>,
    ) -> Answer<'_, Option<Group>> {
        Box::pin(self.write(letter_group::SetGroupState { now, fingerprint, state, note }))
    }
}

impl Redrives for Postgres {
    fn start_run(&self, now: Timestamp, run: NewRun) -> Answer<'_, RunId> {
        Box::pin(self.write(redrive::StartRun { now, run }))
    }

    fn runs(&self, open_only: bool, limit: u32) -> Answer<'_, Vec<Run>> {
        Box::pin(self.read(redrive::RunsOf { open_only, limit }))
    }

    fn open_runs(
        &self,
        now: Timestamp,
        holder: i64,
        after: Option<RunId>,
        limit: u32,
    ) -> Answer<'_, Vec<OpenRun>> {
        Box::pin(self.read(OpenRuns { now: self.time(now), holder, after, limit }))
    }

    fn run(&self, id: RunId) -> Answer<'_, Option<Run>> {
        Box::pin(self.read(redrive::RunOf { id }))
    }

    fn hold_run(
        &self,
        now: Timestamp,
        id: RunId,
        holder: i64,
        hold_for: Duration,
    ) -> Answer<'_, Option<Run>> {
        Box::pin(self.write(redrive::HoldRun { now, id, holder, hold_for }))
    }

    fn advance_run(&self, now: Timestamp, step: RunStep) -> Answer<'_, Option<Stepped>> {
        Box::pin(async move {
            few_enough(step.ids.len())?;
            self.write(redrive::AdvanceRun { now, step }).await
        })
    }

    fn cancel_run(&self, now: Timestamp, id: RunId, why: String) -> Answer<'_, bool> {
        Box::pin(self.write(redrive::CancelRun { now, id, why }))
    }

    fn judged(&self, id: RunId, step: Option<u32>) -> Answer<'_, Vec<Judged>> {
        Box::pin(self.read(redrive::JudgedOf { id, step }))
    }
}

/// A queue is made by pausing it, so its name must be one.
fn must_be_name(queue: &str) -> Result<(), StoreError> {
    if is_name(queue) {
        return Ok(());
    }
    let name = queue.chars().take(80).collect();
    Err(Trouble::Refused(Refusal::BadName { what: "queue", name }).into())
}

impl Queues for Postgres {
    fn queues(&self) -> Answer<'_, Vec<Queue>> {
        Box::pin(self.read(queue::QueuesOf))
    }

    fn pause_queue(&self, now: Timestamp, queue: String, why: Option<String>) -> Answer<'_, bool> {
        Box::pin(async move {
            must_be_name(&queue)?;
            self.write(queue::Pause { now, queue, why }).await
        })
    }

    fn resume_queue(&self, now: Timestamp, queue: String) -> Answer<'_, Option<bool>> {
        Box::pin(async move {
            if !is_name(&queue) {
                return Ok(None);
            }
            self.write(queue::Resume { now, queue }).await
        })
    }
}

impl Metrics for Postgres {
    fn metrics(&self, query: MetricsQuery) -> Answer<'_, Vec<MetricCount>> {
        Box::pin(self.read(metric::MetricsOf { query }))
    }
}
