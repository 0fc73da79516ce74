//! What tasks do to files: put back, undone, taken back, never lost (R-T2, R-T3, R-P14, R-T9).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;
mod support;
mod task_home;

use std::fs;

use process_store::Home;
use serde_json::{Value, json};
use support::stored::is_sound;
use task_home::{file, names, planned, run, trace};

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
