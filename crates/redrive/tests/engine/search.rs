//! Looking for events and letters: filters, pages, and ids of which the beginning is enough (R-C1, R-E3).

use std::time::Duration;

use redrive::engine::{Engine, ImportOptions, Named};
use redrive_store::filter::{EventField, Filter};
use redrive_store::{EventFilter, Order};
use serde_json::json;

use crate::support::{World, run};

/// Thirty events from three sources, a minute apart.
async fn reported(world: &World) -> Vec<String> {
    let mut ids = Vec::new();
    for i in 0..30 {
        let source = ["loader", "mailer", "sync"][i % 3];
        let emitted = world
            .engine
            .emit("report", source)
            .tags([format!("t{}", i % 2)])
            .exit_code(i32::from(i % 5 == 0));
        ids.push(emitted.await.unwrap().1);
        world.clock.advance(Duration::from_mins(1));
    }
    ids
}

async fn found(engine: &Engine, filter: &str, order: Order, page: u32) -> Vec<String> {
    let filter: Filter<EventField> = filter.parse().unwrap();
    let base = EventFilter { order, ..EventFilter::default() };
    let mut search = engine.search_events(base, Some(filter));
    let mut ids = Vec::new();
    loop {
        let events = search.next(page).await.unwrap();
        if events.is_empty() {
            return ids;
        }
        assert!(events.len() <= page as usize);
        ids.extend(events.into_iter().map(|event| event.event_id));
    }
}

/// R-E3: whatever a filter asks and however large the pages are, each event is found once and in order.
#[test]
fn events_are_found_page_by_page() {
    run(async {
        let world = World::new();
        let ids = reported(&world).await;
        let every = |keep: fn(usize) -> bool| -> Vec<String> {
            ids.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, id)| id.clone()).collect()
        };
        for page in [1, 2, 7, 100] {
            for (filter, expected) in [
                ("source=mailer", every(|i| i % 3 == 1)),
                ("source~^(mailer|sync)$ and tag=t0", every(|i| i % 3 != 0 && i % 2 == 0)),
                ("not source=loader and exit_code=1", every(|i| i % 3 != 0 && i % 5 == 0)),
                ("age<=10m", every(|i| i >= 20)),
                ("status=failed or source=sync", every(|i| i % 5 == 0 || i % 3 == 2)),
                ("source=nobody", Vec::new()),
            ] {
                let engine = &world.engine;
                assert_eq!(found(engine, filter, Order::OldestFirst, page).await, expected, "{filter}");
                let newest: Vec<String> = expected.iter().rev().cloned().collect();
                assert_eq!(found(engine, filter, Order::NewestFirst, page).await, newest, "{filter}");
            }
        }
    });
}

/// R-C1: the beginning of an event's id is enough when no other begins so; also between events from elsewhere.
#[test]
fn the_beginning_of_an_id_is_enough() {
    run(async {
        let world = World::new();
        let mut ids = reported(&world).await;
        let line = |i: u32| {
            let event = json!({
                "event_id": format!("EVT-20200101-0000{i:02}-abcdef"),
                "timestamp": format!("2020-01-01T00:00:{i:02}Z"),
                "event_type": "x",
                "source": "s",
                "data": {},
            });
            event.to_string()
        };
        let old: Vec<String> = (0..50).map(line).collect();
        let old = old.join("\n");
        world.engine.import_events(&mut old.as_bytes(), &ImportOptions::default()).await.unwrap();
        ids.extend(reported(&world).await);
        for id in &ids {
            // The minute is that of one event alone.
            for written in [&id[..17], &id[..20], &id[..22], id] {
                let Named::One(event) = world.engine.event_named(written).await.unwrap() else {
                    panic!("{written} is {id}")
                };
                assert_eq!(&event.event_id, id, "{written}");
            }
        }
        let Named::Several(named) = world.engine.event_named("EVT-20261115-12").await.unwrap() else {
            panic!("several begin so")
        };
        assert_eq!(named, ids[..5]);
        for unknown in ["EVT-2027", "EVT-20261115-120030", "nonsense", ""] {
            assert_eq!(world.engine.event_named(unknown).await.unwrap(), Named::Nothing, "{unknown}");
        }
        let whole = world.engine.event_named("EVT-20200101-000007-abcdef").await.unwrap();
        assert!(matches!(whole, Named::One(event) if event.source == "s"));
    });
}
