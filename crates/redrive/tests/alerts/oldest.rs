//! Rules about letters, beyond those that are looked at in one stretch.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{ALERT_QUEUE, AlertRule, Context, Engine};
use redrive::{Cause, fail};
use redrive_store::{GroupQuery, GroupState, NewJob};

use crate::sink::Sink;
use crate::world::{World, run};

fn config(url: &str) -> String {
    format!("[[alerts.receivers]]\nname = \"ops\"\nwebhook = \"{url}\"\n")
}

async fn is_firing(world: &World, rule: AlertRule) -> bool {
    let report = world.engine.alerts().await.unwrap();
    report.rules.iter().any(|one| one.finding.rule == rule && one.finding.firing)
}

/// R-C5: a letter that nobody has acknowledged is old, however many older ones stand before it that somebody has.
#[test]
fn an_old_letter_is_found_behind_very_many_that_were_acknowledged() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(2_050, "no such address").await;
        let group = world.engine.store().groups(GroupQuery::default(), 1).await.unwrap().remove(0);
        let store = world.engine.store();
        let acknowledged = GroupState::Acknowledged;
        store.set_group_state(world.engine.now(), group.fingerprint, acknowledged, None).await.unwrap();
        world.clock.advance(Duration::from_hours(1));
        world.die(1, "the disk is full").await;
        assert!(!is_firing(&world, AlertRule::OldestLetter).await);
        world.clock.advance(Duration::from_hours(23) + Duration::from_mins(59));
        assert!(
            !is_firing(&world, AlertRule::OldestLetter).await,
            "that of a group that somebody knows is older"
        );
        world.clock.advance(Duration::from_mins(2));
        assert!(is_firing(&world, AlertRule::OldestLetter).await);
    });
}

/// R-C5, row 61: however many messages of ours could not be delivered, they raise no alert.
#[test]
fn very_many_letters_of_our_own_raise_no_alert() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        let engine = Engine::builder(world.engine.shared_store()).clock(Arc::clone(&world.clock) as _);
        let engine = engine.build().unwrap();
        let job = || NewJob { queue: ALERT_QUEUE.to_owned(), ..NewJob::new("hopeless", "null") };
        engine.enqueue_many((0..2_050).map(|_| job()).collect()).await.unwrap();
        let worker = engine.worker().concurrency(64).wait(Duration::from_millis(5));
        let worker = worker.handle("hopeless", |(): (), _: Context| async {
            Err::<(), _>(fail(Cause::ValidationError, "refused"))
        });
        worker.run_until_empty().await.unwrap();
        world.clock.advance(Duration::from_hours(30));
        assert!(!is_firing(&world, AlertRule::DeadLetters).await);
        assert!(!is_firing(&world, AlertRule::OldestLetter).await);
    });
}
