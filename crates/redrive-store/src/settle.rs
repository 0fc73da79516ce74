//! How an attempt ends. The policy has decided; the store writes it down, with its event, if the lease still holds.

use std::time::Duration;

use redrive_policy::protection::ParkedWhy;
use redrive_policy::{Cause, DecisionRecord, Verdict as Again};
use serde::{Deserialize, Serialize};

use crate::id::{EventSeq, WorkerId};
use crate::lease::LeaseToken;
use crate::protocol::Verdict;
use crate::time::Timestamp;

/// The end of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Proof of the lease.
    pub token: LeaseToken,
    /// How it ended.
    pub ending: Ending,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum Ending {
    /// The job is done.
    Succeeded {
        /// How long the attempt took.
        latency: Duration,
        /// Exit code of a command.
        exit_code: Option<i32>,
        /// What `max_retries` was, for the record.
        max_retries: u32,
        /// What it said; boxed, since most say nothing.
        output: Option<Box<Output>>,
    },
    /// It will be tried again.
    Retry {
        /// When.
        run_at: Timestamp,
        /// After which delay.
        delay: Duration,
        /// Only by this worker, while its presence lasts.
        held_for: Option<WorkerId>,
        /// What to tell the next attempt.
        hint: Option<String>,
        /// What went wrong, and what was decided.
        failure: Box<FailedAttempt>,
    },
    /// It is set aside.
    Dead {
        /// What went wrong, and what was decided.
        failure: Box<FailedAttempt>,
        /// The letter.
        letter: Box<NewLetter>,
    },
    /// The handler wants it later; nothing is counted.
    Snoozed {
        /// When.
        run_at: Timestamp,
        /// Only by this worker, while its presence lasts.
        held_for: Option<WorkerId>,
    },
    /// Its target is protected, and it may not go there now; nothing is counted.
    Parked {
        /// When it may.
        run_at: Timestamp,
        /// Only by this worker, while its presence lasts.
        held_for: Option<WorkerId>,
        /// The target, and why.
        parked: Box<Parked>,
    },
    /// Somebody ended it: no retry, no letter.
    Cancelled {
        /// Why.
        why: String,
        /// Exit code of a command.
        exit_code: Option<i32>,
    },
    /// Given back untouched or unfinished; nothing is counted.
    Released {
        /// Why.
        why: String,
    },
}

impl Ending {
    /// Its name, for the record.
    pub const fn name(&self) -> &'static str {
        match self {
            Ending::Succeeded { .. } => "succeeded",
            Ending::Retry { .. } => "retry",
            Ending::Dead { .. } => "dead",
            Ending::Snoozed { .. } => "snoozed",
            Ending::Parked { .. } => "parked",
            Ending::Cancelled { .. } => "cancelled",
            Ending::Released { .. } => "released",
        }
    }

    /// What it is to the protocol.
    pub fn verdict(&self) -> Verdict {
        match self {
            Ending::Succeeded { .. } => Verdict::Succeeded,
            Ending::Retry { failure, .. } => Verdict::Retry { crash: failure.charged_to_crashes },
            Ending::Dead { .. } => Verdict::Dead,
            Ending::Snoozed { .. } | Ending::Parked { .. } | Ending::Released { .. } => Verdict::Uncounted,
            Ending::Cancelled { .. } => Verdict::Cancelled,
        }
    }

    /// The exit code of a command, where there was one.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Ending::Succeeded { exit_code, .. } | Ending::Cancelled { exit_code, .. } => *exit_code,
            Ending::Retry { failure, .. } | Ending::Dead { failure, .. } => failure.exit_code,
            Ending::Snoozed { .. } | Ending::Parked { .. } | Ending::Released { .. } => None,
        }
    }
}

/// What a job was parked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// The target: `host:api.example.com`, `queue:mail`, `key:tenant-7`.
    pub target: String,
    /// Why.
    pub why: ParkedWhy,
}

/// What a command or a call said, bounded and redacted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// The end of what it wrote to stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// The end of what it wrote to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

impl Output {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }
}

/// A decision in both languages: the record of 002 §2.2, and its sentences in Japanese.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredDecision {
    /// The decision, in English.
    #[serde(flatten)]
    pub record: DecisionRecord,
    /// Which version of the policy decided.
    pub policy_version: String,
    /// The rule that recognised the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The same decision, in Japanese.
    pub ja: DecisionRecord,
}

/// An attempt that failed, and what was decided about it. All text is redacted and bounded.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// What it was found to be.
    pub cause: Cause,
    /// Whether sending it again may plausibly help, by the rule's verdict or the nature of the cause.
    pub retryable: bool,
    /// The rule that recognised it.
    pub rule: String,
    /// What failures of one kind share.
    pub fingerprint: String,
    /// The error's type.
    pub error_type: String,
    /// The error's words.
    pub error_message: String,
    /// Where it came from, if known.
    pub stack_trace: Option<String>,
    /// HTTP status, if there was one.
    pub http_status: Option<u16>,
    /// The error's own code.
    pub code: Option<String>,
    /// How long the attempt took, if known.
    pub latency: Option<Duration>,
    /// Exit code of a command.
    pub exit_code: Option<i32>,
    /// What it said.
    pub output: Output,
    /// What was decided, and why.
    pub decision: StoredDecision,
    /// Whether it is charged to the crash budget instead of `max_retries`.
    pub charged_to_crashes: bool,
    /// What the decision was based on besides.
    pub decided_on: DecidedOn,
}

/// What a decision was based on besides the failure's cause, rule and code: with it, another policy can be asked about the
/// same failure later. Most failures have nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecidedOn {
    /// The rule's own word on trying again, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Again>,
    /// How long the other side asked us to wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The attempt was lost with its worker.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub worker_died: bool,
    /// It was set aside for this reason, whatever the policy said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<LetterReason>,
    /// The job's deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// What the job overrides in its policy, as it is stored with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<String>,
}

impl DecidedOn {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == DecidedOn::default()
    }
}

/// Why a job was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterReason {
    /// Trying again cannot help.
    NonRetryable,
    /// Its retries are used up.
    Exhausted,
    /// It took its workers down too often, or it ran inside a process that died.
    Crashed,
    /// A person must decide.
    HumanJudgment,
    /// Its deadline passed.
    Deadline,
    /// The other side asks for a longer wait than the policy obeys.
    RetryAfter,
    /// A consumer set it aside.
    Requested,
}

impl LetterReason {
    /// Every reason.
    pub const ALL: [LetterReason; 7] = [
        LetterReason::NonRetryable,
        LetterReason::Exhausted,
        LetterReason::Crashed,
        LetterReason::HumanJudgment,
        LetterReason::Deadline,
        LetterReason::RetryAfter,
        LetterReason::Requested,
    ];

    /// Its name in JSON and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            LetterReason::NonRetryable => "non_retryable",
            LetterReason::Exhausted => "exhausted",
            LetterReason::Crashed => "crashed",
            LetterReason::HumanJudgment => "human_judgment",
            LetterReason::Deadline => "deadline",
            LetterReason::RetryAfter => "retry_after",
            LetterReason::Requested => "requested",
        }
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<LetterReason> {
        LetterReason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// A letter to be written.
#[derive(Debug, Clone)]
pub struct NewLetter {
    /// Why it is set aside.
    pub reason: LetterReason,
    /// Where it failed: whatever helps to find it (000's context), as a JSON object.
    pub context: serde_json::Value,
    /// The escalation report of 002 §4.2, as JSON.
    pub report: serde_json::Value,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is written down.
    Done {
        /// Under this event.
        event: EventSeq,
    },
    /// It would have been put back, but somebody had asked for its end: it is cancelled.
    Cancelled {
        /// Under this event.
        event: EventSeq,
    },
    /// The lease was lost: nothing changed. A `stale_settle` event tells of it.
    Stale,
}
