//! `toml` errors: what does not parse today does not parse tomorrow.

use std::error::Error;

use redrive_policy::{Cause, Report, Verdict};

use crate::chain::report_chain;
use crate::into_failure::IntoFailure;

impl IntoFailure for toml::de::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    if link.is::<toml::de::Error>() && report.said.is_none() {
        report.said = Some((Cause::ValidationError, Verdict::Unsaid));
    }
}
