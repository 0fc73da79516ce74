//! Compares a file with its shape and notes everything that differs.
//!
//! Nothing here knows a field by name, and nothing stops at the first problem. What a shape cannot say —
//! names that must exist, ids that must be unique — is noted by those who read the sections.

use std::collections::HashSet;

use regex::Regex;

use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind, Problems, ValueType};
use super::shape::{Rule, Shape, Table, owned};
use super::words::{short, shown};
use crate::duration::parse_duration;
use crate::nearest::nearest;
use crate::size::parse_size;

/// The longest path that Linux takes.
const MAX_PATH_CHARS: usize = 4_096;

/// Notes what is wrong with `node` as a value of that shape.
pub(super) fn check(node: &Node, shape: &Shape, path: &Path<'_>, problems: &mut Problems) {
    if problems.is_full() {
        return;
    }
    let mut wrong = |kind| problems.add(node.at, path, kind, shape.expected());
    let mismatch = || ProblemKind::WrongType { given: shown(node), found: ValueType::of(node) };
    match (shape, &node.value) {
        (Shape::Either(options), _) => match options.iter().find(|option| option.takes(node)) {
            // Whoever wrote true is told of the other forms too.
            Some(Shape::False) if node.bool() == Some(true) => {
                wrong(ProblemKind::UnknownName { given: shown(node), meant: None });
            }
            Some(option) => check(node, option, path, problems),
            None => wrong(mismatch()),
        },
        _ if !shape.takes(node) => wrong(mismatch()),
        (Shape::Table(table), Value::Table(fields)) => {
            check_table(node, fields, table, path, problems);
        }
        (Shape::Map { keys, values }, Value::Table(fields)) => {
            let mut seen = HashSet::new();
            for (key, value) in fields {
                let path = path.field(key);
                if let Some(kind) = text_problem(key, keys) {
                    problems.add(value.at, &path, kind, keys.expected());
                }
                if !seen.insert(key) {
                    twice(key, value, &path, problems);
                }
                check(value, values, &path, problems);
            }
        }
        (Shape::List { of, min_len }, Value::List(items)) => {
            if items.len() < *min_len {
                wrong(ProblemKind::Empty);
            }
            for (i, item) in items.iter().enumerate() {
                check(item, of, &path.item(i), problems);
            }
        }
        (
            Shape::Whole { .. } | Shape::Number { .. } | Shape::Size { .. } | Shape::Among(_),
            Value::Whole(_) | Value::Float(_),
        ) => {
            if let Some(kind) = number_problem(node, shape) {
                wrong(kind);
            }
        }
        (Shape::Any, _) => check_any(node, path, problems),
        (Shape::False, Value::Bool(true)) => {
            wrong(ProblemKind::UnknownName { given: shown(node), meant: None });
        }
        (_, Value::Text(text)) => {
            if let Some(kind) = text_problem(text, shape) {
                wrong(kind);
            }
        }
        _ => {}
    }
}

impl Shape {
    /// Whether the value is of this shape's type; its worth is another question.
    fn takes(&self, node: &Node) -> bool {
        match self {
            Shape::Any => true,
            Shape::Bool | Shape::False => matches!(node.value, Value::Bool(_)),
            Shape::Size { .. } => matches!(node.value, Value::Text(_) | Value::Whole(_) | Value::Float(_)),
            Shape::Whole { .. } | Shape::Number { .. } | Shape::Among(_) => {
                matches!(node.value, Value::Whole(_) | Value::Float(_))
            }
            Shape::Text { .. }
            | Shape::Beginning(_)
            | Shape::Duration { .. }
            | Shape::Regex
            | Shape::Raw { .. }
            | Shape::Id { .. }
            | Shape::Variable
            | Shape::PathBelow
            | Shape::Form { .. }
            | Shape::Name(_)
            | Shape::NewName { .. } => matches!(node.value, Value::Text(_)),
            Shape::List { .. } => matches!(node.value, Value::List(_)),
            Shape::Table(_) | Shape::Map { .. } => matches!(node.value, Value::Table(_)),
            Shape::Either(options) => options.iter().any(|option| option.takes(node)),
        }
    }
}

fn check_table(
    node: &Node,
    fields: &[(String, Node)],
    table: &Table,
    path: &Path<'_>,
    problems: &mut Problems,
) {
    let mut seen = HashSet::new();
    for (name, value) in fields {
        if problems.is_full() {
            return;
        }
        let path = path.field(name);
        let Some(field) = table.field(name) else {
            let meant = nearest(name, table.fields.iter().map(|field| field.name)).map(str::to_owned);
            let expected = Expected::OneOf(table.names());
            problems.add(value.at, &path, ProblemKind::UnknownField { meant }, expected);
            continue;
        };
        if !seen.insert(name) {
            twice(name, value, &path, problems);
        }
        check(value, &field.shape, &path, problems);
    }
    for field in table.fields.iter().filter(|field| field.required && node.get(field.name).is_none()) {
        let kind = ProblemKind::Missing { fields: vec![field.name.to_owned()] };
        problems.add(node.at, path, kind, field.shape.expected());
    }
    for rule in table.rules {
        if let Some((at, kind, expected)) = broken(node, rule) {
            match rule {
                Rule::NotBeside { field, .. } => problems.add(at, &path.field(field), kind, expected),
                _ => problems.add(at, path, kind, expected),
            }
        }
    }
}

fn twice(name: &str, value: &Node, path: &Path<'_>, problems: &mut Problems) {
    problems.add(value.at, path, ProblemKind::GivenTwice { name: short(name) }, Expected::Once);
}

/// What a table does to break a rule, if it does.
fn broken(node: &Node, rule: &Rule) -> Option<(usize, ProblemKind, Expected)> {
    let given = |names: &[&'static str]| -> Vec<(&'static str, usize)> {
        names.iter().filter_map(|name| Some((*name, node.get(name)?.at))).collect()
    };
    let missing = |names: &'static [&'static str]| {
        let kind = ProblemKind::Missing { fields: owned(names) };
        given(names).is_empty().then(|| (node.at, kind, Expected::AtLeastOne(owned(names))))
    };
    let value_of = |field: &str| node.get(field).and_then(Node::text);
    match *rule {
        Rule::AtMostOne(names) => match given(names).as_slice() {
            [] | [_] => None,
            several => {
                let fields = several.iter().map(|(name, _)| (*name).to_owned()).collect();
                let at = several.iter().map(|(_, at)| *at).max().unwrap_or(node.at);
                Some((at, ProblemKind::SaidTwice { fields }, Expected::JustOne(owned(names))))
            }
        },
        Rule::AtLeastOne(names) => missing(names),
        Rule::ExactlyOne(names) => match given(names).as_slice() {
            [] => {
                let kind = ProblemKind::Missing { fields: owned(names) };
                Some((node.at, kind, Expected::JustOne(owned(names))))
            }
            [_] => None,
            several => {
                let fields = several.iter().map(|(name, _)| (*name).to_owned()).collect();
                let at = several.iter().map(|(_, at)| *at).max().unwrap_or(node.at);
                Some((at, ProblemKind::NotTogether { fields }, Expected::JustOne(owned(names))))
            }
        },
        Rule::NotBeside { field, others } => {
            let at = node.get(field)?.at;
            let other = others.iter().find(|other| node.get(other).is_some())?;
            let fields = owned(&[field, other]);
            Some((at, ProblemKind::NotTogether { fields }, Expected::Nothing))
        }
        Rule::Needs { field, is, one_of } => (value_of(field)? == is).then(|| missing(one_of)).flatten(),
        Rule::ElseNeeds { field, is, one_of } => (value_of(field)? != is).then(|| missing(one_of)).flatten(),
    }
}

#[allow(clippy::cast_precision_loss)]
fn number_problem(node: &Node, shape: &Shape) -> Option<ProblemKind> {
    let given = shown(node);
    let value = node.number_value()?;
    if !value.is_finite() {
        return Some(ProblemKind::NotFinite { given });
    }
    let (below, above) = match *shape {
        Shape::Whole { min, max } => match node.whole() {
            Some(whole) => (whole < i128::from(min), whole > i128::from(max)),
            None => return Some(ProblemKind::NotWhole { given }),
        },
        Shape::Number { min, max } => (value < min as f64, value > max as f64),
        Shape::Among(numbers) => {
            let is_one =
                node.whole().is_some_and(|whole| numbers.iter().any(|one| i128::from(*one) == whole));
            return (!is_one).then_some(ProblemKind::UnknownName { given, meant: None });
        }
        Shape::Size { max } => match node.whole() {
            Some(whole) => (whole < 0, whole > i128::from(max)),
            None => return Some(ProblemKind::NotWhole { given }),
        },
        _ => return None,
    };
    if below {
        Some(ProblemKind::TooSmall { given })
    } else {
        above.then_some(ProblemKind::TooLarge { given })
    }
}

/// What is wrong with a text, or with a key, which is one too.
fn text_problem(text: &str, shape: &Shape) -> Option<ProblemKind> {
    let given = || format!("\"{}\"", short(text));
    match shape {
        Shape::Text { max_chars } | Shape::NewName { max_chars, .. } => {
            if text.trim().is_empty() {
                return Some(ProblemKind::Empty);
            }
            if text.chars().nth(*max_chars).is_some() {
                return Some(ProblemKind::TooLarge { given: given() });
            }
            match shape {
                Shape::NewName { reserved, .. } if reserved.contains(&text) => {
                    Some(ProblemKind::Reserved { name: text.to_owned() })
                }
                _ => None,
            }
        }
        Shape::Beginning(beginnings) => beginnings
            .iter()
            .all(|beginning| text.strip_prefix(beginning).is_none_or(str::is_empty))
            .then(|| ProblemKind::WrongBeginning { given: given() }),
        Shape::Duration { max_ms } => match parse_duration(text) {
            Err(_) => Some(ProblemKind::NotADuration { given: given() }),
            Ok(duration) => (duration > std::time::Duration::from_millis(*max_ms))
                .then(|| ProblemKind::TooLarge { given: given() }),
        },
        Shape::Raw { .. } | Shape::Id { .. } | Shape::Variable | Shape::PathBelow => raw_problem(text, shape),
        Shape::Form { pattern, .. } => {
            // The patterns are ours; one that did not compile would let nothing pass, and every test would see it.
            let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
            (!fits).then(|| ProblemKind::Unfit { given: given() })
        }
        Shape::Size { max } => match parse_size(text) {
            Err(_) => Some(ProblemKind::NotASize { given: given() }),
            Ok(bytes) => (bytes > *max).then(|| ProblemKind::TooLarge { given: given() }),
        },
        Shape::Regex => {
            Regex::new(text).err().map(|error| ProblemKind::BadRegex { detail: regex_words(&error) })
        }
        Shape::Name(groups) => {
            let known = || groups.iter().copied().flatten().copied();
            let meant = || nearest(text, known()).map(str::to_owned);
            known()
                .all(|name| name != text)
                .then(|| ProblemKind::UnknownName { given: given(), meant: meant() })
        }
        _ => None,
    }
}

/// What is wrong with a text that a program is given, or that stands in a path.
fn raw_problem(text: &str, shape: &Shape) -> Option<ProblemKind> {
    let given = || format!("\"{}\"", short(text));
    let (min_chars, max_chars) = match *shape {
        Shape::Raw { min_chars, max_chars } => (min_chars, max_chars),
        Shape::Id { max_chars } => (1, max_chars),
        _ => (1, MAX_PATH_CHARS),
    };
    if text.contains('\0') {
        return Some(ProblemKind::Nul);
    }
    if text.is_empty() && min_chars > 0 {
        return Some(ProblemKind::Empty);
    }
    if text.chars().nth(max_chars).is_some() {
        return Some(ProblemKind::TooLarge { given: given() });
    }
    match shape {
        Shape::Id { .. } => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            (!text.bytes().all(fits)).then(|| ProblemKind::BadName { given: given() })
        }
        Shape::Variable => text.contains('=').then(|| ProblemKind::BadName { given: given() }),
        Shape::PathBelow => {
            let leads_out = text.starts_with('/') || text.split('/').any(|part| part == "..");
            leads_out.then(|| ProblemKind::LeadsOut { given: given() })
        }
        _ => None,
    }
}

/// What of a value that may be anything cannot be written as JSON, or says something twice.
fn check_any(node: &Node, path: &Path<'_>, problems: &mut Problems) {
    match &node.value {
        Value::Float(float) if !float.is_finite() => {
            problems.add(node.at, path, ProblemKind::NotFinite { given: shown(node) }, Expected::Any);
        }
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                check_any(item, &path.item(i), problems);
            }
        }
        Value::Table(fields) => {
            let mut seen = HashSet::new();
            for (name, value) in fields {
                let path = path.field(name);
                if !seen.insert(name) {
                    twice(name, value, &path, problems);
                }
                check_any(value, &path, problems);
            }
        }
        _ => {}
    }
}

/// The compiler draws the pattern and an arrow; its last line says it in words.
fn regex_words(error: &regex::Error) -> String {
    let words = error.to_string();
    let last = words.trim().lines().next_back().unwrap_or_default().trim();
    short(last.strip_prefix("error: ").unwrap_or(last))
}
