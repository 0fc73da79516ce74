//! Whether a thing is what a filter asks for.

use super::expr::{Comparison, Expr, Test, Value};
use super::field::{Fact, Field, Fields};
use crate::time::Timestamp;

impl<F: Field> Expr<F> {
    pub(super) fn holds(&self, of: &impl Fields<F>, now: Timestamp) -> bool {
        match self {
            Expr::All(parts) => parts.iter().all(|part| part.holds(of, now)),
            Expr::Any(parts) => parts.iter().any(|part| part.holds(of, now)),
            Expr::Not(inner) => !inner.holds(of, now),
            Expr::Is(field, test) => test.holds(&of.fact(*field), now),
        }
    }
}

impl Test {
    fn holds(&self, fact: &Fact<'_>, now: Timestamp) -> bool {
        match self {
            Test::Compare(comparison, value) => compare(*comparison, fact, value, now),
            Test::Matches(pattern) => texts(fact).any(|text| pattern.regex.is_match(text)),
            Test::Differs(pattern) => !texts(fact).any(|text| pattern.regex.is_match(text)),
            Test::In(values) => values.iter().any(|value| compare(Comparison::Equal, fact, value, now)),
        }
    }
}

/// The texts that a fact consists of.
fn texts<'a>(fact: &'a Fact<'_>) -> impl Iterator<Item = &'a str> {
    let (one, many): (Option<&str>, &[String]) = match fact {
        Fact::Text(text) => (Some(text), &[]),
        Fact::Texts(texts) => (None, texts),
        _ => (None, &[]),
    };
    one.into_iter().chain(many.iter().map(String::as_str))
}

/// What is not there is unequal to everything but the empty text, and neither less nor more than anything.
fn compare(comparison: Comparison, fact: &Fact<'_>, value: &Value, now: Timestamp) -> bool {
    match comparison {
        Comparison::Equal => equal(fact, value, now),
        Comparison::Unequal => !equal(fact, value, now),
        Comparison::Less => before(fact, value, now),
        Comparison::AtMost => before(fact, value, now) || equal(fact, value, now),
        Comparison::More => behind(fact, value, now),
        Comparison::AtLeast => behind(fact, value, now) || equal(fact, value, now),
    }
}

fn equal(fact: &Fact<'_>, value: &Value, now: Timestamp) -> bool {
    match (fact, value) {
        (Fact::Absent | Fact::Texts([]), Value::Text(text) | Value::Prefix(text)) => text.is_empty(),
        (_, Value::Text(wanted)) => texts(fact).any(|text| text == wanted),
        (_, Value::Prefix(begin)) => {
            texts(fact).any(|text| if begin.is_empty() { text.is_empty() } else { text.starts_with(begin) })
        }
        (Fact::Id(id), Value::Id(wanted)) => id == wanted,
        (Fact::Number(number), Value::Number(wanted)) => number == wanted,
        (Fact::Flag(flag), Value::Flag(wanted)) => flag == wanted,
        (Fact::Moment(at), Value::Moment(wanted)) => wanted.from <= *at && *at < wanted.until(),
        (_, Value::Length(wanted)) => length(fact, now).is_some_and(|length| length == *wanted),
        _ => false,
    }
}

fn before(fact: &Fact<'_>, value: &Value, now: Timestamp) -> bool {
    match (fact, value) {
        (Fact::Id(id), Value::Id(wanted)) => id < wanted,
        (Fact::Number(number), Value::Number(wanted)) => number < wanted,
        (Fact::Moment(at), Value::Moment(wanted)) => *at < wanted.from,
        (_, Value::Length(wanted)) => length(fact, now).is_some_and(|length| length < *wanted),
        _ => false,
    }
}

fn behind(fact: &Fact<'_>, value: &Value, now: Timestamp) -> bool {
    match (fact, value) {
        (Fact::Id(id), Value::Id(wanted)) => id > wanted,
        (Fact::Number(number), Value::Number(wanted)) => number > wanted,
        (Fact::Moment(at), Value::Moment(wanted)) => *at >= wanted.until(),
        (_, Value::Length(wanted)) => length(fact, now).is_some_and(|length| length > *wanted),
        _ => false,
    }
}

/// A length of time in milliseconds; of a point in time, how long ago that was.
fn length(fact: &Fact<'_>, now: Timestamp) -> Option<u64> {
    match fact {
        Fact::Length(millis) => Some(*millis),
        Fact::Moment(at) => Some(u64::try_from(now.since(*at).as_millis()).unwrap_or(u64::MAX)),
        _ => None,
    }
}
