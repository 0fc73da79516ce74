//! `task` as a process: the stories of 002 §6, and what happens when it is killed, interrupted and resumed (R-T1–R-T9, R-A3).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;
mod support;

use std::fs;

use process_store::{Home, Ran};
use serde_json::{Value, json};
use support::stored::is_sound;

/// Quick retries, in the form of 002 §7.2.
const QUICK: &str =
    "overrides = { backoff = { type = \"fixed\", initial_delay_ms = 20, max_delay_ms = 20, jitter = 0 } }";

fn planned(home: &Home, plan: &str) {
    fs::write(home.folder.path().join("plan.toml"), plan.replace("QUICK", QUICK)).unwrap();
}

fn run(home: &Home, plan: &str) -> Ran {
    planned(home, plan);
    home.redrive("task run plan.toml", &[])
}

fn file(home: &Home, name: &str) -> String {
    fs::read_to_string(home.folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The lines of a task's trace.
fn trace(home: &Home, id: &str) -> Vec<Value> {
    let ran = home.redrive(&format!("trace {id} --raw"), &[]);
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(trace: &[Value]) -> Vec<&str> {
    trace.iter().map(|entry| entry["event"].as_str().unwrap()).collect()
}

/// How each subtask stands.
fn states(home: &Home, id: &str) -> Vec<(String, String)> {
    let task = home.json(&format!("task status {id}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |subtask: &Value| (text(&subtask["id"]), text(&subtask["state"]));
    task["subtasks"].as_array().unwrap().iter().map(one).collect()
}

fn standing(home: &Home, id: &str) -> Vec<String> {
    states(home, id).into_iter().map(|(name, state)| format!("{name} {state}")).collect()
}

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

/// R-T3, R-T9, 002 §6.3: what a step that fails has done to files is undone before it is done again.
#[test]
fn files_are_put_back_before_a_step_is_done_again() {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("src")).unwrap();
    fs::write(home.folder.path().join("src/auth.ts"), "before\n").unwrap();
    let ran = run(
        &home,
        r#"
[[subtasks]]
id = "plan"
command = "true"
[[subtasks]]
id = "edit"
depends_on = ["plan"]
snapshot = "src"
QUICK
command = "cat src/auth.ts >> seen; ls src >> seen; echo after > src/auth.ts; touch src/temp.ts; [ $REDRIVE_ATTEMPT = 2 ] || exit 75"
"#,
    );
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(file(&home, "seen"), "before\nauth.ts\n".repeat(2));
    assert_eq!(file(&home, "src/auth.ts"), "after\n");
    let trace = trace(&home, "task-1");
    let expected = [
        "RECOVERY_START",
        "SNAPSHOT_RESTORE",
        "RETRY_DECISION",
        "RETRY_START",
        "RETRY_SUCCESS",
        "RECOVERY_COMPLETE",
    ];
    assert_eq!(names(&trace), expected, "{trace:#?}");
    let start = json!({
        "strategy": "RETRY_FAILED_ONLY", "failed_subtasks": ["edit"], "succeeded_subtasks": ["plan"],
    });
    assert_eq!(trace[0]["data"], start);
    let restore = &trace[1]["data"];
    assert_eq!(restore["restored_files"], json!(["src/auth.ts"]));
    assert_eq!(restore["deleted_files"], json!(["src/temp.ts"]));
    let complete =
        json!({ "strategy": "RETRY_FAILED_ONLY", "recovered_subtasks": ["edit"], "final_status": "PASS" });
    assert_eq!(trace[5]["data"], complete);
}

/// R-T2: a step that blames another one has it undone and done again, told what was wrong; what is independent stays.
#[test]
fn what_is_blamed_is_undone_and_done_again() {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("src")).unwrap();
    let ran = run(
        &home,
        r#"
[[subtasks]]
id = "write"
snapshot = "src"
command = "printf '%s' \"$REDRIVE_HINT\" > told; echo x >> writes; [ -e src/code ] && exit 65; if [ -s told ]; then echo good > src/code; else echo bad > src/code; fi"
[[subtasks]]
id = "test"
depends_on = ["write"]
blames = ["write"]
overrides = { max_retries = 0 }
command = "grep -q good src/code || { echo 'assertion failed: code is bad' >&2; exit 1; }"
[[subtasks]]
id = "docs"
command = "echo x >> docs"
"#,
    );
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!((file(&home, "writes"), file(&home, "docs")), ("x\nx\n".to_owned(), "x\n".to_owned()));
    let told = file(&home, "told");
    assert!(told.contains("\"test\"") && told.contains("assertion failed: code is bad"), "{told}");
    assert_eq!(file(&home, "src/code"), "good\n");
    let trace = trace(&home, "task-1");
    let recovery: Vec<&Value> =
        trace.iter().filter(|entry| entry["event"].as_str().unwrap().starts_with("RECOVERY")).collect();
    assert_eq!(recovery.len(), 2, "{trace:#?}");
    assert_eq!(recovery[0]["data"]["strategy"], "ROLLBACK_AND_RETRY");
    assert_eq!(recovery[1]["data"]["final_status"], "PASS");
    assert!(names(&trace).contains(&"SNAPSHOT_RESTORE"), "{trace:#?}");
    assert!(is_sound(&home.store));
    assert_eq!(home.json("status")["dead_letter_queue"], 0);
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

/// R-T2, R-P7: without partial commits a failure stops the task; with `on_escalate = "rollback"` all or nothing stays.
#[test]
fn without_partial_commits_a_failure_stops_the_task() {
    let home = Home::new();
    fs::write(home.folder.path().join("redrive.toml"), "[recovery]\npartial_commit_enabled = false\n")
        .unwrap();
    fs::create_dir(home.folder.path().join("out")).unwrap();
    let ran = run(
        &home,
        r#"
parallel = 1
[recovery]
on_escalate = "rollback"
[[subtasks]]
id = "first"
snapshot = "out"
command = "echo 1 > out/first"
[[subtasks]]
id = "second"
depends_on = ["first"]
snapshot = "out"
overrides = { max_retries = 0 }
command = "echo 2 > out/second; exit 77"
[[subtasks]]
id = "third"
command = "sleep 0.3; touch third"
"#,
    );
    assert_eq!(ran.code, 1, "{ran}");
    let left: Vec<String> = fs::read_dir(home.folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with(".redrive"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "{ran}");
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

/// R-T3: a step that does not end when it is asked is killed, and its files are put back; also when it is done again later
/// and fails then.
#[test]
fn files_of_a_stubborn_step_are_not_lost() {
    let home = Home::new();
    planned(
        &home,
        r#"
[[subtasks]]
id = "stubborn"
snapshot = "work"
overrides = { max_retries = 0 }
command = "trap '' TERM INT; cat work/state >> seen; echo half > work/state; echo under way; [ -e go ] && exit 65; while :; do sleep 0.1; done"
"#,
    );
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/state"), "old\n").unwrap();
    let mut running = home.spawn("task run plan.toml", &[]);
    running.wait_for("under way");
    running.signal("INT");
    let ran = running.finish();
    assert_eq!(ran.code, 130, "{ran}");
    assert_eq!(file(&home, "work/state"), "old\n", "{ran}");
    // Stopped twice: there was no time to put anything back, and the step gets another job.
    let mut running = home.spawn("task resume plan.toml", &[]);
    running.wait_for("under way");
    running.signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(200));
    running.signal("INT");
    assert_eq!(running.finish().code, 130);
    // Killed without a chance to put anything back.
    let mut running = home.spawn("task resume plan.toml", &[]);
    running.wait_for("under way");
    running.signal("KILL");
    running.finish();
    assert_eq!(file(&home, "work/state"), "half\n");
    fs::write(home.folder.path().join("go"), "").unwrap();
    let ran = home.redrive("task resume plan.toml", &[]);
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(
        (file(&home, "seen"), file(&home, "work/state")),
        ("old\n".repeat(4), "old\n".to_owned()),
        "{ran}"
    );
}

/// R-T2: a plan that takes everything back keeps no part, also when nothing else says so.
#[test]
fn a_plan_that_takes_everything_back_keeps_no_part() {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("src")).unwrap();
    let ran = run(
        &home,
        r#"
[recovery]
on_escalate = "rollback"
[[subtasks]]
id = "one"
snapshot = "src"
command = "echo 1 > src/one"
[[subtasks]]
id = "two"
depends_on = ["one"]
overrides = { max_retries = 0 }
command = "exit 65"
"#,
    );
    assert_eq!(ran.code, 1, "{ran}");
    assert!(!home.folder.path().join("src/one").exists(), "{ran}");
    // R-T9: what a person was told stays in the trace, also when the task has gone on since.
    let told = |trace: &[Value]| {
        let last = trace.iter().rfind(|entry| entry["event"] == "ESCALATE_EXECUTED").unwrap();
        last["data"].clone()
    };
    let before = told(&trace(&home, "task-1"));
    assert!(!before["recommended_actions"].as_array().unwrap().is_empty(), "{before:#}");
    planned(&home, "[[subtasks]]\nid = \"one\"\ncommand = \"true\"\n");
    let ran = home.redrive("task resume task-1", &[]);
    assert_eq!(ran.code, 1, "{ran}");
    let executed: Vec<Value> =
        trace(&home, "task-1").into_iter().filter(|entry| entry["event"] == "ESCALATE_EXECUTED").collect();
    assert_eq!(executed.len(), 2, "{executed:#?}");
    assert_eq!(executed[0]["data"], before);
}

/// R-T2, R-P14: what a rollback would destroy of somebody else's is refused, and the person is told which file and what to type.
#[test]
fn a_rollback_that_meets_somebody_elses_change_is_refused() {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("src")).unwrap();
    let ran = run(
        &home,
        r#"
[[subtasks]]
id = "write"
snapshot = "src"
command = "echo draft > src/f"
[[subtasks]]
id = "test"
depends_on = ["write"]
blames = ["write"]
overrides = { max_retries = 0 }
command = "echo somebody > src/f; exit 65"
"#,
    );
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(file(&home, "src/f"), "somebody\n");
    for says in ["src/f", "redrive snapshot diff snap-job_1-", "--force"] {
        assert!(ran.stderr.contains(says), "{says}: {ran}");
    }
    let trace = trace(&home, "task-1");
    assert_eq!(
        names(&trace)[1..],
        ["RECOVERY_START", "RECOVERY_COMPLETE", "ESCALATE_EXECUTED"],
        "{trace:#?}"
    );
}

/// R-T3: what a step that runs, or a task that is not over, may have to put back is not pruned.
#[test]
fn a_snapshot_that_is_needed_is_not_pruned() {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("src")).unwrap();
    fs::write(home.folder.path().join("src/f"), "old\n").unwrap();
    planned(
        &home,
        r#"
[[subtasks]]
id = "first"
snapshot = "src"
command = "echo first > src/g"
[[subtasks]]
id = "second"
depends_on = ["first"]
snapshot = "src"
overrides = { max_retries = 0 }
command = "echo bad > src/f; echo under way; until [ -e go ]; do sleep 0.05; done; exit 65"
"#,
    );
    let mut running = home.spawn("task run plan.toml", &[]);
    running.wait_for("under way");
    let pruned = home.redrive("snapshot prune --older-than 0s", &[]);
    assert_eq!(pruned.code, 0, "{pruned}");
    fs::write(home.folder.path().join("go"), "").unwrap();
    let ran = running.finish();
    assert_eq!((ran.code, file(&home, "src/f").as_str()), (4, "old\n"), "{ran}");
    let kept = home.json("snapshot list");
    assert_eq!(kept["items"].as_array().unwrap().len(), 2, "{kept:#}");
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
