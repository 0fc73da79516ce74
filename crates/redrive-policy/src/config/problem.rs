//! What is wrong in a file, as data (R-P7); [`words`](super::words) says it in the reader's language.
//!
//! A problem knows where, what, and what would be right there. A file with ten mistakes is told of all ten,
//! one line each, in the order of the file.

use std::fmt;

use super::Format;
use super::node::{Node, Value};
use super::path::Path;
use crate::lang::Lang;

/// One thing that is wrong in a file, or odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file: `retry.default_backoff.multiplier`; a line for what cannot be parsed at all.
    pub path: String,
    /// What is wrong.
    pub kind: ProblemKind,
    /// What is right there.
    pub expected: Expected,
}

/// What is wrong. Values are kept as they are shown: one line, cut when long, secrets blanked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file is not JSON or TOML at all; the detail is the parser's own, in English.
    Syntax {
        /// The parser's words.
        detail: String,
    },
    /// Nobody knows a field of this name.
    UnknownField {
        /// The field that was probably meant.
        meant: Option<String>,
    },
    /// Nobody knows this name.
    UnknownName {
        /// What was written.
        given: String,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// A value of another type.
    WrongType {
        /// What was written; empty for lists and tables.
        given: String,
        /// What that is.
        found: ValueType,
    },
    /// A number below the least one.
    TooSmall {
        /// The number.
        given: String,
    },
    /// A number or a duration above the greatest one, or a text with too many characters.
    TooLarge {
        /// The value.
        given: String,
    },
    /// A fraction where only whole numbers count.
    NotWhole {
        /// The number.
        given: String,
    },
    /// `nan` or `inf`, which TOML can write.
    NotFinite {
        /// The number.
        given: String,
    },
    /// A text that is no duration.
    NotADuration {
        /// The text.
        given: String,
    },
    /// A text with another beginning than it must have.
    WrongBeginning {
        /// The text.
        given: String,
    },
    /// A regular expression that does not compile; the detail is the compiler's own, in English.
    BadRegex {
        /// The compiler's words.
        detail: String,
    },
    /// A text or list with nothing in it.
    Empty,
    /// A field that must be given and is not.
    Missing {
        /// The field, or the fields of which one is needed.
        fields: Vec<String>,
    },
    /// Fields that say the same thing in different ways.
    SaidTwice {
        /// The fields.
        fields: Vec<String>,
    },
    /// A field, id or name that was given before.
    GivenTwice {
        /// The field, id or name.
        name: String,
    },
    /// Both `retry` and a policy called `standard`, which are the same thing.
    RetryIsStandard,
    /// A name that means something else already.
    Reserved {
        /// The name.
        name: String,
    },
    /// A policy that extends itself by a detour.
    Cycle {
        /// The way round, first and last being the same.
        names: Vec<String>,
    },
    /// Odd: the first delay is above the cap, and the cap wins.
    InitialAboveCap {
        /// The first delay.
        initial: String,
        /// The cap.
        cap: String,
    },
    /// Odd: a field that this type of backoff does not look at.
    NoEffect {
        /// The type.
        curve: String,
    },
    /// Odd: an earlier entry speaks of the same causes, and wins.
    Shadowed {
        /// The causes.
        causes: Vec<String>,
    },
}

/// The types of values that a file can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A date or a time, which only TOML has.
    Date,
    /// A list.
    List,
    /// A table, which JSON calls an object.
    Table,
}

/// What is right at some place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// What the format's grammar says.
    Syntax(Format),
    /// `true` or `false`
    Bool,
    /// A whole number.
    Whole {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A number.
    Number {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A text with something in it.
    Text {
        /// The most characters.
        max_chars: usize,
    },
    /// A text that begins like one of these.
    Beginning(Vec<String>),
    /// A duration such as `1.5s`.
    Duration {
        /// The longest, in whole milliseconds.
        max_ms: u64,
    },
    /// A regular expression.
    Regex,
    /// One of these names.
    OneOf(Vec<String>),
    /// A table with these fields.
    Fields(Vec<String>),
    /// A table whose keys are such names.
    Keys(Box<Expected>),
    /// A list of such values.
    ListOf(Box<Expected>),
    /// Any of these.
    Either(Vec<Expected>),
    /// Exactly one of these fields.
    JustOne(Vec<String>),
    /// At least one of these fields.
    AtLeastOne(Vec<String>),
    /// Each name only once.
    Once,
    /// Any name but these.
    AnyNameBut(Vec<String>),
    /// A chain that ends at a preset.
    NoCycle,
    /// A first delay of at most this.
    AtMost(String),
    /// Nothing: the field can go.
    Nothing,
}

impl ValueType {
    pub(super) fn of(node: &Node) -> ValueType {
        match node.value {
            Value::Null => ValueType::Null,
            Value::Bool(_) => ValueType::Bool,
            Value::Whole(_) | Value::Float(_) => ValueType::Number,
            Value::Text(_) => ValueType::Text,
            Value::Date(_) => ValueType::Date,
            Value::List(_) => ValueType::List,
            Value::Table(_) => ValueType::Table,
        }
    }
}

/// A file that cannot be used, with everything that is wrong in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The name of the file.
    pub file: String,
    /// All of its problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// One line for each problem: file, path, what is wrong, what is allowed.
    pub fn describe(&self, lang: Lang) -> String {
        let lines: Vec<String> = self
            .problems
            .iter()
            .map(|problem| format!("{}: {}", self.file, problem.describe(lang)))
            .collect();
        lines.join("\n")
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(Lang::En))
    }
}

impl std::error::Error for ConfigError {}

/// Problems as they are found, with the place that orders them in the end.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<(usize, Problem)>);

impl Problems {
    pub(super) fn add(&mut self, at: usize, path: &Path<'_>, kind: ProblemKind, expected: Expected) {
        self.0.push((at, Problem { path: path.to_string(), kind, expected }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn in_file_order(mut self) -> Vec<Problem> {
        self.0.sort_by_key(|(at, _)| *at);
        self.0.into_iter().map(|(_, problem)| problem).collect()
    }
}
