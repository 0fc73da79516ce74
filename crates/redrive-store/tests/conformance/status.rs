//! Counts come from counters, and they are right after everything (design §4).

use redrive_policy::Cause;
use redrive_store::{LaneCounts, NewJob};

use crate::back_end::Given;
use crate::given::{Hand, at, cancelled, dead, job, released, retry, success, wants};

/// R-C4
pub(crate) async fn counters_follow_everything(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let on = |queue: &str| NewJob { queue: queue.to_owned(), ..job("a") };
    given.store.enqueue(at(0), vec![on("p"); 8]).await.unwrap();
    let leased = given.store.lease(at(5), wants(worker, &["a"], 7)).await.unwrap();
    let endings = [
        success(),
        success(),
        cancelled(),
        dead(Cause::Network, "x"),
        dead(Cause::AuthError, "y"),
        retry(at(60_000)),
    ];
    for (leased, ending) in leased.iter().zip(endings) {
        hand.done(at(5), leased.token, ending).await;
    }
    let scheduled = NewJob { run_at: Some(at(9_000)), priority: 3, ..on("q") };
    let waiting = hand.add(scheduled.clone()).await;
    hand.add(scheduled).await;
    hand.add(NewJob { run_at: Some(at(7)), ..on("q") }).await;
    given.store.cancel(at(6), waiting, "no".to_owned()).await.unwrap();
    let status = given.store.status(at(10)).await.unwrap();
    let p = LaneCounts {
        queue: "p".to_owned(),
        kind: "a".to_owned(),
        ready: 2,
        scheduled: 1,
        leased: 1,
        dead: 2,
        succeeded: 2,
        cancelled: 1,
        oldest_due: Some(at(0)),
        paused_at: None,
    };
    let q = LaneCounts {
        queue: "q".to_owned(),
        kind: "a".to_owned(),
        ready: 2,
        scheduled: 1,
        leased: 0,
        dead: 0,
        succeeded: 0,
        cancelled: 1,
        oldest_due: Some(at(7)),
        paused_at: None,
    };
    assert_eq!(status.lanes, [p, q]);
    assert_eq!((status.dead_letters, status.retry_candidates, status.workers), (2, 1, 1));
    assert_eq!(status.by_cause.into_iter().collect::<Vec<_>>().len(), 2);
    assert_eq!(status.failed_events, 2, "two were cancelled");
    assert_eq!(status.events, 11 + 7 + 6 + 1);
    hand.done(at(20), leased[6].token, released()).await;
    assert_eq!(given.store.status(at(20)).await.unwrap().lanes[0].leased, 0);
}

/// R-C4: what waits for one worker alone waits all the same.
pub(crate) async fn what_is_reserved_is_seen(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let reserved = |run_at| NewJob { run_at: Some(at(run_at)), held_for: Some(worker), ..job("a") };
    for run_at in [3, 4, 9_000] {
        hand.add(reserved(run_at)).await;
    }
    hand.add(NewJob { run_at: Some(at(8_000)), ..job("a") }).await;
    let lane = given.store.status(at(10)).await.unwrap().lanes.remove(0);
    assert_eq!((lane.ready, lane.scheduled, lane.oldest_due), (4, 2, Some(at(3))));
}
