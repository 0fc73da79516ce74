//! What a dead worker leaves is taken over under a new fence, and goes through the same door (R-D2).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{JobState, LeaseRequest, NewJob, Settled, Settlement};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, SECOND, at, dead, job, released, retry_after, success, wants};

/// R-D2
pub(crate) async fn what_expired_is_taken_over(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let (worker, reaper) = (hand.worker().await, hand.worker().await);
    let lost = hand.take(at(0), worker, &["a"]).await;
    assert!(given.store.seize_expired(at(29_999), reaper, LEASE, 9).await.unwrap().is_empty());
    let seized = given.store.seize_expired(at(30_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!((seized.len(), seized[0].begun, seized[0].from), (1, true, worker));
    let leased = &seized[0].leased;
    assert_eq!((leased.token.job, leased.token.fence), (id, lost.token.fence + 1));
    assert_eq!((leased.attempt, leased.begun, leased.expires_at), (1, true, at(60_000)));
    assert_eq!(leased.job, lost.job);
    assert!(matches!(hand.record(id).await.state, JobState::Leased { worker: has, .. } if has == reaper));
    assert!(given.store.seize_expired(at(30_000), reaper, LEASE, 9).await.unwrap().is_empty());
    hand.done(at(30_000), leased.token, retry_after(Cause::Crashed, at(30_000), None)).await;
    let again = hand.take(at(30_000), worker, &["a"]).await;
    assert_eq!((again.attempt, again.retries, again.crashes), (2, 0, 1));
}

/// R-D2
pub(crate) async fn what_never_began_is_not_counted(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let (worker, reaper) = (hand.worker().await, hand.worker().await);
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 1) };
    given.store.lease(at(0), request).await.unwrap();
    let seized = given.store.seize_expired(at(30_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!((seized[0].begun, seized[0].leased.begun, seized[0].leased.attempt), (false, false, 1));
    hand.done(at(30_000), seized[0].leased.token, released()).await;
    let record = hand.record(id).await;
    assert_eq!((record.attempts, record.retries, record.crashes), (0, 0, 0));
    assert_eq!(hand.take(at(30_000), worker, &["a"]).await.attempt, 1);
}

/// Reliability row 15: a mass expiry is taken in bounded bites.
pub(crate) async fn at_most_so_many(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    given.store.enqueue(at(0), vec![job("a"); 25]).await.unwrap();
    given.store.lease(at(0), wants(worker, &["a"], 25)).await.unwrap();
    let now = at(30_000);
    let mut sizes = Vec::new();
    loop {
        let seized = given.store.seize_expired(now, worker, LEASE, 10).await.unwrap();
        if seized.is_empty() {
            break;
        }
        sizes.push(seized.len());
    }
    assert_eq!(sizes, [10, 10, 5]);
}

/// Reliability row 15: when the clock goes forward a year, for everybody or for one process alone, whoever lives keeps what
/// it has by its next heartbeat; what the dead had is taken over one lease later.
pub(crate) async fn a_clock_that_goes_forward_takes_nothing_from_the_living(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 2]).await.unwrap();
    let (lives, dies) = (hand.worker().await, hand.worker().await);
    let leased = given.store.lease(at(0), wants(lives, &["a"], 2)).await.unwrap();
    let held = hand.add(NewJob { held_for: Some(lives), ..job("b") }).await;
    let orphan = hand.add(NewJob { held_for: Some(dies), ..job("b") }).await;
    let year = 31_536_000_000;
    let reaper = given.store.register(at(year), "ahead".to_owned(), SECOND * 600).await.unwrap();
    for round in 0..10 {
        let now = round * 10_000;
        // Its own clock is right: it is the reaper who is ahead.
        given.store.renew(at(now), lives, SECOND * 60, vec![leased[0].token]).await.unwrap();
        let seized = given.store.seize_expired(at(year + now), reaper, LEASE, 9).await.unwrap();
        let taken: Vec<_> = seized.iter().map(|one| one.leased.job.id).collect();
        assert_eq!(taken, if now == 30_000 { vec![leased[1].job.id] } else { Vec::new() }, "after {now} ms");
        for one in seized {
            hand.done(at(year + now), one.leased.token, retry_after(Cause::Crashed, at(year + now), None))
                .await;
        }
    }
    hand.done(at(100_000), leased[0].token, success()).await;
    let freed = |state| matches!(state, JobState::Ready { held_for: None, .. });
    assert!(freed(hand.record(orphan).await.state) && !freed(hand.record(held).await.state));
}

/// Reliability rows 18 and 19
pub(crate) async fn a_zombie_settles_nothing(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let (worker, reaper) = (hand.worker().await, hand.worker().await);
    let zombie = hand.take(at(0), worker, &["a"]).await.token;
    let seized = given.store.seize_expired(at(30_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!(hand.settle(at(30_001), zombie, success()).await, Settled::Stale);
    hand.done(at(30_002), seized[0].leased.token, retry_after(Cause::Crashed, at(30_002), None)).await;
    assert_eq!(hand.settle(at(30_003), zombie, success()).await, Settled::Stale);
    let next = hand.take(at(30_004), worker, &["a"]).await;
    assert_eq!(hand.settle(at(30_005), zombie, success()).await, Settled::Stale);
    let mixed = [zombie, next.token].map(|token| Settlement { token, ending: success() });
    let settled = given.store.settle(at(30_006), mixed.to_vec()).await.unwrap();
    assert!(matches!(settled[..], [Settled::Stale, Settled::Done { .. }]));
    let mut told = hand.types(id).await;
    // What happens in one transaction has no order that counts.
    told[7..].sort();
    let expected = [
        "job_enqueued",
        "attempt_started",
        "stale_settle",
        "attempt_failed",
        "stale_settle",
        "attempt_started",
        "stale_settle",
        "attempt_succeeded",
        "stale_settle",
    ];
    assert_eq!(told, expected);
}

/// R-D1, R-D2: a job that was cancelled does not come back because its worker died before it heard of that.
pub(crate) async fn a_cancelled_job_is_over_with_its_lease(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 3]).await.unwrap();
    let (worker, reaper) = (hand.worker().await, hand.worker().await);
    let leased = given.store.lease(at(0), wants(worker, &["a"], 2)).await.unwrap();
    let unbegun = LeaseRequest { begin: false, ..wants(worker, &["a"], 1) };
    let unbegun = given.store.lease(at(0), unbegun).await.unwrap().remove(0);
    for id in [leased[0].job.id, unbegun.job.id] {
        given.store.cancel(at(1), id, "enough".to_owned()).await.unwrap();
    }
    let seized = given.store.seize_expired(at(30_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!(seized.iter().map(|one| one.leased.job.id).collect::<Vec<_>>(), [leased[1].job.id]);
    for id in [leased[0].job.id, unbegun.job.id] {
        assert_eq!(hand.record(id).await.state, JobState::Ended);
        assert_eq!(hand.types(id).await.pop().as_deref(), Some("job_cancelled"));
    }
    assert_eq!(hand.settle(at(30_001), leased[0].token, success()).await, Settled::Stale);
    hand.done(at(30_001), seized[0].leased.token, retry_after(Cause::Crashed, at(30_001), None)).await;
    assert_eq!(given.store.status(at(30_001)).await.unwrap().lanes[0].cancelled, 2);
}

/// Reliability row 16: after the clock went back a year, a lease lasts no longer than its own length.
pub(crate) async fn a_clock_that_goes_back_frees_leases_all_the_same(given: &Given) {
    let hand = Hand(&*given.store);
    hand.add(job("a")).await;
    let worker = given.store.register(at(0), "old".to_owned(), SECOND * 60).await.unwrap();
    let reserved = NewJob { held_for: Some(worker), ..job("b") };
    let held = hand.add(reserved).await;
    hand.take(at(0), worker, &["a"]).await;
    let year = 31_536_000_000;
    let reaper = given.store.register(at(-year), "new".to_owned(), SECOND * 600).await.unwrap();
    assert!(given.store.seize_expired(at(-year), reaper, LEASE, 9).await.unwrap().is_empty());
    let seized = given.store.seize_expired(at(-year + 30_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!(seized.len(), 1);
    hand.done(at(-year + 30_000), seized[0].leased.token, released()).await;
    given.store.seize_expired(at(-year + 60_000), reaper, LEASE, 9).await.unwrap();
    // Neither the lease nor the reservation outlives the old worker by a year. A job's own time is a promise to its
    // caller, and stays.
    assert!(given.store.workers(at(-year + 60_001)).await.unwrap().iter().all(|one| one.id == reaper));
    let JobState::Ready { held_for, .. } = hand.record(held).await.state else { panic!("not ready") };
    assert_eq!(held_for, None);
}

/// R-D2: a closure cannot run in another process, so its job is handed to the reaper.
pub(crate) async fn inline_work_dies_with_its_process(given: &Given) {
    let hand = Hand(&*given.store);
    let owner = given.store.register(at(0), "owner".to_owned(), SECOND * 10).await.unwrap();
    let reaper = given.store.register(at(0), "reaper".to_owned(), SECOND * 600).await.unwrap();
    let inline = NewJob { inline: true, held_for: Some(owner), ..job("closure") };
    let id = hand.add(inline).await;
    assert!(given.store.seize_expired(at(9_999), reaper, LEASE, 9).await.unwrap().is_empty());
    let seized = given.store.seize_expired(at(10_000), reaper, LEASE, 9).await.unwrap();
    assert_eq!((seized.len(), seized[0].leased.token.job, seized[0].begun), (1, id, false));
    assert_eq!((seized[0].from, seized[0].leased.job.inline), (owner, true));
    hand.done(at(10_000), seized[0].leased.token, dead(Cause::Crashed, "its process died")).await;
    let JobState::Dead(letter) = hand.record(id).await.state else { panic!("no letter") };
    assert_eq!((letter.attempts, letter.cause), (0, Cause::Crashed));
}

/// Reliability row 23: each death of a worker is counted once, whatever happens in between.
pub(crate) async fn a_job_that_kills_its_workers_is_counted(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("poison")).await;
    for death in 0..3_u32 {
        let now = at(i64::from(death) * 100_000);
        let after = now.after(Duration::from_secs(31));
        let worker = hand.worker().await;
        assert_eq!(hand.take(now, worker, &["poison"]).await.crashes, death);
        let seized = given.store.seize_expired(after, worker, LEASE, 9).await.unwrap();
        let token = seized[0].leased.token;
        if death == 2 {
            hand.done(after, token, dead(Cause::Crashed, "three workers died")).await;
        } else {
            hand.done(after, token, retry_after(Cause::Crashed, after, None)).await;
        }
    }
    let JobState::Dead(letter) = hand.record(id).await.state else { panic!("no letter") };
    assert_eq!((letter.attempts, letter.retries, letter.crashes), (3, 0, 2));
}
