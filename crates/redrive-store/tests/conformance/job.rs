//! The life of jobs outside a lease: looked up, hurried, cancelled (R-D1).

use redrive_policy::Cause;
use redrive_store::{JobId, JobState, NewJob, RunNow};

use crate::back_end::Given;
use crate::given::{Hand, at, job, retry, success, wants};

/// R-D4: a person need not wait for the policy.
pub(crate) async fn run_now_makes_it_due(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, retry(at(60_000))).await;
    assert!(given.store.lease(at(1), wants(worker, &["a"], 1)).await.unwrap().is_empty());
    assert_eq!(given.store.run_now(at(2), id).await.unwrap(), RunNow::Due);
    assert_eq!(hand.record(id).await.state, JobState::Ready { run_at: at(2), held_for: None });
    let again = hand.take(at(2), worker, &["a"]).await;
    assert_eq!((again.attempt, again.retries, again.token.fence), (2, 1, 2));
    let said = hand.types(id).await;
    assert_eq!(said[2..], ["attempt_failed", "manual_retry", "attempt_started"]);
}

/// R-D4
pub(crate) async fn run_now_answers_for_every_state(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let letter = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    let ended = hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, success()).await;
    let running = hand.add(job("a")).await;
    hand.take(at(0), worker, &["a"]).await;
    let before = hand.everything().await;
    assert_eq!(given.store.run_now(at(1), letter).await.unwrap(), RunNow::Dead);
    assert_eq!(given.store.run_now(at(1), ended).await.unwrap(), RunNow::Ended);
    assert_eq!(given.store.run_now(at(1), running).await.unwrap(), RunNow::Running);
    assert_eq!(given.store.run_now(at(1), JobId(404)).await.unwrap(), RunNow::Unknown);
    assert_eq!(hand.everything().await, before);
}

/// R-D1
pub(crate) async fn cancel_answers_for_every_state(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let why = || "no".to_owned();
    let waiting = hand.add(NewJob { run_at: Some(at(9_000)), ..job("a") }).await;
    assert_eq!(given.store.cancel(at(1), waiting, why()).await.unwrap(), Some(true));
    assert_eq!(hand.types(waiting).await, ["job_enqueued", "job_cancelled"]);
    assert_eq!(given.store.cancel(at(1), waiting, why()).await.unwrap(), Some(true));
    assert_eq!(hand.types(waiting).await.len(), 2);
    let running = hand.add(job("a")).await;
    hand.take(at(0), worker, &["a"]).await;
    assert_eq!(given.store.cancel(at(1), running, why()).await.unwrap(), Some(false));
    assert_eq!(given.store.cancel(at(1), JobId(404), why()).await.unwrap(), None);
    assert!(given.store.lease(at(9_000), wants(worker, &["a"], 9)).await.unwrap().is_empty());
}

/// R-C1: `work --until-empty` ends when nothing of its own is left.
pub(crate) async fn unfinished_knows_queues_and_kinds(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert!(!given.store.unfinished(Vec::new(), Vec::new()).await.unwrap());
    hand.letter(at(0), worker, job("dead"), Cause::Network).await;
    assert!(!given.store.unfinished(Vec::new(), Vec::new()).await.unwrap());
    hand.add(NewJob { queue: "q".to_owned(), run_at: Some(at(99_999)), ..job("a") }).await;
    for (queues, kinds, expected) in [
        (own(&[]), own(&[]), true),
        (own(&["q"]), own(&["a", "z"]), true),
        (own(&["default"]), own(&[]), false),
        (own(&["q"]), own(&["b"]), false),
    ] {
        let said = given.store.unfinished(queues.clone(), kinds.clone()).await.unwrap();
        assert_eq!(said, expected, "{queues:?} {kinds:?}");
    }
    let leased = hand.take(at(99_999), worker, &["a"]).await;
    assert!(given.store.unfinished(Vec::new(), Vec::new()).await.unwrap());
    hand.done(at(99_999), leased.token, success()).await;
    assert!(!given.store.unfinished(Vec::new(), Vec::new()).await.unwrap());
}

/// A job that was hurried before its first attempt leaves nothing behind when it ends.
pub(crate) async fn a_job_run_now_ends_without_a_trace(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(NewJob { run_at: Some(at(9_000)), ..job("a") }).await;
    given.store.run_now(at(1), id).await.unwrap();
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(1), leased.token, success()).await;
    assert_eq!(hand.record(id).await.state, JobState::Ended);
}
