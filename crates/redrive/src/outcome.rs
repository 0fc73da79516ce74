//! What became of one attempt ([`Outcome`]), and all that is known when it failed ([`Evidence`]).
//!
//! Executors — a typed handler, a command, an HTTP call — end here, and the classifier begins here: evidence owns
//! what a [`Report`] borrows, so that it outlives the error or the process it came from. Everything is bounded.
//! As it stands it may hold secrets, because rules must read what was really said; [`Evidence::redacted`] and
//! the tails of [`Executed`] are what may be stored or shown.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Details, KnownSecrets, Report, TEXT_BOUND, Verdict, Words, one_line};

use crate::bounded::both_ends;
use crate::into_failure::IntoFailure;
use crate::secrets::{redact, redact_knowing};

/// The exit code of a command that a time limit ended.
pub(crate) const TIMED_OUT: i32 = 124;

/// How much of a machine-readable code, or of a type's name, is kept.
const NAME_BOUND: usize = 256;

/// How long a summary may get.
const SUMMARY_BOUND: usize = 400;

/// What an attempt returned.
///
/// ```
/// use redrive::{Cause, Evidence, Outcome, fail};
///
/// let outcome: Result<(), _> = Err(fail(Cause::RateLimit, "slow down"));
/// let outcome = outcome.map_or_else(|error| Outcome::failed(Evidence::of(&error)), |()| Outcome::Succeeded);
/// assert!(matches!(outcome, Outcome::Failed(evidence) if evidence.message == "slow down"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Succeeded,
    /// It failed, and this is known about it.
    Failed(Box<Evidence>),
    /// Nothing went wrong, but it wants to be asked again after so long; no attempt is used up.
    Snoozed(Duration),
    /// Somebody stopped it, for this reason: no retry, no dead letter.
    Cancelled(String),
}

impl Outcome {
    /// A failure of which this is known.
    pub fn failed(evidence: Evidence) -> Outcome {
        Outcome::Failed(Box::new(evidence))
    }
}

/// Everything that is known about a failed attempt, owned.
///
/// ```
/// use redrive::{Cause, Classifier, Evidence};
///
/// let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
/// let evidence = Evidence::of(&refused);
/// drop(refused);
/// assert_eq!(Classifier::built_in().classify(&evidence.report()).cause, Cause::Network);
/// assert!(evidence.never_sent);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// What the handler itself says it is.
    pub said: Option<(Cause, Verdict)>,
    /// HTTP status of the answer.
    pub http_status: Option<u16>,
    /// Exit code of a process; 124 when we ended it for its time.
    pub exit_code: Option<i32>,
    /// Signal that ended a process.
    pub signal: Option<i32>,
    /// Whether we ended that process ourselves.
    pub killed_by_us: bool,
    /// Whatever the source calls its code.
    pub code: Option<String>,
    /// How long the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// What kind of thing failed: `ExitStatus`, `HttpStatus`, `Timeout`, or the name of the error's type.
    pub error_type: String,
    /// The words it came with, at most 16 KiB of them. May hold secrets.
    pub message: String,
    /// What the next attempt may want to know.
    pub details: Option<Arc<Details>>,
    /// Whether it is certain that the other side never saw the request.
    pub never_sent: bool,
}

impl Evidence {
    /// What an error knows, with its words written out.
    ///
    /// ```
    /// let evidence = redrive::Evidence::of("no route to host");
    /// assert_eq!((evidence.message.as_str(), evidence.error_type.as_str()), ("no route to host", "str"));
    /// ```
    pub fn of<E: IntoFailure + ?Sized>(error: &E) -> Evidence {
        let report = error.report();
        let name = both_ends(std::any::type_name::<E>(), NAME_BOUND).into_owned();
        Evidence { never_sent: error.never_sent(), ..Evidence::from_report(name, &report) }
    }

    /// What a report knows, about an error of this type.
    ///
    /// ```
    /// use redrive::{Evidence, Report};
    /// let evidence = Evidence::from_report("HttpStatus", &Report::text("busy").with_status(503));
    /// assert_eq!(evidence.report().http_status, Some(503));
    /// ```
    pub fn from_report(error_type: impl Into<String>, report: &Report<'_>) -> Evidence {
        Evidence {
            said: report.said,
            http_status: report.http_status,
            exit_code: report.exit_code,
            signal: report.signal,
            killed_by_us: report.killed_by_us,
            code: report.code.as_deref().map(|code| both_ends(code, NAME_BOUND).into_owned()),
            retry_after: report.retry_after,
            error_type: error_type.into(),
            message: both_ends(&report.words.render(), TEXT_BOUND).into_owned(),
            details: report.details.clone(),
            never_sent: false,
        }
    }

    /// The evidence as a classifier reads it.
    pub fn report(&self) -> Report<'_> {
        Report {
            said: self.said,
            http_status: self.http_status,
            exit_code: self.exit_code,
            signal: self.signal,
            killed_by_us: self.killed_by_us,
            code: self.code.as_deref().map(Cow::Borrowed),
            retry_after: self.retry_after,
            // Without words a typed signal need not be weighed against any.
            words: if self.message.is_empty() {
                Words::None
            } else {
                Words::Text(Cow::Borrowed(&self.message))
            },
            details: self.details.clone(),
        }
    }

    /// What is known without words: for those who said nothing.
    #[cfg(feature = "engine")]
    pub(crate) fn signals(&self) -> String {
        let timed_out = self.killed_by_us && self.exit_code == Some(TIMED_OUT);
        match (self.exit_code, self.signal, self.http_status, &self.code) {
            // The signal was ours, and says nothing.
            _ if timed_out => self.details.as_deref().and_then(|details| details.timeout_ms).map_or_else(
                || "timed out".to_owned(),
                |limit| {
                    format!(
                        "timed out after {}",
                        redrive_policy::human_duration(Duration::from_millis(limit))
                    )
                },
            ),
            (_, Some(signal), ..) => format!("ended by signal {signal}"),
            (Some(exit_code), ..) => format!("exit code {exit_code}"),
            (_, _, Some(status), _) => format!("HTTP {status}"),
            (.., Some(code)) => code.clone(),
            _ => String::new(),
        }
    }

    /// The same evidence with every secret blanked, as it may be stored, shown and sent.
    ///
    /// ```
    /// let evidence = redrive::Evidence::of("login failed: password=hunter2").redacted();
    /// assert_eq!(evidence.message, "login failed: password=[redacted]");
    /// ```
    pub fn redacted(&self) -> Evidence {
        self.redacted_knowing(&KnownSecrets::default())
    }

    /// The same, with what is known to be secret besides: what a job or a call was given.
    ///
    /// ```
    /// let known = redrive_policy::KnownSecrets::of_values(["Xk2-91Qz"]);
    /// let evidence = redrive::Evidence::of("login as Xk2-91Qz failed").redacted_knowing(&known);
    /// assert_eq!(evidence.message, "login as [redacted] failed");
    /// ```
    pub fn redacted_knowing(&self, known: &KnownSecrets) -> Evidence {
        let redact = |text: &str| redact_knowing(known, text);
        Evidence {
            code: self.code.as_deref().map(redact),
            error_type: redact(&self.error_type),
            message: both_ends(&redact(&self.message), TEXT_BOUND).into_owned(),
            details: self.details.as_deref().map(|details| Arc::new(redacted_details(details, &redact))),
            ..self.clone()
        }
    }

    /// One line for a person, without secrets and control characters.
    ///
    /// ```
    /// use redrive::Evidence;
    /// let evidence = Evidence { exit_code: Some(3), message: "working\nno such table\n".into(), ..Evidence::default() };
    /// assert_eq!(evidence.summary(), "exit code 3: no such table");
    /// ```
    pub fn summary(&self) -> String {
        let timed_out = self.killed_by_us && self.exit_code == Some(TIMED_OUT);
        let what = match (self.http_status, self.signal, self.exit_code) {
            _ if timed_out => "timed out".to_owned(),
            (Some(status), ..) => format!("HTTP {status}"),
            (None, Some(signal), _) => format!("killed by signal {signal}"),
            (None, None, Some(code)) => format!("exit code {code}"),
            (None, None, None) => String::new(),
        };
        let words = redact(&self.message);
        // A command says last what it died of, and a person's reason or an error says it first.
        let is_output = self.said.is_none() && (self.exit_code.is_some() || self.signal.is_some());
        let last = || words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let words = if is_output { one_line(last()) } else { one_line(&words) };
        let line = match (what.is_empty(), words.is_empty()) {
            (false, false) => format!("{what}: {words}"),
            (true, true) => self.error_type.clone(),
            _ => what + &words,
        };
        let end = line.floor_char_boundary(SUMMARY_BOUND);
        if end < line.len() { format!("{}…", &line[..end]) } else { line }
    }
}

fn redacted_details(details: &Details, redact: &dyn Fn(&str) -> String) -> Details {
    let one = |text: &Option<String>| text.as_deref().map(redact);
    let many = |texts: &[String]| texts.iter().map(|text| redact(text)).collect();
    Details {
        message: one(&details.message),
        detected_issues: many(&details.detected_issues),
        previous_output_summary: one(&details.previous_output_summary),
        failed_criteria: many(&details.failed_criteria),
        specific_issues: many(&details.specific_issues),
        modification_requirements: many(&details.modification_requirements),
        previous_judgment: one(&details.previous_judgment),
        timeout_ms: details.timeout_ms,
        elapsed_ms: details.elapsed_ms,
    }
}

/// What a time limit knows about the attempt it ended.
#[cfg(any(feature = "exec", feature = "http-call"))]
pub(crate) fn time_details(limit: Duration, elapsed: Duration) -> Arc<Details> {
    let millis = |duration| Some(redrive_policy::round_to_millis(duration));
    Arc::new(Details { timeout_ms: millis(limit), elapsed_ms: millis(elapsed), ..Details::default() })
}

/// An attempt that an executor has carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// What became of it.
    pub outcome: Outcome,
    /// The exit code as a shell would say it: the command's own, 128+n for signal n, 124 for its time, 126 and 127
    /// when it did not start. Nothing for what is not a process.
    pub exit_code: Option<i32>,
    /// The status of an HTTP answer, also of a good one.
    pub http_status: Option<u16>,
    /// The end of what it wrote to stdout, or of the answer's body: at most 8 KiB, without secrets.
    pub stdout_tail: Option<String>,
    /// The end of what it wrote to stderr: at most 8 KiB, without secrets.
    pub stderr_tail: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Executed {
    /// An attempt that wrote nothing.
    ///
    /// ```
    /// use redrive::{Executed, Outcome};
    /// use std::time::Duration;
    /// assert_eq!(Executed::silent(Outcome::Succeeded, Duration::ZERO).process_exit_code(), 0);
    /// ```
    pub fn silent(outcome: Outcome, elapsed: Duration) -> Executed {
        let (exit_code, http_status) = (None, None);
        Executed { outcome, exit_code, http_status, stdout_tail: None, stderr_tail: None, elapsed }
    }

    /// With which code a process that ran this in its place should end.
    pub fn process_exit_code(&self) -> i32 {
        self.exit_code.unwrap_or(match self.outcome {
            Outcome::Succeeded | Outcome::Snoozed(_) => 0,
            Outcome::Failed(_) | Outcome::Cancelled(_) => 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_policy::Classifier;

    /// R-P3: evidence is classified as the error it was taken from, also when that is gone.
    #[test]
    fn evidence_says_what_the_error_said() {
        let details = Details { specific_issues: vec!["api_key=k-123".into()], ..Details::default() };
        let error = crate::fail(Cause::Incomplete, "page 7 is missing; token=hunter2")
            .worth_a_retry()
            .code("E7")
            .retry_after(Duration::from_secs(9))
            .details(details);
        let evidence = Evidence::of(&error);
        assert_eq!(
            Classifier::built_in().classify(&error.report()),
            Classifier::built_in().classify(&evidence.report())
        );
        assert_eq!(evidence.error_type, "redrive::fail::Fail");
        let stored = format!("{:?}", evidence.redacted());
        assert!(!stored.contains("hunter2") && !stored.contains("k-123"), "{stored}");
    }

    /// R-P3: words without a bound are kept at both ends.
    #[test]
    fn a_huge_message_is_bounded() {
        let evidence = Evidence::of(&format!("begin {} end", "x".repeat(1_000_000)));
        assert!(evidence.message.len() <= TEXT_BOUND);
        assert!(evidence.message.starts_with("begin ") && evidence.message.ends_with(" end"));
        assert!(evidence.summary().len() < 500);
    }

    /// R-P12: a limit of ours is a timeout, whatever the command wrote and whichever signal ended it.
    #[test]
    fn our_own_time_limit_is_a_timeout_and_nothing_else() {
        let evidence = Evidence {
            exit_code: Some(TIMED_OUT),
            signal: Some(9),
            killed_by_us: true,
            message: "401 Unauthorized: invalid password".into(),
            ..Evidence::default()
        };
        let failure = Classifier::built_in().classify(&evidence.report());
        assert_eq!((failure.cause, failure.rule.as_str()), (Cause::Timeout, "exit.timeout"));
        assert_eq!(evidence.summary(), "timed out: 401 Unauthorized: invalid password");
    }
}
