//! The shape of a file as JSON Schema (draft 2020-12), for editors and for other programs.
//!
//! Whatever [`check`](super::check) lets pass, the schema lets pass: both are made from one description.

use serde_json::{Map, Value, json};

use super::shape::{Rule, Shape, Table};
use crate::size::SIZE_PATTERN;

/// The schema of that table and of everything in it.
pub(super) fn schema_of(table: &Table, title: &str) -> Value {
    let mut definitions = Map::new();
    let mut schema = table_schema(table, &mut definitions);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(title));
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(schema)
}

fn shape_schema(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    match *shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Whole { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Number { min, max } => json!({"type": "number", "minimum": min, "maximum": max}),
        Shape::Text { max_chars } => json!({"type": "string", "minLength": 1, "maxLength": max_chars}),
        Shape::Beginning(beginnings) => {
            json!({"type": "string", "pattern": format!(r"^({})[\s\S]", beginnings.join("|"))})
        }
        Shape::Duration { .. } => {
            json!({"type": "string", "pattern": r"^\s*(0|[0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d))\s*$"})
        }
        Shape::Regex => json!({"type": "string", "format": "regex"}),
        Shape::Form { pattern, .. } => json!({"type": "string", "pattern": pattern}),
        Shape::Among(numbers) => json!({"type": "integer", "enum": numbers}),
        Shape::Size { max } => json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": max},
            {"type": "string", "pattern": SIZE_PATTERN},
        ]}),
        Shape::Raw { min_chars, max_chars } => json!({
            "type": "string", "minLength": min_chars, "maxLength": max_chars, "pattern": r"^[^\x00]*$",
        }),
        Shape::Id { max_chars } => {
            json!({"type": "string", "minLength": 1, "maxLength": max_chars, "pattern": "^[A-Za-z0-9._-]+$"})
        }
        Shape::Variable => json!({"type": "string", "maxLength": 4096, "pattern": r"^[^=\x00]+$"}),
        Shape::PathBelow => json!({
            "type": "string", "minLength": 1, "maxLength": 4096,
            "not": {"pattern": r"\x00|^/|(^|/)\.\.(/|$)"},
        }),
        Shape::False => json!({"type": "boolean", "enum": [false]}),
        Shape::Any => json!({}),
        Shape::Name(groups) => json!({"type": "string", "enum": groups.concat()}),
        Shape::NewName { max_chars, reserved } => {
            json!({"type": "string", "minLength": 1, "maxLength": max_chars, "not": {"enum": reserved}})
        }
        Shape::List { of, min_len } => {
            json!({"type": "array", "items": shape_schema(of, definitions), "minItems": min_len})
        }
        Shape::Map { keys, values } => json!({
            "type": "object",
            "propertyNames": shape_schema(keys, definitions),
            "additionalProperties": shape_schema(values, definitions),
        }),
        Shape::Either(options) => {
            let options: Vec<Value> =
                options.iter().map(|option| shape_schema(option, definitions)).collect();
            json!({"anyOf": options})
        }
        Shape::Table(table) => {
            if !definitions.contains_key(table.name) {
                let schema = table_schema(table, definitions);
                definitions.insert(table.name.to_owned(), Value::Object(schema));
            }
            json!({"$ref": format!("#/$defs/{}", table.name)})
        }
    }
}

fn table_schema(table: &Table, definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in table.fields {
        let mut schema = shape_schema(&field.shape, definitions);
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), json!(field.about));
        }
        properties.insert(field.name.to_owned(), schema);
    }
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(table.about));
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let required: Vec<&str> =
        table.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let rules: Vec<Value> = table.rules.iter().flat_map(rule_schemas).collect();
    if !rules.is_empty() {
        schema.insert("allOf".to_owned(), Value::Array(rules));
    }
    schema
}

fn rule_schemas(rule: &Rule) -> Vec<Value> {
    let any_of = |names: &[&str]| {
        let options: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
        json!({"anyOf": options})
    };
    let has =
        |field: &str, value: &str| json!({"required": [field], "properties": {field: {"const": value}}});
    match *rule {
        Rule::AtMostOne(names) => {
            let pairs = names
                .iter()
                .enumerate()
                .flat_map(|(i, a)| names[i + 1..].iter().map(move |b| json!({"not": {"required": [a, b]}})));
            pairs.collect()
        }
        Rule::AtLeastOne(names) => vec![any_of(names)],
        Rule::ExactlyOne(names) => {
            let mut rules = rule_schemas(&Rule::AtMostOne(names));
            rules.push(any_of(names));
            rules
        }
        Rule::NotBeside { field, others } => {
            others.iter().map(|other| json!({"not": {"required": [field, other]}})).collect()
        }
        Rule::Needs { field, is, one_of } => vec![json!({"if": has(field, is), "then": any_of(one_of)})],
        Rule::ElseNeeds { field, is, one_of } => {
            let other = json!({"required": [field], "not": has(field, is)});
            vec![json!({"if": other, "then": any_of(one_of)})]
        }
    }
}
