//! The rules of users: typed conditions and regular expressions, asked before the built-in book.
//!
//! A rule that does not load is an error at load, never at run time.

use std::fmt;

use regex::Regex;

use crate::cause::Cause;
use crate::failure::{Report, RuleId, Verdict};

/// A rule of one's own, asked before the built-in ones. All conditions that are given must hold; within one
/// condition any of its values will do.
#[derive(Debug, Clone)]
pub struct UserRule {
    pub(crate) id: RuleId,
    pub(crate) cause: Cause,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    status: Vec<u16>,
    exit_code: Vec<i32>,
    code: Vec<String>,
    regex: Vec<Regex>,
}

impl PartialEq for UserRule {
    /// Two rules are one if they are written alike.
    fn eq(&self, other: &UserRule) -> bool {
        let patterns =
            |rule: &UserRule| rule.regex.iter().map(|regex| regex.as_str().to_owned()).collect::<Vec<_>>();
        (&self.id, self.cause, self.verdict, &self.reason)
            == (&other.id, other.cause, other.verdict, &other.reason)
            && (&self.status, &self.exit_code, &self.code) == (&other.status, &other.exit_code, &other.code)
            && patterns(self) == patterns(other)
    }
}

/// A user's rule that does not load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The field that is wrong.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

impl std::error::Error for RuleError {}

impl UserRule {
    /// A rule without conditions; it matches nothing until one is added.
    ///
    /// ```
    /// use redrive_policy::{Cause, Classifier, Report, UserRule};
    ///
    /// let rule = UserRule::new("nightly-window", Cause::ApiError, Some(true), "the batch window is closed")
    ///     .with_regex(r"(?i)window closed until \d\d:\d\d").unwrap();
    /// let classifier = Classifier::with_user_rules(vec![rule]);
    /// let failure = classifier.classify(&Report::text("Window closed until 06:00"));
    /// assert_eq!(failure.rule.as_str(), "nightly-window");
    /// ```
    pub fn new(id: &str, cause: Cause, retry: Option<bool>, reason: &str) -> UserRule {
        UserRule {
            id: RuleId::user(id),
            cause,
            verdict: Verdict::from_retry(retry),
            reason: reason.to_owned(),
            status: Vec::new(),
            exit_code: Vec::new(),
            code: Vec::new(),
            regex: Vec::new(),
        }
    }

    /// Also requires one of these HTTP statuses.
    pub fn with_status(mut self, status: impl IntoIterator<Item = u16>) -> UserRule {
        self.status.extend(status);
        self
    }

    /// Also requires one of these exit codes.
    pub fn with_exit_code(mut self, exit_code: impl IntoIterator<Item = i32>) -> UserRule {
        self.exit_code.extend(exit_code);
        self
    }

    /// Also requires one of these codes, in any case.
    pub fn with_code(mut self, code: impl IntoIterator<Item = String>) -> UserRule {
        self.code.extend(code);
        self
    }

    /// Also requires that the text matches; several patterns are alternatives.
    pub fn with_regex(mut self, pattern: &str) -> Result<UserRule, RuleError> {
        let regex = Regex::new(pattern).map_err(|error| RuleError {
            field: "regex",
            what: error.to_string().trim().replace('\n', " "),
        })?;
        self.regex.push(regex);
        Ok(self)
    }

    /// Whether any condition was given.
    pub fn has_conditions(&self) -> bool {
        !(self.status.is_empty()
            && self.exit_code.is_empty()
            && self.code.is_empty()
            && self.regex.is_empty())
    }

    /// The rule's id.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    pub(crate) fn matches(&self, report: &Report<'_>, text: &str) -> bool {
        let holds = |given: bool, met: bool| !given || met;
        self.has_conditions()
            && holds(!self.status.is_empty(), report.http_status.is_some_and(|s| self.status.contains(&s)))
            && holds(
                !self.exit_code.is_empty(),
                report.exit_code.is_some_and(|code| self.exit_code.contains(&code)),
            )
            && holds(
                !self.code.is_empty(),
                report
                    .code
                    .as_deref()
                    .is_some_and(|code| self.code.iter().any(|own| own.eq_ignore_ascii_case(code.trim()))),
            )
            && holds(!self.regex.is_empty(), self.regex.iter().any(|regex| regex.is_match(text)))
    }
}
