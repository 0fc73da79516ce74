//! What is left of an attempt whose worker died: its command goes on without anybody who listens.
//!
//! Before the next attempt begins it is ended, so that two of them do not run side by side. It is known by its
//! environment: every attempt's command, and everybody it started, carries the job's id and key and the attempt's number.

use rustix::process::Signal;

use super::family::{Process, processes};
use crate::surroundings::Surroundings;

/// Kills what earlier attempts of this job left running. Answers how many processes that were.
pub(super) fn end(around: &Surroundings) -> usize {
    let Some(key) = &around.idempotency_key else { return 0 };
    let job = format!("REDRIVE_JOB_ID={}", around.job_id);
    let key = format!("REDRIVE_IDEMPOTENCY_KEY={key}");
    let me = std::process::id().cast_signed();
    let is_left = |process: &Process| {
        let Ok(environment) = std::fs::read(format!("/proc/{}/environ", process.pid)) else { return false };
        let has = |entry: &str| environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes());
        process.pid != me
            && has(&job)
            && has(&key)
            && attempt_of(&environment).is_some_and(|n| n < around.attempt)
    };
    let left: Vec<Process> = processes().unwrap_or_default().into_iter().filter(is_left).collect();
    for process in &left {
        process.signal(Signal::KILL);
    }
    left.len()
}

fn attempt_of(environment: &[u8]) -> Option<u32> {
    let entry =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"REDRIVE_ATTEMPT="))?;
    std::str::from_utf8(entry).ok()?.parse().ok()
}
