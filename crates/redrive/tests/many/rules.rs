//! Automatic recovery, whoever else is there.

use std::time::Duration;

use redrive::engine::Engine;
use redrive_policy::AutoRedrive;
use redrive_store::{NoticeChange, RunState, WorkerId};

use crate::runs::letters;
use crate::support::{Kind, World, on_both};

on_both! {
    /// R-D11: a worker that came first and knows no rules does not keep others from theirs.
    an_older_worker_without_rules = older;
    /// R-D11: of several processes that know a rule, one begins its redrive.
    several_know_it = several;
    /// R-D11: whoever died as it was about to begin is not waited for for ever; what cannot be read begins anew.
    one_died_in_between = died;
}

fn rule() -> AutoRedrive {
    AutoRedrive { every: Duration::from_secs(10), ..AutoRedrive::new("heal", "cause=network") }
}

/// Another process on the same store, which knows the rule.
fn knows_it(world: &World) -> Engine {
    Engine::builder(world.engine.shared_store()).auto_redrive(rule()).build().unwrap()
}

async fn present(engine: &Engine, label: &str) -> WorkerId {
    engine.store().register(engine.now(), label.to_owned(), Duration::from_mins(10)).await.unwrap()
}

async fn older(kind: Kind) {
    let world = World::new(kind).await;
    present(&world.engine, "knows nothing").await;
    letters(&world, "a", 3).await;
    let us = present(&world.engine, "us").await;
    assert_eq!(knows_it(&world).maintain(us).await.unwrap().recoveries_begun, 1);
    let runs = world.engine.redrive_runs(true, 10).await.unwrap();
    assert_eq!((runs.len(), runs[0].wanted_by.as_str()), (1, "rule:heal"));
}

async fn several(kind: Kind) {
    let world = World::new(kind).await;
    letters(&world, "a", 3).await;
    let us = present(&world.engine, "us").await;
    for round in 1..=3 {
        let engines: Vec<Engine> = (0..8).map(|_| knows_it(&world)).collect();
        let looking: Vec<_> = engines
            .into_iter()
            .map(|engine| tokio::spawn(async move { engine.maintain(us).await.unwrap().recoveries_begun }))
            .collect();
        let mut begun = 0;
        for looks in looking {
            begun += looks.await.unwrap();
        }
        assert_eq!(
            begun,
            u64::from(round == 1),
            "while it goes on, and soon after it, nobody begins another"
        );
        let runs = world.engine.redrive_runs(false, 10).await.unwrap();
        assert_eq!(runs.len(), 1, "round {round}");
        if round == 2 {
            world.engine.cancel_redrive(runs[0].id, None).await.unwrap();
        }
    }
    let runs = world.engine.redrive_runs(false, 10).await.unwrap();
    assert_eq!(runs[0].state, RunState::Cancelled);
    world.is_sound().await;
}

async fn died(kind: Kind) {
    let world = World::new(kind).await;
    letters(&world, "a", 3).await;
    let us = present(&world.engine, "us").await;
    let looks = async || knows_it(&world).maintain(us).await.unwrap().recoveries_begun;
    let says = async |seen: Option<i64>, value: String| {
        let (space, name) = ("recovery".to_owned(), "rule:heal".to_owned());
        let change = NoticeChange { space, name, seen, value: Some(value), due_at: None };
        world.store.post(world.engine.now(), vec![change], Vec::new(), Vec::new()).await.unwrap();
        let notice = world.store.notice("recovery".to_owned(), "rule:heal".to_owned()).await.unwrap();
        notice.map(|notice| notice.version)
    };
    let claimed = |ago: u64| {
        let at = world.engine.now().before(Duration::from_secs(ago));
        serde_json::json!({ "run": null, "stopped": 0, "claimed_at": at }).to_string()
    };
    let notice = world.store.notice("recovery".to_owned(), "rule:heal".to_owned()).await.unwrap();
    assert_eq!(notice, None, "nobody has begun anything");
    let seen = says(None, claimed(0)).await;
    assert_eq!(looks().await, 0, "somebody is about to begin one");
    let seen = says(seen, claimed(31)).await;
    assert_eq!(looks().await, 1, "who said so has died");
    let notice = world.store.notice("recovery".to_owned(), "rule:heal".to_owned()).await.unwrap().unwrap();
    assert!(Some(notice.version) > seen);
    says(Some(notice.version), "[1]".to_owned()).await;
    assert_eq!(looks().await, 0, "its redrive goes on, and is found by who wanted it");
    let runs = world.engine.redrive_runs(false, 10).await.unwrap();
    assert_eq!(runs.len(), 1);
}
