//! What is kept of alerts and cannot be read: it is said, put aside, and everything goes on.

use std::time::Duration;

use redrive_store::{NoticeChange, Posted};

use crate::sink::Sink;
use crate::world::{World, run};

const MINUTE: Duration = Duration::from_mins(1);

fn config(url: &str) -> String {
    format!("[[alerts.receivers]]\nname = \"ops\"\nwebhook = \"{url}\"\n")
}

/// Somebody writes something else under what stands there.
async fn overwrite(world: &World, space: &str, value: &str) {
    let store = world.engine.store();
    let there = store.notices(space.to_owned(), None, 10).await.unwrap();
    assert_eq!(there.len(), 1, "{there:?}");
    let change = NoticeChange {
        space: space.to_owned(),
        name: there[0].name.clone(),
        seen: Some(there[0].version),
        value: Some(value.to_owned()),
        due_at: there[0].due_at,
    };
    let posted = store.post(world.engine.now(), vec![change], Vec::new(), Vec::new()).await.unwrap();
    assert!(matches!(posted, Posted::Done { .. }));
}

/// R-C5: a state that nobody can read ends nobody who maintains the store. While somebody may still understand it, it is left to
/// them; then what people know begins anew, which the stream says once.
#[test]
fn an_unreadable_state_ends_nobody_and_begins_anew() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        assert_eq!(world.look_after(MINUTE).await, 1);
        overwrite(&world, "alert", r#"{"rules": ["written by another redrive"]}"#).await;
        assert_eq!(world.look_after(MINUTE).await, 0, "whoever wrote it may still be there");
        assert_eq!(world.look_after(MINUTE).await, 1, "nobody is: people are told");
        for _ in 0..5 {
            assert_eq!(world.look_after(MINUTE).await, 0, "once");
        }
        assert_eq!(world.stream().await.matches("alert_state_lost").count(), 1);
        let report = world.engine.alerts().await.unwrap();
        assert!(report.is_firing() && report.rules.iter().any(|rule| rule.told_at.is_some()));
    });
}

/// R-C5: the rest of what is kept can still be looked at while a state cannot be read.
#[test]
fn alerts_are_shown_although_their_state_cannot_be_read() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        assert_eq!(world.look_after(MINUTE).await, 1);
        overwrite(&world, "alert", "17").await;
        assert!(world.engine.alerts().await.unwrap().is_firing());
    });
}

/// R-C5: a silence that nobody can read silences nothing and ends nobody; the others hold, and it can be taken back or renewed.
#[test]
fn an_unreadable_silence_ends_nobody() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        let silence = |of: &str| redrive::engine::NewSilence {
            of: of.to_owned(),
            lasts: Duration::from_hours(1),
            why: None,
            by: "test".to_owned(),
        };
        world.engine.silence_alerts(silence("dead_letters")).await.unwrap();
        overwrite(&world, "silence", r#"{"until": {"a": "newer form"}}"#).await;
        world.engine.silence_alerts(silence("letters_per_hour")).await.unwrap();
        let held: Vec<_> = world.engine.silences().await.unwrap().into_iter().map(|one| one.id).collect();
        assert_eq!(held, ["letters_per_hour"]);
        world.die(20, "no such address").await;
        assert_eq!(world.look_after(MINUTE).await, 1, "letters are told, their number within an hour is not");
        assert!(world.engine.end_silence("dead_letters").await.unwrap());
    });
}
