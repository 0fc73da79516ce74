//! Dead letters: jobs set aside, each with all that a person needs to decide what to do (R-D5).

use redrive_policy::Cause;
use serde::Serialize;
use serde_json::Value;

use crate::Answer;
use crate::id::{EventSeq, JobId};
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// A job that was set aside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetter {
    /// The job.
    pub id: JobId,
    /// The queue that it came from.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The event of its death.
    pub event: EventSeqJson,
    /// When it was set aside.
    pub died_at: Timestamp,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// Why it was set aside.
    pub reason: LetterReason,
    /// What its last failure was.
    pub cause: Cause,
    /// Whether sending it again may plausibly help.
    pub retryable: bool,
    /// The rule that recognised the failure.
    pub rule: String,
    /// What failures of one kind share.
    pub fingerprint: String,
    /// The error's type.
    pub error_type: String,
    /// The error's words.
    pub error_message: String,
    /// Attempts made.
    pub attempts: u32,
    /// Retries among them.
    pub retries: u32,
    /// Crashes among them.
    pub crashes: u32,
    /// How many retries it had.
    pub max_retries: u32,
    /// How often it was put back before.
    pub redrives: u32,
    /// Where it failed.
    pub context: Value,
    /// The escalation report.
    pub report: Value,
    /// The caller's own id.
    pub caller_id: Option<String>,
    /// The policy it ran under.
    pub policy: Option<String>,
    /// What the handler got, verbatim. Shown only when it is asked for.
    #[serde(skip)]
    pub payload: Vec<u8>,
}

/// A place in the stream, together with the time that its id shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSeqJson {
    /// The place.
    pub seq: EventSeq,
    /// The time.
    pub at: Timestamp,
}

impl Serialize for EventSeqJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.seq.event_id(self.at))
    }
}

/// Which letters.
#[derive(Debug, Clone, Default)]
pub struct LetterFilter {
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only with this cause.
    pub cause: Option<Cause>,
    /// Only of this group.
    pub fingerprint: Option<String>,
    /// Only of this caller's id.
    pub caller_id: Option<String>,
    /// Only those whose class is transient.
    pub transient_only: bool,
    /// Only those that died before.
    pub before: Option<Timestamp>,
    /// Only those that come after this one in the list, which is ordered from the newest to the oldest.
    pub after: Option<(Timestamp, JobId)>,
}

/// What became of a redrive of one letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redriven {
    /// It is ready again, with a fresh budget.
    Ready,
    /// It is not a dead letter.
    NotDead,
    /// Unfinished work has its unique key.
    Duplicate {
        /// That work.
        of: JobId,
    },
}

/// Looking at dead letters, and putting them back.
pub trait DeadLetters: Send + Sync {
    /// Letters from the newest to the oldest, at most `limit`.
    fn letters(&self, filter: LetterFilter, limit: u32) -> Answer<'_, Vec<DeadLetter>>;

    /// Puts letters back: ready again with a fresh budget, the story going on. `who` is named in the event.
    fn redrive(&self, now: Timestamp, ids: Vec<JobId>, event_type: &'static str)
    -> Answer<'_, Vec<Redriven>>;
}
