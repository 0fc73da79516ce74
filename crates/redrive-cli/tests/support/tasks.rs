//! A store with tasks that stand still: one under way with every kind of subtask, one that needs a person, and one with
//! many subtasks.

use std::path::Path;
use std::time::Duration;

use redrive_policy::Policy;
use redrive_store::{
    Ending, Housekeeping, NewJob, NewTask, Settlement, Sqlite, SqliteOptions, SubtaskState, TaskEnd, TaskId,
    TaskState, TaskStep, Tasks, Timestamp, WorkerId, Workers,
};
use redrive_store::{LeasedJob, Leases};
use serde_json::{Value, json};

use super::stored::{Said, Seeded, at, lease, settle};

/// Makes it.
pub fn seeded_tasks() -> Seeded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(write(&path));
    Seeded { folder, path }
}

/// A subtask that is a handler's; a job's kind is its name, so that each can be leased by itself.
fn subtask(id: &str, depends_on: &[u32]) -> Value {
    json!({ "id": id, "depends_on": depends_on, "work": { "handler": { "kind": id, "payload": null } } })
}

fn task(name: &str, subtasks: &[Value]) -> NewTask {
    NewTask {
        name: name.to_owned(),
        place: Some(format!("/plans/{name}.toml")),
        plan: json!({ "plan": { "name": name, "queue": "default", "parallel": 4, "subtasks": subtasks }, "base": "/plans" }),
        subtasks: u32::try_from(subtasks.len()).expect("few"),
        progress: json!({}),
    }
}

fn step(task: TaskId, version: i64) -> TaskStep {
    TaskStep {
        task,
        version,
        begin: Vec::new(),
        mark: Vec::new(),
        progress: None,
        end: None,
        events: Vec::new(),
    }
}

fn begin(numbers: &[(u32, &str)]) -> Vec<(u32, NewJob)> {
    let job = |kind: &str| NewJob { source: kind.to_owned(), ..NewJob::new(kind, "null") };
    numbers.iter().map(|(number, kind)| (*number, job(kind))).collect()
}

async fn advance(store: &Sqlite, now: Timestamp, step: TaskStep) {
    store.advance_task(now, step).await.expect("written").expect("the version is right");
}

async fn succeed(store: &Sqlite, leased: &LeasedJob, now: Timestamp) {
    let ending = Ending::Succeeded {
        latency: Duration::from_secs(2),
        exit_code: Some(0),
        max_retries: 3,
        output: None,
    };
    store.settle(now, vec![Settlement { token: leased.token, ending }]).await.expect("settled");
}

async fn fail(store: &Sqlite, worker: WorkerId, kind: &str, words: &'static str, now: Timestamp) {
    let leased = lease(store, worker, kind, now).await;
    let said = Said { exit_code: None, words, status: None };
    settle(store, &leased, &Policy::standard(), said, now.after(Duration::from_secs(1))).await;
}

async fn write(path: &Path) {
    let store = Sqlite::open(path, SqliteOptions::default()).expect("a store");
    let worker = store.register(at(0), "a worker".into(), Duration::from_secs(3600)).await.expect("a worker");
    under_way(&store, worker).await;
    needs_a_person(&store, worker).await;
    many(&store, worker).await;
    store.close().await.expect("closed");
}

/// task-1: a diamond with something of everything.
async fn under_way(store: &Sqlite, worker: WorkerId) {
    let subtasks = [
        subtask("outline", &[]),
        subtask("write", &[0]),
        subtask("draw", &[0]),
        subtask("test", &[1, 2]),
        subtask("publish", &[3]),
        subtask("notes", &[0]),
        subtask("mail", &[5]),
    ];
    let id = store.start_task(at(400), task("release", &subtasks)).await.expect("a task");
    advance(store, at(400), TaskStep { begin: begin(&[(0, "outline")]), ..step(id, 1) }).await;
    succeed(store, &lease(store, worker, "outline", at(401)).await, at(403)).await;
    let begun = begin(&[(1, "write"), (2, "draw"), (5, "notes")]);
    let mark = vec![(0, SubtaskState::Succeeded)];
    advance(store, at(403), TaskStep { begin: begun, mark, ..step(id, 2) }).await;
    lease(store, worker, "write", at(404)).await;
    let leased = lease(store, worker, "draw", at(470)).await;
    let slow = redrive_policy::Override {
        initial: Some(Duration::from_secs(60)),
        cap: Some(Duration::from_secs(60)),
        ..redrive_policy::Override::default()
    };
    let said = Said { exit_code: None, words: "connection refused", status: None };
    settle(store, &leased, &Policy::standard().with_override(&slow), said, at(471)).await;
    fail(store, worker, "notes", "ValueError: the heading is missing \u{1b}[31m", at(472)).await;
    let mark = vec![(5, SubtaskState::Failed), (6, SubtaskState::Skipped)];
    advance(store, at(474), TaskStep { mark, ..step(id, 3) }).await;
}

/// task-2: a chain whose first part failed for good.
async fn needs_a_person(store: &Sqlite, worker: WorkerId) {
    let subtasks = [subtask("fetch", &[]), subtask("load", &[0]), subtask("check", &[1])];
    let id = store.start_task(at(420), task("import", &subtasks)).await.expect("a task");
    advance(store, at(420), TaskStep { begin: begin(&[(0, "fetch")]), ..step(id, 1) }).await;
    fail(store, worker, "fetch", "401 Unauthorized: token expired", at(421)).await;
    let report = json!({
        "task_id": id, "subtask_id": "fetch", "escalated_at": at(423), "level": 3, "lang": "en",
        "fatal_error": "AUTHENTICATION_FAILED",
        "reason": { "type": "FATAL_ERROR", "description": "Non-retryable failure: FATAL_ERROR" },
        "failure_summary": {
            "total_attempts": 1, "failure_types": ["FATAL_ERROR"],
            "last_failure": {
                "type": "FATAL_ERROR", "message": "401 Unauthorized: token expired", "timestamp": at(422),
            },
        },
        "user_message": "\"import\" failed with an error it cannot recover from.\n\nError: The other side refused the credentials. (401 Unauthorized: token expired)\n\nDetails: redrive trace task-2",
        "debug_info": {
            "retry_history": [{
                "attempt_number": 1, "timestamp": at(422), "failure_type": "FATAL_ERROR", "cause": "auth_error",
                "error_message": "401 Unauthorized: token expired", "duration_ms": 1000,
            }],
            "trace_file": "redrive:trace/task-2", "relevant_logs": [],
        },
        "recommended_actions": ["Check the key, the password or the token."],
    });
    let mark = vec![(0, SubtaskState::Failed), (1, SubtaskState::Skipped), (2, SubtaskState::Skipped)];
    let why = "fetch failed for good".to_owned();
    let end = Some(TaskEnd { state: TaskState::Escalated, why, report: Some(report) });
    advance(store, at(423), TaskStep { mark, end, ..step(id, 2) }).await;
}

/// task-3: too many to be drawn.
async fn many(store: &Sqlite, worker: WorkerId) {
    let subtasks: Vec<Value> = (0..200).map(|n| subtask(&format!("part-{n:03}"), &[])).collect();
    let id = store.start_task(at(430), task("backfill", &subtasks)).await.expect("a task");
    let names: Vec<String> = (150..155).map(|n| format!("part-{n}")).collect();
    let begun: Vec<(u32, &str)> = (150..).zip(names.iter().map(String::as_str)).collect();
    let mark = (0..150).map(|number| (number, SubtaskState::Succeeded)).collect();
    advance(store, at(430), TaskStep { begin: begin(&begun), mark, ..step(id, 1) }).await;
    lease(store, worker, "part-151", at(440)).await;
    fail(store, worker, "part-150", "ValueError: row 7 is short", at(441)).await;
    advance(store, at(443), TaskStep { mark: vec![(150, SubtaskState::Failed)], ..step(id, 2) }).await;
}
