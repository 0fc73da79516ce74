//! The replay of real histories notices what a log must not tell: each of its rules is broken once.

use redrive_policy::Cause;
use redrive_store::{Event, EventSeq, EventStatus, LeaseRequest, Sqlite, SqliteOptions, Store};
use serde_json::json;

use crate::given::history::{self, Writers};
use crate::given::{Hand, LEASE, at, cancelled, dead, job, released, retry, retry_after, success, wants};

/// A store in which every kind of step has been taken, as engines take them.
async fn lived(store: &dyn Store) {
    let hand = Hand(store);
    let (worker, reaper) = (hand.worker().await, hand.worker().await);
    // Job 1 fails, loses its worker, is given back, dies, is put back and succeeds.
    let first = hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(1), leased.token, retry(at(2))).await;
    let zombie = hand.take(at(2), worker, &["a"]).await;
    let seized = store.seize_expired(at(40_000), reaper, LEASE, 9).await.unwrap();
    hand.done(at(40_000), seized[0].leased.token, retry_after(Cause::Crashed, at(40_000), None)).await;
    hand.settle(at(40_001), zombie.token, success()).await;
    let leased = hand.take(at(40_002), worker, &["a"]).await;
    hand.done(at(40_003), leased.token, released()).await;
    store.run_now(at(40_003), first).await.unwrap();
    let leased = hand.take(at(40_004), worker, &["a"]).await;
    hand.done(at(40_005), leased.token, dead(Cause::Network, "over")).await;
    store.redrive(at(40_006), vec![first], "redriven").await.unwrap();
    let leased = hand.take(at(40_007), worker, &["a"]).await;
    hand.done(at(40_008), leased.token, success()).await;
    // Others end otherwise, or have not ended.
    hand.add(job("b")).await;
    let leased = hand.take(at(0), worker, &["b"]).await;
    hand.done(at(1), leased.token, cancelled()).await;
    hand.letter(at(0), worker, job("c"), Cause::Network).await;
    hand.add(job("d")).await;
    hand.take(at(0), worker, &["d"]).await;
    hand.add(job("e")).await;
    store.lease(at(0), LeaseRequest { begin: false, ..wants(worker, &["e"], 1) }).await.unwrap();
    hand.add(job("f")).await;
}

/// R-E1, invariants I1–I4: what the protocol forbids is told, whichever way the log came to say it.
#[tokio::test]
async fn a_log_that_tells_what_cannot_be_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&home.path().join("redrive.db"), SqliteOptions::default()).unwrap();
    lived(&store).await;
    let replay = history::replay(&store, Writers::Engines).await;
    replay.must_be_whole();
    assert_eq!((replay.jobs, replay.attempts, replay.succeeded, replay.stale), (6, 8, 1, 1));
    let causes: Vec<_> =
        replay.deaths.iter().map(|death| (death.cause.as_str(), death.standing.crashes)).collect();
    assert_eq!(causes, [("network", 1), ("network", 0)]);

    let events = history::all_events(&store).await;
    let place = |kind: &str, nth: usize| {
        let found = events.iter().enumerate().filter(|(_, event)| event.event_type == kind).nth(nth);
        found.expect("it happened").0
    };
    let noticed = |what: &str, tamper: &dyn Fn(&mut Vec<Event>)| {
        let mut events = events.clone();
        tamper(&mut events);
        relink(&mut events);
        let wrong = history::replay_events(&events, Writers::Engines).0.wrong;
        assert!(wrong.iter().any(|wrong| wrong.contains(what)), "not noticed: {what}: {wrong:#?}");
    };
    let repeated = |events: &mut Vec<Event>, kind: &str| {
        let at = place(kind, 0);
        events.insert(at + 1, events[at].clone());
    };
    noticed("the attempt before has not ended", &|events| repeated(events, "attempt_started"));
    noticed("the job is over", &|events| repeated(events, "attempt_succeeded"));
    noticed("or it had ended already", &|events| repeated(events, "attempt_failed"));
    noticed("put the dead letter back", &|events| drop(events.remove(place("redriven", 0))));
    noticed("no attempt had begun", &|events| drop(events.remove(place("attempt_started", 0))));
    noticed("tells of attempt 9", &|events| events[place("attempt_started", 1)].data["attempt"] = json!(9));
    noticed("tells of 7 retries", &|events| {
        events[place("attempt_failed", 1)].retry_info.as_mut().unwrap().retry_count = 7;
    });
    // Charged to the crash budget, it would not have been a retry.
    noticed("retries, the protocol counts 0", &|events| {
        events[place("attempt_failed", 0)].data["cause"] = json!("crashed");
    });
    noticed("leaves the job", &|events| events[place("job_dead", 0)].status = EventStatus::Success);
    noticed("no step that the protocol knows", &|events| {
        events[place("job_released", 0)].event_type = "job_vanished".to_owned();
    });
    let mut forked = events.clone();
    forked[place("attempt_started", 1)].parent = Some(events[0].seq);
    assert!(history::replay_events(&forked, Writers::Engines).0.wrong[0].contains("it follows"));
    let mut cut = events.clone();
    cut.remove(place("job_released", 0));
    assert_eq!(history::replay_events(&cut, Writers::Engines).0.cut.len(), 1);
}

/// Numbers the events anew and lets each follow the one before it in its story, so that only what was changed is wrong.
fn relink(events: &mut [Event]) {
    let mut latest = std::collections::HashMap::new();
    for (number, event) in events.iter_mut().enumerate() {
        event.seq = EventSeq(i64::try_from(number).unwrap() + 1);
        if event.event_type == "stale_settle" {
            continue;
        }
        event.parent = event.job.and_then(|job| latest.insert(job, event.seq));
    }
}
