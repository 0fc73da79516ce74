//! What is wrong in a file, as data, and the sentence that says it in the reader's language (R-P7).
//!
//! A problem knows where, what, and what would be right there. The sentences are in `messages/`; a file
//! with ten mistakes is told of all ten, one line each, in the order of the file.

use std::fmt;

use super::Format;
use super::node::{Node, Value};
use crate::duration::human_duration;
use crate::lang::{Lang, text};
use crate::redact::{one_line, redact};

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

impl Problem {
    /// What is wrong, in words.
    pub fn what(&self, lang: Lang) -> String {
        use ProblemKind as P;
        let meant = |meant: &Option<String>| match meant {
            Some(meant) => text(lang, "config.problem.meant", &[("meant", meant)]),
            None => String::new(),
        };
        let say = |key: &str, values: &[(&str, &dyn fmt::Display)]| {
            text(lang, &format!("config.problem.{key}"), values)
        };
        let list = |names: &[String]| join(lang, "and", names);
        match &self.kind {
            P::Syntax { detail } => say("syntax", &[("detail", detail)]),
            P::UnknownField { meant: other } => say("unknown-field", &[]) + &meant(other),
            P::UnknownName { given, meant: other } => {
                say("unknown-name", &[("given", given)]) + &meant(other)
            }
            P::WrongType { found: ValueType::Null, .. } => say("null", &[]),
            P::WrongType { given, found } => {
                let found = text(lang, &format!("config.type.{}", found.key()), &[]);
                if given.is_empty() {
                    say("wrong-type-long", &[("found", &found)])
                } else {
                    say("wrong-type", &[("given", given), ("found", &found)])
                }
            }
            P::TooSmall { given } => say("too-small", &[("given", given)]),
            P::TooLarge { given } => say("too-large", &[("given", given)]),
            P::NotWhole { given } => say("not-whole", &[("given", given)]),
            P::NotFinite { given } => say("not-finite", &[("given", given)]),
            P::NotADuration { given } => say("not-a-duration", &[("given", given)]),
            P::WrongBeginning { given } => say("wrong-beginning", &[("given", given)]),
            P::BadRegex { detail } => say("bad-regex", &[("detail", detail)]),
            P::Empty => say("empty", &[]),
            P::Missing { fields } => say("missing", &[("fields", &join(lang, "or", fields))]),
            P::SaidTwice { fields } => say("said-twice", &[("fields", &list(fields))]),
            P::GivenTwice { name } => say("given-twice", &[("name", name)]),
            P::RetryIsStandard => say("retry-is-standard", &[]),
            P::Reserved { name } => say("reserved", &[("name", name)]),
            P::Cycle { names } => say("cycle", &[("names", &names.join(" → "))]),
            P::InitialAboveCap { initial, cap } => {
                say("initial-above-cap", &[("initial", initial), ("cap", cap)])
            }
            P::NoEffect { curve } => say("no-effect", &[("curve", curve)]),
            P::Shadowed { causes } => say("shadowed", &[("causes", &list(causes))]),
        }
    }

    /// What is allowed there, in words.
    pub fn allowed(&self, lang: Lang) -> String {
        self.expected.describe(lang)
    }

    /// Where, what, and what is allowed, in one line.
    pub fn describe(&self, lang: Lang) -> String {
        text(
            lang,
            "config.problem.line",
            &[("path", &self.path), ("what", &self.what(lang)), ("allowed", &self.allowed(lang))],
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(Lang::En))
    }
}

impl Expected {
    /// What is allowed, in words.
    pub fn describe(&self, lang: Lang) -> String {
        use Expected as E;
        let say = |key: &str, values: &[(&str, &dyn fmt::Display)]| {
            text(lang, &format!("config.allowed.{key}"), values)
        };
        match self {
            E::Syntax(Format::Json) => say("json", &[]),
            E::Syntax(Format::Toml) => say("toml", &[]),
            E::Bool => say("bool", &[]),
            E::Whole { min, max } => say("whole", &[("min", min), ("max", max)]),
            E::Number { min, max } => say("number", &[("min", min), ("max", max)]),
            E::Text { max_chars } => say("text", &[("max", max_chars)]),
            E::Beginning(beginnings) => say("beginning", &[("beginnings", &join(lang, "or", beginnings))]),
            E::Duration { max_ms } => {
                let max = human_duration(std::time::Duration::from_millis(*max_ms));
                say("duration", &[("max", &max)])
            }
            E::Regex => say("regex", &[]),
            E::OneOf(names) => join(lang, "or", names),
            E::Fields(fields) => say("fields", &[("fields", &join(lang, "and", fields))]),
            E::Keys(key) => say("keys", &[("key", &key.describe(lang))]),
            E::ListOf(item) => say("list", &[("item", &item.describe(lang))]),
            E::Either(options) => {
                let options: Vec<String> = options.iter().map(|option| option.describe(lang)).collect();
                options.join(&say("either", &[]))
            }
            E::JustOne(fields) => say("just-one", &[("fields", &join(lang, "or", fields))]),
            E::AtLeastOne(fields) => say("at-least-one", &[("fields", &join(lang, "or", fields))]),
            E::Once => say("once", &[]),
            E::AnyNameBut(names) => say("any-name-but", &[("names", &join(lang, "or", names))]),
            E::NoCycle => say("no-cycle", &[]),
            E::AtMost(cap) => say("at-most", &[("cap", cap)]),
            E::Nothing => say("nothing", &[]),
        }
    }
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

    const fn key(self) -> &'static str {
        match self {
            ValueType::Null => "null",
            ValueType::Bool => "bool",
            ValueType::Number => "number",
            ValueType::Text => "text",
            ValueType::Date => "date",
            ValueType::List => "list",
            ValueType::Table => "table",
        }
    }
}

/// A value as a problem shows it; empty for lists and tables.
pub(super) fn shown(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Whole(whole) => short(&whole.to_string()),
        // Debug writes 1e300 where Display would write three hundred digits.
        Value::Float(float) => format!("{float:?}"),
        Value::Text(text) => format!("\"{}\"", short(text)),
        Value::Date(date) => short(date),
        Value::List(_) | Value::Table(_) => String::new(),
    }
}

/// Somebody's text on one line, not too long, without secrets and control characters.
pub(super) fn short(text: &str) -> String {
    const ROOM: usize = 60;
    // Cut before redacting too: a value may be megabytes, and all but its beginning is thrown away.
    let beginning: String = text.chars().take(ROOM * 8).collect();
    let line = one_line(&redact(&beginning));
    let mut cut: String = line.chars().take(ROOM).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// "a, b or c" in the words of that language.
fn join(lang: Lang, word: &str, names: &[String]) -> String {
    let comma = text(lang, "config.join.comma", &[]);
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => first.join(&comma) + &text(lang, &format!("config.join.{word}"), &[]) + last,
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

/// A place in a file, written out only when somebody has to be told.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Top,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn field<'a>(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(super) fn item(&self, index: usize) -> Path<'_> {
        Path::Item(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => f.write_str("(top)"),
            Path::Field(parent, name) => {
                if !matches!(parent, Path::Top) {
                    write!(f, "{parent}.")?;
                }
                let bare =
                    |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'$';
                if !name.is_empty() && name.len() <= 64 && name.bytes().all(bare) {
                    f.write_str(name)
                } else {
                    write!(f, "\"{}\"", short(name))
                }
            }
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
