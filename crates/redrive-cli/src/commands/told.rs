//! What `run` and `work` tell of an attempt that was settled, taken out of the worker's report so that it can be
//! told by whoever holds stderr.

use std::time::Duration;

use redrive::engine::AttemptReport;
use redrive_policy::{Cause, Lang};
use redrive_store::{Ending, FailedAttempt, JobId, LetterReason};

use crate::escape::beginning;
use crate::text::{own, text};
use crate::view::story::cause_by;

/// What is quoted of an error's words.
const WORDS: usize = 160;

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) id: JobId,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) end: End,
}

/// How it ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Succeeded {
        took: Duration,
        exit_code: Option<i32>,
    },
    Retrying {
        failed: Failed,
        delay: Duration,
        hint: Option<String>,
    },
    Dead {
        failed: Failed,
        reason: LetterReason,
    },
    Cancelled {
        exit_code: Option<i32>,
    },
    /// Put off or given back: nothing that was counted.
    Uncounted,
}

/// What went wrong.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) cause: Cause,
    rule: String,
    pub(super) exit_code: Option<i32>,
    /// The retry that follows, and how many there are.
    pub(super) retry: u32,
    pub(super) max: u32,
    error_type: String,
    message: String,
    en: String,
    ja: String,
}

impl Failed {
    fn of(failure: &FailedAttempt) -> Failed {
        let record = &failure.decision.record;
        Failed {
            cause: failure.cause,
            rule: failure.rule.clone(),
            exit_code: failure.exit_code,
            retry: record.current_retry_count.saturating_add(1),
            max: record.max_retries,
            error_type: failure.error_type.clone(),
            message: failure.error_message.clone(),
            en: record.reasoning.clone(),
            ja: failure.decision.ja.reasoning.clone(),
        }
    }

    /// Why it was decided so.
    pub(super) fn why(&self, lang: Lang) -> &str {
        match lang {
            Lang::En => &self.en,
            Lang::Ja => &self.ja,
        }
    }

    /// What it was found to be, and by which rule.
    pub(super) fn cause(&self, lang: Lang) -> String {
        match self.error_type.as_str() {
            // A review has said by which criterion.
            "Review" => self.cause.to_string(),
            _ => cause_by(self.cause, &self.rule, lang),
        }
    }

    /// All that it said, redacted.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What happened, in a few words. What a command wrote has been seen already; what could not be started, or
    /// is no command, says it in its own words.
    pub(super) fn what(&self, lang: Lang) -> String {
        let words = beginning(&own(lang, self.message.lines().next().unwrap_or_default().trim()), WORDS);
        match self.exit_code {
            Some(124) if self.cause == Cause::Timeout => text(lang, "run.timed-out", &[]),
            Some(code) if self.error_type == "ExitStatus" => {
                text(lang, "story.exit-code", &[("code", &code)])
            }
            _ if words.is_empty() => self.error_type.clone(),
            _ => words,
        }
    }
}

impl Told {
    pub(super) fn of(report: &AttemptReport<'_>) -> Told {
        let job = &report.leased.job;
        let end = match report.ending {
            Ending::Succeeded { latency, exit_code, .. } => {
                End::Succeeded { took: *latency, exit_code: *exit_code }
            }
            Ending::Retry { delay, failure, hint, .. } => {
                End::Retrying { failed: Failed::of(failure), delay: *delay, hint: hint.clone() }
            }
            Ending::Dead { failure, letter } => {
                End::Dead { failed: Failed::of(failure), reason: letter.reason }
            }
            Ending::Cancelled { exit_code, .. } => End::Cancelled { exit_code: *exit_code },
            Ending::Snoozed { .. } | Ending::Parked { .. } | Ending::Released { .. } => End::Uncounted,
        };
        Told { id: job.id, name: job.source.clone(), attempt: report.leased.attempt, end }
    }
}
