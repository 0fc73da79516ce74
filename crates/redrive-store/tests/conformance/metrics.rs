//! What happens is counted by the hour, with what happens (R-C4).

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{Metric, MetricsQuery, NewJob, Redriven, Store, Timestamp, bucket_of, hour_of};

use crate::back_end::Given;
use crate::given::{Hand, at, cancelled, dead, job, released, retry, success};

const HOUR: i64 = 3_600_000;

fn of_all() -> MetricsQuery {
    MetricsQuery { from_hour: 0, to_hour: i64::MAX, ..MetricsQuery::default() }
}

async fn counted(store: &dyn Store) -> BTreeMap<Metric, u64> {
    let counts = store.metrics(of_all()).await.unwrap();
    assert!(counts.iter().all(|count| count.hour.is_none() && count.queue.is_none()), "{counts:?}");
    counts.into_iter().map(|count| (count.metric, count.n)).collect()
}

fn failed_with(cause: Cause) -> Metric {
    let place = Cause::ALL.iter().position(|one| *one == cause).unwrap();
    Metric::FailedWith(u8::try_from(place).unwrap())
}

/// R-C4: succeeded, retried, died, cancelled and given back, each with its time and its cause.
pub(crate) async fn every_end_is_counted(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    assert!(given.store.metrics(of_all()).await.unwrap().is_empty());
    for ending in [success(), success(), dead(Cause::AuthError, "no"), cancelled()] {
        hand.add(job("a")).await;
        let leased = hand.take(at(1), worker, &["a"]).await;
        hand.done(at(2), leased.token, ending).await;
    }
    // One that is tried again, given back, and then succeeds.
    hand.add(job("a")).await;
    for ending in [retry(at(3)), released(), success()] {
        let leased = hand.take(at(3), worker, &["a"]).await;
        hand.done(at(3), leased.token, ending).await;
    }
    let waits = hand.add(NewJob { run_at: Some(at(9_000)), ..job("a") }).await;
    given.store.run_now(at(4), waits).await.unwrap();
    assert_eq!(given.store.cancel(at(5), waits, "enough".to_owned()).await.unwrap(), Some(true));
    let took = |millis| Metric::Latency(bucket_of(millis));
    let expected = BTreeMap::from([
        (Metric::Succeeded, 3),
        (Metric::SucceededAfterRetry, 1),
        (Metric::Retried, 1),
        (Metric::Died, 1),
        (Metric::Cancelled, 2),
        (Metric::ManualRetries, 1),
        (Metric::Retries(0), 3),
        (Metric::Retries(1), 1),
        (failed_with(Cause::AuthError), 1),
        (failed_with(Cause::Network), 1),
        (took(3), 3),
        (took(7), 2),
        (Metric::LatencySum, 3 * 3 + 2 * 7),
    ]);
    assert_eq!(counted(&*given.store).await, expected);
}

/// R-C4: how many letters came back, by whom, and how long that took to its end; and what went for good.
pub(crate) async fn a_redrive_is_counted_to_its_end(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let recovers = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    let relapses = hand.letter(at(0), worker, job("b"), Cause::Network).await;
    let gone = hand.letter(at(0), worker, job("c"), Cause::Network).await;
    let before = counted(&*given.store).await;
    let back = given.store.redrive(at(100), vec![recovers], "redrive").await.unwrap();
    assert_eq!(back, [Redriven::Ready]);
    given.store.redrive(at(100), vec![relapses], "manual_retry").await.unwrap();
    let leased = hand.take(at(200), worker, &["a"]).await;
    hand.done(at(1_100), leased.token, success()).await;
    let leased = hand.take(at(200), worker, &["b"]).await;
    hand.done(at(2_100), leased.token, dead(Cause::Network, "again")).await;
    given.store.discard(at(2_200), vec![gone], "letter_discarded", None).await.unwrap();
    let mut after = counted(&*given.store).await;
    for (metric, n) in before {
        let now = after.entry(metric).or_default();
        *now -= n;
    }
    after.retain(|_, n| *n != 0);
    let expected = BTreeMap::from([
        (Metric::Redriven, 2),
        (Metric::ManualRetries, 1),
        (Metric::Succeeded, 1),
        (Metric::Recovered, 1),
        (Metric::Died, 1),
        (Metric::DiedAgain, 1),
        (Metric::Discarded, 1),
        (Metric::Recovery(bucket_of(1_000)), 1),
        (Metric::Recovery(bucket_of(2_000)), 1),
        (Metric::RecoverySum, 3_000),
        (Metric::Retries(0), 2),
        (failed_with(Cause::Network), 1),
        (Metric::Latency(bucket_of(3)), 1),
        (Metric::Latency(bucket_of(7)), 1),
        (Metric::LatencySum, 10),
    ]);
    assert_eq!(after, expected);
}

/// R-C4: by hour, by queue, both or neither, of some hours or of one queue; in order.
pub(crate) async fn hours_and_queues_stand_apart(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    for (millis, queue) in [(0, "a"), (1, "b"), (HOUR, "b"), (2 * HOUR, "b"), (2 * HOUR, "b")] {
        let new = NewJob { queue: queue.to_owned(), ..job("k") };
        hand.add_at(at(millis), new).await;
        let leased = hand.take(at(millis), worker, &["k"]).await;
        hand.done(at(millis), leased.token, success()).await;
    }
    let first = hour_of(at(0));
    let ask = async |query: MetricsQuery| {
        let counts = given.store.metrics(query).await.unwrap();
        let succeeded = counts.into_iter().filter(|count| count.metric == Metric::Succeeded);
        succeeded.map(|count| (count.hour, count.queue, count.n)).collect::<Vec<_>>()
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(ask(of_all()).await, [(None, None, 5)]);
    let by_queue = MetricsQuery { by_queue: true, ..of_all() };
    assert_eq!(ask(by_queue).await, [(None, some("a"), 1), (None, some("b"), 4)]);
    let by_hour = MetricsQuery { by_hour: true, queue: some("b"), ..of_all() };
    let hours = [(Some(first), None, 1), (Some(first + 1), None, 1), (Some(first + 2), None, 2)];
    assert_eq!(ask(by_hour).await, hours);
    let both = MetricsQuery {
        by_hour: true,
        by_queue: true,
        from_hour: first,
        to_hour: first + 1,
        ..MetricsQuery::default()
    };
    let expected =
        [(Some(first), some("a"), 1), (Some(first), some("b"), 1), (Some(first + 1), some("b"), 1)];
    assert_eq!(ask(both).await, expected);
    assert_eq!(ask(MetricsQuery { queue: some("nowhere"), ..of_all() }).await, []);
    let all = given.store.metrics(MetricsQuery { by_hour: true, by_queue: true, ..of_all() }).await.unwrap();
    let places: Vec<_> = all.iter().map(|one| (one.hour, one.queue.clone(), one.metric.code())).collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// R-C4: kept for 60 days longer than events.
pub(crate) async fn old_hours_go(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, success()).await;
    let days = |days: u64| Duration::from_hours(24 * days);
    let never = Timestamp::from_millis(0);
    // Some back ends add up from time to time, and only what is added up goes.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    given.store.prune(at(0).after(days(59)), at(0).after(days(59)), never, 99).await.unwrap();
    assert_eq!(counted(&*given.store).await.get(&Metric::Succeeded), Some(&1));
    given.store.prune(at(0).after(days(61)), at(0).after(days(61)), never, 99).await.unwrap();
    assert!(counted(&*given.store).await.is_empty());
}
