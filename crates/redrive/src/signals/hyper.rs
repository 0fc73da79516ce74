//! `hyper::Error`: what it knows about a connection that no `io::Error` tells.

use std::error::Error;
use std::io;

use redrive_policy::{Cause, Report, Verdict};

use super::note_code;
use crate::chain::{chain_was_never_sent, report_chain};
use crate::into_failure::IntoFailure;

impl IntoFailure for hyper::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    let Some(error) = link.downcast_ref::<hyper::Error>() else { return };
    if error.is_timeout() {
        note_code(report, "ETIMEDOUT");
    } else if error.is_canceled() || error.is_incomplete_message() || ended_early(error) {
        // The connection went away: before the request was sent, or in the middle of an answer.
        note_code(report, "ECONNRESET");
    } else if error.is_closed() {
        note_code(report, "EPIPE");
    } else if error.is_parse() && report.said.is_none() {
        // Who answers does not speak HTTP, and will not have learned it by the next attempt.
        report.said = Some((Cause::Configuration, Verdict::Unsaid));
    }
}

/// Whether the answer broke off. A bare `UnexpectedEof` may as well be a broken file; behind hyper it is the line.
fn ended_early(error: &hyper::Error) -> bool {
    let behind = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    behind.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// hyper cancels a request that waits for a connection when that connection goes away, and only then.
pub(super) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
}
