//! Letters as JSON Lines (R-E4): the fields of R-D5, and with the payload everything that a job needs to live elsewhere.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_policy::{Cause, ErrorCategory, FailureType};
use redrive_store::{DeadLetter, Job, JobId, JobState, LetterFilter, LetterReason, Origin, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{Engine, EngineError};

/// How many letters are held at once: each brings its payload along.
const AT_A_TIME: u32 = 64;
/// How many are looked at for them by a test that no index serves.
const LOOKED_AT: u32 = 10_000;

/// A letter as a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LetterLine {
    /// What the line is.
    pub schema: &'static str,
    /// The job there.
    pub id: JobId,
    /// The store that it comes from.
    pub store_id: String,
    /// The event of its death.
    pub event_id: String,
    /// When it was set aside.
    pub timestamp: Timestamp,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// 004's word for the kind.
    pub job_type: String,
    /// What its last failure was.
    pub cause: Cause,
    /// 000's view of the cause.
    pub error_category: ErrorCategory,
    /// 002's view of the cause.
    pub failure_type: FailureType,
    /// The rule that recognised it.
    pub rule: String,
    /// The error's type.
    pub error_type: String,
    /// The error's words.
    pub error_message: String,
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
    pub reason: LetterReason,
    /// What failures of one kind share.
    pub fingerprint: String,
    /// The caller's own id.
    pub caller_id: Option<String>,
    /// The policy it ran under.
    pub policy: Option<String>,
    /// Where it failed.
    pub context: Value,
    /// How large the payload is.
    pub payload_bytes: usize,
    /// What it takes to run it elsewhere; only when asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

/// What it takes to run a job elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Work {
    /// The payload: JSON as JSON, text as text.
    pub original_payload: Value,
    /// The payload byte for byte, where JSON would not bring back the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_text: Option<String>,
    /// The payload byte for byte, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// How the job was enqueued.
    pub job: JobSettings,
    /// The escalation report.
    pub report: Value,
}

/// How a job was enqueued, beside its queue, kind and payload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSettings {
    /// What its events name as their source.
    pub source: String,
    /// Its priority.
    pub priority: i32,
    /// Its unique key.
    pub unique_key: Option<String>,
    /// The key that its effects carry, also where one was made for it: elsewhere it must be the same.
    pub idempotency_key: Option<String>,
    /// What it overrides in its policy, as JSON.
    pub overrides: Option<String>,
    /// How long one attempt may take.
    pub timeout_ms: Option<u64>,
    /// Whether it came in through the API, which allows it less.
    pub from_api: bool,
    /// What it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl JobSettings {
    fn of(job: &Job, store_id: u64) -> JobSettings {
        JobSettings {
            source: job.source.clone(),
            priority: job.priority,
            unique_key: job.unique_key.clone(),
            idempotency_key: Some(
                job.idempotency_key.clone().unwrap_or_else(|| job.id.idempotency_key(store_id)),
            ),
            overrides: job.overrides.clone(),
            timeout_ms: job.timeout.map(|each| u64::try_from(each.as_millis()).unwrap_or(u64::MAX)),
            from_api: job.origin == Origin::Api,
            target: job.target.clone(),
        }
    }
}

/// What every line of an export says of itself.
pub(super) const SCHEMA: &str = "redrive/letter.v1";

impl LetterLine {
    fn new(letter: DeadLetter, store_id: u64, job: Option<&Job>) -> LetterLine {
        let payload_bytes = letter.payload.len();
        let work = job.map(|job| {
            let (original_payload, payload_text, payload_base64) = faithful(&letter.payload);
            let job = JobSettings::of(job, store_id);
            Work { original_payload, payload_text, payload_base64, job, report: letter.report }
        });
        LetterLine {
            schema: SCHEMA,
            id: letter.id,
            store_id: format!("{store_id:016x}"),
            event_id: letter.event.seq.event_id(letter.event.at),
            timestamp: letter.died_at,
            enqueued_at: letter.enqueued_at,
            queue: letter.queue,
            job_type: letter.kind.clone(),
            kind: letter.kind,
            cause: letter.cause,
            error_category: letter.cause.error_category(),
            failure_type: letter.cause.failure_type(),
            rule: letter.rule,
            error_type: letter.error_type,
            error_message: letter.error_message,
            retry_count: letter.attempts.saturating_sub(1),
            max_retries: letter.max_retries,
            attempts: letter.attempts,
            redrives: letter.redrives,
            retryable: letter.retryable,
            reason: letter.reason,
            fingerprint: letter.fingerprint,
            caller_id: letter.caller_id,
            policy: letter.policy,
            context: letter.context,
            payload_bytes,
            work,
        }
    }
}

/// A payload for people and for machines: as JSON where it is JSON, and byte for byte where that would change it.
fn faithful(payload: &[u8]) -> (Value, Option<String>, Option<String>) {
    let text = std::str::from_utf8(payload);
    // A payload of `null` is one; a payload that is not there is written so, too.
    let json = serde_json::from_slice::<Value>(payload).ok().filter(|json| !json.is_null());
    match (json, text) {
        (Some(json), _) if serde_json::to_vec(&json).is_ok_and(|again| again == payload) => {
            (json, None, None)
        }
        (Some(json), Ok(text)) => (json, Some(text.to_owned()), None),
        (None, Ok(text)) => (Value::String(text.to_owned()), Some(text.to_owned()), None),
        (_, Err(_)) => (Value::Null, None, Some(STANDARD.encode(payload))),
    }
}

impl Engine {
    /// Gives each letter that matches to `each`, the oldest first; answers how many. Only a few are held at once, and what
    /// dies meanwhile is not among them. The payload and the settings of the job come along only when asked for.
    pub async fn each_letter(
        &self,
        filter: LetterFilter,
        with_payload: bool,
        mut each: impl FnMut(LetterLine) -> std::io::Result<()>,
    ) -> Result<u64, EngineError> {
        let begun = self.now().after(std::time::Duration::from_millis(1));
        let before = Some(filter.before.map_or(begun, |before| before.min(begun)));
        let mut filter = LetterFilter { before, oldest_first: true, ..filter };
        let mut written = 0;
        loop {
            let (lines, next) = self.letter_lines(filter.clone(), with_payload).await?;
            for line in lines {
                each(line)?;
                written += 1;
            }
            let Some(next) = next else { return Ok(written) };
            filter.after = Some(next);
        }
    }

    /// The next few letters that match as lines, and where to look on; it costs the same however many there are.
    pub async fn letter_lines(
        &self,
        filter: LetterFilter,
        with_payload: bool,
    ) -> Result<(Vec<LetterLine>, Option<(Timestamp, JobId)>), EngineError> {
        let store_id = self.store().store_id();
        let oldest_first = filter.oldest_first;
        let page = self.store().letter_heads(filter, AT_A_TIME, LOOKED_AT).await?;
        let ids: Vec<JobId> = page.heads.iter().map(|head| head.id).collect();
        let these = LetterFilter { ids: Some(ids.clone()), oldest_first, ..LetterFilter::default() };
        let letters =
            if ids.is_empty() { Vec::new() } else { self.store().letters(these, AT_A_TIME).await? };
        let mut lines = Vec::with_capacity(letters.len());
        for letter in letters {
            let job = if with_payload { self.job_of(letter.id).await? } else { None };
            // One that went meanwhile has nothing left to be run elsewhere.
            if with_payload && job.is_none() {
                continue;
            }
            lines.push(LetterLine::new(letter, store_id, job.as_ref()));
        }
        Ok((lines, page.next))
    }

    /// Writes the letters that match as JSON Lines, the oldest first; answers how many.
    pub async fn export_letters(
        &self,
        filter: LetterFilter,
        with_payload: bool,
        to: &mut (dyn Write + Send),
    ) -> Result<u64, EngineError> {
        let written = self
            .each_letter(filter, with_payload, |line| {
                serde_json::to_writer(&mut *to, &line)?;
                to.write_all(b"\n")
            })
            .await?;
        to.flush()?;
        Ok(written)
    }

    async fn job_of(&self, id: JobId) -> Result<Option<Job>, EngineError> {
        let record = self.store().job(id).await?;
        Ok(record.filter(|record| matches!(record.state, JobState::Dead(_))).and_then(|record| record.job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// R-D7: a payload leaves as it is, whatever it is.
    #[test]
    fn a_payload_is_written_byte_for_byte() {
        assert_eq!(faithful(br#"{"a":1}"#), (json!({"a": 1}), None, None));
        let spaced = r#"{ "b": 1.0, "a": 2 }"#;
        assert_eq!(faithful(spaced.as_bytes()), (json!({"a": 2, "b": 1.0}), Some(spaced.to_owned()), None));
        assert_eq!(faithful("日本".as_bytes()), (json!("日本"), Some("日本".to_owned()), None));
        assert_eq!(faithful(b"\xff\0"), (Value::Null, None, Some("/wA=".to_owned())));
        assert_eq!(faithful(b"null"), (json!("null"), Some("null".to_owned()), None));
        assert_eq!(faithful(b""), (json!(""), Some(String::new()), None));
    }
}
