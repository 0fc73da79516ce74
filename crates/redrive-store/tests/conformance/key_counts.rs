//! What is counted about keys (R-C4): added to the hour, for no queue.

use redrive_store::{KeyCounts, Metric, MetricsQuery};

use crate::back_end::Given;
use crate::given::{Hand, at, job};

/// R-C4, R-I8: counts are added to their hour, stand beside those of queues, and belong to none of them.
pub(crate) async fn counts_are_added_to_the_hour(given: &Given) {
    let counts = KeyCounts {
        guarded: 10,
        keyed: 9,
        taken: 4,
        replayed: 3,
        mismatched: 2,
        in_flight: 1,
        unknown: 5,
        released: 6,
    };
    let hand = Hand(&*given.store);
    let cancelled = hand.add(job("a")).await;
    given.store.cancel(at(0), cancelled, "no".to_owned()).await.unwrap();
    for now in [0, 1, 3_600_000] {
        given.store.count_keys(at(now), counts).await.unwrap();
    }
    given.store.count_keys(at(0), KeyCounts::default()).await.unwrap();
    let all = MetricsQuery { to_hour: i64::MAX, by_hour: true, by_queue: true, ..MetricsQuery::default() };
    let found = given.store.metrics(all.clone()).await.unwrap();
    let hours: std::collections::BTreeSet<_> = found.iter().map(|count| count.hour).collect();
    assert_eq!(hours.len(), 2);
    for (place, times) in hours.into_iter().zip([2, 1]) {
        for (metric, n) in counts.metrics() {
            let of = |count: &&redrive_store::MetricCount| count.hour == place && count.metric == metric;
            let count = found.iter().find(of).expect("it was counted");
            assert_eq!((count.n, &count.queue), (n * times, &None), "{metric:?}");
        }
    }
    let of_a_queue = MetricsQuery { queue: Some("default".to_owned()), ..all.clone() };
    let of_a_queue = given.store.metrics(of_a_queue).await.unwrap();
    assert!(of_a_queue.iter().any(|count| count.metric == Metric::Cancelled));
    assert!(of_a_queue.iter().all(|count| count.metric != Metric::KeysTaken), "{of_a_queue:?}");
    let together =
        given.store.metrics(MetricsQuery { by_hour: false, by_queue: false, ..all }).await.unwrap();
    let taken = together.iter().find(|count| count.metric == Metric::KeysTaken).expect("it was counted");
    assert_eq!(taken.n, 12);
    // What is counted for no queue makes none.
    assert_eq!(given.store.queues().await.unwrap().len(), 1);
    assert_eq!(given.store.status(at(0)).await.unwrap().lanes.len(), 1);
}
