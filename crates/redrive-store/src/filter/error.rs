//! Why a filter cannot be read: where, what stands there, and what could stand there instead.

use std::fmt;
use std::ops::Range;

use super::field::ValueKind;

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Where, in bytes of the text; at the end it is empty.
    pub span: Range<usize>,
    /// What is wrong there.
    pub problem: FilterProblem,
}

/// What is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterProblem {
    /// It is longer than this many bytes.
    TooLong {
        /// The most.
        most: usize,
    },
    /// Parentheses and `not` nest deeper than this.
    TooDeep {
        /// The most.
        most: usize,
    },
    /// Something else should stand there.
    Expected {
        /// What.
        expected: Expected,
        /// What stands there; nothing at the end.
        found: Option<String>,
    },
    /// A quoted value that does not end.
    OpenQuote,
    /// No such field.
    UnknownField {
        /// What was written.
        written: String,
        /// What was probably meant.
        meant: Option<&'static str>,
        /// Every field.
        known: Vec<&'static str>,
    },
    /// A comparison that this field does not know.
    BadOperator {
        /// The field.
        field: &'static str,
        /// What was written.
        written: &'static str,
        /// What it knows.
        allowed: &'static [&'static str],
    },
    /// A value that this field cannot have.
    BadValue {
        /// The field.
        field: &'static str,
        /// What was written.
        written: String,
        /// What it takes.
        kind: ValueKind,
        /// What was probably meant.
        meant: Option<&'static str>,
    },
    /// A regular expression that is none, or one that is too large.
    BadPattern {
        /// Why.
        why: String,
    },
}

/// What should stand at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The name of a field, `not` or an opening parenthesis.
    Field,
    /// A comparison.
    Operator,
    /// A value.
    Value,
    /// `and`, `or`, or the end.
    Joint,
    /// `and`, `or`, or the closing parenthesis of the one at this place.
    Closing {
        /// In bytes of the text.
        opened_at: usize,
    },
    /// An opening parenthesis.
    Opening,
    /// A comma or a closing parenthesis.
    Comma,
}

impl Expected {
    /// Its name, for whoever says it in words.
    pub const fn name(self) -> &'static str {
        match self {
            Expected::Field => "field",
            Expected::Operator => "operator",
            Expected::Value => "value",
            Expected::Joint => "joint",
            Expected::Closing { .. } => "closing",
            Expected::Opening => "opening",
            Expected::Comma => "comma",
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Field => "a field",
            Expected::Operator => "a comparison such as = or ~",
            Expected::Value => "a value",
            Expected::Joint => "and, or, or the end",
            Expected::Closing { .. } => "and, or, or a closing parenthesis",
            Expected::Opening => "an opening parenthesis",
            Expected::Comma => "a comma or a closing parenthesis",
        })
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.span.start)?;
        match &self.problem {
            FilterProblem::TooLong { most } => write!(f, "longer than {most} bytes"),
            FilterProblem::TooDeep { most } => write!(f, "nested deeper than {most}"),
            FilterProblem::Expected { expected, found: Some(found) } => {
                write!(f, "expected {expected}, found {found:?}")
            }
            FilterProblem::Expected { expected, found: None } => write!(f, "expected {expected}"),
            FilterProblem::OpenQuote => f.write_str("this quote is never closed"),
            FilterProblem::UnknownField { written, known, .. } => {
                write!(f, "no field {written:?}; there are {}", known.join(", "))
            }
            FilterProblem::BadOperator { field, written, allowed } => {
                write!(f, "{field} cannot be compared with {written}; it knows {}", allowed.join(" "))
            }
            FilterProblem::BadValue { field, written, .. } => write!(f, "{field} cannot be {written:?}"),
            FilterProblem::BadPattern { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for FilterError {}
