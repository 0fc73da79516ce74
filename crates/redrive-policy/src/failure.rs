//! What is known about one failure: the evidence it came with ([`Report`]) and what it was found to be
//! ([`Failure`]).
//!
//! A report borrows from the error it describes and holds typed signals beside words; the classifier
//! turns it into a failure, and `decide` reads nothing else. Neither allocates when a typed signal suffices.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Class, named_enum};

named_enum! {
    /// A rule's own word on whether sending the same thing again can help.
    Verdict {
        /// It can, whatever the cause is usually like.
        Yes = "yes",
        /// It cannot, whatever the cause is usually like.
        No = "no",
        /// The rule leaves it to the cause and the policy.
        Unsaid = "unsaid",
    }
}

impl Verdict {
    /// The verdict that a `retry = true | false` in a rule stands for.
    pub const fn from_retry(retry: Option<bool>) -> Verdict {
        match retry {
            Some(true) => Verdict::Yes,
            Some(false) => Verdict::No,
            None => Verdict::Unsaid,
        }
    }
}

/// The id of the rule that recognised a failure; cheap to clone.
#[derive(Clone)]
pub struct RuleId(RuleIdKind);

#[derive(Clone)]
enum RuleIdKind {
    BuiltIn(&'static str),
    User(Arc<str>),
}

impl RuleId {
    /// A rule that lives as long as the program.
    pub const fn built_in(id: &'static str) -> RuleId {
        RuleId(RuleIdKind::BuiltIn(id))
    }

    /// A rule that was loaded from somebody's configuration.
    pub fn user(id: &str) -> RuleId {
        RuleId(RuleIdKind::User(Arc::from(id)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            RuleIdKind::BuiltIn(id) => id,
            RuleIdKind::User(id) => id,
        }
    }
}

impl PartialEq for RuleId {
    fn eq(&self, other: &RuleId) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleId({})", self.as_str())
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A machine-readable error code, kept inline so that carrying one costs no allocation.
///
/// Codes longer than [`Code::MAX`] bytes keep their beginning: a policy narrowed by code compares no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    len: u8,
    bytes: [u8; Code::MAX],
}

impl Code {
    /// How many bytes of a code are kept.
    pub const MAX: usize = 63;

    /// The code of this text; nothing for an empty one.
    pub fn new(text: &str) -> Option<Code> {
        let text = text.trim();
        let mut end = text.len().min(Code::MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; Code::MAX];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        // `end` is at most 63.
        #[allow(clippy::cast_possible_truncation)]
        (end > 0).then_some(Code { len: end as u8, bytes })
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({:?})", self.as_str())
    }
}

/// The words of a report. They are looked at only when no typed signal decides.
#[derive(Clone, Default)]
pub enum Words<'a> {
    /// Nothing was said.
    #[default]
    None,
    /// A message as it stands.
    Text(Cow<'a, str>),
    /// An error and its sources, written out only when needed.
    Chain(&'a (dyn Error + 'a)),
    /// A value that can be displayed, written out only when needed.
    Display(&'a (dyn fmt::Display + 'a)),
}

impl Words<'_> {
    /// The words, with the source chain written as `outer: middle: root`.
    pub fn render(&self) -> Cow<'_, str> {
        match self {
            Words::None => Cow::Borrowed(""),
            Words::Text(text) => Cow::Borrowed(text),
            Words::Display(value) => Cow::Owned(value.to_string()),
            Words::Chain(error) => Cow::Owned(render_chain(*error)),
        }
    }
}

/// Sources beyond this depth are not followed: a chain may be a cycle.
const MAX_CHAIN: usize = 64;

/// Writes an error and its sources; a source that its parent already quotes is not written twice.
fn render_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    let mut depth = 0;
    while let Some(next) = source {
        let words = next.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = next.source();
        depth += 1;
        if depth == MAX_CHAIN {
            break;
        }
    }
    text
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.render())
    }
}

/// Everything that is known about one failure before it is classified.
///
/// ```
/// use redrive_policy::{Cause, Classifier, Report};
///
/// let report = Report::text("connection reset by peer").with_status(503);
/// assert_eq!(Classifier::built_in().classify(&report).cause, Cause::ApiError);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Report<'a> {
    /// What the handler itself says it is; this beats every rule.
    pub said: Option<(Cause, Verdict)>,
    /// HTTP status of the answer.
    pub http_status: Option<u16>,
    /// Exit code of a process.
    pub exit_code: Option<i32>,
    /// Signal that ended a process.
    pub signal: Option<i32>,
    /// Whether that signal was ours (a timeout or a cancellation), so that it says nothing about memory.
    pub killed_by_us: bool,
    /// Errno name, SQLSTATE, SDK error code, gRPC code, SMTP reply: whatever the source calls its code.
    pub code: Option<Cow<'a, str>>,
    /// How long the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// The words it came with.
    pub words: Words<'a>,
    /// What the next attempt may want to know about this one.
    pub details: Option<Arc<Details>>,
}

impl<'a> Report<'a> {
    /// A report that consists of words only.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Report<'a> {
        Report { words: Words::Text(text.into()), ..Report::default() }
    }

    /// A report on an error and its whole source chain.
    pub fn chain(error: &'a (dyn Error + 'a)) -> Report<'a> {
        Report { words: Words::Chain(error), ..Report::default() }
    }

    /// A handler's own word: this is what it is.
    pub fn said(cause: Cause, verdict: Verdict, text: impl Into<Cow<'a, str>>) -> Report<'a> {
        Report { said: Some((cause, verdict)), ..Report::text(text) }
    }

    /// The same report, knowing the HTTP status.
    pub fn with_status(mut self, status: u16) -> Report<'a> {
        self.http_status = Some(status);
        self
    }

    /// The same report, knowing the exit code.
    pub fn with_exit_code(mut self, exit_code: i32) -> Report<'a> {
        self.exit_code = Some(exit_code);
        self
    }

    /// The same report, knowing a machine-readable code.
    pub fn with_code(mut self, code: impl Into<Cow<'a, str>>) -> Report<'a> {
        self.code = Some(code.into());
        self
    }

    /// The same report, knowing how long the other side asked us to wait.
    pub fn with_retry_after(mut self, wait: Duration) -> Report<'a> {
        self.retry_after = Some(wait);
        self
    }

    /// The same report, with what the next attempt may want to know.
    pub fn with_details(mut self, details: Details) -> Report<'a> {
        self.details = Some(Arc::new(details));
        self
    }
}

/// What a modification hint and an escalation report can tell about a failed attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// One line on what went wrong.
    pub message: Option<String>,
    /// What a review found.
    pub detected_issues: Vec<String>,
    /// The beginning of what was produced.
    pub previous_output_summary: Option<String>,
    /// Names of the criteria that were not met.
    pub failed_criteria: Vec<String>,
    /// What exactly is wrong.
    pub specific_issues: Vec<String>,
    /// What must change.
    pub modification_requirements: Vec<String>,
    /// The review's own words.
    pub previous_judgment: Option<String>,
    /// The limit that was hit, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How long the attempt ran, in milliseconds.
    pub elapsed_ms: Option<u64>,
}

/// A classified failure: all that `decide` needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What it is.
    pub cause: Cause,
    /// Whether the matching rule insists on a retry, forbids it, or leaves it open.
    pub verdict: Verdict,
    /// The rule that recognised it.
    pub rule: RuleId,
    /// HTTP status, when one is known.
    pub http_status: Option<u16>,
    /// Machine-readable code, when one is known; a policy entry may be narrowed by it.
    pub code: Option<Code>,
    /// How long the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// The attempt was lost with its worker, so it is charged to the crash budget and to nothing else.
    pub worker_died: bool,
    /// What the next attempt may want to know.
    pub details: Option<Arc<Details>>,
}

impl Failure {
    /// A failure of a known cause, recognised by no rule in particular.
    ///
    /// ```
    /// use redrive_policy::{Cause, Failure};
    /// assert!(Failure::of(Cause::Network).is_retryable());
    /// ```
    pub fn of(cause: Cause) -> Failure {
        Failure {
            cause,
            verdict: Verdict::Unsaid,
            rule: RuleId::built_in("said"),
            http_status: None,
            code: None,
            retry_after: None,
            worker_died: false,
            details: None,
        }
    }

    /// The failure of an attempt whose worker died: nothing is known of it but that.
    pub fn worker_died() -> Failure {
        Failure { rule: RuleId::built_in("worker-died"), worker_died: true, ..Failure::of(Cause::Crashed) }
    }

    /// Whether the same request, sent again later, may plausibly succeed: the rule's verdict, or else the
    /// nature of the cause. A policy may still decide otherwise.
    pub fn is_retryable(&self) -> bool {
        match self.verdict {
            Verdict::Yes => true,
            Verdict::No => false,
            Verdict::Unsaid => self.cause.class() == Class::Transient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);
    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as _)
        }
    }

    /// R-P3: the whole source chain is read, and a quoted source only once.
    #[test]
    fn a_chain_is_written_from_the_outside_to_the_root() {
        let root = Layer("connection refused", None);
        let middle = Layer("dial tcp: connection refused", Some(Box::new(root)));
        let outer = Layer("request failed", Some(Box::new(middle)));
        assert_eq!(Words::Chain(&outer).render(), "request failed: dial tcp: connection refused");
    }

    #[test]
    fn a_long_code_keeps_its_beginning_at_a_character_boundary() {
        let long = "é".repeat(100);
        let code = Code::new(&long).unwrap();
        assert_eq!(code.as_str(), "é".repeat(31));
        assert_eq!(Code::new("  "), None);
    }
}
