//! Jobs come in whole or not at all (R-D1).

use std::sync::Arc;
use std::time::Duration;

use redrive_store::{JobId, JobState, MAX_BATCH, MAX_PAYLOAD_BYTES, NewJob, Origin, Refusal, Trouble};

use crate::back_end::Given;
use crate::given::{Hand, at, job, wants};

/// R-D1
pub(crate) async fn a_job_is_read_back_as_it_was_given(given: &Given) {
    let hand = Hand(&*given.store);
    let new = NewJob {
        queue: "mail".to_owned(),
        kind: "send".to_owned(),
        payload: vec![0, 159, 146, 150, 255],
        run_at: Some(at(5_000)),
        priority: -100,
        unique_key: Some("鍵".to_owned()),
        caller_id: Some("disclosure 7".to_owned()),
        policy: Some("api".to_owned()),
        overrides: Some("{\"max_retries\":1}".to_owned()),
        idempotency_key: Some("idem".to_owned()),
        timeout: Some(Duration::from_millis(1_500)),
        deadline_at: Some(at(90_000)),
        origin: Origin::Api,
        source: "importer".to_owned(),
        held_for: None,
        inline: false,
        parent: None,
        target: Some("far".to_owned()),
    };
    let id = hand.add(new.clone()).await;
    let record = hand.record(id).await;
    let read = record.job.unwrap();
    assert_eq!(
        (&read.queue, &read.kind, &read.payload, read.priority, &read.source),
        (&new.queue, &new.kind, &new.payload, -100, &new.source)
    );
    assert_eq!(
        (read.policy, read.overrides, read.caller_id, read.idempotency_key, read.unique_key, read.target),
        (new.policy, new.overrides, new.caller_id, new.idempotency_key, new.unique_key, new.target)
    );
    assert_eq!(
        (read.timeout, read.deadline_at, read.origin, read.inline, read.enqueued_at),
        (new.timeout, new.deadline_at, Origin::Api, false, at(0))
    );
    assert_eq!(record.state, JobState::Ready { run_at: at(5_000), held_for: None });
    assert_eq!((record.attempts, record.retries, record.crashes), (0, 0, 0));
    let story = hand.story(id).await;
    assert_eq!(story.len(), 1);
    assert_eq!((story[0].seq, story[0].source.as_str()), (record.event, "importer"));
    assert_eq!(story[0].data["caller_id"], "disclosure 7");
    let plain = hand.record(hand.add(job("plain")).await).await.job.unwrap();
    assert_eq!((plain.queue.as_str(), plain.source.as_str(), plain.priority), ("default", "plain", 0));
}

/// R-D1: one bad job, and none of the call is there.
pub(crate) async fn either_all_or_none(given: &Given) {
    let hand = Hand(&*given.store);
    let before = hand.everything().await;
    let bad = NewJob { priority: 101, ..job("a") };
    let error = given.store.enqueue(at(0), vec![job("a"), bad, job("b")]).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Refused(Refusal::BadPriority(101))), "{error}");
    assert_eq!(hand.everything().await, before);
    assert_eq!(given.store.job(JobId(1)).await.unwrap(), None);
}

/// R-D1, reliability row 26
pub(crate) async fn limits_are_kept(given: &Given) {
    let full = NewJob::new("a", vec![7; MAX_PAYLOAD_BYTES]);
    let long = "n".repeat(255);
    let named = NewJob { queue: long.clone(), unique_key: Some(long), ..job("a") };
    let lowest = NewJob { priority: -100, ..job("a") };
    let highest = NewJob { priority: 100, ..job("a") };
    let good = vec![full, named, lowest, highest];
    assert_eq!(given.store.enqueue(at(0), good).await.unwrap().len(), 4);
    let refused = [
        NewJob::new("a", vec![7; MAX_PAYLOAD_BYTES + 1]),
        NewJob { priority: -101, ..job("a") },
        job(""),
        job("line\nbreak"),
        NewJob { queue: "n".repeat(256), ..job("a") },
        NewJob { unique_key: Some(String::new()), ..job("a") },
        NewJob { caller_id: Some("\u{1b}[2J".to_owned()), ..job("a") },
        NewJob { source: "\0".to_owned(), ..job("a") },
    ];
    for new in refused {
        let error = given.store.enqueue(at(0), vec![new]).await.unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Refused(_)), "{error}");
        assert!(!error.may_pass());
    }
    let too_many = vec![job("a"); MAX_BATCH + 1];
    assert!(given.store.enqueue(at(0), too_many).await.is_err());
    let worker = Hand(&*given.store).worker().await;
    assert_eq!(given.store.lease(at(0), wants(worker, &["a"], 100)).await.unwrap().len(), 4);
}

/// R-D1: empty calls are answered, and leave nothing.
pub(crate) async fn nothing_at_all_is_fine(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let before = hand.everything().await;
    assert!(given.store.enqueue(at(0), Vec::new()).await.unwrap().is_empty());
    assert!(given.store.settle(at(0), Vec::new()).await.unwrap().is_empty());
    assert!(given.store.begin(at(0), Vec::new()).await.unwrap().is_empty());
    assert!(given.store.append(at(0), Vec::new()).await.unwrap().is_empty());
    assert!(given.store.redrive(at(0), Vec::new(), "redriven").await.unwrap().is_empty());
    assert!(given.store.lease(at(0), wants(worker, &[], 10)).await.unwrap().is_empty());
    assert_eq!(given.store.import(at(0), Vec::new(), Vec::new()).await.unwrap(), 0);
    assert_eq!(hand.everything().await, before);
}

/// One caller's bad row never fails its neighbours in the group.
pub(crate) async fn bad_calls_do_not_hurt_their_neighbours(given: &Given) {
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..400_i32 {
        let store = Arc::clone(&given.store);
        calls.spawn(async move {
            let priority = if number % 4 == 0 { 1_000 } else { 0 };
            let new = NewJob { priority, ..NewJob::new("a", number.to_string()) };
            (number, store.enqueue(at(0), vec![new]).await.is_ok())
        });
    }
    while let Some(call) = calls.join_next().await {
        let (number, good) = call.unwrap();
        assert_eq!(good, number % 4 != 0, "call {number}");
    }
    let worker = Hand(&*given.store).worker().await;
    assert_eq!(given.store.lease(at(0), wants(worker, &["a"], 1_000)).await.unwrap().len(), 300);
}
