//! A JSON Schema checker for just the keywords that our schema uses, and its reverse: a maker of values that
//! a schema accepts. A keyword that neither knows fails the test, so that nothing goes unchecked.

use regex::Regex;
use serde_json::{Map, Value, json};

/// Whether the schema accepts the value; else why not.
pub(crate) fn accepts(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value)
}

fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return if *schema == Value::Bool(false) { Err(format!("{value} is not allowed")) } else { Ok(()) };
    };
    for (keyword, wanted) in keywords {
        let met = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" | "then" => true,
            "$ref" => return check(root, resolve(root, wanted), value),
            "type" => has_type(wanted.as_str().unwrap_or_default(), value),
            "enum" => items(wanted).contains(value),
            "const" => wanted == value,
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= number(wanted)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= number(wanted)),
            "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= number(wanted)),
            "pattern" => value.as_str().is_none_or(|text| regex(wanted).is_match(text)),
            "required" => value.as_object().is_none_or(|table| {
                items(wanted).iter().all(|name| table.contains_key(name.as_str().unwrap_or_default()))
            }),
            "not" => check(root, wanted, value).is_err(),
            "anyOf" => items(wanted).iter().any(|option| check(root, option, value).is_ok()),
            "allOf" => items(wanted).iter().try_for_each(|option| check(root, option, value)).is_ok(),
            "if" => check(root, wanted, value).is_err() || check(root, &keywords["then"], value).is_ok(),
            "items" => {
                items(value).iter().try_for_each(|item| check(root, wanted, item))?;
                true
            }
            "properties" => {
                for (name, field) in fields(value) {
                    if let Some(schema) = wanted.get(name) {
                        check(root, schema, field)?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = keywords.get("properties");
                for (name, field) in fields(value) {
                    if known.is_none_or(|known| known.get(name).is_none()) {
                        check(root, wanted, field)?;
                    }
                }
                true
            }
            "propertyNames" => {
                fields(value).iter().try_for_each(|(name, _)| check(root, wanted, &json!(name)))?;
                true
            }
            other => panic!("the schema uses {other}, which this checker does not know"),
        };
        if !met {
            return Err(format!("{keyword}: {wanted} is not met by {value}"));
        }
    }
    Ok(())
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema uses the type {other}, which this checker does not know"),
    }
}

fn resolve<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/")).unwrap_or_default();
    root["$defs"].get(name).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

fn regex(pattern: &Value) -> Regex {
    Regex::new(pattern.as_str().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn fields(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().map(|table| table.iter().collect()).unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// A value that the schema accepts; another for every seed.
pub(crate) fn make(schema: &Value, seed: u64) -> Value {
    Maker { root: schema, state: seed | 1 }.value(schema)
}

struct Maker<'a> {
    root: &'a Value,
    state: u64,
}

impl Maker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        // Knuth's linear generator; its high bits are good enough to choose with.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap_or_default() % bound.max(1)
    }

    fn pick(&mut self, options: &[Value]) -> Value {
        options[self.below(options.len())].clone()
    }

    fn value(&mut self, schema: &Value) -> Value {
        if let Some(reference) = schema.get("$ref") {
            return self.value(resolve(self.root, reference));
        }
        if let Some(options) = schema.get("anyOf") {
            let option = self.pick(items(options));
            return self.value(&option);
        }
        if let Some(names) = schema.get("enum") {
            return self.pick(items(names));
        }
        match schema["type"].as_str().unwrap_or_default() {
            "boolean" => json!(self.below(2) == 0),
            "integer" => {
                let (min, max) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
                let (min, max) = (min.unwrap_or_default(), max.unwrap_or_default());
                self.pick(&[
                    json!(min),
                    json!(max),
                    json!(min.max(0) + 1),
                    json!(max.min(5)),
                    json!(max.min(1000)),
                ])
            }
            "number" => self.pick(&[
                schema["minimum"].clone(),
                schema["maximum"].clone(),
                json!(1.0),
                json!(schema["minimum"].as_f64().unwrap_or_default() + 0.25),
            ]),
            "string" => self.text(schema),
            "array" => {
                let len = usize::try_from(number(&schema["minItems"])).unwrap_or_default() + self.below(3);
                (0..len).map(|_| self.value(&schema["items"])).collect()
            }
            "object" => self.table(schema),
            // Whatever there is.
            "" => self.pick(&[json!(null), json!(true), json!(0.5), json!("a"), json!([1, {"a": "b"}])]),
            other => panic!("this maker does not know the type {other}"),
        }
    }

    fn text(&mut self, schema: &Value) -> Value {
        let samples = [
            "a",
            "b",
            "standard",
            "api",
            "none",
            "mine",
            "1s",
            "0.25 ms",
            "2m",
            "0",
            "sqlite:x",
            "(?i)a+",
            "http://x",
            "2MB",
            "/v1/*/a",
            "/**",
            "201",
            "5xx",
            "everybody",
            "header:x-user",
            "localhost:80",
            "10/s",
            "host:api.example.com",
            "default_host",
            "key:billing",
        ];
        loop {
            let text = json!(samples[self.below(samples.len())]);
            if check(self.root, schema, &text).is_ok() {
                return text;
            }
        }
    }

    /// Draws tables until one keeps the rules between its fields; most do.
    fn table(&mut self, schema: &Value) -> Value {
        loop {
            let mut table = Map::new();
            for (name, _) in fields(&schema["properties"]) {
                let required = items(&schema["required"]).contains(&json!(name));
                if required || self.below(3) == 0 {
                    table.insert(name.clone(), Value::Null);
                }
            }
            // Rules about which fields go together are cheap to ask before anything is made for them.
            let rules = json!({"allOf": schema.get("allOf").cloned().unwrap_or_else(|| json!([]))});
            if check(self.root, &rules, &Value::Object(table.clone())).is_err() {
                continue;
            }
            for (name, value) in &mut table {
                *value = self.value(&schema["properties"][name]);
            }
            if let Some(names) = schema.get("propertyNames") {
                for _ in 0..self.below(4) {
                    let name = self.value(names);
                    let value = self.value(&schema["additionalProperties"]);
                    table.insert(name.as_str().unwrap_or_default().to_owned(), value);
                }
            }
            let table = Value::Object(table);
            if check(self.root, schema, &table).is_ok() {
                return table;
            }
        }
    }
}

/// The same value in TOML; `None` when there is a null in it, which TOML cannot say.
fn toml_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_of).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| Some(format!("{} = {}", json!(name), toml_of(value)?));
            format!("{{ {} }}", fields.iter().map(field).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    })
}

/// The same table as a TOML file; `None` when there is a null in it.
pub(crate) fn toml_file(file: &Value) -> Option<String> {
    let fields = file.as_object()?.iter();
    let lines = fields.map(|(name, value)| Some(format!("{} = {}\n", json!(name), toml_of(value)?)));
    lines.collect()
}
