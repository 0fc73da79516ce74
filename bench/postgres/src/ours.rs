//! redrive, through its engine: four connections, the database's clock, every event written.

use redrive::Fail;
use redrive::engine::{Engine, Shutdown};
use redrive_store::NewJob;
use tokio::task::JoinHandle;

use crate::contest::{Body, Contestant, started};

#[derive(Clone)]
pub struct Redrive(Engine);

fn job() -> NewJob {
    NewJob::new("bench", Body::json())
}

impl Contestant for Redrive {
    type Worker = (Shutdown, JoinHandle<()>);

    async fn open(url: &str) -> Redrive {
        Redrive(Engine::connect(url).await.expect("a store"))
    }

    async fn push(&self) {
        self.0.enqueue(job()).await.expect("enqueued");
    }

    async fn push_many(&self, jobs: usize) {
        self.0.enqueue_many((0..jobs).map(|_| job()).collect()).await.expect("enqueued");
    }

    async fn start(&self, slots: usize) -> Self::Worker {
        let worker = self.0.worker().concurrency(slots).handle("bench", |body: Body, _| async move {
            started(&body);
            Ok::<_, Fail>(())
        });
        let shutdown = Shutdown::new();
        let ends = shutdown.clone();
        let task = tokio::spawn(async move {
            worker.run(&ends).await.expect("a worker");
        });
        (shutdown, task)
    }

    async fn stop((shutdown, task): Self::Worker) {
        shutdown.signal();
        task.await.expect("a worker");
    }

    async fn unfinished(&self) -> bool {
        self.0.store().unfinished(Vec::new(), Vec::new()).await.expect("an answer")
    }

    async fn close(self) {
        self.0.store().close().await.expect("a store that closes");
    }
}
