//! The document: it is what the server serves, and what the repository holds.

use std::path::Path;

use redrive_server::Server;
use serde_json::Value;

use crate::site::Site;

/// Issue 8, API: `docs/openapi.json` is what the code says. `REDRIVE_WRITE_OPENAPI=1` writes it anew.
#[test]
fn the_committed_document_is_the_codes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document = Server::openapi();
    if std::env::var_os("REDRIVE_WRITE_OPENAPI").is_some() {
        let mut text = serde_json::to_string_pretty(&document).unwrap();
        text.push('\n');
        std::fs::write(&path, text).unwrap();
    }
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(committed == document, "docs/openapi.json is old: run this test with REDRIVE_WRITE_OPENAPI=1");
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((path.clone(), method.to_uppercase(), operation.clone()));
        }
    }
    all
}

/// Issue 8, API: every reference leads somewhere, every operation has a name of its own, its parameters and its problems.
#[test]
fn the_document_is_sound() {
    fn references(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                all.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, all));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, all)),
            _ => {}
        }
    }
    let document = Server::openapi();
    let mut all = Vec::new();
    references(&document, &mut all);
    assert!(all.len() > 50);
    for reference in all {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
    let mut ids = Vec::new();
    for (path, method, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{id}");
        ids.push(id.to_owned());
        let parameters = operation["parameters"].as_array().unwrap();
        let named = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(named, path.matches('{').count(), "{method} {path}");
        if path.starts_with("/v1/") {
            for status in ["400", "401", "403", "503"] {
                assert!(operation["responses"].get(status).is_some(), "{method} {path}: {status}");
            }
            assert!(!operation["security"].as_array().unwrap().is_empty(), "{method} {path}");
        }
        let good = operation["responses"].as_object().unwrap().keys().any(|status| status.starts_with('2'));
        assert!(good, "{method} {path}");
    }
    // A name that its place among others gave (`Page2`) would change with every noun that comes, and with it everybody's code.
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name}: two shapes have one name");
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an operationId stands twice");
}

/// Issue 8, API: what the document names is there: neither an unknown path nor a wrong method.
#[tokio::test]
async fn every_operation_is_there() {
    let site = Site::sqlite().await;
    let (status, served) = site.get("/openapi.json").await;
    assert_eq!((status, &served), (200, &Server::openapi()));
    for (path, method, _) in operations(&served) {
        let mut filled = path.clone();
        while let Some(open) = filled.find('{') {
            let close = filled[open..].find('}').unwrap() + open;
            filled.replace_range(open..=close, "1");
        }
        let request = site.ask(method.parse().unwrap(), &filled).header("content-type", "application/json");
        // What is no JSON ends before anything is done.
        let request = if method == "GET" { request } else { request.body("{") };
        let answer = request.send().await.unwrap();
        assert_ne!(answer.status(), 405, "{method} {path}");
        if answer.status() == 404 {
            let problem: Value = answer.json().await.unwrap();
            let detail = problem["detail"].as_str().unwrap();
            assert!(!detail.contains("openapi.json"), "{method} {path}: {detail}");
        }
    }
}
