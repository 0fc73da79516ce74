//! Looking through the living jobs.

use std::cell::RefCell;

use tokio_postgres::Row;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::{Lane, Memory, learn_lanes};
use super::texts::sql;
use super::verb::Question;
use crate::job::list::{Candidate, JobPage, JobQuery, JobStateName, StoredHead};
use crate::seal::Seals;

/// How many jobs are read at once.
const AT_ONCE: usize = 500;

/// The living jobs that are wanted.
pub(super) struct ListJobs {
    /// Whose clock says what is due; absent: the database's.
    pub(super) now: Option<i64>,
    pub(super) query: JobQuery,
}

impl Question for ListJobs {
    type Answer = JobPage;

    async fn ask(&self, line: &Line, memory: &RefCell<Memory>, _: &Seals) -> Result<JobPage, Fault> {
        let query = &self.query;
        let candidates = candidates(line, query).await?;
        let is_strange = |(_, lane): &Candidate| memory.borrow().lane_of(*lane).is_none();
        if candidates.iter().any(is_strange) {
            learn_lanes(line, memory).await?;
        }
        let may_be = |(_, lane): &&Candidate| {
            memory.borrow().lane_of(*lane).is_none_or(|lane| query.wants_lane(&lane.queue, &lane.kind))
        };
        let wanted: Vec<i64> = candidates.iter().filter(may_be).map(|(id, _)| *id).collect();
        let mut jobs = Vec::new();
        for ids in wanted.chunks(AT_ONCE) {
            if jobs.len() >= query.most() {
                break;
            }
            for row in line.all(sql!("job_head"), args![ids, self.now]).await? {
                let lane_id: i64 = column(&row, 19)?;
                let (stored, memory) = (read(&row)?, memory.borrow());
                let Lane { queue, kind, .. } = memory.lane_of(lane_id).ok_or_else(|| {
                    Fault::corrupt(format_args!("a job belongs to lane {lane_id}, which does not exist"))
                })?;
                jobs.push(stored.into_head(queue, kind));
            }
            jobs.retain(|head| query.wants(head));
        }
        jobs.truncate(query.most());
        Ok(query.page(jobs, &candidates))
    }
}

/// The jobs that are looked at, by the shortest way.
async fn candidates(line: &Line, query: &JobQuery) -> Result<Vec<Candidate>, Fault> {
    let (below, most) = (query.below(), i64::from(query.look_at()));
    let rows = match (&query.caller_id, query.state) {
        // No text of ours has a NUL in it.
        (Some(caller_id), _) if caller_id.contains('\0') => Vec::new(),
        (Some(caller_id), _) => {
            line.all(sql!("job_ids_of_caller"), args![below, most, caller_id.as_str()]).await?
        }
        (None, Some(JobStateName::Leased)) => line.all(sql!("lease_ids"), args![below, most]).await?,
        (None, Some(JobStateName::Dead)) => line.all(sql!("letter_ids"), args![below, most]).await?,
        (None, Some(JobStateName::Ready | JobStateName::Scheduled) | None) => {
            line.all(sql!("job_ids"), args![below, most]).await?
        }
    };
    rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
}

fn read(row: &Row) -> Result<StoredHead, Fault> {
    Ok(StoredHead {
        id: column(row, 0)?,
        enqueued_at: column(row, 1)?,
        run_at: column(row, 2)?,
        is_scheduled: column(row, 3)?,
        rank: column(row, 4)?,
        policy: column(row, 5)?,
        caller_id: column(row, 6)?,
        unique_key: column(row, 7)?,
        origin: column(row, 8)?,
        attempts: column(row, 9)?,
        retries: column(row, 10)?,
        crashes: column(row, 11)?,
        held_for: column(row, 12)?,
        leased_by: column(row, 13)?,
        lease_expires_at: column(row, 14)?,
        begun_at: column(row, 15)?,
        cancel_requested: column(row, 16)?,
        is_dead: column(row, 17)?,
        target: column(row, 18)?,
    })
}
