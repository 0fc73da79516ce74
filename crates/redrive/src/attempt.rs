//! What is kept of the attempts that failed, and the error that hands them over at the end.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use redrive_policy::{Decision, Failure, Lang, human_duration, one_line};

use crate::record::{self, Record};

/// How many attempts are kept with their errors. Of a longer run the first and the last half of that many
/// are: a policy may ask for millions of retries, and memory is not endless.
pub const KEPT_ATTEMPTS: usize = 256;

/// One attempt that failed.
///
/// ```
/// # use redrive::{Cause, Policy, RetryBlockingExt, fail};
/// # let error = (|| Err::<(), _>(fail(Cause::AuthError, "key revoked")))
/// #     .retry_blocking(Policy::standard()).call().unwrap_err();
/// for attempt in error.attempts() {
///     eprintln!("{}: {} ({}), then waited {:?}", attempt.number, attempt.error, attempt.failure.cause, attempt.delay);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt<E> {
    /// Counted from 1.
    pub number: u32,
    /// What it ended with.
    pub error: AttemptError<E>,
    /// What that was found to be.
    pub failure: Failure,
    /// How long was waited afterwards, which is less than was planned when somebody cancelled meanwhile; none when
    /// nothing was to follow.
    pub delay: Option<Duration>,
}

/// What an attempt ended with.
#[derive(Debug)]
pub enum AttemptError<E> {
    /// Its own error.
    Failed(E),
    /// It took longer than an attempt may.
    TimedOut {
        /// How long it may take.
        limit: Duration,
        /// How long it ran.
        elapsed: Duration,
    },
    /// It was still running when the deadline for the whole came.
    PastDeadline {
        /// The deadline, counted from the beginning.
        deadline: Duration,
        /// How long the attempt ran.
        elapsed: Duration,
    },
    /// It panicked, with this message.
    Panicked(String),
    /// It was still running when somebody cancelled.
    Cancelled,
}

impl<E> AttemptError<E> {
    /// The attempt's own error, if it came that far.
    ///
    /// ```
    /// use redrive::AttemptError;
    /// assert_eq!(AttemptError::Failed("no").error(), Some(&"no"));
    /// assert_eq!(AttemptError::<&str>::Cancelled.error(), None);
    /// ```
    pub const fn error(&self) -> Option<&E> {
        match self {
            AttemptError::Failed(error) => Some(error),
            AttemptError::TimedOut { .. }
            | AttemptError::PastDeadline { .. }
            | AttemptError::Panicked(_)
            | AttemptError::Cancelled => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for AttemptError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttemptError::Failed(error) => error.fmt(f),
            AttemptError::TimedOut { limit, elapsed } => {
                write!(f, "timed out after {} (limit {})", human(*elapsed), human(*limit))
            }
            AttemptError::PastDeadline { deadline, elapsed } => {
                write!(f, "cut off after {} by the deadline of {}", human(*elapsed), human(*deadline))
            }
            AttemptError::Panicked(message) => write!(f, "panicked: {message}"),
            AttemptError::Cancelled => f.write_str("cancelled while running"),
        }
    }
}

fn human(duration: Duration) -> String {
    human_duration(Duration::from_millis(redrive_policy::round_to_millis(duration)))
}

/// Why no further attempt was made.
///
/// ```
/// use redrive::{Cancel, Policy, RetryBlockingExt, Stop};
///
/// let cancel = Cancel::new();
/// cancel.cancel();
/// let error = (|| Ok::<_, String>(1)).retry_blocking(Policy::standard()).cancelled_by(&cancel).call().unwrap_err();
/// assert_eq!(error.stopped(), Stop::Cancelled);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The policy decided so; the decision tells why.
    Decided,
    /// The `when` predicate had the last say.
    Vetoed,
    /// The next attempt would have begun at or after the deadline.
    Deadline {
        /// The deadline, counted from the beginning.
        deadline: Duration,
        /// The wait that would have passed it; none when the deadline came while an attempt ran, or came between a
        /// wait that was to end in time and the next attempt.
        wait: Option<Duration>,
    },
    /// Somebody cancelled.
    Cancelled,
}

/// The end of a retry that did not succeed: every attempt, and why there is no further one.
///
/// ```
/// use redrive::{Cause, Policy, RetryBlockingExt, Stop, fail};
///
/// let error = (|| Err::<(), _>(fail(Cause::AuthError, "key revoked")))
///     .retry_blocking(Policy::standard())
///     .named("fetch")
///     .call()
///     .unwrap_err();
/// assert_eq!((error.attempts().len(), error.stopped()), (1, Stop::Decided));
/// assert!(error.to_string().starts_with("fetch gave up after 1 attempt: "));
/// assert!(error.to_string().ends_with("; last: key revoked"));
/// ```
///
/// It is an [`Error`] whatever `E` is, as long as it can be displayed, so that `?` passes it on: as a boxed error, or as
/// an `anyhow::Error`.
///
/// ```
/// use redrive::{Policy, RetryExt};
/// use std::error::Error;
///
/// async fn load() -> Result<u32, Box<dyn Error + Send + Sync>> {
///     Ok("42".parse()?)
/// }
/// async fn answer() -> Result<u32, Box<dyn Error + Send + Sync>> {
///     Ok(load.retry(Policy::standard()).await?)
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(answer().await.unwrap(), 42);
/// # });
/// ```
///
/// The message ends with the words of the last error, so its `source` is what is *behind* that error: a chain that is
/// printed says nothing twice. The last error itself is [`RetryError::error`].
pub struct RetryError<E>(Box<Story<E>>);

/// What an error knows behind itself.
pub(crate) type Behind<E> = fn(&E) -> Option<&(dyn Error + 'static)>;

/// All that is known when a retry has ended.
pub(crate) struct Story<E> {
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) made: u32,
    pub(crate) attempts: Vec<Attempt<E>>,
    pub(crate) decision: Decision,
    pub(crate) stop: Stop,
    pub(crate) record: Record,
    pub(crate) behind: Behind<E>,
}

impl<E> RetryError<E> {
    #[cold]
    pub(crate) fn new(story: Story<E>) -> RetryError<E> {
        RetryError(Box::new(story))
    }

    pub(crate) fn record(&self) -> &Record {
        &self.0.record
    }

    /// The attempts, in order. None when somebody cancelled before the first one. Beyond [`KEPT_ATTEMPTS`] the
    /// middle is left out, and the numbers show it.
    pub fn attempts(&self) -> &[Attempt<E>] {
        &self.0.attempts
    }

    /// The attempts themselves.
    pub fn into_attempts(self) -> Vec<Attempt<E>> {
        self.0.attempts
    }

    /// How many attempts were made.
    pub fn attempts_made(&self) -> u32 {
        self.0.made
    }

    /// The last attempt.
    pub fn last(&self) -> Option<&Attempt<E>> {
        self.0.attempts.last()
    }

    /// The error of the last attempt, unless that one timed out, panicked or was cancelled.
    pub fn error(&self) -> Option<&E> {
        self.last().and_then(|attempt| attempt.error.error())
    }

    /// The error of the last attempt itself: what a caller without retries would have seen.
    ///
    /// ```
    /// # use redrive::{Cause, Policy, RetryBlockingExt, fail};
    /// # let error = (|| Err::<(), _>(fail(Cause::AuthError, "key revoked")))
    /// #     .retry_blocking(Policy::standard()).call().unwrap_err();
    /// assert_eq!(error.into_error().unwrap().cause(), Cause::AuthError);
    /// ```
    pub fn into_error(mut self) -> Option<E> {
        match self.0.attempts.pop()?.error {
            AttemptError::Failed(error) => Some(error),
            AttemptError::TimedOut { .. }
            | AttemptError::PastDeadline { .. }
            | AttemptError::Panicked(_)
            | AttemptError::Cancelled => None,
        }
    }

    /// What the policy decided last.
    pub fn decision(&self) -> &Decision {
        &self.0.decision
    }

    /// Why there is no further attempt.
    pub fn stopped(&self) -> Stop {
        self.0.stop
    }

    /// What the work is called, if it was named.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

impl<E: fmt::Display> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.0.name {
            write!(f, "{name} ")?;
        }
        let made = self.0.made;
        write!(f, "gave up after {made} attempt{}: ", if made == 1 { "" } else { "s" })?;
        match self.0.stop {
            Stop::Decided => {
                let reason = self.0.decision.escalate_reason(Lang::En).unwrap_or_default();
                f.write_str(reason.trim_end_matches('.'))?;
            }
            Stop::Vetoed => f.write_str("the caller wants no further attempt")?,
            Stop::Deadline { deadline, wait: Some(wait) } => {
                write!(f, "a wait of {} would pass the deadline of {}", human(wait), human(deadline))?;
            }
            Stop::Deadline { deadline, wait: None } => {
                write!(f, "the deadline of {} has passed", human(deadline))?;
            }
            Stop::Cancelled => f.write_str("cancelled")?,
        }
        match self.last() {
            Some(last) => write!(f, "; last: {}", one_line(&crate::secrets::redact(&last.error.to_string()))),
            None => Ok(()),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryError")
            .field("name", &self.0.name)
            .field("attempts_made", &self.0.made)
            .field("attempts", &self.0.attempts)
            .field("decision", &self.0.decision)
            .field("stopped", &self.0.stop)
            .finish()
    }
}

impl<E: fmt::Display + fmt::Debug> Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if record::is_asked_for() {
            return Some(&self.0.record);
        }
        self.error().and_then(self.0.behind)
    }
}

/// Keeps an attempt, and gives it back where it is kept; of a long run only the first and the last ones stay.
pub(crate) fn keep<E>(attempts: &mut Vec<Attempt<E>>, attempt: Attempt<E>) -> &mut Attempt<E> {
    if attempts.len() >= KEPT_ATTEMPTS {
        attempts.remove(KEPT_ATTEMPTS / 2);
    }
    let place = attempts.len();
    attempts.push(attempt);
    &mut attempts[place]
}
