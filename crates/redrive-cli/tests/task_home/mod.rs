//! Plans that are written, run and looked at in a home of their own.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::fs;

use serde_json::Value;

use crate::process_store::{Home, Ran};

/// Quick retries, in the form of 002 §7.2.
pub const QUICK: &str =
    "overrides = { backoff = { type = \"fixed\", initial_delay_ms = 20, max_delay_ms = 20, jitter = 0 } }";

pub fn planned(home: &Home, plan: &str) {
    fs::write(home.folder.path().join("plan.toml"), plan.replace("QUICK", QUICK)).unwrap();
}

pub fn run(home: &Home, plan: &str) -> Ran {
    planned(home, plan);
    home.redrive("task run plan.toml", &[])
}

pub fn file(home: &Home, name: &str) -> String {
    fs::read_to_string(home.folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The lines of a task's trace.
pub fn trace(home: &Home, id: &str) -> Vec<Value> {
    let ran = home.redrive(&format!("trace {id} --raw"), &[]);
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn names(trace: &[Value]) -> Vec<&str> {
    trace.iter().map(|entry| entry["event"].as_str().unwrap()).collect()
}

/// How each subtask stands.
pub fn states(home: &Home, id: &str) -> Vec<(String, String)> {
    let task = home.json(&format!("task status {id}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |subtask: &Value| (text(&subtask["id"]), text(&subtask["state"]));
    task["subtasks"].as_array().unwrap().iter().map(one).collect()
}

pub fn standing(home: &Home, id: &str) -> Vec<String> {
    states(home, id).into_iter().map(|(name, state)| format!("{name} {state}")).collect()
}
