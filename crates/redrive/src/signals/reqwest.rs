//! `reqwest`: what its errors know, and answers captured with status, `Retry-After` and a bounded body.

use std::error::Error;
use std::future::Future;

use redrive_policy::{Cause, Report, TEXT_BOUND, Verdict};

use super::http::{HttpFailure, is_failure};
use super::note_code;
use crate::chain::{chain_was_never_sent, report_chain};
use crate::into_failure::IntoFailure;

impl IntoFailure for reqwest::Error {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(self)
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    let Some(error) = link.downcast_ref::<reqwest::Error>() else { return };
    report.http_status = report.http_status.or(error.status().map(|status| status.as_u16()));
    if error.is_timeout() {
        note_code(report, "ETIMEDOUT");
    } else if error.is_builder() && report.said.is_none() {
        // A URL or a header that cannot be sent now cannot be sent later.
        report.said = Some((Cause::ValidationError, Verdict::Unsaid));
    }
}

pub(super) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
}

/// Turns an answer with a 4xx or 5xx status into a failure that knows more than `error_for_status` does:
/// `Retry-After`, and the first 16 KiB of the body.
///
/// ```
/// use redrive::{HttpFailure, ResponseExt};
///
/// async fn body(answer: reqwest::Response) -> Result<reqwest::Response, HttpFailure> {
///     answer.or_failure().await
/// }
/// ```
pub trait ResponseExt: Sized {
    /// This answer when it is a success, or else the failure it is.
    fn or_failure(self) -> impl Future<Output = Result<Self, HttpFailure>> + Send;
}

impl ResponseExt for reqwest::Response {
    async fn or_failure(mut self) -> Result<reqwest::Response, HttpFailure> {
        if !is_failure(self.status()) {
            return Ok(self);
        }
        let mut body = Vec::new();
        // A body that breaks off has still said something, and the status stands.
        while body.len() < TEXT_BOUND
            && let Ok(Some(chunk)) = self.chunk().await
        {
            body.extend_from_slice(&chunk[..chunk.len().min(TEXT_BOUND - body.len())]);
        }
        Err(HttpFailure::new(self.status(), self.headers(), body))
    }
}
