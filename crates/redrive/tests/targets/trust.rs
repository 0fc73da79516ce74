//! Whose word counts about a target: our own processes' about a host, a worker's about its queue and its key.

use std::time::Duration;

use redrive::engine::TargetLimits;

use super::support::{Elsewhere, World, call, http, run};

/// R-P15, Security: a worker elsewhere that says of calls which nobody saw that they failed stops nobody else from calling the
/// host. What it says of a key is believed.
#[test]
fn a_worker_elsewhere_is_not_heard_about_a_host() {
    run(async {
        let world = World::new();
        let engine = world.engine("[targets.\"key:mine\"]\nof_at_least = 5\n", 3);
        let other = world.engine("[targets.\"key:mine\"]\nof_at_least = 5\n", 4);
        let (elsewhere, another) = (Elsewhere::new(&engine).await, Elsewhere::new(&other).await);
        for settles in [&elsewhere, &another] {
            let jobs = (0..30).map(|_| http("https://api.example.com/orders")).collect();
            world.store.enqueue(engine.now(), jobs).await.unwrap();
            let had = elsewhere.take(100).await;
            assert_eq!(had.len(), 30);
            settles.end(had, false).await;
            let seen = engine.target("host:api.example.com").await.unwrap().unwrap();
            assert_eq!((seen.phase.name(), seen.standing.calls), ("closed", 0), "{seen:?}");
        }
        let jobs = (0..8).map(|_| call("mine")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        let had = elsewhere.take(8).await;
        elsewhere.end(had, false).await;
        assert_eq!(engine.target("key:mine").await.unwrap().unwrap().phase.name(), "open");
    });
}

/// R-P15, Security: who leases calls for hours and makes none of them takes no place and no turn of the host away.
#[test]
fn a_worker_elsewhere_takes_no_place_of_a_host() {
    run(async {
        let world = World::new();
        let engine = world.engine("", 3);
        let limits = TargetLimits { concurrency: Some(2), ..TargetLimits::default() };
        engine.limit_target("host:api.example.com", limits).await.unwrap();
        let elsewhere = Elsewhere::new(&engine).await;
        let jobs = (0..5).map(|_| http("https://api.example.com/")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        assert_eq!(elsewhere.take(5).await.len(), 5);
        let ours = engine.store().register(engine.now(), "ours".to_owned(), Duration::from_hours(9)).await;
        let jobs = (0..3).map(|_| http("https://api.example.com/")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        let asked = redrive_store::LeaseRequest {
            worker: ours.unwrap(),
            queues: Vec::new(),
            kinds: Vec::new(),
            reserved_only: false,
            max: 10,
            lease_for: Duration::from_mins(1),
            begin: true,
            wait: Duration::ZERO,
        };
        let leased = engine.store().lease(engine.now(), asked).await.unwrap();
        assert_eq!(leased.len(), 3);
        let goes = engine.admit(leased).await.unwrap();
        assert_eq!(goes.len(), 2, "both places are free, and the limit holds for our own calls");
    });
}
