//! Who waits for work hears of it: of what others enqueue, and of what comes due (design §4, R-D2).

use std::future::poll_fn;
use std::time::{Duration, Instant};

use redrive_store::tokio_postgres::{self, AsyncMessage, NoTls};
use redrive_store::{
    Housekeeping, Jobs, LeaseRequest, Leases, NewJob, Postgres, PostgresOptions, Timestamp, WorkerId, Workers,
};
use redrive_testing::shared;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::given::{job, wants};
use crate::ground::{bounded, psql};

/// Beside these nobody makes time pass.
async fn open(url: &str, schema: &str) -> Postgres {
    let options =
        PostgresOptions { create: true, schema: Some(schema.to_owned()), ..PostgresOptions::default() };
    Postgres::open(url, options).await.unwrap()
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

async fn worker(store: &Postgres) -> WorkerId {
    store.register(now(), "test".to_owned(), Duration::from_mins(1)).await.unwrap()
}

fn waits(worker: WorkerId, wait: Duration) -> LeaseRequest {
    LeaseRequest { wait, ..wants(worker, &["a"], 1) }
}

/// What is told to everybody who listens.
async fn listening(url: &str) -> (tokio_postgres::Client, UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(told) = message {
                // Whoever does not listen any more need not be told.
                let _told = sender.send(told.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN redrive_ready").await.unwrap();
    (client, receiver)
}

/// Design §4: a process that was alone when somebody waited at it last tells those who came since of new work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_alone_tells_those_who_came() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let alone = open(shared.url(), &schema).await;
    let own = worker(&alone).await;
    assert!(alone.lease(now(), waits(own, Duration::from_millis(300))).await.unwrap().is_empty());
    // Whoever had come meanwhile would have been heard.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let id = psql(shared.url(), &format!("SELECT store_id FROM {schema}.store"));
    let another = open(shared.url(), &schema).await;
    worker(&another).await;
    let (_client, mut told) = listening(shared.url()).await;
    alone.enqueue(now(), vec![job("a")]).await.unwrap();
    let heard = async {
        while let Some(about) = told.recv().await {
            if about == id {
                return;
            }
        }
    };
    bounded("the silence", heard).await;
    another.close().await.unwrap();
    alone.close().await.unwrap();
}

/// R-D2: jobs whose times come one after the other are each taken when theirs does, whoever enqueued them. All of them together are
/// late by less than a few looks of a second would make each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_taken_when_its_time_comes() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let another = open(shared.url(), &schema).await;
    let worker = worker(&store).await;
    let lateness = async |by: &Postgres, at_once: bool| {
        // It waits already when they come.
        let asked = store.lease(now(), waits(worker, Duration::from_secs(20)));
        let began = Instant::now();
        let delays: Vec<Duration> = (0..10).map(|n| Duration::from_millis(n * 150)).collect();
        let (began_at, skipped) = (now(), usize::from(!at_once));
        let delayed = |delay: &Duration| NewJob { run_at: Some(began_at.after(*delay)), ..job("a") };
        let enqueued = by.enqueue(began_at, delays[skipped..].iter().map(delayed).collect());
        let (leased, enqueued) = tokio::join!(asked, enqueued);
        let ids: Vec<_> = enqueued.unwrap().iter().map(|one| one.id).collect();
        let (mut late, mut leased) = (Duration::ZERO, leased.unwrap());
        for (id, delay) in ids.iter().zip(&delays[skipped..]) {
            assert_eq!(leased[0].token.job, *id);
            late += began.elapsed().saturating_sub(*delay);
            if Some(id) != ids.last() {
                leased = store.lease(now(), waits(worker, Duration::from_secs(20))).await.unwrap();
            }
        }
        late
    };
    for (by, at_once) in [(&store, false), (&store, true), (&another, false)] {
        let late = bounded("waiting", lateness(by, at_once)).await;
        assert!(late < Duration::from_millis(1_500), "late by {late:?}");
    }
    another.close().await.unwrap();
    store.close().await.unwrap();
}
