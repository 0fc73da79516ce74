//! A subtask becomes a job.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use redrive_policy::plan::{Subtask, Work};
use redrive_store::{NewJob, Origin, TaskId, WorkerId};

use super::{Stored, TASK_QUEUE, subtask_id};
use crate::engine::EngineError;
use crate::exec::{CommandSpec, Protected};
use crate::http_call::HttpSpec;

/// The kind of a job that is a command.
const EXEC: &str = "exec";
/// The kind of a job that is an HTTP call.
const HTTP: &str = "http";

/// Whether every subtask can be a job at all: its payload fits, its names are names. The number of the first that cannot.
pub(super) fn fits(stored: &Stored) -> Result<(), (u32, Box<EngineError>)> {
    for (number, subtask) in (0..).zip(&stored.plan.subtasks) {
        let blame = |error: EngineError| (number, Box::new(error));
        let job = job(TaskId(i64::MAX), stored, number, None, None).map_err(blame)?;
        job.validate().map_err(|error| blame(error.into()))?;
        if let Work::Http(_) = &subtask.work {
            let name = subtask_id(TaskId(0), &stored.plan, number);
            HttpSpec::from_payload(&job.payload)
                .map_err(|error| blame(EngineError::BadCall(name, error.to_string())))?;
        }
    }
    Ok(())
}

/// The job of a subtask. It names the task as its caller, so that one look at the stream finds the whole story.
pub(super) fn job(
    task: TaskId,
    stored: &Stored,
    number: u32,
    told: Option<&str>,
    held_for: Option<WorkerId>,
) -> Result<NewJob, EngineError> {
    let subtask = &stored.plan.subtasks[number as usize];
    let (kind, payload) = match &subtask.work {
        Work::Command(_) => (EXEC.to_owned(), command(stored, subtask, told).to_payload()),
        Work::Http(call) => (HTTP.to_owned(), serde_json::to_vec(call).map_err(EngineError::Payload)?),
        Work::Handler { kind, payload } => {
            (kind.clone(), serde_json::to_vec(payload).map_err(EngineError::Payload)?)
        }
    };
    Ok(NewJob {
        queue: stored.plan.queue.clone().unwrap_or_else(|| TASK_QUEUE.to_owned()),
        policy: subtask.policy.clone(),
        overrides: subtask.overrides.as_ref().map(ToString::to_string),
        timeout: subtask.timeout_ms.map(Duration::from_millis),
        source: subtask_id(task, &stored.plan, number),
        caller_id: Some(task.to_string()),
        held_for,
        origin: if stored.from_api { Origin::Api } else { Origin::Local },
        ..NewJob::new(kind, payload)
    })
}

/// The command of a subtask, with directories that hold wherever it runs.
pub(super) fn command(stored: &Stored, subtask: &Subtask, told: Option<&str>) -> CommandSpec {
    let Work::Command(work) = &subtask.work else { return CommandSpec::default() };
    let cwd = work.cwd.as_ref().map_or_else(|| stored.base.0.clone(), |cwd| joined(&stored.base.0, cwd));
    CommandSpec {
        argv: work.argv.iter().map(OsString::from).collect(),
        cwd: Some(cwd),
        umask: stored.umask,
        env: work.env.clone(),
        stdin: work.stdin.clone(),
        hint: Some(work.hint),
        first_hint: told.map(str::to_owned),
        review: subtask.review.clone().map(Box::new),
        snapshot: subtask
            .snapshot
            .clone()
            .map(|plan| Box::new(Protected { base: stored.base.0.clone(), plan })),
    }
}

/// A path from a plan, without the dots that say nothing.
fn joined(base: &Path, path: &str) -> PathBuf {
    let parts = Path::new(path).components().filter(|part| !matches!(part, Component::CurDir));
    base.join(parts.collect::<PathBuf>())
}
