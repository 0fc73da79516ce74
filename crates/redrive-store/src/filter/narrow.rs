//! What an index can serve: the conditions of a filter that must all hold, each on one field.
//!
//! Taken from the top-level conjunction. A condition that says less than the filter (or none at all) makes
//! [`Narrowed::is_whole`] false: then every row that passes is judged again by the filter itself.

use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, CauseSet, Class};

use super::expr::{Comparison, Expr, Test, Value};
use super::field::Field;
use super::{EventField, Filter, LetterField};
use crate::dead_letter::{LetterFilter, LetterTest};
use crate::event::{EventFilter, EventStatus};
use crate::id::JobId;
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// Conditions on single fields that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed<F> {
    /// The conditions.
    pub conditions: Vec<(F, Within)>,
    /// Whether they say all that the filter says.
    pub is_whole: bool,
}

/// Where the value of a field must lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    /// One of these texts, none of them empty.
    Texts(Vec<String>),
    /// It begins with this, which is not empty.
    Prefix(String),
    /// One of these ids.
    Ids(Vec<JobId>),
    /// Yes or no.
    Flag(bool),
    /// A point in time.
    Period {
        /// Not before.
        from: Option<Timestamp>,
        /// Not at or after.
        until: Option<Timestamp>,
    },
}

pub(super) fn narrow<F: Field>(expr: &Expr<F>, now: Timestamp) -> Narrowed<F> {
    let mut narrowed = Narrowed { conditions: Vec::new(), is_whole: true };
    gather(expr, now, &mut narrowed);
    narrowed
}

fn gather<F: Field>(expr: &Expr<F>, now: Timestamp, into: &mut Narrowed<F>) {
    match expr {
        Expr::All(parts) => parts.iter().for_each(|part| gather(part, now, into)),
        Expr::Is(field, test) => match within(*field, test, now) {
            Some(within) => into.conditions.push((*field, within)),
            None => into.is_whole = false,
        },
        Expr::Any(parts) => match choice(parts) {
            Some((field, within)) => into.conditions.push((field, within)),
            None => into.is_whole = false,
        },
        Expr::Not(_) => into.is_whole = false,
    }
}

/// `queue=a or queue=b` is one condition on one field.
fn choice<F: Field>(parts: &[Expr<F>]) -> Option<(F, Within)> {
    let mut values = Vec::new();
    let mut field = None;
    for part in parts {
        let Expr::Is(of, test) = part else { return None };
        if field.is_some_and(|field| field != *of) {
            return None;
        }
        field = Some(*of);
        match test {
            Test::Compare(Comparison::Equal, value) => values.push(value),
            Test::In(more) => values.extend(more),
            _ => return None,
        }
    }
    Some((field?, one_of(&values)?))
}

fn within<F: Field>(field: F, test: &Test, now: Timestamp) -> Option<Within> {
    match test {
        Test::In(values) => one_of(&values.iter().collect::<Vec<_>>()),
        Test::Compare(comparison, Value::Moment(moment)) => {
            let (from, until) = match comparison {
                Comparison::Equal => (Some(moment.from), Some(moment.until())),
                Comparison::Less => (None, Some(moment.from)),
                Comparison::AtMost => (None, Some(moment.until())),
                Comparison::More => (Some(moment.until()), None),
                Comparison::AtLeast => (Some(moment.from), None),
                Comparison::Unequal => return None,
            };
            Some(Within::Period { from, until })
        }
        // Only an age is counted from a point in time; other lengths have no index.
        Test::Compare(comparison, Value::Length(millis)) if field.name() == "age" => {
            let then = now.before(Duration::from_millis(*millis));
            let behind = then.after(Duration::from_millis(1));
            let (from, until) = match comparison {
                Comparison::More => (None, Some(then)),
                // What lies in the future has an age of zero, so an age of at least or less than zero is another matter.
                Comparison::AtLeast if *millis > 0 => (None, Some(behind)),
                Comparison::Less if *millis > 0 => (Some(behind), None),
                Comparison::AtMost => (Some(then), None),
                _ => return None,
            };
            Some(Within::Period { from, until })
        }
        Test::Compare(Comparison::Equal, value) => one_of(&[value]),
        Test::Compare(Comparison::Unequal, Value::Flag(flag)) => Some(Within::Flag(!flag)),
        Test::Compare(..) | Test::Matches(_) | Test::Differs(_) => None,
    }
}

/// Values of which one must hold. An empty text also means that there is none, which an index does not know.
fn one_of(values: &[&Value]) -> Option<Within> {
    let texts = |value: &&Value| match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let ids = |value: &&Value| match value {
        Value::Id(id) => Some(*id),
        _ => None,
    };
    match values {
        [Value::Prefix(begin)] if !begin.is_empty() => Some(Within::Prefix(begin.clone())),
        [Value::Flag(flag)] => Some(Within::Flag(*flag)),
        [Value::Text(_), ..] => values.iter().map(texts).collect::<Option<_>>().map(Within::Texts),
        [Value::Id(_), ..] => values.iter().map(ids).collect::<Option<_>>().map(Within::Ids),
        _ => None,
    }
}

impl Filter<LetterField> {
    /// The letters that it asks for: what the store can look for by itself, and a test for the rest if there is any.
    ///
    /// ```
    /// use redrive_store::Timestamp;
    /// use redrive_store::filter::{Filter, LetterField};
    ///
    /// let filter: Filter<LetterField> = "queue=mail and error~timeout".parse().unwrap();
    /// let letters = filter.letters(Timestamp::default());
    /// assert_eq!(letters.queue.as_deref(), Some("mail"));
    /// assert!(letters.only.is_some());
    /// ```
    pub fn letters(&self, now: Timestamp) -> LetterFilter {
        self.letters_among(LetterFilter::default(), now)
    }

    /// As [`Filter::letters`], of those that are asked for already. A test among those is replaced.
    pub fn letters_among(&self, mut filter: LetterFilter, now: Timestamp) -> LetterFilter {
        let narrowed = self.narrowed(now);
        let mut is_whole = narrowed.is_whole;
        for (field, within) in narrowed.conditions {
            is_whole &= letters_within(&mut filter, field, within);
        }
        if !is_whole {
            let judge = self.clone();
            filter.only = Some(LetterTest(Arc::new(move |head| judge.matches(head, now))));
        }
        filter
    }
}

/// Adds a condition to what the store looks for; answers whether it could.
fn letters_within(filter: &mut LetterFilter, field: LetterField, within: Within) -> bool {
    match (field, within) {
        (LetterField::Id, Within::Ids(ids)) => {
            let free = filter.ids.is_none();
            if free {
                filter.ids = Some(ids);
            }
            free
        }
        (LetterField::Queue, Within::Texts(names)) => only_one(&mut filter.queue, names),
        (LetterField::Kind, Within::Texts(names)) => only_one(&mut filter.kind, names),
        (LetterField::CallerId, Within::Texts(names)) => only_one(&mut filter.caller_id, names),
        (LetterField::Reason, Within::Texts(names)) => only_one(
            &mut filter.reason,
            names.iter().filter_map(|name| LetterReason::from_name(name)).collect(),
        ),
        (LetterField::Cause, Within::Texts(names)) => {
            only(&mut filter.causes, names.iter().filter_map(|name| name.parse::<Cause>().ok()).collect())
        }
        (LetterField::Class, Within::Texts(names)) => {
            let classes = names.iter().filter_map(|name| name.parse::<Class>().ok());
            let causes = classes.map(CauseSet::of_class).fold(CauseSet::NONE, CauseSet::union);
            only(&mut filter.causes, causes.iter().collect())
        }
        (LetterField::Group, Within::Prefix(begin)) => only_one(&mut filter.fingerprint_prefix, vec![begin]),
        (LetterField::Age | LetterField::Died, Within::Period { from, until }) => {
            filter.since = filter.since.max(from);
            filter.before = earlier(filter.before, until);
            true
        }
        _ => false,
    }
}

/// The earlier of two ends, of which neither may be there.
fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Filter<EventField> {
    /// Adds to what is asked for already what the store can look for by itself. Answers whether that is all: if not, each
    /// event is to be judged again.
    pub fn narrow(&self, filter: &mut EventFilter, now: Timestamp) -> bool {
        let narrowed = self.narrowed(now);
        let mut is_whole = narrowed.is_whole;
        for (field, within) in narrowed.conditions {
            is_whole &= push_down(filter, field, within);
        }
        is_whole
    }
}

/// Adds a condition to what the store looks for; answers whether it could.
fn push_down(filter: &mut EventFilter, field: EventField, within: Within) -> bool {
    match (field, within) {
        (EventField::Type, Within::Texts(types)) => only(&mut filter.types, types),
        (EventField::Tag, Within::Texts(tags)) if filter.tags.is_empty() => {
            filter.tags = tags;
            true
        }
        (EventField::Status, Within::Texts(names)) => {
            only(&mut filter.statuses, names.iter().filter_map(|name| EventStatus::from_name(name)).collect())
        }
        (EventField::Source, Within::Texts(names)) => only_one(&mut filter.source, names),
        (EventField::CallerId, Within::Texts(names)) => only_one(&mut filter.caller_id, names),
        (EventField::Job, Within::Ids(ids)) => only_one(&mut filter.job, ids),
        (EventField::Age | EventField::At, Within::Period { from, until }) => {
            filter.since = filter.since.max(from);
            filter.until = earlier(filter.until, until);
            true
        }
        _ => false,
    }
}

/// An empty list means that everything is wanted, so a second condition on the same field is left to the judge.
fn only<T>(slot: &mut Vec<T>, wanted: Vec<T>) -> bool {
    let free = slot.is_empty() && !wanted.is_empty();
    if free {
        *slot = wanted;
    }
    free
}

fn only_one<T>(slot: &mut Option<T>, mut wanted: Vec<T>) -> bool {
    let free = slot.is_none() && wanted.len() == 1;
    if free {
        *slot = wanted.pop();
    }
    free
}
