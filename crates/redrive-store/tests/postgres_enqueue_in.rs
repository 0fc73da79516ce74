//! Jobs that are enqueued inside the application's own transaction on PostgreSQL.
#![cfg(feature = "postgres")]
// Test code outside of the test functions themselves: what goes wrong is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "given/mod.rs"]
mod given;

use given::{Hand, at, job, success, wants};
use redrive_store::{
    Housekeeping, JobState, Jobs, Leases, NewJob, Postgres, PostgresOptions, WorkerId, enqueue_in_postgres,
};
use redrive_testing::Shared;
use tokio_postgres::{Client, NoTls};

/// A store in a schema of its own, and a connection of the application's.
async fn given(shared: &Shared) -> (Postgres, String, Client) {
    let schema = shared.schema();
    let options =
        PostgresOptions { schema: Some(schema.clone()), caller_clock: true, ..PostgresOptions::default() };
    let store = Postgres::open(shared.url(), options).await.unwrap();
    let (client, connection) = tokio_postgres::connect(shared.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    (store, schema, client)
}

fn keyed(key: &str) -> NewJob {
    NewJob { unique_key: Some(key.to_owned()), ..job("a") }
}

/// R-D8: the jobs are there if and only if the application's transaction commits, its own rows with them.
#[tokio::test]
async fn the_jobs_are_there_if_and_only_if_it_commits() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, schema, mut client) = given(shared).await;
    let orders = format!("CREATE TABLE \"{schema}\".orders (id bigint)");
    client.batch_execute(&orders).await.unwrap();
    let worker = Hand(&store).worker().await;
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        transaction.execute(&format!("INSERT INTO \"{schema}\".orders VALUES (7)"), &[]).await.unwrap();
        let jobs = vec![job("a"), NewJob { queue: "new".to_owned(), priority: 5, ..job("b") }];
        let enqueued = enqueue_in_postgres(&transaction, &schema, at(0), &jobs).await.unwrap();
        assert_eq!(store.lease(at(0), wants(worker, &["a", "b"], 9)).await.unwrap().len(), 0, "not yet");
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
            assert_eq!(store.job(enqueued[0].id).await.unwrap(), None);
        }
        let rows = client.query_one(&format!("SELECT count(*) FROM \"{schema}\".orders"), &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), i64::from(commits));
    }
    // Due by the database's clock, which this store does not go by: far ahead of every clock.
    let far = at(1_000_000_000_000);
    let leased = store.lease(far, wants(worker, &["a", "b"], 9)).await.unwrap();
    assert_eq!(leased.iter().map(|leased| &*leased.job.kind).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(leased[0].job.payload, b"b");
    for leased in leased {
        Hand(&store).done(far, leased.token, success()).await;
    }
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-D8: a unique key has one winner, inside one call, across calls, and against jobs that are there.
#[tokio::test]
async fn a_unique_key_answers_the_job_that_has_it() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, schema, mut client) = given(shared).await;
    let there = Hand(&store).add(keyed("there")).await;
    let transaction = client.transaction().await.unwrap();
    let jobs = [keyed("there"), keyed("mine"), keyed("mine"), job("a")];
    let first = enqueue_in_postgres(&transaction, &schema, at(0), &jobs).await.unwrap();
    assert_eq!(first.iter().map(|one| one.existing).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!((first[0].id, first[2].id), (there, first[1].id));
    let again = enqueue_in_postgres(&transaction, &schema, at(0), &[keyed("mine")]).await.unwrap();
    assert_eq!((again[0].id, again[0].existing), (first[1].id, true));
    transaction.commit().await.unwrap();
    assert_eq!(store.enqueue(at(0), vec![keyed("mine")]).await.unwrap()[0].id, first[1].id);
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-D8, R-E1: everything that a job says arrives, a reservation included, and each job has its event.
#[tokio::test]
async fn a_job_is_read_back_as_it_was_given() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, schema, mut client) = given(shared).await;
    let new = NewJob {
        queue: "q".to_owned(),
        run_at: Some(at(60_000)),
        priority: -7,
        caller_id: Some("order-7".to_owned()),
        policy: Some("patient".to_owned()),
        overrides: Some("{\"max_retries\":1}".to_owned()),
        idempotency_key: Some("once".to_owned()),
        timeout: Some(std::time::Duration::from_secs(3)),
        deadline_at: Some(at(120_000)),
        source: "shop".to_owned(),
        held_for: Some(WorkerId(77)),
        payload: vec![0, 255, 7],
        ..job("a")
    };
    let transaction = client.transaction().await.unwrap();
    let jobs = [vec![new.clone()], vec![job("a"); 300]].concat();
    let enqueued = enqueue_in_postgres(&transaction, &schema, at(0), &jobs).await.unwrap();
    transaction.commit().await.unwrap();
    let record = store.job(enqueued[0].id).await.unwrap().unwrap();
    let job = record.job.unwrap();
    let JobState::Ready { run_at, held_for } = record.state else { panic!("{:?}", record.state) };
    // By the database's clock, as far away as it was by the caller's.
    assert_eq!(run_at.since(job.enqueued_at), std::time::Duration::from_mins(1));
    assert_eq!(job.deadline_at.unwrap().since(run_at), std::time::Duration::from_mins(1));
    assert_eq!((held_for, job.priority, &job.payload), (Some(WorkerId(77)), -7, &new.payload));
    assert_eq!((&job.policy, &job.overrides), (&new.policy, &new.overrides));
    assert_eq!((&job.caller_id, &job.idempotency_key), (&new.caller_id, &new.idempotency_key));
    assert_eq!((job.timeout, &*job.source, &*job.queue), (new.timeout, "shop", "q"));
    let status = store.status(at(0)).await.unwrap();
    assert_eq!((status.events, status.lanes.iter().map(|lane| lane.ready).sum::<u64>()), (301, 301));
    Hand(&store).clean().await;
    store.close().await.unwrap();
}
