//! What an ended retry tells those who find it inside another error.
//!
//! A retry inside a retry must not be judged a second time by its words: what it was found to be is on record. But
//! `RetryError<E>` has as many types as there are errors, and a chain of sources can only be searched for one type.
//! So the walk in `chain` asks for the record by a private question: while it asks, a `RetryError` names its
//! record as its source, from however deep inside transparent wrappers. Nobody else ever sees the record.

use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::fmt;

use redrive_policy::{Code, Failure, Report, Verdict};

use crate::attempt::Stop;

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// What the last attempt of a retry was found to be.
#[derive(Debug)]
pub(crate) struct Record {
    failure: Failure,
    never_sent: bool,
}

impl Record {
    /// The record of a retry that ended so. Who forbade a further attempt forbade it to outer retries as well.
    pub(crate) fn new(mut failure: Failure, stop: Stop, never_sent: bool) -> Record {
        if stop == Stop::Vetoed {
            failure.verdict = Verdict::No;
        }
        Record { failure, never_sent }
    }

    /// Enters what is on record and no outer link has said.
    pub(crate) fn enter<'a>(&'a self, report: &mut Report<'a>) {
        let Failure { cause, verdict, http_status, code, retry_after, details, .. } = &self.failure;
        report.said = report.said.or(Some((*cause, *verdict)));
        report.http_status = report.http_status.or(*http_status);
        report.retry_after = report.retry_after.or(*retry_after);
        if report.code.is_none() {
            report.code = code.as_ref().map(Code::as_str).map(Cow::Borrowed);
        }
        if report.details.is_none() {
            report.details.clone_from(details);
        }
    }

    /// Whether no attempt can have reached the other side.
    pub(crate) fn never_sent(&self) -> bool {
        self.never_sent
    }
}

/// The record of this link, if it is an ended retry or hands on the source of one.
pub(crate) fn on_record<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a Record> {
    /// Ends the question also when somebody's `source` panics.
    struct Asking;
    impl Drop for Asking {
        fn drop(&mut self) {
            ASKING.set(false);
        }
    }
    ASKING.set(true);
    let asking = Asking;
    let source = link.source();
    drop(asking);
    source?.downcast_ref()
}

/// Whether the source that is wanted right now is the record.
pub(crate) fn is_asked_for() -> bool {
    ASKING.get()
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found to be {}", self.failure.cause)
    }
}

impl Error for Record {}
