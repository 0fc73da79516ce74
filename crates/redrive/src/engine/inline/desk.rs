//! Where callers of retries in process and their leases meet: one hidden worker per process, which leases only what
//! is held for it and hands each lease to the caller whose job it is.
//!
//! It is started with the first retry, keeps its presence and every lease by its heartbeat, and leaves when nobody has
//! needed it for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{JobId, NewJob, WorkerId};
use tokio::sync::{mpsc, oneshot};

use crate::engine::executor::{Boxed, Running, Work, Worked};
use crate::engine::handler::silent;
use crate::engine::{Engine, EngineError, Shutdown};
use crate::outcome::Outcome;

/// How many retries in process run at a time; more wait for their turn.
const AT_A_TIME: usize = 4_096;
/// How long the desk stays when nobody needs it.
const STAYS: Duration = Duration::from_secs(10);
/// How long a lease waits for a caller that has not come yet.
const WAITS_FOR_CALLER: Duration = Duration::from_secs(30);

/// The desk of one process.
pub(in crate::engine) struct Desk {
    worker: WorkerId,
    callers: Arc<Callers>,
    task: tokio::task::JoinHandle<()>,
}

/// Who waits for which job.
#[derive(Default)]
struct Callers {
    places: Mutex<HashMap<JobId, Place>>,
}

enum Place {
    /// A caller, to be told.
    Caller(mpsc::UnboundedSender<Turn>),
    /// A lease that came before its caller had the job's number.
    Early(Turn),
}

impl Callers {
    fn places(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease of one attempt, in the hands of the caller who runs it.
pub(super) struct Turn {
    answer: oneshot::Sender<Worked>,
    released: oneshot::Receiver<()>,
}

impl Turn {
    /// Ends the attempt; returns when that is durable, or the lease is lost.
    pub(super) async fn settle(self, worked: Worked) {
        if self.answer.send(worked).is_ok() {
            // Nothing is ever sent: the other end is dropped when the attempt is settled.
            let _ = self.released.await;
        }
    }
}

/// A caller's place at the desk, given up when it is dropped.
pub(super) struct Ticket {
    job: JobId,
    turns: mpsc::UnboundedReceiver<Turn>,
    callers: Arc<Callers>,
}

impl Ticket {
    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// The next attempt's lease; nothing when the desk is gone.
    pub(super) async fn turn(&mut self) -> Option<Turn> {
        self.turns.recv().await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.callers.places().remove(&self.job);
    }
}

impl Engine {
    /// Enqueues a job that is held for this process, and takes the caller's place for it.
    pub(super) async fn take_ticket(&self, mut job: NewJob) -> Result<Ticket, EngineError> {
        let mut slot = self.0.desk.lock().await;
        let desk = match slot.take().filter(|desk| !desk.task.is_finished()) {
            Some(desk) => desk,
            None => self.open_desk().await?,
        };
        let (worker, callers) = (desk.worker, Arc::clone(&desk.callers));
        *slot = Some(desk);
        drop(slot);
        job.held_for = Some(worker);
        let job = self.store().enqueue(self.now(), vec![job]).await?.first().map(|enqueued| enqueued.id);
        let job = job.unwrap_or(JobId(0));
        let (sender, turns) = mpsc::unbounded_channel();
        let early = callers.places().insert(job, Place::Caller(sender.clone()));
        if let Some(Place::Early(turn)) = early {
            let _ = sender.send(turn);
        }
        Ok(Ticket { job, turns, callers })
    }

    async fn open_desk(&self) -> Result<Desk, EngineError> {
        let callers = Arc::new(Callers::default());
        let worker = self
            .worker()
            .label(format!("retries of process {}", std::process::id()))
            .concurrency(AT_A_TIME)
            .reserved_only()
            .wait(Duration::from_secs(1))
            .otherwise(Arc::new(Hand(Arc::clone(&callers))))
            .register()
            .await?;
        let id = worker.id();
        let (engine, watched) = (self.clone(), Arc::clone(&callers));
        let task = tokio::spawn(async move {
            let shutdown = Shutdown::new();
            let leaves = async {
                engine.until_nobody_comes(&watched).await;
                shutdown.signal();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = worker.run(&shutdown) => if let Err(error) = ended {
                    tracing::error!(%error, "the worker for retries in process ended");
                },
                () = leaves => {}
            }
            // Who still waits learns that nobody will come.
            watched.places().clear();
        });
        Ok(Desk { worker: id, callers, task })
    }

    /// Ends when the desk has not been needed for a while; by then it is no longer to be found.
    async fn until_nobody_comes(&self, callers: &Arc<Callers>) {
        let mut idle = false;
        loop {
            tokio::time::sleep(STAYS).await;
            let mut slot = self.0.desk.lock().await;
            // A ticket that is being made holds a handle to the callers.
            let needed = !callers.places().is_empty() || Arc::strong_count(callers) > IDLE_HANDLES;
            if idle && !needed {
                *slot = None;
                return;
            }
            idle = !needed;
        }
    }
}

/// The desk's own, its hand's, and the one that is asked.
const IDLE_HANDLES: usize = 3;

/// Hands leases to their callers.
struct Hand(Arc<Callers>);

impl Work for Hand {
    fn begin(&self, running: Running) -> Boxed<'static, Worked> {
        let (answer, answered) = oneshot::channel();
        let mut turn = Turn { answer, released: running.released() };
        let job = running.job_id();
        drop(running);
        {
            let mut places = self.0.places();
            match places.get(&job) {
                Some(Place::Caller(caller)) => match caller.send(turn) {
                    Ok(()) => return Box::pin(wait_for(answered)),
                    Err(back) => turn = back.0,
                },
                Some(Place::Early(_)) | None => {}
            }
            places.insert(job, Place::Early(turn));
        }
        let callers = Arc::clone(&self.0);
        Box::pin(async move {
            let mut answered = std::pin::pin!(wait_for(answered));
            if let Ok(worked) = tokio::time::timeout(WAITS_FOR_CALLER, &mut answered).await {
                return worked;
            }
            {
                let mut places = callers.places();
                if matches!(places.get(&job), Some(Place::Early(_))) {
                    // Its answer is dropped with it, so that the wait below ends.
                    places.remove(&job);
                }
            }
            answered.await
        })
    }
}

async fn wait_for(answered: oneshot::Receiver<Worked>) -> Worked {
    answered.await.unwrap_or_else(|_| gone())
}

fn gone() -> Worked {
    silent(Outcome::Cancelled("its caller went away".to_owned()))
}
