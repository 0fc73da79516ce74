//! Several processes with receivers of their own: a message waits for one that knows its receiver.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Context, Engine, Shutdown};
use redrive_policy::{Config, Format};
use redrive_store::{EventFilter, LetterFilter, Postgres, PostgresOptions, Store};

use crate::sink::Sink;
use crate::world::{World, run};

fn receiver(name: &str, url: &str) -> String {
    format!("[[alerts.receivers]]\nname = \"{name}\"\nwebhook = \"{url}\"\n")
}

/// A process that tells somebody else works for so many steps of this length.
async fn stranger_works(world: &World, url: &str, steps: u32, step: Duration) {
    let config = Config::parse(&receiver("others", url), Format::Toml, "redrive.toml").unwrap();
    let stranger = Engine::builder(world.engine.shared_store()).clock(Arc::clone(&world.clock) as _);
    let stranger = stranger.config(&config).build().unwrap();
    // Minutes pass within moments here: no lease ends meanwhile.
    let worker = stranger.worker().wait(Duration::from_millis(5)).lease_for(Duration::from_hours(9));
    let worker = worker.handle("other", |(): (), _: Context| async { Ok::<_, redrive::Fail>(()) });
    let shutdown = Shutdown::new();
    let passing = async {
        for _ in 0..steps {
            tokio::time::sleep(Duration::from_millis(10)).await;
            world.clock.advance(step);
        }
        shutdown.signal();
    };
    tokio::join!(worker.run(&shutdown), passing).0.unwrap();
}

async fn in_queue(world: &World) -> u64 {
    let filter = LetterFilter { queue: Some("redrive-alerts".to_owned()), ..LetterFilter::default() };
    world.engine.store().count_letters(filter).await.unwrap()
}

async fn put_off(world: &World) -> usize {
    let filter = EventFilter { types: vec!["job_snoozed".to_owned()], ..EventFilter::default() };
    world.engine.query(filter, 1_000).await.unwrap().len()
}

async fn waits_for_who_knows(world: &World, sink: &Sink) {
    world.engine.test_alerts(None).await.unwrap();
    stranger_works(world, &sink.url(), 60, Duration::from_secs(1)).await;
    assert_eq!((sink.got().len(), in_queue(world).await), (0, 0), "it is neither told nor set aside");
    world.deliver().await;
    assert_eq!((sink.got().len(), in_queue(world).await), (1, 0));
    let put_off = put_off(world).await;
    assert!((1..=12).contains(&put_off), "put off {put_off} times within a minute");
}

/// R-C5: a process that tells others leaves a message whose receiver it does not know, uncounted, to one that does.
#[test]
fn a_message_waits_for_a_process_that_knows_its_receiver() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&receiver("ops", &sink.url())).await;
        waits_for_who_knows(&world, &sink).await;
    });
}

/// R-C5: the same on PostgreSQL.
#[test]
fn a_message_waits_on_postgresql_too() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        let options = PostgresOptions {
            create: true,
            schema: Some(shared.schema()),
            caller_clock: true,
            ..Default::default()
        };
        let store: Arc<dyn Store> = Arc::new(Postgres::open(shared.url(), options).await.unwrap());
        let sink = Sink::answering(&[]).await;
        let world = World::on(store, &receiver("ops", &sink.url())).await;
        waits_for_who_knows(&world, &sink).await;
    });
}

/// R-C5: when nobody has known a receiver for an hour, a letter says so; also when it is sent again. That costs few looks.
#[test]
fn a_receiver_that_nobody_knows_becomes_a_letter() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&receiver("ops", &sink.url())).await;
        world.engine.test_alerts(None).await.unwrap();
        stranger_works(&world, &sink.url(), 110, Duration::from_secs(30)).await;
        assert_eq!(in_queue(&world).await, 0, "not within the hour");
        stranger_works(&world, &sink.url(), 40, Duration::from_secs(30)).await;
        let letters = world.engine.store().letters(LetterFilter::default(), 10).await.unwrap();
        assert_eq!(letters.len(), 1);
        assert!(letters[0].error_message.contains("\"ops\"") && letters[0].attempts == 1, "{letters:?}");
        let put_off = put_off(&world).await;
        assert!((5..=60).contains(&put_off), "put off {put_off} times within an hour");
        world.engine.store().redrive(world.engine.now(), vec![letters[0].id], "redriven").await.unwrap();
        stranger_works(&world, &sink.url(), 30, Duration::from_secs(5)).await;
        assert_eq!(in_queue(&world).await, 0, "it has an hour again");
        world.deliver().await;
        assert_eq!(sink.got().len(), 1);
    });
}
