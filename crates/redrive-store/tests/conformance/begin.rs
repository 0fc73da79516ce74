//! An attempt counts once its execution begins, and once only (R-D2).

use redrive_policy::Cause;
use redrive_store::{JobState, LeaseRequest, LeaseToken, NewJob};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, at, dead, job, success, wants};

/// R-D2: the answer to the first time may have been lost.
pub(crate) async fn twice_is_once(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 1) };
    let leased = given.store.lease(at(0), request).await.unwrap();
    for now in [10, 20] {
        assert_eq!(given.store.begin(at(now), vec![leased[0].token]).await.unwrap(), [true]);
        let record = hand.record(id).await;
        assert_eq!(record.attempts, 1);
        let JobState::Leased { begun_at, fence, .. } = record.state else { panic!("it is leased") };
        assert_eq!((begun_at, fence), (Some(at(10)), leased[0].token.fence));
    }
    assert_eq!(hand.types(id).await, ["job_enqueued", "attempt_started"]);
    hand.done(at(30), leased[0].token, success()).await;
}

/// R-D2, invariant I2
pub(crate) async fn a_lost_lease_does_not_begin(given: &Given) {
    let hand = Hand(&*given.store);
    hand.add(job("a")).await;
    let worker = hand.worker().await;
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 1) };
    let old = given.store.lease(at(0), request).await.unwrap()[0].token;
    let new = given.store.seize_expired(at(60_000), worker, LEASE, 1).await.unwrap()[0].leased.token;
    let before = hand.everything().await;
    assert_eq!(given.store.begin(at(60_000), vec![old]).await.unwrap(), [false]);
    assert_eq!(hand.everything().await, before);
    hand.done(at(60_000), new, success()).await;
    assert_eq!(given.store.begin(at(60_000), vec![old, new]).await.unwrap(), [false, false]);
}

/// R-D2
pub(crate) async fn each_token_has_its_answer(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 3]).await.unwrap();
    let worker = hand.worker().await;
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 3) };
    let leased = given.store.lease(at(0), request).await.unwrap();
    let mut tokens: Vec<_> = leased.iter().map(|leased| leased.token).collect();
    tokens.insert(1, LeaseToken { fence: 9, ..tokens[0] });
    tokens.push(LeaseToken { job: redrive_store::JobId(999), fence: 1 });
    assert_eq!(given.store.begin(at(0), tokens).await.unwrap(), [true, false, true, true, false]);
}

/// R-D1, R-D2: past its deadline nothing begins, however early it was leased; what has begun has begun.
pub(crate) async fn past_the_deadline_it_is_refused(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let urgent = NewJob { deadline_at: Some(at(1_000)), ..job("a") };
    given.store.enqueue(at(0), vec![urgent; 2]).await.unwrap();
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 2) };
    let leased = given.store.lease(at(0), request).await.unwrap();
    let tokens: Vec<_> = leased.iter().map(|leased| leased.token).collect();
    assert_eq!(given.store.begin(at(999), vec![tokens[0]]).await.unwrap(), [true]);
    assert_eq!(given.store.begin(at(1_000), tokens.clone()).await.unwrap(), [true, false]);
    assert_eq!(hand.record(tokens[1].job).await.attempts, 0);
    hand.done(at(1_000), tokens[1], dead(Cause::Timeout, "too late")).await;
}
