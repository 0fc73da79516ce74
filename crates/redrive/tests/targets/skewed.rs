//! Servers whose clocks are wrong share limits by the store's clock (reliability row 17).

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Clock, Engine, SystemClock};
use redrive_store::{JobState, Postgres, PostgresOptions, Store, Timestamp};

use super::support::{Elsewhere, call, config, run};

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

/// A server on this schema whose clock is off by so much.
async fn server(url: &str, schema: &str, off_ms: i64) -> Engine {
    let options = PostgresOptions { create: true, schema: Some(schema.to_owned()), ..Default::default() };
    let store: Arc<dyn Store> = Arc::new(Postgres::open(url, options).await.unwrap());
    let settings = config("[targets.\"key:a.example\"]\nconcurrency = 1\n");
    let clock = Arc::new(Skewed(SystemClock::new(), off_ms));
    Engine::builder(store).clock(clock).config(&settings).build().unwrap()
}

async fn add_jobs(engine: &Engine) {
    let jobs = (0..4).map(|_| call("a.example")).collect();
    engine.store().enqueue(engine.now(), jobs).await.unwrap();
}

/// R-P15, reliability row 17: one call at a time is one, however far the server's clock is from the database's, also after it was
/// looked again and again whether the call lasts. What waits comes back soon by the database's clock, and takes the place once it is free.
#[test]
fn a_limit_holds_at_a_server_whose_clock_is_wrong() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        for off_ms in [0, -100, -2_000, 300_000, -300_000] {
            let engine = server(shared.url(), &shared.schema(), off_ms).await;
            let elsewhere = Elsewhere::new(&engine).await;
            let keeper = engine.store().register(engine.now(), "keeper".to_owned(), Duration::from_hours(1));
            let keeper = keeper.await.unwrap();
            add_jobs(&engine).await;
            let mut had = elsewhere.take(4).await;
            assert_eq!(had.len(), 1, "off by {off_ms} ms");
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                engine.maintain(keeper).await.unwrap();
                had.extend(elsewhere.take(4).await);
                assert_eq!(had.len(), 1, "off by {off_ms} ms: the first is not over");
            }
            let real = SystemClock::new().now();
            for number in 1..=4 {
                let id = redrive_store::JobId(number);
                let Some(record) = engine.store().job(id).await.unwrap() else { continue };
                if let JobState::Ready { run_at, .. } = record.state {
                    let (soon, late) = (run_at.since(real), real.since(run_at));
                    assert!(soon.max(late) < Duration::from_mins(1), "off by {off_ms} ms: {soon:?} {late:?}");
                }
            }
            elsewhere.end(had, true).await;
            let mut next = Vec::new();
            for _ in 0..200 {
                next.extend(elsewhere.take(4).await);
                if !next.is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!(next.len(), 1, "off by {off_ms} ms: the place is free");
        }
    });
}

/// R-P15, reliability row 17: two servers whose clocks are a minute apart share one place.
#[test]
fn servers_whose_clocks_differ_share_a_limit() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        for off_ms in [60_000, -60_000] {
            let schema = shared.schema();
            let right = server(shared.url(), &schema, 0).await;
            let wrong = server(shared.url(), &schema, off_ms).await;
            let (first, second) = (Elsewhere::new(&right).await, Elsewhere::new(&wrong).await);
            add_jobs(&right).await;
            let had = first.take(4).await;
            assert_eq!(had.len(), 1);
            // What the first has sent away waits: the other gets some of its own.
            add_jobs(&right).await;
            assert_eq!(second.take(4).await.len(), 0, "{off_ms}: the other has the place");
            first.end(had, true).await;
            let mut next = Vec::new();
            for _ in 0..200 {
                next.extend(second.take(4).await);
                if !next.is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert_eq!((next.len(), first.take(4).await.len()), (1, 0), "{off_ms}: now this one has it");
        }
    });
}
