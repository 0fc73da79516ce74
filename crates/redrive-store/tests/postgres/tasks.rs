//! Tasks in a database: sealed anew with everything else (R-D7), told of when they were damaged (R-T1), and moved on by many at
//! once (reliability row 39).

use std::sync::Arc;

use redrive_store::{
    Housekeeping, KeyRing, NewEvent, NewTask, Postgres, PostgresOptions, SubtaskState, Task, TaskEnd, TaskId,
    TaskState, TaskStep, Tasks,
};
use redrive_testing::shared;
use serde_json::json;

use crate::given::{Hand, at, job};
use crate::ground::{bounded, open, psql};

fn a_task(subtasks: u32) -> NewTask {
    let (plan, progress) = (json!({ "input": "canary-plan" }), json!({ "so": "canary-far" }));
    NewTask { name: "a task".to_owned(), place: None, plan, subtasks, progress }
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

/// Two tasks, of which one goes on and one was escalated and seen.
async fn fill(store: &Postgres) -> Vec<Task> {
    for is_over in [false, true] {
        let task = store.start_task(at(0), a_task(3)).await.unwrap();
        let end = TaskEnd {
            state: TaskState::Escalated,
            why: "canary-because".to_owned(),
            report: Some(json!("canary-report")),
        };
        let begin = vec![(0, job("a"))];
        let mark = vec![(1, SubtaskState::Skipped)];
        let step = TaskStep { begin, mark, end: is_over.then_some(end), ..step(task, 1) };
        store.advance_task(at(1), step).await.unwrap().expect("the first step");
        store.acknowledge(at(2), task.to_string(), Some("canary-seen".to_owned())).await.unwrap();
    }
    store.tasks(false, None, 10).await.unwrap()
}

/// R-D7: a rotation goes through tasks as through everything else, and the new key alone opens them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_sealed_anew() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let [old, new] = ["old", "new"].map(|id| KeyRing::generate(id).unwrap());
    let open = async |lines: &[&str]| {
        let keys = Some(KeyRing::parse("test", &lines.join("\n")).unwrap());
        let schema = Some(schema.clone());
        let options = PostgresOptions { schema, caller_clock: true, keys, ..PostgresOptions::default() };
        Postgres::open(shared.url(), options).await.unwrap()
    };
    let cells = |like: &str| -> Vec<String> {
        let cells = [
            ("task", "progress"),
            ("task", "why"),
            ("task", "report"),
            ("task_plan", "plan"),
            ("escalation_ack", "note"),
        ];
        let count = |(table, column): (&str, &str)| {
            psql(shared.url(), &format!("SELECT count(*) FROM {schema}.{table} WHERE {column} LIKE '{like}'"))
        };
        cells.into_iter().map(count).collect()
    };
    let store = open(&[&old]).await;
    let before = fill(&store).await;
    assert_eq!(cells("sealed:rdv1:old:%"), ["2", "1", "1", "2", "2"], "the control");
    assert_eq!(cells("%canary%"), ["0"; 5]);
    store.close().await.unwrap();
    let store = open(&[&new, &old]).await;
    let rotation = async {
        loop {
            let round = store.reseal(at(3), 1).await.unwrap();
            if round.over {
                break round;
            }
        }
    };
    assert_eq!(bounded("the rotation", rotation).await.retired, ["old"]);
    store.close().await.unwrap();
    assert_eq!(cells("sealed:rdv1:new:%"), ["2", "1", "1", "2", "2"]);
    let store = open(&[&new]).await;
    assert_eq!(store.tasks(false, None, 10).await.unwrap(), before);
    let seen = before.iter().map(|task| task.id.to_string()).collect();
    let notes: Vec<_> = store.acknowledged(seen).await.unwrap().into_iter().map(|ack| ack.note).collect();
    assert_eq!(notes, [Some("canary-seen".to_owned()), Some("canary-seen".to_owned())]);
    Hand(&store).clean().await;
    psql(shared.url(), &format!("UPDATE {schema}.task_plan SET plan = '{{}}' WHERE task_id = 1"));
    let found = store.check().await.unwrap().violations;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.starts_with("task_plan.plan of row 1 "), "{found:?}");
    store.close().await.unwrap();
}

/// R-T1: whatever does not agree with the rest of a task is found, and named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_damaged_is_found() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    fill(&store).await;
    Hand(&store).clean().await;
    // Each damage with what mends it.
    for (damage, mends, said) in [
        (
            "UPDATE task SET started = 2 WHERE id = 1",
            "UPDATE task SET started = 1 WHERE id = 1",
            "task-1 says waiting 1, started 2",
        ),
        (
            "UPDATE task SET waiting = 0 WHERE id = 2",
            "UPDATE task SET waiting = 1 WHERE id = 2",
            "task-2 says waiting 0",
        ),
        (
            "INSERT INTO subtask VALUES (7, 0, 0, NULL, 0, NULL, NULL)",
            "DELETE FROM subtask WHERE task_id = 7",
            "there is a subtask 0 of task-7",
        ),
        (
            "INSERT INTO task_plan VALUES (9, '{}')",
            "DELETE FROM task_plan WHERE task_id = 9",
            "there is a plan of task-9",
        ),
        (
            "UPDATE task SET ended_at = 5 WHERE id = 1",
            "UPDATE task SET ended_at = NULL WHERE id = 1",
            "task-1 is in state 0 and over",
        ),
        ("UPDATE task SET event = -event", "UPDATE task SET event = -event", "task-1 names event"),
    ] {
        let at_home = |sql: &str| psql(shared.url(), &format!("SET search_path = {schema}; {sql}"));
        at_home(damage);
        let found = store.check().await.unwrap().violations;
        assert_eq!(found.len(), 1, "{damage}: {found:?}");
        assert_eq!(found[0].invariant, "tasks count their subtasks");
        assert!(found[0].what.starts_with(said), "{damage}: {}", found[0].what);
        at_home(mends);
        Hand(&store).clean().await;
    }
    store.close().await.unwrap();
}

/// Row 39, R-T1: however many move the same task on, each step is done once, and its events stand in the order of the steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_move_one_task_on() {
    const SUBTASKS: u32 = 40;
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let stores = [open(shared.url(), &schema).await, open(shared.url(), &schema).await].map(Arc::new);
    let task = stores[0].start_task(at(0), a_task(SUBTASKS)).await.unwrap();
    let mut movers = tokio::task::JoinSet::new();
    for mover in 0..4 {
        let store = Arc::clone(&stores[mover % 2]);
        movers.spawn(async move {
            let mut steps = 0;
            loop {
                let now = store.task(task).await.unwrap().unwrap();
                let Some(number) = SUBTASKS.checked_sub(now.counts[0]).filter(|next| *next < SUBTASKS) else {
                    return steps;
                };
                let told = NewEvent {
                    event_type: "step".to_owned(),
                    source: "mover".to_owned(),
                    ..NewEvent::default()
                };
                let begin = vec![(number, job("a"))];
                let wish = TaskStep { begin, events: vec![told], ..step(task, now.version) };
                steps += u32::from(store.advance_task(at(1), wish).await.unwrap().is_some());
            }
        });
    }
    let steps: Vec<u32> = bounded("moving on", movers.join_all()).await;
    assert_eq!(steps.iter().sum::<u32>(), SUBTASKS, "{steps:?}");
    let now = stores[0].task(task).await.unwrap().unwrap();
    assert_eq!((now.counts[1], now.version), (SUBTASKS, 1 + i64::from(SUBTASKS)));
    // Its story is one chain through every step, from the last back to the first.
    let story = redrive_store::Events::causality(&*stores[0], now.event, 1_000).await.unwrap();
    assert_eq!(story.len(), 1 + SUBTASKS as usize);
    assert!(story.is_sorted_by_key(|event| event.seq), "a step stands before the one that led to it");
    Hand(&*stores[0]).clean().await;
    for store in stores {
        store.close().await.unwrap();
    }
}
