//! What an attempt would have met that was never made: asked of the job's own attempts first, then of its target's.

use std::time::Duration;

use crate::cause::Class;
use crate::failure::Verdict;
use crate::simulate::record::{CameTo, Moment, RecordedAttempt, RecordedFailure, RecordedJob};
use crate::simulate::target::{Outlook, Targets};

/// The outlook for one job at one moment, and whether it fails because its failure is permanent.
pub(super) fn of(job: &RecordedJob, targets: &Targets, at: Moment) -> (Outlook, bool) {
    let told = |attempt: &&RecordedAttempt| matches!(attempt.came_to, CameTo::Succeeded | CameTo::Failed(_));
    let before = job.attempts.iter().rev().filter(told).find(|attempt| attempt.started_at <= at);
    let behind = job.attempts.iter().filter(told).find(|attempt| attempt.started_at > at);
    let Some((own, failed)) = before.and_then(failure_of) else {
        // It succeeded before: whether it would have now is the target's to say.
        return (targets.outlook(job.target, at), false);
    };
    let next = behind.map(|attempt| (attempt, failure_of(attempt).is_some()));
    let fails = |gap| Outlook::Fails { took: took(own), gap };
    let outlook = match next {
        // The job itself failed before and after, in one run of attempts.
        Some((next, true)) if next.run == own.run => fails(next.started_at.since(own.started_at)),
        _ if failed.says_of_target() => targets.outlook(job.target, at),
        // Somebody put it back, and it failed again: its failure is its own.
        Some((next, true)) => fails(next.started_at.since(own.started_at)),
        None if is_permanent(failed) => return (fails(Duration::ZERO), true),
        Some((_, false)) | None => Outlook::Unknown,
    };
    (outlook, false)
}

fn failure_of(attempt: &RecordedAttempt) -> Option<(&RecordedAttempt, &RecordedFailure)> {
    match &attempt.came_to {
        CameTo::Failed(failed) => Some((attempt, failed)),
        _ => None,
    }
}

/// Whether time does not heal it: a cause that stays, or a rule that says so.
fn is_permanent(failed: &RecordedFailure) -> bool {
    let failure = &failed.failure;
    match failure.verdict {
        Verdict::No => true,
        Verdict::Yes => false,
        Verdict::Unsaid => failure.cause.class() == Class::Permanent,
    }
}

fn took(attempt: &RecordedAttempt) -> Duration {
    attempt.ended_at.since(attempt.started_at)
}

/// How long the job's last attempt before that took.
pub(super) fn last_took(job: &RecordedJob, at: Moment) -> Duration {
    job.attempts.iter().rev().find(|attempt| attempt.started_at <= at).map_or(Duration::ZERO, took)
}
