//! `serde_json::Error`: what does not parse today does not parse tomorrow, unless reading was the trouble.

use std::error::Error;

use redrive_policy::{Cause, Report, Verdict};

use super::{io, note_code};
use crate::chain::report_chain;
use crate::into_failure::IntoFailure;

impl IntoFailure for serde_json::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    let Some(error) = link.downcast_ref::<serde_json::Error>() else { return };
    match error.io_error_kind() {
        Some(kind) => {
            if let Some(name) = io::kind_name(kind) {
                note_code(report, name);
            }
        }
        // No code system names it, so it is said; a status from further out still stands beside it.
        None if report.said.is_none() => report.said = Some((Cause::ValidationError, Verdict::Unsaid)),
        None => {}
    }
}
