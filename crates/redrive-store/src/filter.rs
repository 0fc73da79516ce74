//! The filter language: `cause=rate_limit and queue=mail and error~"timeout" and age>1h`.
//!
//! One small language for dead letters and for events; [`LetterField`] and [`EventField`] say what can be asked. A filter is
//! read once and judged many times; it is stored as its text. What an index can serve is taken out of it by
//! [`Filter::narrowed`], and the rest is judged row by row. No clock here: `now` is an argument.

mod error;
mod expr;
mod field;
mod judge;
mod narrow;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;
use expr::Expr;

pub use error::{Expected, FilterError, FilterProblem};
pub use field::{EventField, Fact, Field, Fields, LetterField, ValueKind};
pub use narrow::{Narrowed, Within};

/// Which things: a condition over their fields.
///
/// ```
/// use redrive_store::filter::{Filter, LetterField};
///
/// let filter: Filter<LetterField> = "cause = rate_limit AND (queue=mail or queue=sms)".parse().unwrap();
/// assert_eq!(filter.to_string(), "cause=rate_limit and (queue=mail or queue=sms)");
///
/// let error = "cuase=network".parse::<Filter<LetterField>>().unwrap_err();
/// assert_eq!(error.span, 0..5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter<F: Field> {
    expr: Expr<F>,
}

impl<F: Field> Filter<F> {
    /// Reads a filter.
    pub fn parse(text: &str) -> Result<Filter<F>, FilterError> {
        parse::parse(text, parse::LONGEST).map(|expr| Filter { expr })
    }

    /// Reads one that we have written ourselves, from others that were read. It may be longer than one that somebody writes.
    pub fn parse_own(text: &str) -> Result<Filter<F>, FilterError> {
        parse::parse(text, parse::LONGEST_OWN).map(|expr| Filter { expr })
    }

    /// Whether this is one of them. An age is counted up to `now`.
    pub fn matches(&self, of: &impl Fields<F>, now: Timestamp) -> bool {
        self.expr.holds(of, now)
    }

    /// What is asked for by both.
    pub fn and(self, other: Filter<F>) -> Filter<F> {
        let mut parts = Vec::new();
        for expr in [self.expr, other.expr] {
            match expr {
                Expr::All(more) => parts.extend(more),
                one => parts.push(one),
            }
        }
        Filter { expr: Expr::All(parts) }
    }

    /// The conditions on single fields that must hold, and whether they say everything.
    pub fn narrowed(&self, now: Timestamp) -> Narrowed<F> {
        narrow::narrow(&self.expr, now)
    }
}

impl<F: Field> FromStr for Filter<F> {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter<F>, FilterError> {
        Filter::parse(text)
    }
}

/// As it is stored: it parses to the same filter.
impl<F: Field> fmt::Display for Filter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl<F: Field> Serialize for Filter<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, F: Field> Deserialize<'de> for Filter<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Filter<F>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Filter::parse(&text).map_err(serde::de::Error::custom)
    }
}
