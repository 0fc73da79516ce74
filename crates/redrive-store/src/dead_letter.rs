//! Dead letters: jobs set aside, each with all that a person needs to decide what to do (R-D5).

use std::sync::Arc;

use redrive_policy::Cause;
use serde::Serialize;
use serde_json::Value;

use crate::Answer;
use crate::error::StoreError;
use crate::event::must_be_name;
use crate::id::{EventSeq, JobId};
use crate::job::NewJob;
use crate::redrive::RunId;
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

/// What is looked at first of a letter: everything that is short.
#[derive(Debug, Clone, PartialEq)]
pub struct LetterHead {
    /// The job.
    pub id: JobId,
    /// The queue that it came from.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// When it was set aside.
    pub died_at: Timestamp,
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
    /// How often it was put back before.
    pub redrives: u32,
    /// The caller's own id.
    pub caller_id: Option<String>,
}

/// A question about a letter that no index can answer.
#[derive(Clone)]
pub struct LetterTest(pub Arc<dyn Fn(&LetterHead) -> bool + Send + Sync>);

impl std::fmt::Debug for LetterTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LetterTest")
    }
}

/// Some letters, and where to look on.
#[derive(Debug, Clone, Default)]
pub struct Heads {
    /// Those that match, in the order that was asked for.
    pub heads: Vec<LetterHead>,
    /// The place of the last one that was looked at; absent: there are no more.
    pub next: Option<(Timestamp, JobId)>,
}

/// Which letters. What is not said does not matter.
#[derive(Debug, Clone, Default)]
pub struct LetterFilter {
    /// Only these.
    pub ids: Option<Vec<JobId>>,
    /// Only with one of these causes, if there are any here.
    pub causes: Vec<Cause>,
    /// Only set aside for this reason.
    pub reason: Option<LetterReason>,
    /// Only of a group whose fingerprint begins so.
    pub fingerprint_prefix: Option<String>,
    /// Only those that died at this time or later.
    pub since: Option<Timestamp>,
    /// Not those that this run has put back before.
    pub not_by: Option<RunId>,
    /// From the oldest to the newest, instead of the other way.
    pub oldest_first: bool,
    /// Only those that pass.
    pub only: Option<LetterTest>,
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
    /// Only those that come after this one in the list, in the order that is asked for.
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

/// What became of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// The payload is replaced; the one before it is kept under this number.
    Done {
        /// The number of the version that was replaced, from 1.
        version: u32,
    },
    /// It is not a dead letter.
    NotDead,
    /// Somebody else has edited it meanwhile: nothing was done.
    Changed {
        /// How often it was edited.
        edits: u32,
    },
}

/// A payload that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadVersion {
    /// Its number, from 1.
    pub version: u32,
    /// When it was replaced.
    pub at: Timestamp,
    /// By whom.
    pub edited_by: String,
    /// What it was.
    pub payload: Vec<u8>,
}

/// A letter from elsewhere.
#[derive(Debug, Clone)]
pub struct ImportedLetter {
    /// The id of its event there, by which it is known when it comes again.
    pub event_id: String,
    /// The job. Its unique key is not taken while it is dead.
    pub job: NewJob,
    /// When it was set aside.
    pub died_at: Timestamp,
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
    /// The error's words, redacted and bounded.
    pub error_message: String,
    /// Attempts made.
    pub attempts: u32,
    /// Retries among them.
    pub retries: u32,
    /// How many retries it had.
    pub max_retries: u32,
    /// How often it was put back before.
    pub redrives: u32,
    /// Where it failed.
    pub context: Value,
    /// The escalation report.
    pub report: Value,
}

impl ImportedLetter {
    /// Whether it can be stored at all.
    pub fn validate(&self) -> Result<(), StoreError> {
        must_be_name("event id", &self.event_id)?;
        must_be_name("fingerprint", &self.fingerprint)?;
        self.job.validate()
    }
}

/// Looking at dead letters, mending them, putting them back, and letting them go.
pub trait DeadLetters: Send + Sync {
    /// Letters from the newest to the oldest, at most `limit`.
    fn letters(&self, filter: LetterFilter, limit: u32) -> Answer<'_, Vec<DeadLetter>>;

    /// The heads of letters: at most `limit` of those that match. No more than `look_at` are looked at, so that a test that
    /// few pass does not take for ever; [`Heads::next`] says where to look on.
    fn letter_heads(&self, filter: LetterFilter, limit: u32, look_at: u32) -> Answer<'_, Heads>;

    /// How many match, now. With a test, each that the rest matches is looked at.
    fn count_letters(&self, filter: LetterFilter) -> Answer<'_, u64>;

    /// Puts letters back: ready again with a fresh budget, the story going on. `who` is named in the event.
    fn redrive(&self, now: Timestamp, ids: Vec<JobId>, event_type: &'static str)
    -> Answer<'_, Vec<Redriven>>;

    /// Replaces the payload of a letter that was edited so often before; the payload before it is kept. With a
    /// `payload_edited` event, which does not show the payload.
    fn edit_payload(
        &self,
        now: Timestamp,
        id: JobId,
        edits: u32,
        payload: Vec<u8>,
        edited_by: String,
    ) -> Answer<'_, Edited>;

    /// Payloads of a job that were replaced, the oldest first. They go when the job does.
    fn payload_versions(&self, id: JobId) -> Answer<'_, Vec<PayloadVersion>>;

    /// Lets letters go for good, each with an event of this type that says why. Answers which of them were letters.
    fn discard(
        &self,
        now: Timestamp,
        ids: Vec<JobId>,
        event_type: &'static str,
        why: Option<String>,
    ) -> Answer<'_, Vec<bool>>;

    /// Takes in letters from elsewhere, each with a `letter_imported` event that keeps its id. Answers the job of each, and
    /// whether it was here already. Either all of them are taken in or none.
    fn import_letters(
        &self,
        now: Timestamp,
        letters: Vec<ImportedLetter>,
    ) -> Answer<'_, Vec<crate::job::Enqueued>>;
}
