//! While unfinished work has a key, the same key answers with it (R-D1).

use std::sync::Arc;

use redrive_policy::Cause;
use redrive_store::{Enqueued, NewJob, Redriven};

use crate::back_end::Given;
use crate::given::{Hand, at, cancelled, dead, job, success, wants};

fn keyed(queue: &str) -> NewJob {
    NewJob { queue: queue.to_owned(), unique_key: Some("one".to_owned()), ..job("a") }
}

/// R-D1
pub(crate) async fn a_duplicate_answers_the_first_job(given: &Given) {
    let both = given.store.enqueue(at(0), vec![keyed("q"), keyed("q")]).await.unwrap();
    assert_eq!(both[1], Enqueued { id: both[0].id, existing: true });
    let hand = Hand(&*given.store);
    let before = hand.everything().await;
    let again = given.store.enqueue(at(5), vec![keyed("q")]).await.unwrap();
    assert_eq!(again, [Enqueued { id: both[0].id, existing: true }]);
    assert_eq!(hand.everything().await, before, "a duplicate leaves nothing");
    // Under a lease it is unfinished, too.
    let worker = hand.worker().await;
    let leased = hand.take(at(9), worker, &["a"]).await;
    assert!(given.store.enqueue(at(9), vec![keyed("q")]).await.unwrap()[0].existing);
    hand.done(at(9), leased.token, success()).await;
}

/// R-D1: the key is the queue's.
pub(crate) async fn each_queue_has_its_own(given: &Given) {
    let both = given.store.enqueue(at(0), vec![keyed("p"), keyed("q")]).await.unwrap();
    assert!(both.iter().all(|one| !one.existing));
    // Another kind of the same queue is no other key.
    let other = NewJob { kind: "b".to_owned(), ..keyed("p") };
    assert_eq!(given.store.enqueue(at(0), vec![other]).await.unwrap()[0].id, both[0].id);
}

/// R-D1: many callers over two handles make one job.
pub(crate) async fn a_race_has_one_winner(given: &Given) {
    let another = given.another().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..100 {
        let store = if number % 2 == 0 { Arc::clone(&given.store) } else { Arc::clone(&another) };
        calls.spawn(async move { store.enqueue(at(0), vec![keyed("q")]).await.unwrap()[0] });
    }
    let answers = calls.join_all().await;
    assert_eq!(answers.iter().filter(|one| !one.existing).count(), 1);
    assert!(answers.iter().all(|one| one.id == answers[0].id));
    another.close().await.unwrap();
}

/// R-D1
pub(crate) async fn freed_by_success_cancel_and_death(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    for ending in [success(), cancelled(), dead(Cause::Network, "gone")] {
        let id = hand.add(keyed("q")).await;
        let leased = hand.take(at(0), worker, &["a"]).await;
        assert_eq!(leased.token.job, id);
        hand.done(at(0), leased.token, ending).await;
    }
    let waiting = hand.add(keyed("q")).await;
    assert_eq!(given.store.cancel(at(0), waiting, "no".to_owned()).await.unwrap(), Some(true));
    hand.add(keyed("q")).await;
}

/// R-D8: a letter whose key is taken stays a letter, untouched, and goes back when the key is free.
pub(crate) async fn redrive_is_refused_while_the_key_is_taken(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let letter = hand.letter(at(0), worker, keyed("q"), Cause::Network).await;
    let living = hand.add(keyed("q")).await;
    let before = hand.everything().await;
    let refused = given.store.redrive(at(1), vec![letter], "redriven").await.unwrap();
    assert_eq!(refused, [Redriven::Duplicate { of: living }]);
    assert_eq!(hand.everything().await, before);
    let leased = given.store.lease(at(2), wants(worker, &["a"], 1)).await.unwrap();
    hand.done(at(2), leased[0].token, success()).await;
    assert_eq!(given.store.redrive(at(3), vec![letter], "redriven").await.unwrap(), [Redriven::Ready]);
    assert_eq!(given.store.enqueue(at(3), vec![keyed("q")]).await.unwrap()[0].id, letter);
}
