//! There are no more connections to be had (reliability row 38): those who have one go on, the others wait for a bounded time and are told why.

use std::sync::Arc;
use std::time::Instant;

use redrive_store::{Housekeeping, Jobs};
use redrive_testing::{Cluster, Settings};

use crate::given::{Hand, SECOND, at, job};
use crate::ground::{bounded, open, try_open};

fn small() -> Cluster {
    // Three of these are kept for the superuser.
    let options = vec![("max_connections", "12".to_owned()), ("max_wal_senders", "0".to_owned())];
    Cluster::start_with(Settings { options, ..Settings::default() })
}

/// Row 38: more handles than the server has connections, and many callers each. Everybody is answered, and what was acknowledged is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_serve_many_callers() {
    if !Cluster::is_possible() {
        return;
    }
    let cluster = small();
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(Arc::new(open(&cluster.url(), "redrive").await));
    }
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..400 {
        let store = Arc::clone(&stores[number % stores.len()]);
        callers.spawn(async move { store.enqueue(at(0), vec![job("a")]).await.unwrap()[0].id });
    }
    let ids = bounded("everybody", callers.join_all()).await;
    let hand = Hand(&*stores[0]);
    for id in &ids {
        hand.record(*id).await;
    }
    assert_eq!(ids.len(), 400);
    hand.clean().await;
    for store in &stores {
        store.close().await.unwrap();
    }
}

/// Row 38: whoever finds no connection waits for a bounded time, is told why, and may come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_connection_the_wait_is_bounded_and_the_error_clear() {
    if !Cluster::is_possible() {
        return;
    }
    let cluster = small();
    open(&cluster.url(), "redrive").await.close().await.unwrap();
    let allowed = "ALTER ROLE redrive_app CONNECTION LIMIT";
    cluster.psql("postgres", &format!("{allowed} 0"));
    let began = Instant::now();
    let error = bounded("opening", try_open(&cluster.url(), "redrive")).await.unwrap_err();
    assert!(error.may_pass(), "{error}");
    assert!(error.to_string().contains("too many connections"), "{error}");
    assert!(!error.to_string().contains(cluster.password()), "{error}");
    assert!(began.elapsed() < SECOND * 45, "{:?}", began.elapsed());
    cluster.psql("postgres", &format!("{allowed} -1"));
    let store = open(&cluster.url(), "redrive").await;
    Hand(&store).add(job("a")).await;
    store.close().await.unwrap();
}
