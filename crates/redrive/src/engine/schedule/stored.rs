//! A schedule as it stands on the board.

use std::time::Duration;

use redrive_store::{MAX_NOTICE_BYTES, NewJob, Notice, NoticeChange, Origin, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Cron, Missed, SPACE, Schedule, ScheduleProblem, named_zone};
use crate::engine::EngineError;
use crate::packed::Packed;

#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    cron: String,
    zone: String,
    missed: String,
    job: StoredJob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<Timestamp>,
    #[serde(default)]
    pub(super) fired: u64,
    #[serde(default)]
    pub(super) skipped: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredJob {
    queue: String,
    kind: String,
    payload: Packed,
    #[serde(default)]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overrides: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(default)]
    from_api: bool,
}

impl Stored {
    pub(super) fn read(notice: &Notice) -> Result<Stored, EngineError> {
        serde_json::from_str(&notice.value).map_err(|error| unreadable(&notice.name, &error))
    }

    pub(super) fn into_schedule(self, name: &str) -> Result<Schedule, EngineError> {
        let missed =
            Missed::from_name(&self.missed).ok_or_else(|| unreadable(name, &"its rule is unknown"))?;
        let payload = self.job.payload.unpack().map_err(|error| unreadable(name, &error))?;
        let job = NewJob {
            queue: self.job.queue,
            priority: self.job.priority,
            policy: self.job.policy,
            overrides: self.job.overrides,
            timeout: self.job.timeout_ms.map(Duration::from_millis),
            source: self.job.source,
            target: self.job.target,
            origin: if self.job.from_api { Origin::Api } else { Origin::Local },
            ..NewJob::new(self.job.kind, payload)
        };
        Ok(Schedule {
            name: name.to_owned(),
            cron: Cron::parse(&self.cron).map_err(ScheduleProblem::Cron)?,
            time_zone: named_zone(&self.zone)?,
            zone: self.zone,
            missed,
            job,
            paused_at: self.paused_at,
            created_at: self.created_at,
            next: self.next,
            last: self.last,
            fired: self.fired,
            skipped: self.skipped,
        })
    }
}

impl Schedule {
    /// The change that puts it up as it is, where this version was seen.
    pub(super) fn change(&self, seen: Option<i64>) -> Result<NoticeChange, EngineError> {
        let job = &self.job;
        let stored = Stored {
            cron: self.cron.source().to_owned(),
            zone: self.zone.clone(),
            missed: self.missed.name().to_owned(),
            job: StoredJob {
                queue: job.queue.clone(),
                kind: job.kind.clone(),
                payload: Packed::pack(job.payload.clone()),
                priority: job.priority,
                policy: job.policy.clone(),
                overrides: job.overrides.clone(),
                timeout_ms: job.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
                source: job.source.clone(),
                target: job.target.clone(),
                from_api: job.origin == Origin::Api,
            },
            paused_at: self.paused_at,
            created_at: self.created_at,
            next: self.next,
            last: self.last,
            fired: self.fired,
            skipped: self.skipped,
        };
        let value = serde_json::to_string(&stored).map_err(EngineError::Payload)?;
        if value.len() > MAX_NOTICE_BYTES {
            let (bytes, most) = (value.len(), MAX_NOTICE_BYTES);
            return Err(ScheduleProblem::TooLong { bytes, most }.into());
        }
        Ok(NoticeChange {
            space: SPACE.to_owned(),
            name: self.name.clone(),
            seen,
            value: Some(value),
            due_at: self.next,
        })
    }
}

fn unreadable(name: &str, why: &dyn std::fmt::Display) -> EngineError {
    ScheduleProblem::Unreadable { name: name.to_owned(), why: why.to_string() }.into()
}
