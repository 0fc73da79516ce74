//! A filter that was understood: conditions, how they are joined, and how they are written down again.
//!
//! What is printed parses to the same filter, so that one can be stored as its text.

use std::fmt::{self, Display as _};

use redrive_policy::human_duration;
use regex::Regex;

use super::field::Field;
use crate::id::JobId;
use crate::time::Timestamp;

/// Words that mean something by themselves; a value that is one of them is quoted.
pub(super) const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

/// A condition, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr<F> {
    All(Vec<Expr<F>>),
    Any(Vec<Expr<F>>),
    Not(Box<Expr<F>>),
    Is(F, Test),
}

/// What a field is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    Compare(Comparison, Value),
    Matches(Pattern),
    /// The opposite, in one sign.
    Differs(Pattern),
    In(Vec<Value>),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    pub(super) const fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::Unequal => "!=",
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::More => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

/// A value as its field understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Prefix(String),
    Id(JobId),
    Number(i64),
    Flag(bool),
    /// In milliseconds.
    Length(u64),
    Moment(Moment),
}

/// A point in time as precise as it was written: a day is any time of that day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) from: Timestamp,
    pub(super) precision: Precision,
}

/// How precisely a point in time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Day,
    Minute,
    Second,
    Millisecond,
}

impl Moment {
    /// The first millisecond behind it.
    pub(super) fn until(self) -> Timestamp {
        let millis = match self.precision {
            Precision::Day => 86_400_000,
            Precision::Minute => 60_000,
            Precision::Second => 1_000,
            Precision::Millisecond => 1,
        };
        Timestamp::from_millis(self.from.millis().saturating_add(millis))
    }
}

/// A regular expression that does not mind case, with the text that it was made of.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl<F: Field> fmt::Display for Expr<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::All(parts) => joined(f, parts, " and "),
            Expr::Any(parts) => joined(f, parts, " or "),
            Expr::Not(inner) => match &**inner {
                Expr::All(_) | Expr::Any(_) => write!(f, "not ({inner})"),
                Expr::Not(_) | Expr::Is(..) => write!(f, "not {inner}"),
            },
            Expr::Is(field, test) => {
                f.write_str(field.name())?;
                test.fmt(f)
            }
        }
    }
}

/// The parts in a row; what is joined itself stands in parentheses, also where precedence would not need them.
fn joined<F: Field>(f: &mut fmt::Formatter<'_>, parts: &[Expr<F>], by: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(by)?;
        }
        match part {
            Expr::All(_) | Expr::Any(_) => write!(f, "({part})")?,
            Expr::Not(_) | Expr::Is(..) => part.fmt(f)?,
        }
    }
    Ok(())
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Compare(comparison, value) => write!(f, "{}{value}", comparison.sign()),
            Test::Matches(pattern) => write!(f, "~{}", Quoted(&pattern.text)),
            Test::Differs(pattern) => write!(f, "!~{}", Quoted(&pattern.text)),
            Test::In(values) => {
                f.write_str(" in (")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) | Value::Prefix(text) => Quoted(text).fmt(f),
            Value::Id(id) => id.fmt(f),
            Value::Number(number) => number.fmt(f),
            Value::Flag(flag) => flag.fmt(f),
            Value::Length(millis) => f.write_str(&human_duration(std::time::Duration::from_millis(*millis))),
            Value::Moment(moment) => moment.fmt(f),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.from.to_string();
        match self.precision {
            Precision::Day => f.write_str(&written[..10]),
            Precision::Minute => write!(f, "{}Z", &written[..16]),
            Precision::Second => write!(f, "{}Z", &written[..19]),
            Precision::Millisecond => f.write_str(&written),
        }
    }
}

/// A text as a value: bare where it can be, else in quotes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0;
        let tame = |c: char| c.is_alphanumeric() || "_-.:/@+".contains(c);
        let keyword = KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
        if !text.is_empty() && text.chars().all(tame) && !keyword {
            return f.write_str(text);
        }
        f.write_str("\"")?;
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}
