//! Counted, not timed: what hundreds who follow the stream cost while nothing happens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::super::{Postgres, PostgresOptions};
use super::LOOK_FOR_EVENTS;
use crate::{EventSeq, Events, Housekeeping, Jobs, NewJob, Timestamp};

const MANY: usize = 500;

fn now() -> Timestamp {
    Timestamp::from_system(std::time::SystemTime::now())
}

/// R-E3: hundreds who follow the stream are looked for by one; each of them hears of what comes behind its own place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_follows_costs_what_one_does() {
    let Some(shared) = redrive_testing::shared() else { return };
    let options = PostgresOptions { schema: Some(shared.schema()), ..PostgresOptions::default() };
    let store = Arc::new(Postgres::open(shared.url(), options).await.unwrap());
    let patient = Duration::from_mins(10);
    let first = store.wait_for_events(EventSeq(0), Duration::ZERO).await.unwrap();
    let mut following: JoinSet<EventSeq> = JoinSet::new();
    for _ in 0..MANY {
        let store = Arc::clone(&store);
        following.spawn(async move { store.wait_for_events(first, patient).await.unwrap() });
    }
    let looks = || store.desk.counted.follows.load(Ordering::Relaxed);
    let began = Instant::now();
    // Those who come later than the look that was under way get one of their own; then they share each.
    let all_follow = looks() + 10;
    while looks() < all_follow {
        assert!(began.elapsed() < Duration::from_mins(1), "nobody looks");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (seen, began) = (looks(), Instant::now());
    while looks() < seen + 5 {
        assert!(began.elapsed() < Duration::from_mins(1), "nobody looks");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let at_most = 1 + u64::try_from(began.elapsed().as_millis() / LOOK_FOR_EVENTS.as_millis()).unwrap();
    assert!(looks() - seen <= at_most, "{} looks where one who follows makes {at_most}", looks() - seen);

    store.enqueue(now(), vec![NewJob::new("a", "1")]).await.unwrap();
    let told = following.join_next().await.unwrap().unwrap();
    assert!(told > first);
    for _ in 1..MANY {
        assert_eq!(following.join_next().await.unwrap().unwrap(), told);
    }
    // Whoever is behind is told at once, and whoever does not wait hears of what it wrote itself.
    assert_eq!(store.wait_for_events(first, patient).await.unwrap(), told);
    store.enqueue(now(), vec![NewJob::new("a", "1")]).await.unwrap();
    assert!(store.wait_for_events(told, Duration::ZERO).await.unwrap() > told);
    store.close().await.unwrap();
}
