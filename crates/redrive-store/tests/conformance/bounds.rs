//! Everything is bounded (design invariant 8): one call is one transaction, in which nobody else gets a turn.

use redrive_store::{
    JobId, LeaseToken, MAX_BATCH, MAX_PLACE_BYTES, MAX_PLAN_BYTES, NewJob, NewTask, Refusal, Scrap,
    Settlement, StoreError, TaskEnd, TaskState, TaskStep, Trouble,
};
use serde_json::json;

use crate::back_end::Given;
use crate::given::{Hand, SECOND, at, job, success, wants};
use crate::import::imported;
use crate::tasks::{new_task, read, refusal, step};

fn is_too_many<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    let refused = Refusal::TooMany { count: MAX_BATCH + 1, most: MAX_BATCH };
    assert!(matches!(error.trouble(), Trouble::Refused(why) if *why == refused), "{error}");
}

/// Design invariant 8
pub(crate) async fn a_call_takes_no_more_than_a_batch(given: &Given) {
    let (hand, store) = (Hand(&*given.store), &given.store);
    hand.add(job("a")).await;
    let worker = hand.worker().await;
    let token = LeaseToken { job: JobId(1), fence: 1 };
    let many = MAX_BATCH + 1;
    is_too_many(store.begin(at(0), vec![token; many]).await);
    is_too_many(store.renew(at(0), worker, SECOND, vec![token; many]).await);
    is_too_many(store.settle(at(0), vec![Settlement { token, ending: success() }; many]).await);
    is_too_many(store.redrive(at(0), vec![JobId(1); many], "redrive").await);
    let scrap = Scrap { origin: String::new(), line: 1, why: String::new(), text: Vec::new() };
    is_too_many(store.import(at(0), vec![imported("x", None, 0)], vec![scrap; MAX_BATCH]).await);
    let mut request = wants(worker, &["a"], usize::MAX);
    request.begin = false;
    assert_eq!(store.lease(at(0), request).await.unwrap().len(), 1);
    assert_eq!(store.begin(at(0), vec![token; MAX_BATCH]).await.unwrap().len(), MAX_BATCH);
}

/// R-T1, reliability 47: what is too much is refused with words, before anything is written.
pub(crate) async fn a_task_takes_no_more_than_it_may(given: &Given) {
    let store = &given.store;
    let before = Hand(&**store).everything().await;
    let long = "x".repeat(MAX_PLAN_BYTES);
    let plan = NewTask { plan: json!(long), ..new_task(None, 1) };
    let bytes = MAX_PLAN_BYTES + 2;
    let too_large = |what| Refusal::TooLarge { what, bytes, most: MAX_PLAN_BYTES };
    assert_eq!(refusal(store.start_task(at(0), plan).await), too_large("the plan"));
    let progress = NewTask { progress: json!(long), ..new_task(None, 1) };
    assert_eq!(refusal(store.start_task(at(0), progress).await), too_large("the progress"));
    let place = "p".repeat(MAX_PLACE_BYTES + 1);
    let far = store.start_task(at(0), new_task(Some(&place), 1)).await;
    assert!(matches!(refusal(far), Refusal::TooLarge { what: "the place of the plan", .. }));
    let nameless = NewTask { name: String::new(), ..new_task(None, 1) };
    assert!(matches!(refusal(store.start_task(at(0), nameless).await), Refusal::BadName { .. }));
    assert_eq!(Hand(&**store).everything().await, before);
    let id = store.start_task(at(0), new_task(Some(&place[1..]), 1)).await.unwrap();
    let many = TaskStep { begin: vec![(0, job("a")); MAX_BATCH + 1], ..step(id, 1) };
    let too_many = Refusal::TooMany { count: MAX_BATCH + 1, most: MAX_BATCH };
    assert_eq!(refusal(store.advance_task(at(0), many).await), too_many);
    let wish = TaskStep { progress: Some(json!(long)), ..step(id, 1) };
    assert_eq!(refusal(store.advance_task(at(0), wish).await), too_large("the progress"));
    let report = Some(json!(long));
    let end = TaskEnd { state: TaskState::Escalated, why: String::new(), report };
    let wish = TaskStep { end: Some(end), ..step(id, 1) };
    assert_eq!(refusal(store.advance_task(at(0), wish).await), too_large("the report"));
    let bad = TaskStep { begin: vec![(0, NewJob { priority: 101, ..job("a") })], ..step(id, 1) };
    assert_eq!(refusal(store.advance_task(at(0), bad).await), Refusal::BadPriority(101));
    let reopened = store.reopen_task(at(0), id, 1, json!(long), Vec::new()).await;
    assert_eq!(refusal(reopened), too_large("the progress"));
    assert_eq!(read(given, id).await.version, 1);
    let asked = store.acknowledged(vec!["x".to_owned(); MAX_BATCH + 1]).await;
    assert_eq!(refusal(asked), too_many);
}
