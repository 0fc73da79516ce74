//! The OpenAPI 3.1 document, made from the routes.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::caller::Scope;
use crate::problem::{Code, PROBLEM_JSON, Told};
use crate::route::{Need, Route};

/// The whole document.
pub(crate) fn document(routes: &[Route]) -> Value {
    // What is read and what is written differ: a field with a default may be left out of the one, and is always in the other.
    let mut read = settings().for_deserialize().into_generator();
    let mut written = settings().for_serialize().into_generator();
    written.subschema_for::<Told>();
    let mut paths = Map::new();
    for route in routes {
        let at = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        at[route.method.as_str().to_ascii_lowercase()] = operation(route, &mut read, &mut written);
    }
    let mut schemas = written.take_definitions(true);
    let mut paths = Value::Object(paths);
    for (name, schema) in read.take_definitions(true) {
        match schemas.get(&name) {
            Some(other) if *other != schema => {
                let renamed = format!("{name}Input");
                for operation in paths.as_object_mut().into_iter().flat_map(Map::values_mut) {
                    for told in operation.as_object_mut().into_iter().flat_map(Map::values_mut) {
                        point_at(&mut told["requestBody"], &name, &renamed);
                    }
                }
                schemas.insert(renamed, schema);
            }
            _ => drop(schemas.insert(name, schema)),
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "redrive",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable jobs for every language: enqueue, lease, settle, watch and redrive.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags(routes),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": problem_answers(),
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": format!(
                    "A token of `redrive token create`. Its scopes: {}.",
                    Scope::ALL.map(Scope::name).join(", "),
                ),
            }},
        },
    })
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(Bounds))
}

/// What a number can hold is what it may be.
#[derive(Debug, Clone)]
struct Bounds;

impl Transform for Bounds {
    fn transform(&mut self, schema: &mut Schema) {
        let (least, most) = match schema.get("format").and_then(Value::as_str) {
            Some("uint8") => (0, u64::from(u8::MAX)),
            Some("uint16") => (0, u64::from(u16::MAX)),
            Some("uint32") => (0, u64::from(u32::MAX)),
            Some("uint64" | "uint") => (0, u64::MAX),
            Some("int32") => (i64::from(i32::MIN), i32::MAX.unsigned_abs().into()),
            Some("int64") => (i64::MIN, i64::MAX.unsigned_abs()),
            _ => return,
        };
        let bounds = schema.ensure_object();
        bounds.entry("minimum").or_insert_with(|| json!(least));
        bounds.entry("maximum").or_insert_with(|| json!(most));
    }
}

/// Every reference to one schema as one to another.
fn point_at(told: &mut Value, from: &str, to: &str) {
    match told {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && reference.strip_prefix("#/components/schemas/") == Some(from)
            {
                *reference = format!("#/components/schemas/{to}");
            }
            members.values_mut().for_each(|member| point_at(member, from, to));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point_at(item, from, to)),
        _ => {}
    }
}

fn operation(route: &Route, read: &mut SchemaGenerator, written: &mut SchemaGenerator) -> Value {
    let mut answers = Map::new();
    for answer in &route.answers {
        let told = answers
            .entry(answer.status.to_string())
            .or_insert_with(|| json!({ "description": answer.about }));
        if let Some(schema) = answer.schema {
            told["content"][answer.media] = json!({ "schema": schema(written) });
        }
    }
    for code in problems(route) {
        let status = code.status().as_u16().to_string();
        answers
            .entry(&status)
            .or_insert_with(|| json!({ "$ref": format!("#/components/responses/Problem{status}") }));
    }
    let mut told = json!({
        "operationId": route.id,
        "summary": route.about,
        "tags": [tag(route.path)],
        "parameters": parameters(route, read),
        "responses": answers,
    });
    if let Some(body) = route.body {
        told["requestBody"] = json!({
            "required": body.required,
            "content": { body.media: { "schema": (body.schema)(read) } },
        });
    }
    match route.need {
        Need::Nothing => told["security"] = json!([]),
        Need::Scope(scope) => told["security"] = json!([{ "token": [scope.name()] }]),
    }
    told
}

fn parameters(route: &Route, read: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters = Vec::new();
    for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        let said = route.places.iter().find(|(place, _)| *place == name);
        let schema = said.map_or_else(
            || json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
            |(_, schema)| schema(read).to_value(),
        );
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    let query = route.query.map(|query| query(read).to_value()).unwrap_or_default();
    let required = query["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in query["properties"].as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        if let Some(members) = schema.as_object_mut() {
            let about = members.remove("description");
            // A parameter is left out rather than null.
            if let Some(Value::Array(names)) = members.get_mut("enum") {
                names.retain(|name| !name.is_null());
            }
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = &types[..] {
                    members["type"] = only.clone();
                }
            }
            let mut parameter = json!({ "name": name, "in": "query", "schema": schema });
            if let Some(about) = about {
                parameter["description"] = about;
            }
            if required.contains(&json!(name)) {
                parameter["required"] = json!(true);
            }
            parameters.push(parameter);
        }
    }
    if route.guarded {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header",
            "description": "Whoever sends the same request with the same key gets the same answer; it is done once.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        }));
    }
    parameters
}

/// What a route may end in: its own problems, and those that every route of its kind has.
fn problems(route: &Route) -> Vec<Code> {
    let mut codes = route.problems.clone();
    if let Need::Scope(_) = route.need {
        codes.extend([Code::Invalid, Code::Unauthorized, Code::Forbidden, Code::TooMany]);
        codes.extend([Code::Internal, Code::Unavailable]);
    }
    if route.path.contains('{') {
        codes.push(Code::NotFound);
    }
    if route.body.is_some() {
        codes.extend([Code::TooLarge, Code::UnsupportedMediaType]);
    }
    if route.guarded {
        codes.extend([Code::Conflict, Code::StoreFull]);
    }
    codes
}

/// An answer for every status that a problem has.
fn problem_answers() -> Map<String, Value> {
    let mut answers = Map::new();
    for code in Code::ALL {
        let status = code.status();
        let answer = answers.entry(format!("Problem{}", status.as_u16())).or_insert_with(|| {
            json!({
                "description": status.canonical_reason().unwrap_or_default(),
                "content": { PROBLEM_JSON: { "schema": { "$ref": "#/components/schemas/Problem" } } },
            })
        });
        let told = answer["x-codes"].take();
        let mut codes = told.as_array().cloned().unwrap_or_default();
        codes.push(json!(code.name()));
        answer["x-codes"] = json!(codes);
    }
    answers
}

/// The noun of a path.
fn tag(path: &str) -> &str {
    path.strip_prefix("/v1/").map_or("server", |rest| rest.split('/').next().unwrap_or(rest))
}

fn tags(routes: &[Route]) -> Vec<Value> {
    let mut names: Vec<&str> = routes.iter().map(|route| tag(route.path)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| json!({ "name": name })).collect()
}
