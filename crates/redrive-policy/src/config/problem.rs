//! What is wrong in a file, as data (R-P7); [`words`](super::words) says it in the reader's language.
//!
//! A problem knows where, what, and what would be right there. A file with ten mistakes is told of all ten,
//! one line each, in the order of the file. Of a file that is nothing but mistakes two hundred are told.

use std::fmt;

use super::Format;
use super::node::{Node, Value};
use super::path::Path;
use super::place::places;
use crate::lang::Lang;
use crate::redact::BLANK;

/// One thing that is wrong in a file, or odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file: `retry.default_backoff.multiplier`; a line for what cannot be parsed at all.
    pub path: String,
    /// What is wrong.
    pub kind: ProblemKind,
    /// What is right there.
    pub expected: Expected,
    /// The place in the text, where it is told.
    pub place: Option<Place>,
}

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
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
    /// Fields that are different things and have no place beside each other.
    NotTogether {
        /// The fields.
        fields: Vec<String>,
    },
    /// A list that is too long.
    TooMany {
        /// How many there are.
        given: usize,
    },
    /// A text with a NUL in it.
    Nul,
    /// A text with characters that a name cannot have.
    BadName {
        /// The text.
        given: String,
    },
    /// A path that leads out of where it starts.
    LeadsOut {
        /// The path.
        given: String,
    },
    /// A text that is no size.
    NotASize {
        /// The text.
        given: String,
    },
    /// A text that does not look like what belongs here.
    Unfit {
        /// The text.
        given: String,
    },
    /// A duration below the least one.
    TooShort {
        /// The duration.
        given: String,
    },
    /// A header that is never kept.
    NeverKept {
        /// Its name.
        given: String,
        /// Why, `secret`, `connection` or `anew`.
        reason: &'static str,
    },
    /// An id that another subtask has already.
    SameId {
        /// The id.
        id: String,
        /// Where the other one is.
        first: String,
    },
    /// No subtask has this id.
    NoSubtask {
        /// The id.
        given: String,
        /// The one that was probably meant.
        meant: Option<String>,
    },
    /// A subtask that waits for itself.
    WaitsForItself {
        /// Its id.
        id: String,
    },
    /// Subtasks that wait for one another.
    Circle {
        /// The way round, first and last being the same.
        names: Vec<String>,
    },
    /// A subtask that blames another which it does not depend on.
    BlamesStranger {
        /// Who blames.
        id: String,
        /// Who is blamed.
        blamed: String,
    },
    /// A hint that would become a part of a script, and run as one.
    HintInScript,
    /// Odd: two subtasks that could run at a time put back the same files.
    SharedFiles {
        /// Where both are at work.
        root: String,
        /// Both of them.
        both: Box<[String; 2]>,
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
    /// A number of bytes, perhaps with a unit.
    Size,
    /// The same, up to so many bytes.
    SizeUpTo {
        /// The most bytes.
        max: u64,
    },
    /// A text of a certain form, by the name of that form.
    Form(&'static str),
    /// A duration of at least this.
    AtLeast(String),
    /// Headers that may be kept.
    OtherHeader,
    /// A text without NUL.
    Raw {
        /// The fewest characters.
        min_chars: usize,
        /// The most characters.
        max_chars: usize,
    },
    /// A name of letters, digits, dots, dashes and underscores.
    Id {
        /// The most characters.
        max_chars: usize,
    },
    /// The name of a variable.
    Variable,
    /// A path below the folder of the plan.
    PathBelow,
    /// `false`
    False,
    /// Whatever JSON can say.
    Any,
    /// At most so many.
    UpTo {
        /// The most.
        max: usize,
    },
    /// The id of another subtask: one of these, if they are few.
    OtherSubtask(Vec<String>),
    /// Dependencies that lead nowhere back.
    NoCircle,
    /// Something that the subtask depends on.
    Dependency,
    /// The hint as a variable, or as an argument of its own.
    HintApart,
    /// Files of one's own, or a dependency between the two.
    OwnFiles,
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
    /// One line for each problem: file, line and column where they are known, path, what is wrong, what is allowed.
    pub fn describe(&self, lang: Lang) -> String {
        self.lines(lang).join("\n")
    }

    /// The same lines, one by one.
    pub fn lines(&self, lang: Lang) -> Vec<String> {
        let line = |problem: &Problem| match problem.place {
            Some(Place { line, column }) => {
                format!("{}:{line}:{column}: {}", self.file, problem.describe(lang))
            }
            None => format!("{}: {}", self.file, problem.describe(lang)),
        };
        self.problems.iter().map(line).collect()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(Lang::En))
    }
}

impl std::error::Error for ConfigError {}

/// So many problems are told of one file: nobody mends more at once, and a file may come from anybody.
const MOST: usize = 200;

/// Problems as they are found, with the place that orders them in the end.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<(usize, Problem)>);

/// The same without the text that was given.
fn without_value(mut kind: ProblemKind) -> ProblemKind {
    if let ProblemKind::UnknownName { given, .. }
    | ProblemKind::WrongType { given, .. }
    | ProblemKind::TooLarge { given }
    | ProblemKind::NotADuration { given }
    | ProblemKind::WrongBeginning { given }
    | ProblemKind::BadName { given }
    | ProblemKind::LeadsOut { given }
    | ProblemKind::Unfit { given } = &mut kind
        && given.starts_with('"')
    {
        *given = format!("\"{BLANK}\"");
    }
    kind
}

impl Problems {
    pub(super) fn add(&mut self, at: usize, path: &Path<'_>, kind: ProblemKind, expected: Expected) {
        if self.is_full() {
            return;
        }
        let kind = if path.may_hold_a_secret() { without_value(kind) } else { kind };
        self.0.push((at, Problem { path: path.to_string(), kind, expected, place: None }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing more is told: there is no need to look on.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(super) fn in_file_order(mut self) -> Vec<Problem> {
        self.0.sort_by_key(|(at, _)| *at);
        self.0.into_iter().map(|(_, problem)| problem).collect()
    }

    /// The same, each with its place in the text that the nodes came from.
    pub(super) fn placed(mut self, source: &str, format: Format) -> Vec<Problem> {
        self.0.sort_by_key(|(at, _)| *at);
        let ats: Vec<usize> = self.0.iter().map(|(at, _)| *at).collect();
        let places = places(source, format, &ats);
        let with_place = |((_, problem), place)| Problem { place: Some(place), ..problem };
        self.0.into_iter().zip(places).map(with_place).collect()
    }
}
