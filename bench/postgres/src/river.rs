//! River's client for Rust, set as its own benchmark command sets it: it looks every 20 ms and rests 2 ms after a fetch
//! (by default it would be 1 s and 100 ms). 32 connections.

use std::time::Duration;

use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::sqlx::{PgPool, query_scalar};
use riverqueue::{
    Client, InsertOpts, Job, JobArgs, QueueConfig, RunHandle, WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

use crate::contest::{Body, Contestant, started};

pub const CONNECTIONS: u32 = 32;

#[derive(Clone, Serialize, Deserialize, JobArgs)]
#[river(kind = "bench")]
struct Args {
    #[serde(flatten)]
    body: Body,
}

#[derive(Clone)]
pub struct River {
    pool: PgPool,
    producer: Client,
}

fn args() -> Args {
    Args { body: Body::new() }
}

fn client(pool: &PgPool, slots: usize) -> Client {
    let mut workers = Workers::new();
    let handler = |_: WorkContext, job: Job<Args>| async move {
        started(&job.args.body);
        Ok::<_, std::io::Error>(WorkOutcome::Complete)
    };
    workers.add_fn(handler).expect("a handler");
    let queue = QueueConfig::new(slots).with_fetch_poll_interval(Duration::from_millis(20));
    let builder = Client::builder(pool.clone()).workers(workers).fetch_cooldown(Duration::from_millis(2));
    builder.queue("default", queue).build().expect("a client")
}

/// All connections are open before the clock starts.
pub async fn pool(url: &str) -> PgPool {
    let options = PgPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    options.connect(url).await.expect("a pool")
}

impl Contestant for River {
    type Worker = (Client, RunHandle);

    async fn open(url: &str) -> River {
        let pool = pool(url).await;
        PostgresMigrator::new(pool.clone()).migrate_up().await.expect("a schema");
        River { producer: client(&pool, 1), pool }
    }

    async fn push(&self) {
        self.producer.insert(args()).await.expect("enqueued");
    }

    async fn push_many(&self, jobs: usize) {
        let jobs = (0..jobs).map(|_| (args(), InsertOpts::default()));
        self.producer.insert_many(jobs).await.expect("enqueued");
    }

    async fn start(&self, slots: usize) -> Self::Worker {
        let client = client(&self.pool, slots);
        let run = client.start().expect("a worker");
        (client, run)
    }

    async fn stop((_client, mut run): Self::Worker) {
        run.stop().await.expect("a worker that stops");
    }

    async fn unfinished(&self) -> bool {
        let states = "'available', 'running', 'retryable', 'scheduled', 'pending'";
        let question = format!("SELECT EXISTS (SELECT FROM river_job WHERE state IN ({states}))");
        let question = riverqueue::sqlx::AssertSqlSafe(question);
        query_scalar::<_, bool>(question).fetch_one(&self.pool).await.expect("an answer")
    }

    async fn close(self) {
        self.pool.close().await;
    }
}
