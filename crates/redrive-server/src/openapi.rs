//! The OpenAPI 3.1 document, made from the routes.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::route::{Need, Route};

/// The whole document.
pub(crate) fn document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in routes {
        let mut responses = Map::new();
        for answer in &route.answers {
            let mut told = json!({ "description": answer.about });
            if let Some(schema) = answer.schema {
                told["content"] = json!({ answer.media: { "schema": schema(&mut generator) } });
            }
            responses.insert(answer.status.to_string(), told);
        }
        let mut operation =
            json!({ "operationId": route.id, "summary": route.about, "responses": responses });
        if let Some(body) = route.body {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": body(&mut generator) } },
            });
        }
        if let Need::Scope(scope) = route.need {
            operation["security"] = json!([{ "token": [scope.name()] }]);
        }
        let at = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        at[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "redrive", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}
