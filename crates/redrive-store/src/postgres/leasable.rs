//! A job as the next attempt would see it, from the columns that `leasable.sql` and `ready_take.sql` begin with.

use std::cell::RefCell;
use std::time::Duration;

use tokio_postgres::Row;

use super::fault::Fault;
use super::line::{Line, column};
use super::memory::{Memory, learn_lanes, learn_texts};
use crate::effects::PutBack;
use crate::id::{EventSeq, JobId};
use crate::job::{Job, Origin};
use crate::lease::{LeaseToken, LeasedJob};
use crate::protocol::Standing;
use crate::redrive::RunId;
use crate::row::count;
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

/// A job that was read, with what its lease row will need.
#[derive(Debug, Clone)]
pub(super) struct Leasable {
    pub(super) leased: LeasedJob,
    pub(super) standing: Standing,
    pub(super) lane_id: i64,
    pub(super) source_id: i64,
    pub(super) has_progress: bool,
    /// Where it came from, if it was redriven.
    pub(super) put_back: Option<PutBack>,
}

/// Learns the names that these rows refer to.
pub(super) async fn learn(line: &Line, memory: &RefCell<Memory>, rows: &[Row]) -> Result<(), Fault> {
    let mut sources = Vec::with_capacity(rows.len());
    let mut strange = false;
    for row in rows {
        sources.push(column(row, 3)?);
        strange |= memory.borrow().lane_of(column(row, 14)?).is_none();
    }
    if strange {
        learn_lanes(line, memory).await?;
    }
    learn_texts(line, memory, sources).await
}

/// Reads a job; its names are known already.
pub(super) fn read(row: &Row, memory: &Memory, seals: &Seals) -> Result<Leasable, Fault> {
    let id = JobId(column(row, 22)?);
    let lane_id: i64 = column(row, 14)?;
    let source_id: i64 = column(row, 3)?;
    let lane = memory.lane_of(lane_id).ok_or_else(|| {
        Fault::corrupt(format_args!("{id} belongs to lane {lane_id}, which does not exist"))
    })?;
    let number = |at| column::<Option<i64>>(row, at).map(|number| number.unwrap_or(0));
    let standing =
        Standing { fence: number(15)?, attempts: number(16)?, retries: number(17)?, crashes: number(18)? };
    let latest: Option<i64> = column(row, 21)?;
    let job = Job {
        id,
        queue: lane.queue.clone(),
        kind: lane.kind.clone(),
        payload: seals.open_bytes(Cell::JobPayload, id.0, column(row, 0)?)?,
        enqueued_at: Timestamp::from_millis(column(row, 1)?),
        priority: i32::try_from(-column::<i64>(row, 2)?).unwrap_or_default(),
        source: memory.text_of(source_id).unwrap_or_default().to_owned(),
        policy: column(row, 5)?,
        overrides: seals.open_some(Cell::JobOverrides, id.0, column(row, 6)?)?,
        caller_id: column(row, 7)?,
        idempotency_key: column(row, 8)?,
        unique_key: column(row, 9)?,
        timeout: column::<Option<i64>>(row, 10)?.map(duration),
        deadline_at: column::<Option<i64>>(row, 11)?.map(Timestamp::from_millis),
        origin: if column::<i64>(row, 12)? == 0 { Origin::Local } else { Origin::Api },
        inline: column(row, 13)?,
        target: column(row, 26)?,
    };
    let put_back = put_back(row, 23)?;
    let leased = LeasedJob {
        token: LeaseToken { job: id, fence: standing.fence },
        job,
        attempt: count(standing.attempts) + 1,
        retries: count(standing.retries),
        crashes: count(standing.crashes),
        last_delay: column::<Option<i64>>(row, 19)?.map(duration),
        hint: seals.open_some(Cell::ProgressHint, id.0, column(row, 20)?)?,
        redriven: put_back.is_some(),
        begun: false,
        expires_at: Timestamp::default(),
        event: EventSeq(latest.map_or_else(|| column(row, 4), Ok)?),
    };
    Ok(Leasable { leased, standing, lane_id, source_id, has_progress: latest.is_some(), put_back })
}

/// Where a job that was redriven came from, from the three columns of `progress` that begin here.
pub(super) fn put_back(row: &Row, at: usize) -> Result<Option<PutBack>, Fault> {
    let redriven_at: Option<i64> = column(row, at + 2)?;
    let fingerprint: Option<String> = if redriven_at.is_some() { column(row, at)? } else { None };
    let Some((fingerprint, redriven_at)) = fingerprint.zip(redriven_at) else { return Ok(None) };
    let run = column::<Option<i64>>(row, at + 1)?.map(RunId);
    Ok(Some(PutBack { fingerprint, run, at: Timestamp::from_millis(redriven_at) }))
}

pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
