//! Heartbeats keep leases and presence (R-D2).

use std::time::Duration;

use redrive_store::{JobState, LeaseToken, Renewal, Settled, Settlement};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, SECOND, at, job, success, wants};

/// R-D2, reliability row 22
pub(crate) async fn a_heartbeat_extends(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(leased.expires_at, at(30_000));
    for now in [29_000, 58_000, 87_000] {
        let told = given.store.renew(at(now), worker, SECOND * 60, vec![leased.token]).await.unwrap();
        assert_eq!(told, [Renewal::Extended]);
        assert!(given.store.seize_expired(at(now + 29_999), worker, LEASE, 9).await.unwrap().is_empty());
        let JobState::Leased { expires_at, .. } = hand.record(id).await.state else { panic!("lost") };
        assert_eq!(expires_at, at(now + 30_000));
    }
    assert_eq!(given.store.seize_expired(at(117_000), worker, LEASE, 9).await.unwrap().len(), 1);
}

/// R-D2, reliability row 18
pub(crate) async fn a_lost_lease_is_told(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 2]).await.unwrap();
    let worker = hand.worker().await;
    let leased = given.store.lease(at(0), wants(worker, &["a"], 2)).await.unwrap();
    hand.done(at(1), leased[0].token, success()).await;
    let seized = given.store.seize_expired(at(30_000), worker, LEASE, 9).await.unwrap();
    let stranger = LeaseToken { job: redrive_store::JobId(77), fence: 1 };
    let tokens = vec![leased[0].token, leased[1].token, seized[0].leased.token, stranger];
    let told = given.store.renew(at(30_000), worker, SECOND, tokens).await.unwrap();
    assert_eq!(told, [Renewal::Lost, Renewal::Lost, Renewal::Extended, Renewal::Lost]);
}

/// R-D1: who has the job hears that somebody wants it cancelled.
pub(crate) async fn a_wish_to_cancel_is_told(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(given.store.cancel(at(1), id, "stop".to_owned()).await.unwrap(), Some(false));
    let told = given.store.renew(at(2), worker, SECOND, vec![leased.token]).await.unwrap();
    assert_eq!(told, [Renewal::CancelRequested]);
    assert!(matches!(hand.record(id).await.state, JobState::Leased { cancel_requested: true, .. }));
    hand.done(at(3), leased.token, crate::given::cancelled()).await;
}

/// R-D2: a worker without a lease is present as long as it says so.
pub(crate) async fn presence_lasts_longer(given: &Given) {
    let minute = Duration::from_mins(1);
    let worker = given.store.register(at(0), "host:1".to_owned(), minute).await.unwrap();
    given.store.renew(at(50_000), worker, minute, Vec::new()).await.unwrap();
    let present = given.store.workers(at(109_999)).await.unwrap();
    assert_eq!((present[0].id, present[0].label.as_str()), (worker, "host:1"));
    assert_eq!(
        (present[0].started_at, present[0].seen_at, present[0].expires_at),
        (at(0), at(50_000), at(110_000))
    );
    assert!(given.store.workers(at(110_000)).await.unwrap().is_empty());
}

/// R-D3: any server on the store extends and ends a lease that was taken by another: what counts is the fence, not who asks.
pub(crate) async fn any_worker_may_renew_and_settle(given: &Given) {
    let hand = Hand(&*given.store);
    let (one, id) = (hand.worker().await, hand.add(job("a")).await);
    let leased = hand.take(at(0), one, &["a"]).await;
    let another = given.another().await;
    let other = another.register(at(0), "another server".to_owned(), Duration::from_mins(1)).await.unwrap();
    let renewed = another.renew(at(20_000), other, Duration::from_mins(1), vec![leased.token]).await.unwrap();
    assert_eq!(renewed, [Renewal::Extended]);
    let JobState::Leased { worker, expires_at, .. } = hand.record(id).await.state else { panic!("it runs") };
    assert_eq!((worker, expires_at), (one, at(20_000).after(LEASE)), "it is still the one's, for longer");
    // The one has gone; nobody takes what the other keeps.
    given.store.unregister(at(20_000), one).await.unwrap();
    assert!(another.seize_expired(at(45_000), other, LEASE, 10).await.unwrap().is_empty());
    let settlement = Settlement { token: leased.token, ending: success() };
    let settled = another.settle(at(46_000), vec![settlement]).await.unwrap();
    assert!(matches!(settled[0], Settled::Done { .. }), "{settled:?}");
    assert_eq!(hand.record(id).await.state, JobState::Ended);
    another.close().await.unwrap();
}
