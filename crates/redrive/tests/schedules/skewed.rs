//! Servers whose clocks are wrong fire by the database's (reliability row 17).

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::engine::{Clock, Engine, Missed, NewSchedule, SystemClock};
use redrive_store::{EventFilter, Postgres, PostgresOptions, Timestamp};

use crate::world::{report, run};

/// The machine's clock, off by so many milliseconds.
#[derive(Debug)]
struct Skewed(SystemClock, i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.now().millis() + self.1)
    }

    fn steady(&self) -> Duration {
        self.0.steady()
    }
}

/// Schedules, reliability row 17: a server that is ahead fires nothing early, one that is behind nothing late. Both look for ticks.
#[test]
fn servers_with_wrong_clocks_fire_in_time() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        let schema = shared.schema();
        let mut servers = Vec::new();
        for off_ms in [300_000, -300_000] {
            let options =
                PostgresOptions { create: true, schema: Some(schema.clone()), ..PostgresOptions::default() };
            let store = Arc::new(Postgres::open(shared.url(), options).await.unwrap());
            let clock = Arc::new(Skewed(SystemClock::new(), off_ms));
            let engine = Engine::builder(store).clock(clock).build().unwrap();
            let lasts = Duration::from_mins(5);
            let worker = engine.store().register(engine.now(), "keeper".to_owned(), lasts).await.unwrap();
            servers.push((engine, worker));
        }
        for (number, (engine, _)) in servers.iter().enumerate() {
            let name = Some(format!("tick-{number}"));
            let new = NewSchedule { name, missed: Missed::All, ..report("* * * * * *") };
            let added = engine.add_schedule(new).await.unwrap();
            let real = SystemClock::new().now();
            let away = added.next.unwrap().millis() - real.millis();
            assert!((-1_000..=2_000).contains(&away), "its first tick is {away} ms away");
        }
        for (engine, worker) in &servers {
            // Each has a while in which it is alone.
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(3) {
                engine.maintain(*worker).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let types = vec!["job_enqueued".to_owned()];
        let filter = EventFilter { types, ..EventFilter::default() };
        let engine = &servers[0].0;
        let events = engine.query(filter, 1_000).await.unwrap();
        assert!(events.len() > 1, "{} ticks within six seconds", events.len());
        for event in events {
            let record = engine.store().job(event.job.unwrap()).await.unwrap().unwrap();
            let job = record.job.unwrap();
            let name = job.caller_id.unwrap();
            let tick: Timestamp = name.split_once('@').unwrap().1.parse().unwrap();
            let late = job.enqueued_at.millis() - tick.millis();
            assert!((0..60_000).contains(&late), "{name} came {late} ms late");
        }
    });
}
