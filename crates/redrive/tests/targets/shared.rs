//! Several engines on one store are one system: the breaker of one is the breaker of all, and a killed one frees its share.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, TargetLimits};
use redrive_store::{Ending, LeaseRequest, Postgres, PostgresOptions, Renewal, Settlement, Store};

use super::support::{Elsewhere, Has, World, call, config, run};

/// R-P15, reliability "state of the breaker in memory": what one engine has found out holds for the other within a second.
#[test]
fn two_engines_on_one_postgresql_share_the_breaker() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        let schema = shared.schema();
        let open = || async {
            let options =
                PostgresOptions { create: true, schema: Some(schema.clone()), ..Default::default() };
            let store: Arc<dyn Store> = Arc::new(Postgres::open(shared.url(), options).await.unwrap());
            let settings = "[targets.\"key:a.example\"]\nof_at_least = 5\nopen_for = \"60s\"\nopen_for_at_most = \"60s\"\n";
            Engine::builder(store).config(&config(settings)).build().unwrap()
        };
        let (one, two) = (open().await, open().await);
        let (first, second) = (Elsewhere::new(&one).await, Elsewhere::new(&two).await);
        let add = |count: usize| {
            let engine = one.clone();
            async move {
                let jobs = (0..count).map(|_| call("a.example")).collect();
                engine.store().enqueue(engine.now(), jobs).await.unwrap();
            }
        };
        add(1).await;
        let well = second.take(1).await;
        assert_eq!(well.len(), 1);
        second.end(well, true).await;
        add(8).await;
        let sick = first.take(8).await;
        assert_eq!(sick.len(), 8);
        first.end(sick, false).await;
        assert_eq!(one.target("key:a.example").await.unwrap().unwrap().phase.name(), "open");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        add(3).await;
        assert!(second.take(10).await.is_empty(), "the other engine knows");
        let seen = two.target("key:a.example").await.unwrap().unwrap();
        assert!(seen.parked_total >= 3, "{seen:?}");
    });
}

/// Two engines with the same settings, the door of each, and eight jobs.
async fn two_engines(settings: &str) -> (World, [Engine; 2], [Elsewhere; 2]) {
    let world = World::new();
    let engines = [world.engine(settings, 1), world.engine(settings, 2)];
    let doors = [Elsewhere::new(&engines[0]).await, Elsewhere::new(&engines[1]).await];
    let jobs = (0..8).map(|_| call("a.example")).collect();
    world.store.enqueue(engines[0].now(), jobs).await.unwrap();
    (world, engines, doors)
}

const THREE: &str = "[targets.\"key:a.example\"]\nconcurrency = 3\n";

/// R-P15: a limit holds over all engines, and what a killed one ran itself comes free once it has been silent for half a minute.
#[test]
fn a_killed_engine_frees_its_share() {
    run(async {
        let world = World::new();
        let (one, two) = (world.engine(THREE, 1), world.engine(THREE, 2));
        let second = Elsewhere::new(&two).await;
        let jobs = (0..8).map(|_| call("a.example")).collect();
        world.store.enqueue(one.now(), jobs).await.unwrap();
        let worker =
            world.store.register(two.now(), "tidy".to_owned(), Duration::from_hours(1)).await.unwrap();
        let request = LeaseRequest {
            queues: Vec::new(),
            kinds: Vec::new(),
            max: 2,
            lease_for: Duration::from_mins(10),
            begin: true,
            wait: Duration::ZERO,
            worker,
            reserved_only: false,
        };
        let leased = world.store.lease(one.now(), request).await.unwrap();
        assert_eq!(one.admit(leased).await.unwrap().len(), 2);
        assert_eq!(second.take(10).await.len(), 1, "three at a time, over both");
        // It is gone without a word. The other lives, and says so.
        drop(one);
        for _ in 0..29 {
            world.clock.advance(Duration::from_secs(1));
            two.maintain(worker).await.unwrap();
            assert!(second.take(10).await.is_empty());
        }
        world.clock.advance(Duration::from_secs(12));
        assert_eq!(
            second.take(10).await.len(),
            2,
            "what was lent still runs, and the two of the dead count no more"
        );
    });
}

/// R-P15, reliability row 2: what a killed engine has lent goes on, and so does its place, for as long as its worker extends it through
/// another one. What nobody extends comes free when somebody has noticed that its lease lapsed; till then it could be extended.
#[test]
fn what_a_killed_engine_has_lent_keeps_its_place() {
    run(async {
        let (world, [one, two], [first, second]) = two_engines(THREE).await;
        let worker =
            world.store.register(two.now(), "tidy".to_owned(), Duration::from_hours(9)).await.unwrap();
        let had = first.take(3).await;
        assert_eq!(had.len(), 3);
        drop((first, one));
        let held = [second.remote.read(&had[0].lease).unwrap()];
        for passed in (5..=1_200_u32).step_by(5) {
            world.clock.advance(Duration::from_secs(5));
            two.maintain(worker).await.unwrap();
            if passed.is_multiple_of(300) {
                assert_eq!(second.remote.extend(&held).await.unwrap(), [Renewal::Extended]);
            }
            let running = two.target("key:a.example").await.unwrap().unwrap().standing.running;
            // Two leases lapse after ten minutes. Then others go: as many as may.
            assert!(running <= 3, "{running} after {passed} s");
            if passed < 600 {
                assert_eq!(running, 3, "after {passed} s");
                assert!(second.take(10).await.is_empty());
            }
        }
        let lost = had[1..].iter().map(|has| second.remote.read(&has.lease).unwrap()).collect::<Vec<_>>();
        second.end(had, true).await;
        let next = second.take(10).await;
        assert_eq!(next.len(), 3, "all places are free");
        // Asked about once more they are known to be lost, and nobody's place is freed by it.
        for _ in 0..2 {
            assert_eq!(second.remote.extend(&lost).await.unwrap(), [Renewal::Lost; 2]);
            assert_eq!(two.target("key:a.example").await.unwrap().unwrap().standing.running, 3);
        }
    });
}

/// R-P15: a lease whose time has come can be extended until somebody has noticed, and has its place till then; nobody takes it meanwhile.
#[test]
fn a_lease_that_is_extended_late_has_kept_its_place() {
    run(async {
        let world = World::new();
        let engine = world.engine("[targets.\"key:a.example\"]\nconcurrency = 1\n", 1);
        let elsewhere = Elsewhere::new(&engine).await;
        let jobs = (0..8).map(|_| call("a.example")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        let had = elsewhere.take(1).await;
        let held = [elsewhere.remote.read(&had[0].lease).unwrap()];
        // Nobody looks after anything: the server was away.
        for _ in 0..4 {
            world.clock.advance(Duration::from_mins(11));
            assert!(elsewhere.take(8).await.is_empty());
            assert_eq!(elsewhere.remote.extend(&held).await.unwrap(), [Renewal::Extended]);
            assert!(elsewhere.take(8).await.is_empty());
        }
    });
}

/// R-P15: a limit that somebody sets counts what is lent already, once its worker extends it; and nobody who knows of no limit takes a
/// place away.
#[test]
fn a_limit_that_comes_later_counts_what_is_lent() {
    run(async {
        let world = World::new();
        let rate = "[targets.\"key:a.example\"]\nrate = \"1000/s\"\nburst = 1000\n";
        let (one, two) = (world.engine(rate, 1), world.engine("", 2));
        let (first, second) = (Elsewhere::new(&one).await, Elsewhere::new(&two).await);
        let jobs = (0..8).map(|_| call("a.example")).collect();
        world.store.enqueue(one.now(), jobs).await.unwrap();
        let had = first.take(3).await;
        assert_eq!(had.len(), 3);
        let limits = TargetLimits { concurrency: Some(3), ..TargetLimits::default() };
        one.limit_target("key:a.example", limits).await.unwrap();
        let held: Vec<_> = had.iter().map(|has| first.remote.read(&has.lease).unwrap()).collect();
        world.clock.advance(Duration::from_secs(2));
        assert_eq!(first.remote.extend(&held).await.unwrap(), [Renewal::Extended; 3]);
        assert!(first.take(8).await.is_empty(), "three run");
        // The other has not heard of the limit yet.
        two.reset_target("key:a.example").await.unwrap();
        world.clock.advance(Duration::from_secs(2));
        assert!(first.take(8).await.is_empty(), "three run");
        second.end(had, true).await;
        world.clock.advance(Duration::from_mins(1));
        assert_eq!(first.take(8).await.len(), 3);
    });
}

/// R-P15, reliability row 2: the end of an attempt was written, and whoever was to tell it is gone, its worker as well. Somebody looks, and
/// the place is free long before the lease would have lapsed.
#[test]
fn an_end_that_nobody_tells_is_found() {
    run(async {
        let (world, [one, _], [first, second]) = two_engines(THREE).await;
        for has in first.take(3).await {
            world.store.settle(one.now(), vec![written(&has)]).await.unwrap();
        }
        drop((first, one));
        assert!(second.take(3).await.is_empty(), "nobody has told it");
        world.clock.advance(Duration::from_secs(6));
        assert_eq!(second.take(3).await.len(), 3);
    });
}

fn written(has: &Has) -> Settlement {
    let ending = Ending::Succeeded { latency: Duration::ZERO, exit_code: None, max_retries: 3, output: None };
    Settlement { token: has.leased.token, ending }
}

/// R-P15, reliability row 2: an engine was killed when the end of an attempt was written and not yet told. Its worker tells it again to
/// another one, which finds nothing to write, and the place is free: once, however often it is told.
#[test]
fn an_end_that_is_told_again_frees_one_place() {
    run(async {
        let (world, [one, two], [first, second]) = two_engines(THREE).await;
        let had = first.take(3).await;
        let running = || async { two.target("key:a.example").await.unwrap().unwrap().standing.running };
        world.store.settle(one.now(), vec![written(&had[0])]).await.unwrap();
        drop((first, one));
        assert_eq!(running().await, 3, "nobody has told it");
        for _ in 0..3 {
            let again = Has { leased: had[0].leased.clone(), lease: had[0].lease.clone() };
            second.end(vec![again], true).await;
            assert_eq!(running().await, 2);
        }
    });
}

/// R-P15: what was lent and has reached nobody takes no place.
#[test]
fn what_reached_nobody_takes_no_place() {
    run(async {
        let world = World::new();
        let engine = world.engine(THREE, 1);
        let elsewhere = Elsewhere::new(&engine).await;
        let jobs = (0..3).map(|_| call("a.example")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        for _ in 0..3 {
            let had = elsewhere.take(3).await;
            assert_eq!(had.len(), 3);
            let held = had.iter().map(|has| elsewhere.remote.read(&has.lease).unwrap());
            elsewhere.remote.give_back(held.collect()).await.unwrap();
            let seen = engine.target("key:a.example").await.unwrap().unwrap();
            assert_eq!((seen.standing.running, seen.parked_total), (0, 0));
        }
    });
}

/// R-P15: what one engine let through and another one settled takes no place any longer, however long its lease was, and the
/// breaker hears how it ended.
#[test]
fn what_another_engine_settled_frees_its_place_and_is_heard() {
    run(async {
        let settings = "[targets.\"key:a.example\"]\nconcurrency = 2\nof_at_least = 4\nopen_for = \"60s\"\n";
        let (world, [one, two], [first, second]) = two_engines(settings).await;
        let worker =
            world.store.register(one.now(), "tidy".to_owned(), Duration::from_hours(1)).await.unwrap();
        for round in 0..2 {
            let had = first.take(2).await;
            assert_eq!(had.len(), 2, "round {round}");
            second.end(had, false).await;
            for _ in 0..3 {
                world.clock.advance(Duration::from_secs(1));
                one.maintain(worker).await.unwrap();
            }
            let seen = two.target("key:a.example").await.unwrap().unwrap();
            assert_eq!(seen.standing.running, 0, "round {round}: {seen:?}");
        }
        let seen = one.target("key:a.example").await.unwrap().unwrap();
        assert_eq!(seen.phase.name(), "open", "four of four failed: {seen:?}");
    });
}

/// R-P15: who lives and is told that others have ended its calls counts them no longer, at once: workers behind a balancer, who settle
/// where they did not lease, wait for nobody.
#[test]
fn what_ended_elsewhere_holds_up_nobody() {
    run(async {
        let world = World::new();
        let settings = "[targets.\"key:a.example\"]\nconcurrency = 2\n";
        let (one, two) = (world.engine(settings, 1), world.engine(settings, 2));
        let (first, second) = (Elsewhere::new(&one).await, Elsewhere::new(&two).await);
        for round in 0..4 {
            let jobs = (0..2).map(|_| call("a.example")).collect();
            world.store.enqueue(one.now(), jobs).await.unwrap();
            let had = first.take(2).await;
            assert_eq!(had.len(), 2, "round {round}");
            second.end(had, true).await;
        }
        assert_eq!(two.target("key:a.example").await.unwrap().unwrap().parked_total, 0);
    });
}

/// R-P15: a worker whose server was killed ends its work through another one, and its place is free at once: nobody waits for the
/// dead to fall silent.
#[test]
fn what_a_killed_engine_had_is_free_once_it_ends_elsewhere() {
    run(async {
        let (world, [one, _], [first, second]) =
            two_engines("[targets.\"key:a.example\"]\nconcurrency = 2\n").await;
        let mut had = first.take(2).await;
        assert_eq!(had.len(), 2);
        drop((first, one));
        second.end(vec![had.remove(0)], true).await;
        assert_eq!(second.take(10).await.len(), 1, "the other one still runs");
        second.end(had, true).await;
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(second.take(10).await.len(), 1);
    });
}

/// R-P15: a request for work is answered although all that is due may not go, however much that is.
#[test]
fn a_request_is_answered_however_much_is_parked() {
    run(async {
        let world = World::new();
        let engine = world.engine("[targets.\"key:a.example\"]\nrate = \"1/h\"\n", 1);
        let elsewhere = Elsewhere::new(&engine).await;
        let jobs = (0..1_500).map(|_| call("a.example")).collect();
        world.store.enqueue(engine.now(), jobs).await.unwrap();
        assert_eq!(elsewhere.take(1).await.len(), 1);
        assert!(elsewhere.take(1).await.is_empty());
        let seen = engine.target("key:a.example").await.unwrap().unwrap();
        assert!((1..=1_100).contains(&seen.parked_total), "{seen:?}");
    });
}

/// R-P15: many engines that ask at the same time never pass a limit together.
#[test]
fn engines_that_ask_at_once_pass_no_limit() {
    run(async {
        let world = World::new();
        let settings = "[targets.\"key:a.example\"]\nconcurrency = 4\n";
        let jobs = (0..64).map(|_| call("a.example")).collect();
        let mut doors = Vec::new();
        for seed in 0..6 {
            doors.push(Elsewhere::new(&world.engine(settings, seed)).await);
        }
        world.store.enqueue(doors[0].engine.now(), jobs).await.unwrap();
        let mut asked = tokio::task::JoinSet::new();
        for door in doors {
            asked.spawn(async move {
                let some = door.take(8).await;
                (door, some)
            });
        }
        let all: Vec<_> = asked.join_all().await;
        let went: usize = all.iter().map(|(_, some)| some.len()).sum();
        assert!((1..=4).contains(&went), "{went} run at a time");
    });
}
