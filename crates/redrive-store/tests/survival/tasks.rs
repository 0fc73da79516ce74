//! A task that was damaged from outside is told of by `store check` (R-T1).

use redrive_store::{
    Housekeeping, NewTask, Sqlite, SqliteOptions, SubtaskState, TaskEnd, TaskState, TaskStep, Tasks,
};
use serde_json::json;

use crate::given::{Hand, at, job};

/// Two tasks, of which one goes on.
async fn fill(store: &Sqlite) {
    for is_over in [false, true] {
        let task = NewTask {
            name: "a task".to_owned(),
            place: None,
            plan: json!({ "a": 1 }),
            subtasks: 3,
            progress: json!({}),
        };
        let task = store.start_task(at(0), task).await.unwrap();
        let end = TaskEnd { state: TaskState::Partial, why: "enough".to_owned(), report: None };
        let step = TaskStep {
            task,
            version: 1,
            begin: vec![(0, job("a"))],
            mark: vec![(1, SubtaskState::Skipped)],
            progress: None,
            end: is_over.then_some(end),
            events: Vec::new(),
        };
        store.advance_task(at(1), step).await.unwrap().expect("the first step");
    }
}

/// R-T1: whatever does not agree with the rest of a task is found, and named.
#[tokio::test]
async fn what_was_damaged_is_found() {
    for (damage, said) in [
        (
            "UPDATE task SET started = 2 WHERE id = 1",
            "task-1 says waiting 1, started 2, succeeded 0, failed 0",
        ),
        ("UPDATE task SET waiting = 0 WHERE id = 2", "task-2 says waiting 0, started 1"),
        ("UPDATE subtask SET state = 2 WHERE task_id = 1 AND number = 1", "task-1 says waiting 1, started 1"),
        (
            "UPDATE subtask SET job_id = NULL WHERE task_id = 1",
            "subtask 0 of task-1 is started and has no job",
        ),
        ("INSERT INTO subtask VALUES (7, 0, 0, NULL, 0, NULL, NULL)", "there is a subtask 0 of task-7"),
        ("INSERT INTO subtask VALUES (1, 3, 0, NULL, 0, NULL, NULL)", "there is a subtask 3 of task-1"),
        ("DELETE FROM task_plan WHERE task_id = 2", "task-2 has no plan"),
        ("INSERT INTO task_plan VALUES (9, '{}')", "there is a plan of task-9, which does not exist"),
        ("UPDATE task SET ended_at = 5 WHERE id = 1", "task-1 is in state 0 and over"),
        ("UPDATE task SET ended_at = NULL WHERE id = 2", "task-2 is in state 2 and not over"),
        ("UPDATE task SET event = 9999 WHERE id = 1", "task-1 names event 9999, which is none of its own"),
        ("UPDATE task SET event = 1 WHERE id = 2", "task-2 names event 1, which is none of its own"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("redrive.db");
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        fill(&store).await;
        Hand(&store).clean().await;
        rusqlite::Connection::open(&path).unwrap().execute(damage, []).unwrap();
        let found = store.check().await.unwrap().violations;
        assert_eq!(found.len(), 1, "{damage}: {found:?}");
        assert_eq!(found[0].invariant, "tasks count their subtasks");
        assert!(found[0].what.starts_with(said), "{damage}: {}", found[0].what);
    }
}

/// R-T1: what is begun is found without a look at the rest of its task, a job's subtask without one at others, and what is old
/// without one at what is young.
#[test]
fn nothing_looks_at_what_grows() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    drop(Sqlite::open(&path, SqliteOptions::default()).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    for (text, index) in [
        (include_str!("../../src/sqlite/sql/subtask_begun.sql"), "subtask_started (task_id=?)"),
        (include_str!("../../src/sqlite/sql/subtask_of.sql"), "subtask_job (job_id=?)"),
        (include_str!("../../src/sqlite/sql/subtask_find.sql"), "(task_id=? AND number=?)"),
        (include_str!("../../src/sqlite/sql/task_old.sql"), "task_over (ended_at<?)"),
        (include_str!("../../src/sqlite/sql/ack_old.sql"), "escalation_ack_age (at<?)"),
    ] {
        let mut statement = raw.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let values = vec![1; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step.ends_with(index)), "{text}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.starts_with("SCAN")), "{text}: {steps:#?}");
    }
}

/// R-T1: one that is over may have outlived its events.
#[tokio::test]
async fn events_that_went_are_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
    fill(&store).await;
    while store.prune(at(9_000), at(8_000), at(0), 100).await.unwrap().more {}
    assert_eq!(store.tasks(false, None, 10).await.unwrap().len(), 2, "the newest stays");
    Hand(&store).clean().await;
}
