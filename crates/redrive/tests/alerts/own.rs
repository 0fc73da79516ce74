//! Several processes with receivers or thresholds of their own: who hears that something is wrong hears that it is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::Engine;
use redrive_policy::{Config, Format};
use redrive_store::{EventFilter, LetterFilter, Order, WorkerId};

use crate::world::{World, run};

const SECOND: Duration = Duration::from_secs(1);

fn receiver(settings: &str, name: &str, more: &str) -> String {
    format!("[alerts]\n{settings}\n[[alerts.receivers]]\nname = \"{name}\"\ncommand = [\"true\"]\n{more}")
}

/// A process beside the one of the world.
struct Other(Engine, WorkerId);

impl Other {
    async fn new(world: &World, config: &str) -> Other {
        let config = Config::parse(config, Format::Toml, "redrive.toml").unwrap();
        let engine = Engine::builder(world.engine.shared_store()).clock(Arc::clone(&world.clock) as _);
        let engine = engine.config(&config).build().unwrap();
        let lasts = Duration::from_hours(48);
        let worker = engine.store().register(engine.now(), "other".to_owned(), lasts).await.unwrap();
        Other(engine, worker)
    }
}

/// Time passes, and both look again and again; who is first changes.
async fn pass(world: &World, other: &Other, time: Duration) {
    for round in 0..time.as_secs() / 5 {
        world.clock.advance(5 * SECOND);
        if round % 2 == 0 {
            other.0.maintain(other.1).await.unwrap();
        }
        world.engine.maintain(world.keeper).await.unwrap();
        other.0.maintain(other.1).await.unwrap();
    }
}

/// Who was told what of dead letters, in order.
async fn told(world: &World) -> BTreeMap<String, Vec<String>> {
    let types = vec!["job_enqueued".to_owned()];
    let filter = EventFilter { types, order: Order::OldestFirst, ..EventFilter::default() };
    let mut told = BTreeMap::<String, Vec<String>>::new();
    for event in world.engine.query(filter, 10_000).await.unwrap() {
        let Some(record) = world.engine.store().job(event.job.unwrap()).await.unwrap() else { continue };
        let id = record.job.and_then(|job| job.caller_id).unwrap_or_default();
        if let ["alert", "dead_letters", what, _, to] = id.split(':').collect::<Vec<_>>()[..] {
            told.entry(to.to_owned()).or_default().push(what.to_owned());
        }
    }
    told
}

async fn discard_all(world: &World) {
    for letter in world.engine.store().letters(LetterFilter::default(), 100).await.unwrap() {
        world.engine.store().cancel(world.engine.now(), letter.id, "mended".to_owned()).await.unwrap();
    }
}

fn expected(of: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let list = |whats: &[&str]| whats.iter().map(|what| (*what).to_owned()).collect();
    of.iter().map(|(to, whats)| ((*to).to_owned(), list(whats))).collect()
}

/// R-C5: each process has a receiver of its own; both hear the beginning and the end, once.
#[test]
fn receivers_of_different_processes_hear_beginning_and_end() {
    run(async {
        let world = World::new(&receiver("", "chat", "")).await;
        let other = Other::new(&world, &receiver("", "pager", "severity = \"critical\"\n")).await;
        world.die(1, "no such address").await;
        pass(&world, &other, 300 * SECOND).await;
        assert_eq!(told(&world).await, expected(&[("chat", &["fired"]), ("pager", &["fired"])]));
        discard_all(&world).await;
        pass(&world, &other, 300 * SECOND).await;
        let both: &[&str] = &["fired", "resolved"];
        assert_eq!(told(&world).await, expected(&[("chat", both), ("pager", both)]));
        assert!(world.stream().await.contains("\"to\":[\"pager\"]"), "the stream says who was told");
    });
}

/// R-C5: a receiver whose process has a higher threshold hears nothing of what is below it, neither its beginning nor its end.
#[test]
fn who_heard_no_beginning_hears_no_end() {
    run(async {
        let world = World::new(&receiver("dead_letters = 1", "chat", "")).await;
        let other = Other::new(&world, &receiver("dead_letters = 5", "pager", "")).await;
        world.die(1, "no such address").await;
        pass(&world, &other, 300 * SECOND).await;
        discard_all(&world).await;
        pass(&world, &other, 300 * SECOND).await;
        assert_eq!(told(&world).await, expected(&[("chat", &["fired", "resolved"])]));
    });
}

/// R-C5: two processes tell the same receiver by different thresholds, or one of them not at all: it hears one beginning and one end.
#[test]
fn processes_that_disagree_do_not_tell_by_turns() {
    run(async {
        let critical = receiver("dead_letters = 1\nletters_per_hour = 1", "ops", "severity = \"critical\"\n");
        for second in [
            receiver("dead_letters = 5", "ops", ""),
            receiver("dead_letters = false", "ops", ""),
            receiver("dead_letters = 1\nduplicates = false", "ops", ""),
            critical,
        ] {
            let world = World::new(&receiver("dead_letters = 1\nletters_per_hour = 1", "ops", "")).await;
            let other = Other::new(&world, &second).await;
            world.die(3, "no such address").await;
            pass(&world, &other, 600 * SECOND).await;
            assert_eq!(told(&world).await, expected(&[("ops", &["fired"])]), "{second}");
            let stream = world.stream().await;
            assert_eq!(stream.matches("alert_fired").count(), 2, "letters, and their number within an hour");
            discard_all(&world).await;
            pass(&world, &other, 600 * SECOND).await;
            assert_eq!(told(&world).await, expected(&[("ops", &["fired", "resolved"])]), "{second}");
        }
    });
}

/// R-C5: a threshold that was moved for good holds once nobody looks by the old one: what is below it is over, once.
#[test]
fn a_threshold_that_was_moved_holds_soon() {
    run(async {
        let world = World::new(&receiver("dead_letters = 1", "ops", "")).await;
        world.die(1, "no such address").await;
        world.look_after(SECOND).await;
        let other = Other::new(&world, &receiver("dead_letters = 5", "ops", "")).await;
        for _ in 0..60 {
            world.clock.advance(5 * SECOND);
            other.0.maintain(other.1).await.unwrap();
        }
        assert_eq!(told(&world).await, expected(&[("ops", &["fired", "resolved"])]));
    });
}
