//! Dead letters as JSON: the fields of R-D5, and what finds and groups them. `dlq list --json` writes the same.

use redrive_policy::{
    Cause, ErrorCategory, EscalateSettings, EscalationLevel, EscalationReport, FailureType, Lang,
};
use redrive_store::{DeadLetter, LetterHead, LetterReason, PayloadVersion, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Json, Time, name};

/// A dead letter.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Letter {
    /// The job.
    pub id: String,
    /// The event of its death.
    pub event_id: String,
    /// When it was set aside.
    #[schemars(with = "Time")]
    pub timestamp: Timestamp,
    /// The queue that it came from.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// 004's word for the kind.
    pub job_type: String,
    /// What its last failure was.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// The error's type.
    pub error_type: String,
    /// The error's words.
    pub error_message: String,
    /// 000's view of the cause.
    #[schemars(with = "name::ErrorCategory")]
    pub error_category: ErrorCategory,
    /// 002's view of the cause.
    #[schemars(with = "name::FailureType")]
    pub failure_type: FailureType,
    /// The rule that recognised the failure.
    pub rule: String,
    /// Retries made.
    pub retry_count: u32,
    /// How many retries it had.
    pub max_retries: u32,
    /// Attempts made.
    pub attempts: u32,
    /// How often it was put back before.
    pub redrives: u32,
    /// Whether sending it again may plausibly help.
    pub retryable: bool,
    /// Why it was set aside.
    #[schemars(with = "name::Reason")]
    pub reason: LetterReason,
    /// From 1 to 5, who has to deal with it (R-T10).
    #[schemars(with = "name::Level")]
    pub level: EscalationLevel,
    /// What failures of one kind share: its group.
    pub fingerprint: String,
    /// The caller's own id.
    pub caller_id: Option<String>,
    /// The policy it ran under.
    pub policy: Option<String>,
    /// When it was first enqueued.
    #[schemars(with = "Time")]
    pub enqueued_at: Timestamp,
    /// Where it failed.
    #[schemars(with = "Json")]
    pub context: Value,
    /// What the handler got; null unless it was asked for.
    #[schemars(with = "Json")]
    pub original_payload: Option<Value>,
    /// How large that is.
    pub payload_bytes: usize,
}

impl Letter {
    /// This letter, with its payload or without.
    pub fn new(letter: &DeadLetter, with_payload: bool) -> Letter {
        Letter {
            id: letter.id.to_string(),
            event_id: letter.event.seq.event_id(letter.event.at),
            timestamp: letter.died_at,
            queue: letter.queue.clone(),
            kind: letter.kind.clone(),
            job_type: letter.kind.clone(),
            cause: letter.cause,
            error_type: letter.error_type.clone(),
            error_message: letter.error_message.clone(),
            error_category: letter.cause.error_category(),
            failure_type: letter.cause.failure_type(),
            rule: letter.rule.clone(),
            retry_count: letter.attempts.saturating_sub(1),
            max_retries: letter.max_retries,
            attempts: letter.attempts,
            redrives: letter.redrives,
            retryable: letter.retryable,
            reason: letter.reason,
            level: EscalationLevel::of(letter.cause, letter.retryable),
            fingerprint: letter.fingerprint.clone(),
            caller_id: letter.caller_id.clone(),
            policy: letter.policy.clone(),
            enqueued_at: letter.enqueued_at,
            context: letter.context.clone(),
            original_payload: with_payload.then(|| payload(&letter.payload)),
            payload_bytes: letter.payload.len(),
        }
    }
}

/// A payload as JSON: JSON stays JSON, text stays text; other bytes are a text with what is no UTF-8 replaced.
pub fn payload(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// The same in both languages.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InBoth {
    /// English.
    pub en: String,
    /// Japanese.
    pub ja: String,
}

impl InBoth {
    /// What is said in each language.
    pub fn of(said: impl Fn(Lang) -> String) -> InBoth {
        InBoth { en: said(Lang::En), ja: said(Lang::Ja) }
    }
}

/// A dead letter with everything that is known about it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LetterWhole {
    /// The letter itself.
    #[serde(flatten)]
    pub letter: Letter,
    /// What the level is called.
    pub level_title: InBoth,
    /// What a person is told.
    pub user_message: InBoth,
    /// The escalation report of 002 §4.2; of a letter from elsewhere whatever came with it. What attempts wrote is told to tokens that may
    /// see payloads.
    #[schemars(with = "Json")]
    pub report: Value,
    /// How often the payload was edited: `seen_version` of an edit.
    pub payload_version: u32,
    /// The payloads that it had before, the oldest first.
    pub versions: Vec<Version>,
}

impl LetterWhole {
    /// This letter and what it was before, with what attempts wrote or without.
    pub fn new(
        letter: &DeadLetter,
        versions: &[PayloadVersion],
        with_payload: bool,
        with_output: bool,
    ) -> LetterWhole {
        let report: Option<EscalationReport> = serde_json::from_value(letter.report.clone()).ok();
        // What it is called says more than its kind.
        let called = letter.context["action"].as_str().unwrap_or(&letter.kind);
        let message = |lang| match &report {
            Some(report) => report.clone().in_lang(called, &EscalateSettings::default(), lang).user_message,
            None => letter.error_message.clone(),
        };
        let shown = Letter::new(letter, with_payload);
        LetterWhole {
            level_title: InBoth::of(|lang| shown.level.title(lang).clone()),
            letter: shown,
            user_message: InBoth::of(message),
            report: if with_output { letter.report.clone() } else { without_output(report) },
            payload_version: u32::try_from(versions.len()).unwrap_or(u32::MAX),
            versions: versions.iter().map(|version| Version::new(version, with_payload)).collect(),
        }
    }
}

/// A report without what attempts wrote, which may hold what they were given. What is no report of ours may be anything.
pub(crate) fn without_output(report: Option<EscalationReport>) -> Value {
    let Some(mut report) = report else { return Value::Null };
    report.debug_info.relevant_logs.clear();
    serde_json::to_value(report).unwrap_or(Value::Null)
}

/// A payload that was replaced.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PayloadVersion")]
pub struct Version {
    /// Its number, from 1.
    pub version: u32,
    /// When it was replaced.
    #[schemars(with = "Time")]
    pub replaced_at: Timestamp,
    /// By whom.
    pub edited_by: String,
    /// How large it was.
    pub payload_bytes: usize,
    /// What it was; null unless it was asked for.
    #[schemars(with = "Json")]
    pub payload: Option<Value>,
}

impl Version {
    /// This payload, shown or not.
    pub fn new(version: &PayloadVersion, with_payload: bool) -> Version {
        Version {
            version: version.version,
            replaced_at: version.at,
            edited_by: version.edited_by.clone(),
            payload_bytes: version.payload.len(),
            payload: with_payload.then(|| payload(&version.payload)),
        }
    }
}

/// One of many letters, shown before something is done to all of them.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SampleLetter {
    /// The job.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// What its last failure was.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// When it was set aside.
    #[schemars(with = "Time")]
    pub died_at: Timestamp,
    /// The error's words.
    pub error_message: String,
}

impl From<LetterHead> for SampleLetter {
    fn from(head: LetterHead) -> SampleLetter {
        SampleLetter {
            id: head.id.to_string(),
            queue: head.queue,
            kind: head.kind,
            cause: head.cause,
            died_at: head.died_at,
            error_message: head.error_message,
        }
    }
}
