//! How a handler says itself what went wrong: [`fail`] makes an error whose cause is not guessed.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Details, Report, Verdict};

/// An error that knows its own cause. What it says beats every rule, also from deep inside a source chain.
///
/// ```
/// use redrive::{Cause, IntoFailure, Verdict, fail};
/// use std::time::Duration;
///
/// let error = fail(Cause::RateLimit, "the tenant's quota is used up").retry_after(Duration::from_secs(90));
/// assert_eq!(error.report().said, Some((Cause::RateLimit, Verdict::Unsaid)));
/// assert_eq!(error.to_string(), "the tenant's quota is used up");
/// ```
#[derive(Debug)]
pub struct Fail(Box<Said>);

#[derive(Debug)]
struct Said {
    cause: Cause,
    verdict: Verdict,
    message: Cow<'static, str>,
    code: Option<Cow<'static, str>>,
    retry_after: Option<Duration>,
    details: Option<Arc<Details>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// A failure whose cause the handler knows.
///
/// ```
/// use redrive::{Cause, Fail, fail};
///
/// fn approve(amount: u64) -> Result<(), Fail> {
///     if amount > 10_000 {
///         return Err(fail(Cause::HumanJudgment, "amounts above 10,000 need a signature"));
///     }
///     Ok(())
/// }
/// assert!(approve(20_000).is_err());
/// ```
pub fn fail(cause: Cause, message: impl Into<Cow<'static, str>>) -> Fail {
    Fail(Box::new(Said {
        cause,
        verdict: Verdict::Unsaid,
        message: message.into(),
        code: None,
        retry_after: None,
        details: None,
        source: None,
    }))
}

impl Fail {
    /// Trying again can help, whatever the cause is usually like.
    ///
    /// ```
    /// use redrive::{Cause, Verdict, fail};
    /// assert_eq!(fail(Cause::NotFound, "not there yet").worth_a_retry().verdict(), Verdict::Yes);
    /// ```
    pub fn worth_a_retry(mut self) -> Fail {
        self.0.verdict = Verdict::Yes;
        self
    }

    /// Trying again cannot help, whatever the cause is usually like.
    ///
    /// ```
    /// use redrive::{Cause, Verdict, fail};
    /// assert_eq!(fail(Cause::Network, "this host is gone for good").for_good().verdict(), Verdict::No);
    /// ```
    pub fn for_good(mut self) -> Fail {
        self.0.verdict = Verdict::No;
        self
    }

    /// How long to wait before the next attempt; it is never undercut.
    ///
    /// ```
    /// use redrive::{Cause, IntoFailure, fail};
    /// use std::time::Duration;
    /// let error = fail(Cause::RateLimit, "slow down").retry_after(Duration::from_secs(9));
    /// assert_eq!(error.report().retry_after, Some(Duration::from_secs(9)));
    /// ```
    pub fn retry_after(mut self, wait: Duration) -> Fail {
        self.0.retry_after = Some(wait);
        self
    }

    /// A machine-readable code, by which a policy may be narrowed.
    ///
    /// ```
    /// use redrive::{Cause, IntoFailure, fail};
    /// assert_eq!(fail(Cause::RateLimit, "slow down").code("SlowDown").report().code.as_deref(), Some("SlowDown"));
    /// ```
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Fail {
        self.0.code = Some(code.into());
        self
    }

    /// What the next attempt may want to know.
    ///
    /// ```
    /// use redrive::{Cause, Details, fail};
    /// let missing = Details { detected_issues: vec!["page 7 is missing".into()], ..Details::default() };
    /// let error = fail(Cause::Incomplete, "half a report").details(missing);
    /// ```
    pub fn details(mut self, details: Details) -> Fail {
        self.0.details = Some(Arc::new(details));
        self
    }

    /// The error behind it.
    ///
    /// ```
    /// use redrive::{Cause, fail};
    /// let error = fail(Cause::ValidationError, "no amount").because("".parse::<u32>().unwrap_err());
    /// assert!(std::error::Error::source(&error).is_some());
    /// ```
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Fail {
        self.0.source = Some(source.into());
        self
    }

    /// The cause that was said.
    pub fn cause(&self) -> Cause {
        self.0.cause
    }

    /// The verdict that was said.
    pub fn verdict(&self) -> Verdict {
        self.0.verdict
    }

    /// Enters what was said into a report.
    pub(crate) fn say<'a>(&'a self, report: &mut Report<'a>) {
        report.said = Some((self.0.cause, self.0.verdict));
        report.code = self.0.code.as_deref().map(Cow::Borrowed).or(report.code.take());
        report.retry_after = self.0.retry_after.or(report.retry_after);
        report.details = self.0.details.clone().or(report.details.take());
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for Fail {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
