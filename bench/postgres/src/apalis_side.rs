//! apalis on PostgreSQL: it listens, looks every 10 ms all the same, and fetches up to 500 jobs at a time. 32 connections.

use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::{BackendExt, BoxDynError, TaskSink, WorkerBuilder};
use apalis_postgres::{Config, PgPool, PostgresStorage};
use tokio::task::JoinHandle;

use crate::contest::{Body, Contestant, started};

#[derive(Clone)]
pub struct Apalis {
    pool: PgPool,
    storage: PostgresStorage<Body>,
}

async fn handle(body: Body) -> Result<(), BoxDynError> {
    started(&body);
    Ok(())
}

impl Contestant for Apalis {
    type Worker = JoinHandle<()>;

    async fn open(url: &str) -> Apalis {
        let pool = crate::river::pool(url).await;
        PostgresStorage::setup(&pool).await.expect("a schema");
        let config = Config::default().queue("bench").batch_size(500);
        Apalis { storage: PostgresStorage::new(&pool).with_config(config), pool }
    }

    async fn push(&self) {
        self.storage.clone().push(Body::new()).await.expect("enqueued");
    }

    async fn push_many(&self, jobs: usize) {
        let jobs = (0..jobs).map(|_| Body::new()).collect();
        self.storage.clone().push_bulk(jobs).await.expect("enqueued");
    }

    async fn start(&self, slots: usize) -> Self::Worker {
        let backend = self.storage.clone().with_pubsub().poll_with_interval(Duration::from_millis(10));
        let worker = WorkerBuilder::new("bench").backend(backend).concurrency(slots).build(handle);
        tokio::spawn(async move {
            worker.run().await.expect("a worker");
        })
    }

    async fn stop(worker: Self::Worker) {
        worker.abort();
        // Its end is an abortion, which is what we want.
        let _aborted = worker.await;
    }

    async fn unfinished(&self) -> bool {
        let question =
            "SELECT EXISTS (SELECT FROM apalis.jobs WHERE status IN ('Pending', 'Queued', 'Running'))";
        riverqueue::sqlx::query_scalar::<_, bool>(question).fetch_one(&self.pool).await.expect("an answer")
    }

    async fn close(self) {
        self.pool.close().await;
    }
}
