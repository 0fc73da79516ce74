//! `task` as a process: the stories of 002 §6, and what happens when it is killed, interrupted and resumed (R-T1–R-T9, R-A3).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;
mod support;
mod task_home;

use std::fs;

use process_store::Home;
use serde_json::json;
use support::stored::is_sound;
use task_home::{file, names, planned, run, standing, trace};

/// R-T1, R-A3: steps run in the order of their dependencies, those that need not wait at the same time.
#[test]
fn steps_run_as_their_dependencies_allow() {
    let home = Home::new();
    // Each of the two in the middle waits for the other: they must run at the same time.
    let ran = run(
        &home,
        r#"
name = "a diamond"
[[subtasks]]
id = "top"
command = "echo top >> order"
[[subtasks]]
id = "left"
depends_on = ["top"]
command = "touch l; until [ -e r ]; do sleep 0.01; done; echo middle >> order"
[[subtasks]]
id = "right"
depends_on = "top"
command = "touch r; until [ -e l ]; do sleep 0.01; done; echo middle >> order"
[[subtasks]]
depends_on = ["left", "right"]
command = ["sh", "-c", "echo \"$0\" >> order", "bottom"]
"#,
    );
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(file(&home, "order"), "top\nmiddle\nmiddle\nbottom\n");
    assert!(ran.stderr.contains("task-1 a diamond: 4 steps, 4 at a time"), "{ran}");
    assert!(ran.stderr.contains("succeeded: 4 of 4 steps"), "{ran}");
    let expected = ["top succeeded", "left succeeded", "right succeeded", "task-1-sub-4 succeeded"];
    assert_eq!(standing(&home, "plan.toml"), expected);
    assert!(is_sound(&home.store));
}

/// R-T9, 002 §6.1: an output that is cut short is rejected, the next attempt is told why, and passes.
#[test]
fn an_incomplete_output_is_retried_with_a_hint_and_passes() {
    let home = Home::new();
    let ran = run(
        &home,
        r#"
[[subtasks]]
id = "write"
review = true
QUICK
command = ["sh", "-c", "printf '%s' \"$1\" > hint-$REDRIVE_ATTEMPT; if [ $REDRIVE_ATTEMPT = 1 ]; then printf 'fn main() {\n    // ... rest of the code\n}\n'; else printf 'fn main() {\n    run();\n}\n'; fi", "sh", "{hint}"]
"#,
    );
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(file(&home, "hint-1"), "");
    let hint = file(&home, "hint-2");
    assert!(hint.contains("incomplete") && hint.contains("// ... rest of the code"), "{hint}");
    assert!(ran.stderr.contains("write is told:"), "{ran}");
    assert_eq!(home.json("task status task-1")["subtasks"][0]["attempts"], 2);
    let trace = trace(&home, "task-1");
    assert_eq!(names(&trace), ["RETRY_DECISION", "RETRY_START", "RETRY_SUCCESS"], "{trace:#?}");
    let decision = &trace[0]["data"];
    assert_eq!((&decision["decision"], &decision["failure_type"]), (&json!("RETRY"), &json!("INCOMPLETE")));
    assert_eq!((&decision["current_retry_count"], &decision["delay_ms"]), (&json!(0), &json!(20)));
    for entry in &trace {
        assert_eq!((&entry["task_id"], &entry["subtask_id"]), (&json!("task-1"), &json!("write")), "{entry}");
    }
    assert_eq!(trace[1]["iteration_index"], 2);
    assert_eq!(trace[1]["data"]["previous_failure_type"], "INCOMPLETE");
    assert_eq!(trace[1]["data"]["modification_hint"], json!(hint));
    let expected = json!({ "retry_count": 1, "total_attempts": 2, "final_status": "PASS" });
    assert_eq!(trace[2]["data"], expected);
}

/// R-T7, R-T9, 002 §6.2: after four attempts a person is told, with everything that is known.
#[test]
fn a_task_that_cannot_go_on_is_escalated_after_four_attempts() {
    let home = Home::new();
    let ran = run(
        &home,
        r#"
name = "the login"
[[subtasks]]
id = "write"
review = true
QUICK
command = "if [ $REDRIVE_ATTEMPT -le 2 ]; then echo '// 残り省略'; else echo '// TODO: finish it'; fi"
[[subtasks]]
id = "deploy"
depends_on = ["write"]
command = "touch deployed"
"#,
    );
    assert_eq!(ran.code, 1, "{ran}");
    assert!(!home.folder.path().join("deployed").exists());
    assert!(ran.stderr.contains("the login"), "{ran}");
    let trace = trace(&home, "task-1");
    let retries = ["RETRY_DECISION", "RETRY_START"].repeat(3);
    assert_eq!(
        names(&trace),
        [&retries[..], &["ESCALATE_DECISION", "ESCALATE_EXECUTED"]].concat(),
        "{trace:#?}"
    );
    let summary = &trace[6]["data"]["failure_summary"];
    assert_eq!(trace[6]["data"]["reason"]["type"], "MAX_RETRIES");
    assert_eq!(summary["total_attempts"], 4);
    let types = json!(["INCOMPLETE", "INCOMPLETE", "QUALITY_FAILURE", "QUALITY_FAILURE"]);
    assert_eq!(summary["failure_types"], types);
    assert!(trace[7]["data"]["user_message"].as_str().unwrap().contains("the login"), "{trace:#?}");
    let shown = home.json("escalations show task-1");
    let report = &shown["report"];
    assert_eq!((&report["task_id"], &report["subtask_id"]), (&json!("task-1"), &json!("write")), "{shown:#}");
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "task_id",
        "subtask_id",
        "escalated_at",
        "reason",
        "failure_summary",
        "user_message",
        "debug_info",
        "recommended_actions",
        "level",
    ] {
        assert!(keys.contains(&key), "{key} in {keys:?}");
    }
    assert_eq!(standing(&home, "task-1"), ["write failed", "deploy skipped"]);
}

/// R-T2: what does not depend on a failure is kept, what does is skipped, and `resume` does only what is missing.
#[test]
fn a_part_is_kept_and_the_rest_is_resumed() {
    let home = Home::new();
    let ran = run(
        &home,
        r#"
[[subtasks]]
id = "flaky"
overrides = { max_retries = 0 }
command = "echo x >> flaky; [ -e mended ] || { echo 'connection refused' >&2; exit 1; }"
[[subtasks]]
id = "after"
depends_on = ["flaky"]
command = "echo x >> after"
[[subtasks]]
id = "other"
command = "echo x >> other"
"#,
    );
    assert_eq!(ran.code, 4, "{ran}");
    assert_eq!(standing(&home, "task-1"), ["flaky failed", "after skipped", "other succeeded"]);
    fs::write(home.folder.path().join("mended"), "").unwrap();
    let ran = home.redrive("task resume plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(standing(&home, "task-1"), ["flaky succeeded", "after succeeded", "other succeeded"]);
    let written = ["flaky", "after", "other"].map(|name| file(&home, name));
    assert_eq!(written, ["x\nx\n", "x\n", "x\n"]);
    let again = home.redrive("task resume task-1", &[]);
    assert_eq!(again.code, 0, "{again}");
    assert!(is_sound(&home.store));
}

/// R-T1, reliability 1: killed in the middle, a task goes on where it was, and repeats no step that was done.
#[test]
fn a_killed_task_goes_on_where_it_was() {
    let home = Home::new();
    planned(
        &home,
        r#"
parallel = 1
[[subtasks]]
id = "one"
command = "echo one >> done"
[[subtasks]]
id = "two"
depends_on = ["one"]
snapshot = "work"
command = "cat work/state >> seen; echo broken > work/state; echo two begun; [ -e go ] || sleep 60; echo two >> done"
[[subtasks]]
id = "three"
depends_on = ["two"]
command = "echo three >> done"
"#,
    );
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/state"), "whole\n").unwrap();
    let mut running = home.spawn("task run plan.toml", &[]);
    running.wait_for("two begun");
    running.signal("KILL");
    let killed = running.finish();
    assert_eq!(killed.code, -1, "{killed}");
    fs::write(home.folder.path().join("go"), "").unwrap();
    let ran = home.redrive("task resume plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(file(&home, "done"), "one\ntwo\nthree\n");
    // The second attempt of `two` found the files as they were before the first.
    assert_eq!(file(&home, "seen"), "whole\nwhole\n");
    assert!(is_sound(&home.store));
}

/// R-T1: Ctrl-C ends what runs, puts its files back, loses nothing, and says how to go on.
#[test]
fn an_interrupted_task_can_be_resumed() {
    let home = Home::new();
    planned(
        &home,
        r#"
[[subtasks]]
id = "long"
snapshot = "work"
command = "echo half > work/state; echo under way; [ -e go ] || sleep 60; echo done"
"#,
    );
    fs::create_dir(home.folder.path().join("work")).unwrap();
    let mut running = home.spawn("task run plan.toml", &[]);
    running.wait_for("under way");
    running.signal("INT");
    let ran = running.finish();
    assert_eq!(ran.code, 130, "{ran}");
    assert!(ran.stderr.contains("redrive task resume task-1"), "{ran}");
    assert!(!home.folder.path().join("work/state").exists(), "{ran}");
    // Nobody else goes on with what somebody has stopped.
    assert_eq!(standing(&home, "task-1"), ["long cancelled"]);
    assert_eq!(home.redrive("work --until-empty", &[]).stderr, "");
    fs::write(home.folder.path().join("go"), "").unwrap();
    let ran = home.redrive("task resume plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(file(&home, "work/state"), "half\n");
}

/// R-T1: of two that start the same plan at the same moment, one goes on.
#[test]
fn a_plan_that_is_started_twice_at_once_runs_once() {
    let home = Home::new();
    planned(&home, "[[subtasks]]\nid = \"one\"\ncommand = \"echo x >> done; sleep 1\"\n");
    home.redrive("status", &[]);
    let both = [home.spawn("task run plan.toml", &[]), home.spawn("task run plan.toml", &[])];
    let mut codes = both.map(|running| running.finish().code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 2]);
    assert_eq!(file(&home, "done"), "x\n");
}

/// R-T1: a task that is left to the workers is moved on by them; a cancelled one ends.
#[test]
fn workers_move_tasks_on() {
    let home = Home::new();
    planned(
        &home,
        r#"
[[subtasks]]
id = "one"
command = "echo one >> done"
[[subtasks]]
id = "two"
depends_on = ["one"]
command = "echo two >> done"
"#,
    );
    let ran = home.redrive("task run --detach plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let mut worker = home.spawn("work", &[]);
    worker.wait_for("two attempt 1 succeeded");
    let began = std::time::Instant::now();
    while home.json("task status plan.toml")["state"] != "succeeded" {
        assert!(began.elapsed().as_secs() < 30, "the task does not end");
    }
    worker.signal("TERM");
    assert_eq!(worker.finish().code, 0);
    assert_eq!(file(&home, "done"), "one\ntwo\n");
    let ran = home.redrive("task run --detach plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let ran = home.redrive("task cancel plan.toml", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(home.json("task status plan.toml")["state"], "cancelled");
}

/// R-T1: a task goes on with the plan that it was started with, and whoever has edited the file since is told so.
#[test]
fn a_plan_that_was_changed_is_told_of() {
    let home = Home::new();
    let plan = "[[subtasks]]\nid = \"one\"\nreview = true\ncommand = \"exit 65\"\n";
    let ran = run(&home, plan);
    assert_eq!(ran.code, 1, "{ran}");
    for (written, told) in [(plan.to_owned(), false), (plan.replace("65", "0"), true)] {
        planned(&home, &written);
        let ran = home.redrive("task resume plan.toml", &[]);
        assert_eq!(ran.code, 1, "{ran}");
        assert_eq!(ran.stderr.contains("has changed since task-1 was started"), told, "{ran}");
    }
    fs::remove_file(home.folder.path().join("plan.toml")).unwrap();
    let ran = home.redrive("task resume task-1", &[]);
    assert!(!ran.stderr.contains("has changed"), "{ran}");
}

/// R-T1: what is wrong with a plan is named with its place, and nothing is stored.
#[test]
fn a_bad_plan_names_the_place() {
    let home = Home::new();
    for (plan, says) in [
        (
            "[[subtasks]]\nid = \"a\"\ncommand = \"true\"\ndepends_on = [\"b\"]\n[[subtasks]]\nid = \"b\"\ncommand = \"true\"\ndepends_on = [\"a\"]\n",
            "a → b → a",
        ),
        (
            "[[subtasks]]\nid = \"build\"\ncommand = \"true\"\n[[subtasks]]\nid = \"x\"\ncommand = \"true\"\ndepends_on = [\"bild\"]\n",
            "did you mean build?",
        ),
        (
            "[[subtasks]]\nid = \"a\"\ncommand = \"true\"\n[[subtasks]]\nid = \"a\"\ncommand = \"true\"\n",
            "subtasks[0].id",
        ),
        (
            "[[subtasks]]\nid = \"a\"\ncommand = \"true\"\nsnapshot = \"../elsewhere\"\n",
            "subtasks[0].snapshot",
        ),
    ] {
        let ran = run(&home, plan);
        assert_eq!(ran.code, 2, "{plan}\n{ran}");
        assert!(ran.stderr.contains(says) && ran.stderr.contains("plan.toml"), "{plan}\n{ran}");
        assert!(!home.store.exists(), "{ran}");
    }
}
