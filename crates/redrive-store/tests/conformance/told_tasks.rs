//! Tasks that a person was told of: partial ones, and those that cannot go on (R-T7).

use redrive_store::{NewTask, TaskEnd, TaskId, TaskState, TaskStep};
use serde_json::{Value, json};

use crate::back_end::Given;
use crate::given::at;

async fn started(given: &Given) -> TaskId {
    let task = NewTask {
        name: "build".to_owned(),
        place: None,
        plan: json!({}),
        subtasks: 1,
        progress: Value::Null,
    };
    given.store.start_task(at(0), task).await.unwrap()
}

/// R-T7: tasks that a person was told of are found, those that ended last first, a page at a time.
pub(crate) async fn those_that_people_were_told_of_are_found(given: &Given) {
    let store = &given.store;
    let mut told = Vec::new();
    for (n, state) in [
        (1, TaskState::Escalated),
        (2, TaskState::Succeeded),
        (3, TaskState::Partial),
        (4, TaskState::Cancelled),
        (3, TaskState::Escalated),
    ] {
        let id = started(given).await;
        let report = Some(json!({ "user_message": "help" }));
        let end = TaskEnd { state, why: "enough".to_owned(), report };
        let step = TaskStep {
            task: id,
            version: 1,
            begin: Vec::new(),
            mark: Vec::new(),
            progress: None,
            end: Some(end),
            events: Vec::new(),
        };
        store.advance_task(at(n), step).await.unwrap().expect("the version is the right one");
        if matches!(state, TaskState::Escalated | TaskState::Partial) {
            told.push((at(n), id));
        }
    }
    started(given).await;
    told.sort_unstable();
    told.reverse();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.told_tasks(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.ended_at, last.id));
        found.extend(page);
    }
    assert_eq!(found.iter().map(|task| (task.ended_at, task.id)).collect::<Vec<_>>(), told);
    let first = &found[0];
    assert_eq!((first.name.as_str(), first.state), ("build", TaskState::Escalated));
    assert_eq!(first.why.as_deref(), Some("enough"));
    assert_eq!(first.report, Some(json!({ "user_message": "help" })));
    // One that goes on again is no escalation any more.
    store.reopen_task(at(9), first.id, 2, json!({}), Vec::new()).await.unwrap().unwrap();
    let left = store.told_tasks(None, 10).await.unwrap();
    assert_eq!(left.iter().map(|task| (task.ended_at, task.id)).collect::<Vec<_>>(), told[1..]);
}
