//! Workers come, are present, go; what is reserved for one is never lost with it (R-D2, invariant I7).

use redrive_policy::Cause;
use redrive_store::{JobId, JobState, LeaseRequest, NewJob, WorkerId};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, SECOND, at, dead, job, released, retry_after, success, wants};

fn reserved(worker: WorkerId) -> NewJob {
    NewJob { held_for: Some(worker), ..job("a") }
}

/// R-D2: a fresh incarnation each time.
pub(crate) async fn presence_ends(given: &Given) {
    let first = given.store.register(at(0), "same".to_owned(), SECOND).await.unwrap();
    let second = given.store.register(at(0), "same".to_owned(), SECOND * 5).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(given.store.workers(at(999)).await.unwrap().len(), 2);
    assert_eq!(given.store.workers(at(1_000)).await.unwrap()[0].id, second);
    assert_eq!(given.store.status(at(1_000)).await.unwrap().workers, 1);
    given.store.unregister(at(1_000), second).await.unwrap();
    given.store.unregister(at(1_000), second).await.unwrap();
    assert!(given.store.workers(at(0)).await.unwrap().iter().all(|one| one.id == first));
}

/// R-D2
pub(crate) async fn reserved_work_is_for_one_worker(given: &Given) {
    let hand = Hand(&*given.store);
    let (owner, other) = (hand.worker().await, hand.worker().await);
    let id = hand.add(reserved(owner)).await;
    assert!(given.store.lease(at(0), wants(other, &["a"], 9)).await.unwrap().is_empty());
    let request = LeaseRequest { reserved_only: true, ..wants(owner, &[], 9) };
    let leased = given.store.lease(at(0), request.clone()).await.unwrap();
    assert_eq!(leased[0].token.job, id);
    hand.done(at(0), leased[0].token, retry_after(Cause::Network, at(500), Some(owner))).await;
    assert_eq!(hand.record(id).await.state, JobState::Ready { run_at: at(500), held_for: Some(owner) });
    assert!(given.store.lease(at(600), wants(other, &["a"], 9)).await.unwrap().is_empty());
    assert!(given.store.seize_expired(at(59_999), other, LEASE, 9).await.unwrap().is_empty());
    assert!(given.store.lease(at(600), wants(other, &["a"], 9)).await.unwrap().is_empty());
    // Its presence lapses: now everybody sees it, once somebody has looked.
    given.store.seize_expired(at(60_000), other, LEASE, 9).await.unwrap();
    assert_eq!(hand.record(id).await.state, JobState::Ready { run_at: at(500), held_for: None });
    let leased = hand.take(at(60_000), other, &["a"]).await;
    assert_eq!((leased.token.job, leased.attempt, leased.retries), (id, 2, 1));
    hand.done(at(60_000), leased.token, success()).await;
}

/// R-D2
pub(crate) async fn leaving_frees_what_was_reserved(given: &Given) {
    let hand = Hand(&*given.store);
    let (owner, other) = (hand.worker().await, hand.worker().await);
    let id = hand.add(reserved(owner)).await;
    given.store.unregister(at(0), owner).await.unwrap();
    let leased = hand.take(at(0), other, &["a"]).await;
    assert_eq!(leased.token.job, id);
    hand.done(at(0), leased.token, success()).await;
}

/// Invariant I7: the worker was taken for gone, wakes, and settles with a reservation for itself, or never was there.
pub(crate) async fn a_reservation_for_a_stranger_does_not_strand_the_job(given: &Given) {
    let hand = Hand(&*given.store);
    let sleeper = given.store.register(at(0), "sleeper".to_owned(), SECOND).await.unwrap();
    let other = hand.worker().await;
    let put_back = hand.add(job("a")).await;
    let leased = hand.take(at(0), sleeper, &["a"]).await;
    given.store.seize_expired(at(2_000), other, LEASE, 9).await.unwrap();
    hand.done(at(3_000), leased.token, retry_after(Cause::Network, at(3_000), Some(sleeper))).await;
    let unknown = hand.add_at(at(3_000), reserved(WorkerId(9_999_999))).await;
    hand.clean().await;
    given.store.seize_expired(at(3_000), other, LEASE, 9).await.unwrap();
    let leased = given.store.lease(at(3_000), wants(other, &["a"], 9)).await.unwrap();
    let mut ids: Vec<JobId> = leased.iter().map(|leased| leased.token.job).collect();
    ids.sort();
    assert_eq!(ids, [put_back, unknown]);
}

/// R-D2
pub(crate) async fn inline_work_left_behind_is_seized(given: &Given) {
    let hand = Hand(&*given.store);
    let (owner, reaper) = (hand.worker().await, hand.worker().await);
    let id = hand.add(NewJob { inline: true, ..reserved(owner) }).await;
    given.store.unregister(at(0), owner).await.unwrap();
    let seized = given.store.seize_expired(at(1), reaper, LEASE, 9).await.unwrap();
    assert_eq!((seized.len(), seized[0].leased.token.job), (1, id));
    hand.done(at(1), seized[0].leased.token, dead(Cause::Crashed, "left behind")).await;
    given.store.seize_expired(at(2), reaper, LEASE, 9).await.unwrap();
    assert!(given.store.workers(at(2)).await.unwrap().iter().all(|one| one.id != owner));
}

/// R-D2
pub(crate) async fn released_work_stays_reserved(given: &Given) {
    let hand = Hand(&*given.store);
    let (owner, other) = (hand.worker().await, hand.worker().await);
    let id = hand.add(reserved(owner)).await;
    let leased = hand.take(at(0), owner, &["a"]).await;
    hand.done(at(5), leased.token, released()).await;
    assert_eq!(hand.record(id).await.state, JobState::Ready { run_at: at(5), held_for: Some(owner) });
    assert!(given.store.lease(at(9), wants(other, &["a"], 9)).await.unwrap().is_empty());
    assert_eq!(hand.take(at(9), owner, &["a"]).await.attempt, 1);
}

/// Work that was reserved, never begun, and set free leaves nothing behind, however it ends.
pub(crate) async fn freed_work_can_end(given: &Given) {
    let hand = Hand(&*given.store);
    let other = hand.worker().await;
    for ending in [success(), dead(Cause::Network, "x")] {
        let owner = hand.worker().await;
        let id = hand.add(reserved(owner)).await;
        given.store.unregister(at(0), owner).await.unwrap();
        let leased = hand.take(at(0), other, &["a"]).await;
        hand.done(at(0), leased.token, ending).await;
        hand.clean().await;
        given.store.redrive(at(1), vec![id], "redriven").await.unwrap();
        hand.clean().await;
    }
}

/// R-D2, reliability row 18: a process that slept past its presence and speaks again keeps what is reserved for it.
pub(crate) async fn who_was_taken_for_gone_comes_back(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = given.store.register(at(0), "sleepy".to_owned(), SECOND).await.unwrap();
    let other = hand.worker().await;
    given.store.seize_expired(at(5_000), other, LEASE, 9).await.unwrap();
    assert!(given.store.workers(at(5_000)).await.unwrap().iter().all(|one| one.id != worker));
    given.store.renew(at(6_000), worker, SECOND, Vec::new()).await.unwrap();
    assert!(given.store.workers(at(6_000)).await.unwrap().iter().any(|one| one.id == worker));
    let held = hand.add(NewJob { held_for: Some(worker), ..job("a") }).await;
    given.store.seize_expired(at(6_999), other, LEASE, 9).await.unwrap();
    assert_eq!(hand.record(held).await.state, JobState::Ready { run_at: at(0), held_for: Some(worker) });
    given.store.seize_expired(at(7_000), other, LEASE, 9).await.unwrap();
    assert_eq!(hand.record(held).await.state, JobState::Ready { run_at: at(0), held_for: None });
}
