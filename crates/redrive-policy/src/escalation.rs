//! What a person is told when the machine gives up (R-T7, R-T8; 002 §4 and §8.2).
//!
//! The report holds everything; the user message is minimal: what failed, why, what to do. It carries no
//! stack trace, no secret, no control character, and never more characters than the configuration allows.

mod fatal;
mod level;

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, FailureType, named_enum};
use crate::decide::{Decision, DecisionRecord, Why};
use crate::hint::Bullets;
use crate::lang::{Lang, fill, template, text, translated};
use crate::redact::{one_line, redact, redact_lines};

pub use fatal::FatalError;
pub use level::EscalationLevel;

named_enum! {
    /// The four kinds of reason for an escalation.
    ReasonType {
        /// All retries are used up.
        MaxRetries = "MAX_RETRIES",
        /// It can never succeed as it is.
        FatalError = "FATAL_ERROR",
        /// Somebody has to decide.
        HumanJudgment = "HUMAN_JUDGMENT",
        /// Something has run out.
        ResourceExhausted = "RESOURCE_EXHAUSTED",
    }
}

impl ReasonType {
    /// The kind of reason behind a decision to escalate.
    pub fn of(decision: &Decision) -> ReasonType {
        match decision.why {
            Why::Exhausted { .. } if decision.max_retries > 0 => ReasonType::MaxRetries,
            _ => ReasonType::of_cause(decision.cause.unwrap_or(Cause::Unknown)),
        }
    }

    /// The same, from what was written down of the decision. What is not retried is recorded with no retries allowed.
    pub fn of_record(record: &DecisionRecord) -> ReasonType {
        if record.max_retries > 0 && record.current_retry_count >= record.max_retries {
            return ReasonType::MaxRetries;
        }
        ReasonType::of_cause(record.cause.unwrap_or(Cause::Unknown))
    }

    fn of_cause(cause: Cause) -> ReasonType {
        match cause {
            Cause::ResourceExhausted => ReasonType::ResourceExhausted,
            Cause::HumanJudgment | Cause::Cancelled | Cause::Unknown => ReasonType::HumanJudgment,
            Cause::AuthError
            | Cause::ValidationError
            | Cause::Integrity
            | Cause::NotFound
            | Cause::Configuration => ReasonType::FatalError,
            // A cause that time could heal, but this policy gives it no retries.
            Cause::Network
            | Cause::Timeout
            | Cause::RateLimit
            | Cause::ApiError
            | Cause::Contention
            | Cause::Crashed
            | Cause::Incomplete
            | Cause::Quality => ReasonType::MaxRetries,
        }
    }
}

/// Why somebody is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EscalationReason {
    /// The kind of reason.
    #[serde(rename = "type")]
    pub reason_type: ReasonType,
    /// The reason in words.
    pub description: String,
}

/// One attempt, as the report remembers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryAttempt {
    /// Counted from 1.
    pub attempt_number: u32,
    /// When it ended, in UTC.
    pub timestamp: String,
    /// What it failed with.
    pub failure_type: FailureType,
    /// The fine kind of it.
    pub cause: Cause,
    /// Its words.
    pub error_message: String,
    /// How long it ran.
    pub duration_ms: u64,
}

/// The last thing that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastFailure {
    /// What it was.
    #[serde(rename = "type")]
    pub failure_type: FailureType,
    /// Its words.
    pub message: String,
    /// When.
    pub timestamp: String,
}

/// The attempts in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureSummary {
    /// How often it was tried.
    pub total_attempts: u32,
    /// What each attempt failed with.
    pub failure_types: Vec<FailureType>,
    /// The last failure.
    pub last_failure: LastFailure,
}

/// What a developer wants to see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DebugInfo {
    /// Every attempt.
    pub retry_history: Vec<RetryAttempt>,
    /// A path, or `redrive:trace/<id>` when no file was written.
    pub trace_file: String,
    /// The bounded tail of the output.
    pub relevant_logs: Vec<String>,
}

/// The `EscalationReport` of 002 §4.2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EscalationReport {
    /// The task or job.
    pub task_id: String,
    /// The part of it that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask_id: Option<String>,
    /// When, in UTC.
    pub escalated_at: String,
    /// Why.
    pub reason: EscalationReason,
    /// The attempts in short.
    pub failure_summary: FailureSummary,
    /// What the user is told.
    pub user_message: String,
    /// What a developer wants to see.
    pub debug_info: DebugInfo,
    /// What to do about it.
    pub recommended_actions: Vec<String>,
    /// Who has to deal with it (001).
    // A report from before there were levels: somebody looks at it.
    #[serde(default = "analysis")]
    pub level: EscalationLevel,
    /// Its entry in the catalogue of §8.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fatal_error: Option<FatalError>,
    /// The language that it was written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

const fn analysis() -> EscalationLevel {
    EscalationLevel::Analysis
}

/// The `escalate` section of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalateSettings {
    /// Tell somebody at once.
    pub notify_immediately: bool,
    /// End the message with the way to the trace.
    pub include_trace_link: bool,
    /// The most characters a user message may have.
    pub max_message_length: usize,
}

impl Default for EscalateSettings {
    fn default() -> EscalateSettings {
        EscalateSettings { notify_immediately: true, include_trace_link: true, max_message_length: 500 }
    }
}

/// What an escalation report is made from.
#[derive(Debug, Clone)]
pub struct Escalation<'a> {
    /// The task or job.
    pub task_id: &'a str,
    /// The part of it that failed.
    pub subtask_id: Option<&'a str>,
    /// What the work is called by people.
    pub task_summary: &'a str,
    /// The decision that led here.
    pub decision: &'a Decision,
    /// The attempts, oldest first; the last one is what is told.
    pub attempts: &'a [RetryAttempt],
    /// When, in UTC.
    pub escalated_at: &'a str,
    /// Where the trace is, if a file was written.
    pub trace_file: Option<&'a str>,
    /// The tail of the output.
    pub relevant_logs: &'a [String],
}

/// The most lines of output that a report keeps.
pub const MAX_LOG_LINES: usize = 20;

impl Escalation<'_> {
    /// The report, its message written in that language.
    pub fn report(&self, settings: &EscalateSettings, lang: Lang) -> EscalationReport {
        let reason_type = ReasonType::of(self.decision);
        let description = self.decision.escalate_reason(lang).unwrap_or_default();
        let attempts: Vec<RetryAttempt> = self
            .attempts
            .iter()
            .map(|attempt| RetryAttempt { error_message: redact(&attempt.error_message), ..attempt.clone() })
            .collect();
        let last = attempts.last();
        let logs = &self.relevant_logs[self.relevant_logs.len().saturating_sub(MAX_LOG_LINES)..];
        let fatal_error = self.fatal_error();
        let words = Words {
            task_id: self.task_id,
            subtask_id: self.subtask_id,
            task_summary: self.task_summary,
            cause: self.decision.cause.unwrap_or(Cause::Unknown),
            fatal_error,
            reason_type,
            total_attempts: attempts.len(),
            issue: last.map_or("", |attempt| attempt.error_message.as_str()),
            description: &description,
        };
        EscalationReport {
            task_id: self.task_id.to_owned(),
            subtask_id: self.subtask_id.map(str::to_owned),
            escalated_at: self.escalated_at.to_owned(),
            user_message: words.message(settings, lang),
            recommended_actions: words.actions(lang),
            failure_summary: FailureSummary {
                total_attempts: u32::try_from(attempts.len()).unwrap_or(u32::MAX),
                failure_types: attempts.iter().map(|attempt| attempt.failure_type).collect(),
                last_failure: LastFailure {
                    failure_type: self.decision.failure_type().unwrap_or(FailureType::EscalateRequired),
                    message: last.map(|attempt| attempt.error_message.clone()).unwrap_or_default(),
                    timestamp: last
                        .map_or_else(|| self.escalated_at.to_owned(), |attempt| attempt.timestamp.clone()),
                },
            },
            debug_info: DebugInfo {
                trace_file: self
                    .trace_file
                    .map_or_else(|| format!("redrive:trace/{}", self.task_id), str::to_owned),
                relevant_logs: redact_lines(logs),
                retry_history: attempts,
            },
            level: EscalationLevel::of_decision(self.decision).unwrap_or(EscalationLevel::Analysis),
            fatal_error,
            lang: Some(lang.name().to_owned()),
            reason: EscalationReason { reason_type, description },
        }
    }

    fn fatal_error(&self) -> Option<FatalError> {
        let rule = match &self.decision.why {
            Why::NotListed { rule }
            | Why::RuleForbids { rule }
            | Why::NeverRetried { rule }
            | Why::Exhausted { rule }
            | Why::Retried { rule, .. } => rule.as_str(),
            Why::Succeeded | Why::RetryAfterTooLong { .. } => "",
        };
        FatalError::of(self.decision.cause.unwrap_or(Cause::Unknown), rule)
    }
}

impl EscalationReport {
    /// The same for somebody who reads that language: the message and what to do are written anew where they stand in
    /// another one. What the work is called is not part of a report.
    pub fn in_lang(
        mut self,
        task_summary: &str,
        settings: &EscalateSettings,
        lang: Lang,
    ) -> EscalationReport {
        if let Some(description) = translated(lang, "decide.reason.", &self.reason.description) {
            self.reason.description = description;
        }
        let cause = self.debug_info.retry_history.last().map(|attempt| attempt.cause);
        // Without an attempt nobody knows what to write.
        let Some(cause) = cause.filter(|_| self.lang.as_deref().is_some_and(|own| own != lang.name())) else {
            return self;
        };
        let words = Words {
            task_id: &self.task_id,
            subtask_id: self.subtask_id.as_deref(),
            task_summary,
            cause,
            fatal_error: self.fatal_error,
            reason_type: self.reason.reason_type,
            total_attempts: usize::try_from(self.failure_summary.total_attempts).unwrap_or(usize::MAX),
            issue: &self.failure_summary.last_failure.message,
            description: &self.reason.description,
        };
        let (user_message, recommended_actions) = (words.message(settings, lang), words.actions(lang));
        EscalationReport { user_message, recommended_actions, lang: Some(lang.name().to_owned()), ..self }
    }
}

/// What the words of a report are made from.
struct Words<'a> {
    task_id: &'a str,
    subtask_id: Option<&'a str>,
    task_summary: &'a str,
    cause: Cause,
    fatal_error: Option<FatalError>,
    reason_type: ReasonType,
    total_attempts: usize,
    /// What the last failure said, redacted.
    issue: &'a str,
    /// Stands in where it said nothing.
    description: &'a str,
}

impl Words<'_> {
    /// The command that goes on with it, once it is mended.
    fn put_back(&self) -> String {
        if self.subtask_id.is_some() || self.task_id.starts_with("task-") {
            format!("redrive task resume {}", self.task_id)
        } else {
            format!("redrive redrive {}", self.task_id)
        }
    }

    /// What to do: two or three things, by the entry of the catalogue or else by the cause, then how to go on.
    fn actions(&self, lang: Lang) -> Vec<String> {
        let put_back = self.put_back();
        let values: [(&str, &dyn Display); 2] = [("task_id", &self.task_id), ("put_back", &put_back)];
        let about = self.fatal_error.map_or_else(|| self.cause.name(), FatalError::key);
        let then = match self.reason_type {
            ReasonType::MaxRetries | ReasonType::FatalError => "actions.then.mended",
            ReasonType::HumanJudgment => "actions.then.decided",
            ReasonType::ResourceExhausted => "actions.then.room",
        };
        let keys = [format!("actions.{about}.first"), format!("actions.{about}.second"), then.to_owned()];
        let actions = keys.iter().map(|key| text(lang, key, &values));
        actions.filter(|action| !action.is_empty()).collect()
    }

    /// The message of §4.3, within its length: the parts a person needs least are shortened first.
    fn message(&self, settings: &EscalateSettings, lang: Lang) -> String {
        let key = match self.reason_type {
            ReasonType::MaxRetries => "message.max-retries",
            ReasonType::FatalError => "message.fatal-error",
            ReasonType::HumanJudgment => "message.human-judgment",
            ReasonType::ResourceExhausted => "message.resource-exhausted",
        };
        let actions = self.actions(lang);
        let issue = one_line(self.issue);
        let issue = if issue.is_empty() { self.description.to_owned() } else { issue };
        // §8.2 gives some errors a sentence of their own; the raw words follow in brackets.
        let issue = match self.fatal_error {
            None => issue,
            Some(fatal) => {
                format!("{} ({issue})", template(lang, &format!("catalogue.{}", fatal.key())))
            }
        };
        let trace = if settings.include_trace_link {
            text(lang, "message.trace", &[("task_id", &self.task_id)])
        } else {
            String::new()
        };
        let limit = settings.max_message_length;
        let summary = one_line(&redact(self.task_summary));
        // Shrink what is long until it fits; the trace link stays whole, for it leads to the rest.
        let room_for_trace = trace.chars().count();
        for (summary_room, issue_room, action_count) in
            [(80, 240, actions.len()), (60, 120, actions.len()), (40, 80, 1), (24, 40, 1), (12, 24, 0)]
        {
            let body = fill(
                template(lang, key),
                &[
                    ("task_summary", &shorten(&summary, summary_room)),
                    ("total_attempts", &self.total_attempts),
                    ("main_issue", &shorten(&issue, issue_room)),
                    ("error_message", &shorten(&issue, issue_room)),
                    ("judgment_reason", &shorten(&issue, issue_room)),
                    ("resource_limit", &shorten(&issue, issue_room)),
                    (
                        "recommended_actions",
                        &Bullets(&actions[..action_count.min(actions.len())]) as &dyn Display,
                    ),
                    ("confirmation_items", &Bullets(&actions[..action_count.min(actions.len())])),
                    ("task_id", &self.task_id),
                ],
            );
            if body.chars().count() + room_for_trace <= limit {
                return body + &trace;
            }
        }
        let body = format!("{summary}: {issue}");
        match limit.checked_sub(room_for_trace) {
            Some(0) => trace.trim_start().to_owned(),
            Some(room) => shorten(&body, room) + &trace,
            None => shorten(&body, limit),
        }
    }
}

/// At most `room` characters, the last one an ellipsis when something was cut.
fn shorten(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(room.saturating_sub(1)).collect();
    if room > 0 {
        cut.push('…');
    }
    cut
}

/// What a person is told when files could not be put back (R-P14).
pub fn not_restored(lang: Lang, what: &str) -> String {
    text(lang, "task.not-restored", &[("what", &what)])
}

/// What a person is told when more than one part has failed.
pub fn also_failed(lang: Lang, others: &str, task: &dyn std::fmt::Display) -> String {
    text(lang, "task.also-failed", &[("others", &others), ("task", task)])
}

/// What a person is told of a subtask that neither succeeded nor failed.
pub fn ended_by_somebody(lang: Lang, subtask: &str) -> String {
    text(lang, "task.ended-by-somebody", &[("subtask", &subtask)])
}
