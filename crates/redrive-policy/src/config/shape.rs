//! The words in which the shape of a file is described.
//!
//! [`file`](super::file) says in them what a configuration looks like, once; [`check`](super::check) compares
//! a file with it and [`schema`](super::schema) writes it down as JSON Schema. Neither knows a field by name, so they cannot disagree.

use super::problem::Expected;
use crate::size::MAX_BYTES;

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Bool,
    Whole {
        min: i64,
        max: i64,
    },
    Number {
        min: i64,
        max: i64,
    },
    Text {
        max_chars: usize,
    },
    /// A text with one of these beginnings.
    Beginning(&'static [&'static str]),
    /// A text such as `1.5s`.
    Duration {
        max_ms: u64,
    },
    Regex,
    /// A text such as `20MiB`, or a number of bytes.
    Size {
        max: u64,
    },
    /// A text that fits a pattern; what it is called tells people what would fit.
    Form {
        pattern: &'static str,
        called: &'static str,
    },
    /// One of these numbers.
    Among(&'static [i64]),
    /// A text that may be empty and is handed on as it is; no NUL in it, since no program can be given one.
    Raw {
        min_chars: usize,
        max_chars: usize,
    },
    /// A name of letters, digits, dots, dashes and underscores.
    Id {
        max_chars: usize,
    },
    /// The name of a variable.
    Variable,
    /// A path that leads nowhere but below where it starts.
    PathBelow,
    /// `false`, and no `true`.
    False,
    /// Whatever JSON can say.
    Any,
    /// One of the names in these groups.
    Name(&'static [&'static [&'static str]]),
    /// A name that somebody gives, other than these.
    NewName {
        max_chars: usize,
        reserved: &'static [&'static str],
    },
    List {
        of: &'static Shape,
        min_len: usize,
    },
    Table(&'static Table),
    /// A table with keys of the writer's choosing.
    Map {
        keys: &'static Shape,
        values: &'static Shape,
    },
    /// Any of these; no two of them are of one type, so that the type tells which was meant.
    Either(&'static [Shape]),
}

/// A table with fields that are known by name.
#[derive(Debug)]
pub(super) struct Table {
    /// What the schema calls it.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) fields: &'static [Field],
    pub(super) rules: &'static [Rule],
}

/// A field of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
    /// One line for whoever writes the file.
    pub(super) about: &'static str,
}

/// What must hold between the fields of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// These are several ways to say one thing.
    AtMostOne(&'static [&'static str]),
    /// One of these must be there.
    AtLeastOne(&'static [&'static str]),
    /// Exactly one of these must be there; they are different things.
    ExactlyOne(&'static [&'static str]),
    /// The field has no place beside any of those.
    NotBeside { field: &'static str, others: &'static [&'static str] },
    /// Where the field has this value, one of these must be there …
    Needs { field: &'static str, is: &'static str, one_of: &'static [&'static str] },
    /// … and where it has any other, one of those.
    ElseNeeds { field: &'static str, is: &'static str, one_of: &'static [&'static str] },
}

impl Field {
    pub(super) const fn optional(name: &'static str, shape: Shape, about: &'static str) -> Field {
        Field { name, shape, required: false, about }
    }

    pub(super) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Field {
        Field { name, shape, required: true, about }
    }
}

impl Table {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name.to_owned()).collect()
    }
}

impl Shape {
    /// What a person is told is right here.
    pub(super) fn expected(&self) -> Expected {
        match *self {
            Shape::Bool => Expected::Bool,
            Shape::Whole { min, max } => Expected::Whole { min, max },
            Shape::Number { min, max } => Expected::Number { min, max },
            Shape::Text { max_chars } => Expected::Text { max_chars },
            Shape::Beginning(beginnings) => Expected::Beginning(owned(beginnings)),
            Shape::Duration { max_ms } => Expected::Duration { max_ms },
            Shape::Regex => Expected::Regex,
            Shape::Size { max: MAX_BYTES } => Expected::Size,
            Shape::Size { max } => Expected::SizeUpTo { max },
            Shape::Form { called, .. } => Expected::Form(called),
            Shape::Among(numbers) => Expected::OneOf(numbers.iter().map(i64::to_string).collect()),
            Shape::Raw { min_chars, max_chars } => Expected::Raw { min_chars, max_chars },
            Shape::Id { max_chars } => Expected::Id { max_chars },
            Shape::Variable => Expected::Variable,
            Shape::PathBelow => Expected::PathBelow,
            Shape::False => Expected::False,
            Shape::Any => Expected::Any,
            Shape::Name(groups) => Expected::OneOf(owned(&groups.concat())),
            Shape::NewName { reserved, .. } => Expected::AnyNameBut(owned(reserved)),
            Shape::List { of, .. } => Expected::ListOf(Box::new(of.expected())),
            Shape::Table(table) => Expected::Fields(table.names()),
            Shape::Map { keys, .. } => Expected::Keys(Box::new(keys.expected())),
            Shape::Either(options) => Expected::Either(options.iter().map(Shape::expected).collect()),
        }
    }
}

pub(super) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
