//! What is wrong with a filter, and what could stand there instead, in words.

use redrive_policy::Lang;
use redrive_store::filter::{FilterProblem, ValueKind};

use crate::escape::beginning;
use crate::text::{say, text};

/// How much of what was written is quoted.
const QUOTED: usize = 60;

pub(super) fn in_words(problem: &FilterProblem, lang: Lang) -> String {
    match problem {
        FilterProblem::TooLong { most } => text(lang, "filter.too-long", &[("most", most)]),
        FilterProblem::TooDeep { most } => text(lang, "filter.too-deep", &[("most", most)]),
        FilterProblem::Expected { expected, found } => {
            let expected = say(lang, &format!("filter.expected.{}", expected.name()));
            match found {
                Some(found) => {
                    let found = beginning(found, QUOTED);
                    text(lang, "filter.found", &[("found", &found), ("expected", &expected)])
                }
                None => text(lang, "filter.ends", &[("expected", &expected)]),
            }
        }
        FilterProblem::OpenQuote => say(lang, "filter.open-quote"),
        FilterProblem::UnknownField { written, .. } => {
            text(lang, "filter.unknown-field", &[("written", &beginning(written, QUOTED))])
        }
        FilterProblem::BadOperator { field, written, .. } => {
            text(lang, "filter.bad-operator", &[("field", field), ("written", written)])
        }
        FilterProblem::BadValue { field, written, .. } => {
            text(lang, "filter.bad-value", &[("field", field), ("written", &beginning(written, QUOTED))])
        }
        FilterProblem::BadPattern { why } => text(lang, "filter.bad-pattern", &[("why", why)]),
    }
}

pub(super) fn hint(problem: &FilterProblem, lang: Lang) -> String {
    match problem {
        FilterProblem::UnknownField { meant: Some(meant), known, .. } => {
            text(lang, "filter.hint.meant", &[("name", meant), ("names", &known.join(", "))])
        }
        FilterProblem::UnknownField { known, .. } => {
            text(lang, "filter.hint.fields", &[("names", &known.join(", "))])
        }
        FilterProblem::BadOperator { field, allowed, .. } => {
            text(lang, "filter.hint.operators", &[("field", field), ("names", &allowed.join(" "))])
        }
        FilterProblem::BadValue { meant: Some(meant), .. } => {
            text(lang, "usage.did-you-mean", &[("name", meant)])
        }
        FilterProblem::BadValue { kind, .. } => allowed(*kind, lang),
        FilterProblem::OpenQuote => say(lang, "filter.hint.quotes"),
        FilterProblem::BadPattern { .. } => say(lang, "filter.hint.pattern"),
        FilterProblem::TooLong { .. } | FilterProblem::TooDeep { .. } | FilterProblem::Expected { .. } => {
            say(lang, "filter.hint.example")
        }
    }
}

/// What a field takes.
fn allowed(kind: ValueKind, lang: Lang) -> String {
    match kind {
        ValueKind::OneOf(names) => text(lang, "allowed.one-of", &[("names", &names.join(", "))]),
        ValueKind::Text | ValueKind::Prefix => say(lang, "filter.hint.quotes"),
        ValueKind::Id => say(lang, "filter.hint.id"),
        ValueKind::Number => say(lang, "filter.hint.number"),
        ValueKind::Flag => text(lang, "allowed.one-of", &[("names", &"true, false")]),
        ValueKind::Length => say(lang, "filter.hint.length"),
        ValueKind::Moment => say(lang, "filter.hint.moment"),
    }
}
