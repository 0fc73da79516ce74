//! A store that is closed says so, to everybody, and loses nothing that it acknowledged.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::{EventFilter, EventSeq, JobId, LeaseRequest, LetterFilter, Trouble};

use crate::back_end::Given;
use crate::given::{Hand, at, job, wants};

/// Design §4
pub(crate) async fn afterwards_everything_is_refused(given: &Given) {
    let closed = given.another().await;
    let worker = Hand(&*closed).worker().await;
    closed.close().await.unwrap();
    closed.close().await.unwrap();
    let errors = [
        closed.enqueue(at(0), vec![job("a")]).await.err(),
        closed.lease(at(0), wants(worker, &["a"], 1)).await.err(),
        closed.job(JobId(1)).await.err(),
        closed.letters(LetterFilter::default(), 1).await.err(),
        closed.events(EventFilter::default(), 1).await.err(),
        closed.wait_for_events(EventSeq(0), Duration::from_secs(20)).await.err(),
        closed.status(at(0)).await.err(),
        closed.check().await.err(),
    ];
    for error in errors {
        let error = error.expect("it was answered");
        assert!(matches!(error.trouble(), Trouble::Closed), "{error}");
    }
}

/// Invariant I1: closed while many ask, each of them is answered, and what was acknowledged is there.
pub(crate) async fn whoever_is_under_way_has_an_answer(given: &Given) {
    let closing = given.another().await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let store = Arc::clone(&closing);
        callers.spawn(async move { store.enqueue(at(0), vec![job("a")]).await });
    }
    // Some are through, some are not.
    let first = callers.join_next().await.unwrap().unwrap();
    closing.close().await.unwrap();
    let mut added = vec![first.unwrap()[0].id];
    while let Some(told) = callers.join_next().await {
        match told.unwrap() {
            Ok(one) => added.push(one[0].id),
            Err(error) => assert!(matches!(error.trouble(), Trouble::Closed), "{error}"),
        }
    }
    for id in &added {
        assert!(given.store.job(*id).await.unwrap().is_some(), "{id} is lost");
    }
    let there = given.store.status(at(0)).await.unwrap().lanes[0].ready;
    assert_eq!(there, added.len() as u64, "refused, and there all the same");
}

/// Nobody waits at a closed door: with nothing, or with the word that it is closed.
pub(crate) async fn whoever_waits_is_answered(given: &Given) {
    let closing = given.another().await;
    let worker = Hand(&*closing).worker().await;
    let (its, follower) = (Arc::clone(&closing), Arc::clone(&closing));
    let request = LeaseRequest { wait: Duration::from_mins(10), ..wants(worker, &["a"], 1) };
    let waits = tokio::spawn(async move { its.lease(at(0), request).await });
    let follows =
        tokio::spawn(async move { follower.wait_for_events(EventSeq(9_999), Duration::from_mins(10)).await });
    Hand(&*closing).worker().await;
    closing.close().await.unwrap();
    let patient = Duration::from_secs(20);
    match tokio::time::timeout(patient, waits).await.expect("it waits on").unwrap() {
        Ok(leased) => assert!(leased.is_empty()),
        Err(error) => assert!(matches!(error.trouble(), Trouble::Closed), "{error}"),
    }
    match tokio::time::timeout(patient, follows).await.expect("it waits on").unwrap() {
        Ok(last) => assert!(last <= EventSeq(9_999)),
        Err(error) => assert!(matches!(error.trouble(), Trouble::Closed), "{error}"),
    }
}
