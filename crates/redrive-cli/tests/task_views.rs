//! R-C2, R-T1: tasks as people and programs see them: rich at 80 and 160 columns in both languages, plain, and JSON. The
//! tasks stand still, and so does the clock.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use support::tasks::seeded_tasks;
use support::{line, timeless};
use unicode_width::UnicodeWidthStr;

/// The name of the snapshot, and the command.
const VIEWS: &[(&str, &str)] = &[
    ("task_status", "task status task-1"),
    ("task_status_escalated", "task status task-2"),
    ("task_status_many", "task status task-3"),
    ("tasks", "task status --all"),
    ("task_trace", "trace task-1"),
    ("task_escalation", "escalations show task-2"),
];

/// The form, its flags, and how wide the terminal is, if it is one.
const FORMS: [(&str, &str, Option<usize>); 6] = [
    ("rich, 80 columns", "--color never --lang en", Some(80)),
    ("rich, 80 columns, Japanese", "--color never --lang ja", Some(80)),
    ("rich, 160 columns", "--color never --lang en", Some(160)),
    ("rich, 160 columns, Japanese", "--color never --lang ja", Some(160)),
    ("plain", "--plain --lang en", None),
    ("json", "--json --lang en", None),
];

/// R-T1, R-C2: each view in each form, and no rich line wider than its terminal.
#[test]
fn tasks_in_every_form() {
    let store = seeded_tasks();
    for (name, command) in VIEWS {
        let mut page = String::new();
        for (form, flags, width) in FORMS {
            // Two hundred subtasks as JSON are checked elsewhere.
            if *name == "task_status_many" && form == "json" {
                continue;
            }
            let mut asked = line(&format!("{command} {flags} {}", store.flags()));
            if let Some(width) = width {
                asked = asked.on_a_terminal().env("REDRIVE_WIDTH", &width.to_string());
            }
            let ran = asked.run();
            let widest = ran.stdout.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
            assert!(width.is_none_or(|width| widest <= width), "{command}, {form}: {widest}\n{ran}");
            page.push_str(&format!("===== {form}: redrive {command}\n{ran}\n"));
        }
        insta::assert_snapshot!(*name, timeless(&store.anonymous(&page)));
    }
}

/// R-T1: the contract `redrive/task.v1`.
#[test]
fn a_task_is_told_to_programs() {
    let store = seeded_tasks();
    let json = |command: &str| -> serde_json::Value {
        let ran = line(&format!("{command} --json {}", store.flags())).run();
        assert_eq!(ran.code, 0, "{ran}");
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let task = json("task status task-1");
    assert_eq!((&task["schema"], &task["state"]), (&"redrive/task.v1".into(), &"running".into()));
    let states: Vec<&str> =
        task["subtasks"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "running", "retrying", "waiting", "waiting", "failed", "skipped"]);
    let [draw, test, notes, mail] = [2, 3, 5, 6].map(|number| &task["subtasks"][number]);
    assert_eq!(test["depends_on"], serde_json::json!(["write", "draw"]));
    assert!(draw["next_retry_at"].is_string() && draw["attempts"] == 1, "{draw}");
    assert_eq!((&notes["cause"], &notes["level"]), (&"validation_error".into(), &5.into()));
    assert_eq!(mail["because_of"], "notes");
    let many = json("task status task-3");
    assert_eq!(many["subtasks"].as_array().unwrap().len(), 200);
    assert_eq!(many["counts"]["succeeded"], 150);
    let list = json("task status --all");
    assert_eq!((&list["schema"], &list["items"][0]["id"]), (&"redrive/tasks.v1".into(), &"task-3".into()));
}
