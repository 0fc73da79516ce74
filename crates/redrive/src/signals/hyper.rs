//! `hyper::Error`: what it knows about a connection that no `io::Error` tells.

use std::error::Error;

use redrive_policy::Report;

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
    } else if error.is_incomplete_message() {
        // The peer hung up in the middle of its answer.
        note_code(report, "ECONNRESET");
    } else if error.is_closed() {
        note_code(report, "EPIPE");
    }
}
