//! `reqwest`: what its errors know, and answers captured with status, `Retry-After` and a bounded body.

use std::error::Error;
use std::future::Future;
use std::io;
use std::time::Duration;

use redrive_policy::{Cause, Report, TEXT_BOUND, Verdict};
use tokio::time::{Instant, timeout_at};

use super::http::{HttpFailure, is_failure};
use super::note_code;
use crate::chain::{chain_was_never_sent, links, report_chain};
use crate::into_failure::IntoFailure;

/// How long the body of a failure is listened to. What has come by then is kept; the status is known already.
const BODY_WITHIN: Duration = Duration::from_secs(5);

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
    } else if (error.is_builder() || (error.is_decode() && !line_broke(error))) && report.said.is_none() {
        // What cannot be sent now cannot be sent later, and what came whole and does not parse will not either.
        report.said = Some((Cause::ValidationError, Verdict::Unsaid));
    }
}

/// Whether a body could not be read because the line broke, and not because of what it says.
fn line_broke(error: &reqwest::Error) -> bool {
    links(error).skip(1).any(|link| {
        let kind = link.downcast_ref::<io::Error>().map(io::Error::kind);
        link.is::<hyper::Error>()
            || matches!(
                kind,
                Some(
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::NotConnected
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::TimedOut
                )
            )
    })
}

pub(super) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    link.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
}

/// Turns an answer with a 4xx or 5xx status into a failure that knows more than `error_for_status` does:
/// `Retry-After`, and the first 16 KiB of the body, or as much of them as comes within 5 seconds.
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
        let until = Instant::now() + BODY_WITHIN;
        // A body that breaks off or does not end has still said something, and the status stands.
        while body.len() < TEXT_BOUND
            && let Ok(Ok(Some(chunk))) = timeout_at(until, self.chunk()).await
        {
            body.extend_from_slice(&chunk[..chunk.len().min(TEXT_BOUND - body.len())]);
        }
        Err(HttpFailure::new(self.status(), self.headers(), body))
    }
}
