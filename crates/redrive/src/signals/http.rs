//! HTTP answers: the status, `Retry-After` turned into a duration when it is captured (R-P11), and the body's words.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Response, StatusCode, header::RETRY_AFTER};
use redrive_policy::{Report, TEXT_BOUND, Words, one_line, parse_retry_after};

use crate::into_failure::IntoFailure;

/// How long the headers ask us to wait, counted from now.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};
/// use std::time::Duration;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
/// assert_eq!(redrive::retry_after(&headers), Some(Duration::from_secs(120)));
/// ```
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    parse_retry_after(value, now.as_secs())
}

/// An HTTP answer that is a failure, as an error: status, `Retry-After`, and a bounded piece of its body.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use redrive::{HttpFailure, IntoFailure};
///
/// let failure = HttpFailure::new(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"upstream is away");
/// assert_eq!(failure.report().http_status, Some(502));
/// assert_eq!(failure.to_string(), "HTTP 502 Bad Gateway: upstream is away");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpFailure {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: String,
}

impl HttpFailure {
    /// Captures an answer. Of the body the first 16 KiB are kept, whatever is not UTF-8 replaced.
    pub fn new(status: StatusCode, headers: &HeaderMap, body: impl AsRef<[u8]>) -> HttpFailure {
        let body = body.as_ref();
        let body = String::from_utf8_lossy(&body[..body.len().min(TEXT_BOUND)]).into_owned();
        HttpFailure { status, retry_after: retry_after(headers), body }
    }

    /// The answer itself when it is a success, or else the failure it is.
    ///
    /// ```
    /// let answer = http::Response::builder().status(404).body("no such user").unwrap();
    /// let failure = redrive::HttpFailure::check(answer).unwrap_err();
    /// assert_eq!((failure.status().as_u16(), failure.body()), (404, "no such user"));
    /// ```
    pub fn check<B: AsRef<[u8]>>(answer: Response<B>) -> Result<Response<B>, HttpFailure> {
        if is_failure(answer.status()) {
            Err(HttpFailure::new(answer.status(), answer.headers(), answer.body()))
        } else {
            Ok(answer)
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// How long the other side asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What was kept of the body.
    pub fn body(&self) -> &str {
        &self.body
    }
}

/// Whether a status is a failure: 4xx and 5xx.
pub(crate) fn is_failure(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status.as_u16())?;
        if let Some(reason) = self.status.canonical_reason() {
            write!(f, " {reason}")?;
        }
        match one_line(&self.body) {
            line if line.is_empty() => Ok(()),
            line => write!(f, ": {line}"),
        }
    }
}

impl Error for HttpFailure {}

impl IntoFailure for HttpFailure {
    fn report(&self) -> Report<'_> {
        let words = if self.body.is_empty() { Words::None } else { Words::Text(self.body.as_str().into()) };
        Report {
            http_status: Some(self.status.as_u16()),
            retry_after: self.retry_after,
            words,
            ..Report::default()
        }
    }
}

impl IntoFailure for StatusCode {
    fn report(&self) -> Report<'_> {
        Report { http_status: Some(self.as_u16()), ..Report::default() }
    }
}

/// Status and `Retry-After`; the body may be a stream and is left alone.
impl<B> IntoFailure for Response<B> {
    fn report(&self) -> Report<'_> {
        let http_status = Some(self.status().as_u16());
        Report { http_status, retry_after: retry_after(self.headers()), ..Report::default() }
    }
}

pub(super) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    let Some(failure) = link.downcast_ref::<HttpFailure>() else { return };
    report.http_status = report.http_status.or(Some(failure.status.as_u16()));
    report.retry_after = report.retry_after.or(failure.retry_after);
}
