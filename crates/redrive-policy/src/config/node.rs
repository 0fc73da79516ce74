//! A configuration file as a tree of values that remember where they stood, whatever it was written in.
//!
//! Tables keep the order of the file and fields that are given twice, so that a checker can name both. Only
//! this module knows the two formats: whatever comes after it cannot tell TOML from JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

use super::Format;
use super::problem::{Expected, Problem, ProblemKind};

/// A value and its place in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Value,
}

/// What was written.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    /// Only TOML has these, and no field takes one.
    Date(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Reads a file. `Ok(None)` is a file with nothing in it.
    pub(super) fn parse(source: &str, format: Format) -> Result<Option<Node>, Box<Problem>> {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        if source.trim().is_empty() {
            return Ok(None);
        }
        match format {
            Format::Json => {
                let mut node: Node =
                    serde_json::from_str(source).map_err(|error| Box::new(json_problem(&error)))?;
                node.number(&mut 0);
                Ok(Some(node))
            }
            Format::Toml => {
                let table = DeTable::parse(source).map_err(|error| Box::new(toml_problem(source, &error)))?;
                Ok(Some(Node { at: 0, value: from_table(table.get_ref()) }))
            }
        }
    }

    pub(super) fn from_json(json: &serde_json::Value) -> Node {
        fn unnumbered(json: &serde_json::Value) -> Node {
            let value = match json {
                serde_json::Value::Null => Value::Null,
                serde_json::Value::Bool(value) => Value::Bool(*value),
                serde_json::Value::Number(number) => match number.as_i128() {
                    Some(whole) => Value::Whole(whole),
                    None => Value::Float(number.as_f64().unwrap_or(f64::INFINITY)),
                },
                serde_json::Value::String(text) => Value::Text(text.clone()),
                serde_json::Value::Array(items) => Value::List(items.iter().map(unnumbered).collect()),
                serde_json::Value::Object(fields) => Value::Table(
                    fields.iter().map(|(name, value)| (name.clone(), unnumbered(value))).collect(),
                ),
            };
            Node { at: 0, value }
        }
        let mut node = unnumbered(json);
        node.number(&mut 0);
        node
    }

    /// Numbers the tree in the order of the file. The parser has bounded its depth.
    fn number(&mut self, next: &mut usize) {
        self.at = *next;
        *next += 1;
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.number(next)),
            Value::Table(fields) => fields.iter_mut().for_each(|(_, field)| field.number(next)),
            _ => {}
        }
    }

    /// The field of that name; of two, the last, as JSON parsers do.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.fields().iter().rev().find(|(own, _)| own == name).map(|(_, node)| node)
    }

    /// The fields of a table, in the order of the file; of anything else, none.
    pub(super) fn fields(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Table(fields) => fields,
            _ => &[],
        }
    }

    /// The items of a list, or the value itself where one stands for a list of one.
    pub(super) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A whole number; `3.0` is one, as JSON Schema has it.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn whole(&self) -> Option<i128> {
        match self.value {
            Value::Whole(whole) => Some(whole),
            // The cast saturates, and what saturates is beyond every limit that a field has.
            Value::Float(float) if float.is_finite() && float.fract() == 0.0 => Some(float as i128),
            _ => None,
        }
    }

    /// The value as JSON. A date is its text; a number beyond what JSON keeps exactly is a float.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Whole(whole) => match (i64::try_from(*whole), u64::try_from(*whole)) {
                (Ok(whole), _) => whole.into(),
                (_, Ok(whole)) => whole.into(),
                _ => self.number_value().into(),
            },
            Value::Float(float) => (*float).into(),
            Value::Text(text) | Value::Date(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Table(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), field.to_json())).collect()
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn number_value(&self) -> Option<f64> {
        match self.value {
            Value::Whole(whole) => Some(whole as f64),
            Value::Float(float) => Some(float),
            _ => None,
        }
    }
}

fn json_problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    // The place is said in the path, so the words need not repeat it.
    let detail = text.rsplit_once(" at line ").map_or(text.as_str(), |(detail, _)| detail);
    syntax(error.line(), error.column(), detail, Format::Json)
}

fn toml_problem(source: &str, error: &toml::de::Error) -> Problem {
    let start = error.span().map_or(0, |span| span.start.min(source.len()));
    let before = source.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    syntax(line, before[line_start..].chars().count() + 1, error.message(), Format::Toml)
}

fn syntax(line: usize, column: usize, detail: &str, format: Format) -> Problem {
    let detail = detail.trim().replace('\n', "; ");
    Problem {
        path: format!("line {line}, column {column}"),
        kind: ProblemKind::Syntax { detail },
        expected: Expected::Syntax(format),
        place: None,
    }
}

fn from_table(table: &DeTable<'_>) -> Value {
    let mut fields: Vec<(String, Node)> = table
        .iter()
        .map(|(name, value)| {
            let node = Node { at: name.span().start, value: from_toml(value.get_ref()) };
            (name.get_ref().to_string(), node)
        })
        .collect();
    fields.sort_by_key(|(_, node)| node.at);
    Value::Table(fields)
}

fn from_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(whole) => Value::Whole(whole),
            Err(_) => Value::Float(integer.as_str().parse().unwrap_or(f64::INFINITY)),
        },
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Node { at: item.span().start, value: from_toml(item.get_ref()) })
                .collect(),
        ),
        DeValue::Table(table) => from_table(table),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(AnyValue).map(|value| Node { at: 0, value })
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Value::Table(fields))
    }
}
