//! Workers that die: what they began is charged, what they had not begun is not, and a clock that jumps kills nobody.

use std::time::Duration;

use redrive::Cause;
use redrive_store::{
    Claimed, JobState, KeyClaim, KeyHold, KeyState, LeaseRequest, LeasedJob, LetterReason, NewItem, NextSend,
    SendEnd, StoredResponse, WorkerId,
};

use crate::support::{World, run};

async fn register(world: &World) -> WorkerId {
    let store = world.engine.store();
    store.register(world.engine.now(), "test".into(), Duration::from_secs(30)).await.unwrap()
}

/// Leases as a worker that then dies.
async fn lease_and_die(world: &World, begin: bool) -> LeasedJob {
    let request = LeaseRequest {
        worker: register(world).await,
        queues: Vec::new(),
        kinds: vec!["poison".into()],
        reserved_only: false,
        max: 1,
        lease_for: Duration::from_secs(30),
        begin,
        wait: Duration::ZERO,
    };
    world.engine.store().lease(world.engine.now(), request).await.unwrap().pop().expect("a lease")
}

/// R-D2, reliability row 23: a job that kills its workers is a letter after its crash budget of three.
#[test]
fn a_job_that_kills_its_workers_ends_as_a_letter() {
    run(async {
        let world = World::new();
        let job = world.engine.job("poison", &()).enqueue().await.unwrap().id;
        let reaper = register(&world).await;
        for death in 1..=4 {
            lease_and_die(&world, true).await;
            world.clock.advance(Duration::from_secs(31));
            assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 1, "death {death}");
            world.clock.advance(Duration::from_mins(10));
        }
        let letter = world.letter(job).await;
        assert_eq!((letter.reason, letter.cause), (LetterReason::Crashed, Cause::Crashed));
        assert_eq!((letter.attempts, letter.crashes, letter.retries), (4, 3, 0));
        assert!(
            letter.error_message.contains("stopped answering during attempt 4"),
            "{}",
            letter.error_message
        );
    });
}

/// R-D2: a lease that was never begun is not counted.
#[test]
fn a_lease_that_never_began_counts_nothing() {
    run(async {
        let world = World::new();
        let job = world.engine.job("poison", &()).enqueue().await.unwrap().id;
        lease_and_die(&world, false).await;
        world.clock.advance(Duration::from_secs(31));
        let maintained = world.engine.maintain(register(&world).await).await.unwrap();
        assert_eq!((maintained.reaped, maintained.released), (0, 1));
        let record = world.engine.store().job(job).await.unwrap().unwrap();
        assert!(matches!(record.state, JobState::Ready { .. }));
        assert_eq!((record.attempts, record.crashes), (0, 0));
    });
}

/// Reliability row 15: after a jump of the clock the living have the time of a lease to renew theirs.
#[test]
fn a_clock_that_jumps_takes_nobodys_lease() {
    run(async {
        let world = World::new();
        world.engine.job("poison", &()).enqueue().await.unwrap();
        let leased = lease_and_die(&world, true).await;
        world.clock.jump_to(world.engine.now().after(Duration::from_hours(24 * 365)));
        let reaper = register(&world).await;
        let maintained = world.engine.maintain(reaper).await.unwrap();
        assert!(maintained.clock_jumped_ms.is_some_and(|millis| millis > 31_000_000_000));
        assert_eq!(maintained.reaped, 0);
        assert!(matches!(world.state(leased.job.id).await, JobState::Leased { .. }));
        let events = world
            .engine
            .query(
                redrive_store::EventFilter { types: vec!["clock_jumped".into()], ..Default::default() },
                10,
            )
            .await
            .unwrap();
        assert_eq!(events.len(), 1);
        // Once more for its own length, should its worker live; then it is taken for dead.
        world.clock.advance(Duration::from_secs(31));
        assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 0);
        world.clock.advance(Duration::from_secs(31));
        assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 1);
    });
}

/// Reliability row 15: the living have the time of their own lease, also when that is a long one.
#[test]
fn after_a_jump_long_leases_have_a_long_time() {
    run(async {
        let world = World::new();
        let job = world.engine.job("poison", &()).enqueue().await.unwrap().id;
        let shutdown = redrive::engine::Shutdown::new();
        let stop = shutdown.clone();
        let worker = world
            .worker()
            .lease_for(Duration::from_mins(10))
            .handle("poison", |(): (), _: redrive::engine::Context| {
                std::future::pending::<Result<(), redrive::Fail>>()
            });
        let task = tokio::spawn(async move { worker.run(&stop).await });
        crate::support::until(|| async { matches!(world.state(job).await, JobState::Leased { .. }) }).await;
        world.clock.jump_to(world.engine.now().after(Duration::from_hours(24 * 365)));
        let reaper = register(&world).await;
        // Its next heartbeat comes after three minutes; until then nobody takes what it has.
        for _ in 0..5 {
            assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 0);
            world.clock.advance(Duration::from_secs(31));
        }
        shutdown.now();
        assert_eq!(task.await.unwrap().unwrap().released, 1);
    });
}

/// R-D6, reliability rows 15 and 16: letters go when they are old, but not by a clock that only this process believes.
#[test]
fn a_wrong_clock_prunes_nothing() {
    run(async {
        let world = World::new();
        let job = world.engine.job("poison", &()).enqueue().await.unwrap().id;
        world
            .worker()
            .handle("poison", |(): (), _cx| async { Err::<(), _>(redrive::fail(Cause::AuthError, "no")) })
            .run_until_empty()
            .await
            .unwrap();
        let year = Duration::from_hours(24 * 365);
        world.clock.advance(year);
        let wrong = world.another(|builder| builder);
        wrong.emit("note", "test").await.unwrap();
        let reaper = register(&world).await;
        assert_eq!(wrong.maintain(reaper).await.unwrap().letters_pruned, 0);
        world.letter(job).await;

        // It stays that late, and work goes on: it was right.
        world.clock.advance(Duration::from_hours(2));
        assert_eq!(wrong.maintain(reaper).await.unwrap().letters_pruned, 1);
    });
}

fn key(name: &str) -> KeyClaim {
    KeyClaim {
        principal: "alice".to_owned(),
        key: name.to_owned(),
        endpoint: "POST /".to_owned(),
        request_hash: "hash".to_owned(),
        hold_for: Duration::from_secs(30),
        keep_for: Duration::from_hours(1),
        rerun: false,
        job: None,
    }
}

async fn taken(world: &World, name: &str) -> KeyHold {
    match world.engine.store().claim_key(world.engine.now(), key(name)).await.unwrap() {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("{other:?}"),
    }
}

/// R-I2, R-I4, reliability rows 15 and 16: any worker finds keys whose holder fell silent and forgets those whose time is over, but
/// not by a clock that only this process believes.
#[test]
fn workers_keep_keys_in_order() {
    run(async {
        let world = World::new();
        let store = world.engine.store();
        let reaper = register(&world).await;
        taken(&world, "silent").await;
        let hold = taken(&world, "answered").await;
        let answer = StoredResponse { status: 200, headers: Vec::new(), body: Some(b"x".to_vec()) };
        let keep_for = Duration::from_hours(1);
        store.complete_key(world.engine.now(), hold, answer, keep_for).await.unwrap();

        // A process that starts in the wrong year forgets nothing.
        world.clock.advance(Duration::from_hours(24 * 365));
        let wrong = world.another(|builder| builder);
        let maintained = wrong.maintain(reaper).await.unwrap();
        assert_eq!((maintained.keys_lapsed, maintained.keys_forgotten), (0, 0));
        assert!(store.key(hold.record).await.unwrap().is_some());

        // It stays that late, and keys are taken: it was right.
        let late = taken(&world, "late").await;
        world.clock.advance(Duration::from_hours(2));
        let maintained = wrong.maintain(reaper).await.unwrap();
        assert_eq!((maintained.keys_lapsed, maintained.keys_forgotten), (2, 1));
        assert!(store.key(hold.record).await.unwrap().is_none());
        let (record, _) = store.key(late.record).await.unwrap().expect("it is remembered");
        assert_eq!(record.state, KeyState::UnknownOutcome);
        // What is unknown is remembered for as long as the default says, and then forgotten.
        world.clock.advance(Duration::from_hours(71));
        assert_eq!(wrong.maintain(reaper).await.unwrap().keys_forgotten, 0);
        taken(&world, "later").await;
        world.clock.advance(Duration::from_hours(2));
        assert_eq!(wrong.maintain(reaper).await.unwrap().keys_forgotten, 2);
    });
}

/// R-I7: what the outbox has sent is forgotten with the events of that time, and nothing else of it.
#[test]
fn workers_forget_what_was_sent_long_ago() {
    run(async {
        let world = World::new();
        let store = world.engine.store();
        let reaper = register(&world).await;
        for name in ["sent", "waits"] {
            let call = serde_json::json!({});
            let item = NewItem { lane: "far".into(), key: name.into(), call, call_hash: "hash".into() };
            store.add_item(world.engine.now(), item).await.unwrap();
        }
        let now = world.engine.now();
        assert!(store.hold_lane(now, "far".into(), 1, Duration::from_secs(30)).await.unwrap());
        let NextSend::Item(item) = store.begin_send(now, "far".into(), 1).await.unwrap() else {
            panic!("there is one")
        };
        assert!(store.end_send(now, item.id, 1, SendEnd::Sent, None, None).await.unwrap());
        for (days, forgotten) in [(29, 0), (2, 1)] {
            world.clock.advance(Duration::from_hours(24 * days - 2));
            world.engine.emit("note", "test").await.unwrap();
            world.clock.advance(Duration::from_hours(2));
            assert_eq!(world.engine.maintain(reaper).await.unwrap().items_forgotten, forgotten, "{days}");
        }
        assert_eq!(store.pending_lanes().await.unwrap(), ["far"]);
    });
}
