//! What goes on is found page by page: every task and every redrive, however many there are (R-T1, R-D8).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{JobId, NewRun, OpenRun, OpenTask, RunId, TaskEnd, TaskId, TaskState, TaskStep};
use serde_json::json;

use crate::back_end::Given;
use crate::given::{Hand, at, dead, job, retry, success};
use crate::tasks::{new_task, step};

const HOLD: Duration = Duration::from_secs(10);

async fn task(given: &Given) -> TaskId {
    given.store.start_task(at(0), new_task(None, 2)).await.unwrap()
}

/// What another than `holder` would see of the tasks after this one.
async fn tasks(given: &Given, now: i64, holder: i64, after: Option<TaskId>, limit: u32) -> Vec<OpenTask> {
    given.store.open_tasks(at(now), holder, after, limit).await.unwrap()
}

/// R-T1: pages follow each other by id, and those that are over are in none.
pub(crate) async fn tasks_are_found_page_by_page(given: &Given) {
    assert_eq!(tasks(given, 0, 1, None, 9).await, []);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(task(given).await);
    }
    let end = TaskEnd { state: TaskState::Cancelled, why: "enough".to_owned(), report: None };
    let ends = TaskStep { end: Some(end), ..step(ids[2], 1) };
    given.store.advance_task(at(1), ends).await.unwrap().unwrap();
    let found = async |after, limit| {
        let page = tasks(given, 2, 1, after, limit).await;
        page.into_iter().map(|open| open.id).collect::<Vec<_>>()
    };
    assert_eq!(found(None, 9).await, [ids[0], ids[1], ids[3], ids[4]]);
    assert_eq!(found(None, 2).await, [ids[0], ids[1]]);
    assert_eq!(found(Some(ids[1]), 2).await, [ids[3], ids[4]]);
    assert_eq!(found(Some(ids[4]), 2).await, []);
}

/// R-T1: a page says whether somebody else has a task, by the rules of who takes it.
pub(crate) async fn who_has_a_task_is_seen(given: &Given) {
    let id = task(given).await;
    let held = async |now, holder| tasks(given, now, holder, None, 9).await[0].held;
    assert!(!held(0, 2).await, "nobody has it");
    given.store.hold_task(at(0), id, 1, HOLD).await.unwrap().unwrap();
    assert!(held(9_999, 2).await);
    assert!(!held(9_999, 1).await, "it is ours");
    assert!(!held(10_000, 2).await, "its time is over");
    assert!(!held(-5 * 24 * 3_600_000, 2).await, "whoever holds it for days has another clock");
    given.store.hold_task(at(20_000), id, 1, Duration::ZERO).await.unwrap().unwrap();
    assert!(!held(20_000, 2).await, "it was let go");
}

/// R-T1: a page says whether a task only waits: something of it is begun, and none of that is over, however it ended.
pub(crate) async fn who_only_waits_is_seen(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let waits = async || tasks(given, 0, 1, None, 9).await[0].waits;
    let id = task(given).await;
    assert!(!waits().await, "nothing is begun yet");
    let first_step = TaskStep { begin: vec![(0, job("a")), (1, job("b"))], ..step(id, 1) };
    let begun: Vec<JobId> = given.store.advance_task(at(0), first_step).await.unwrap().unwrap().jobs;
    assert!(waits().await, "both wait for a worker");
    let leased = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(leased.job.id, begun[0]);
    assert!(waits().await, "one runs");
    hand.done(at(1), leased.token, retry(at(5))).await;
    assert!(waits().await, "it is tried again");
    let leased = hand.take(at(5), worker, &["a"]).await;
    hand.done(at(6), leased.token, dead(Cause::Network, "gone")).await;
    assert!(!waits().await, "it is a letter");
    given.store.redrive(at(7), vec![begun[0]], "redrive").await.unwrap();
    assert!(waits().await, "it was put back");
    let leased = hand.take(at(8), worker, &["b"]).await;
    hand.done(at(9), leased.token, success()).await;
    assert!(!waits().await, "the other is done");
    assert_eq!(tasks(given, 9, 1, None, 9).await[0].version, 2);
}

/// R-D8: the same for redrives.
pub(crate) async fn runs_are_found_page_by_page(given: &Given) {
    let start = async || {
        let run = NewRun { wanted_by: "somebody".to_owned(), plan: json!({}), progress: json!({}) };
        given.store.start_run(at(0), run).await.unwrap()
    };
    let runs = async |now, holder, after: Option<RunId>, limit| -> Vec<OpenRun> {
        given.store.open_runs(at(now), holder, after, limit).await.unwrap()
    };
    assert_eq!(runs(0, 1, None, 9).await, []);
    let ids = [start().await, start().await, start().await, start().await];
    assert!(given.store.cancel_run(at(1), ids[1], "enough".to_owned()).await.unwrap());
    given.store.hold_run(at(1), ids[2], 1, HOLD).await.unwrap().unwrap();
    let version = async |id| given.store.run(id).await.unwrap().unwrap().version;
    let (first, third, last) = (version(ids[0]).await, version(ids[2]).await, version(ids[3]).await);
    let open = |at: usize, version, held| OpenRun { id: ids[at], version, held };
    assert_eq!(
        runs(2, 2, None, 9).await,
        [open(0, first, false), open(2, third, true), open(3, last, false)]
    );
    assert_eq!(runs(2, 1, Some(ids[0]), 1).await, [open(2, third, false)], "it is ours");
    assert_eq!(runs(10_001, 2, Some(ids[0]), 1).await, [open(2, third, false)], "its time is over");
    assert_eq!(runs(2, 1, Some(ids[3]), 9).await, []);
}
