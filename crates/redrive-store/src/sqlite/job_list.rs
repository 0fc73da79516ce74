//! Looking through the living jobs.

use rusqlite::params;

use super::batch::Batch;
use super::sql;
use crate::error::StoreError;
use crate::job::list::{Candidate, JobPage, JobQuery, JobStateName, StoredHead};
use crate::time::Timestamp;

pub(super) fn list(
    batch: &mut Batch<'_, '_>,
    now: Timestamp,
    query: &JobQuery,
) -> Result<JobPage, StoreError> {
    let candidates = candidates(batch, query)?;
    let mut jobs = Vec::new();
    for (id, lane) in &candidates {
        if jobs.len() >= query.most() {
            break;
        }
        let lane = batch.lane_of(*lane)?;
        if !query.wants_lane(&lane.queue, &lane.kind) {
            continue;
        }
        let (queue, kind) = (lane.queue.clone(), lane.kind.clone());
        let stored = batch.first(sql!("job_head"), params![id, now.millis()], |row| {
            Ok(StoredHead {
                id: row.get(0)?,
                enqueued_at: row.get(1)?,
                run_at: row.get(2)?,
                is_scheduled: row.get(3)?,
                rank: row.get(4)?,
                policy: row.get(5)?,
                caller_id: row.get(6)?,
                unique_key: row.get(7)?,
                origin: row.get(8)?,
                attempts: row.get(9)?,
                retries: row.get(10)?,
                crashes: row.get(11)?,
                held_for: row.get(12)?,
                leased_by: row.get(13)?,
                lease_expires_at: row.get(14)?,
                begun_at: row.get(15)?,
                cancel_requested: row.get(16)?,
                is_dead: row.get(17)?,
                target: row.get(18)?,
            })
        })?;
        jobs.extend(stored.map(|stored| stored.into_head(&queue, &kind)).filter(|head| query.wants(head)));
    }
    Ok(query.page(jobs, &candidates))
}

/// The jobs that are looked at, by the shortest way.
fn candidates(batch: &Batch<'_, '_>, query: &JobQuery) -> Result<Vec<Candidate>, StoreError> {
    let (below, look_at) = (query.below(), query.look_at());
    if let Some(caller_id) = &query.caller_id {
        let values = params![below, look_at, caller_id];
        return batch.all(sql!("job_ids_of_caller"), values, |row| Ok((row.get(0)?, row.get(1)?)));
    }
    let text = match query.state {
        Some(JobStateName::Leased) => sql!("lease_ids"),
        Some(JobStateName::Dead) => sql!("letter_ids"),
        Some(JobStateName::Ready | JobStateName::Scheduled) | None => sql!("job_ids"),
    };
    batch.all(text, params![below, look_at], |row| Ok((row.get(0)?, row.get(1)?)))
}
