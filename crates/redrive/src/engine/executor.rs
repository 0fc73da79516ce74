//! What carries out an attempt. Typed handlers, commands and HTTP calls all stand behind [`Executor`]; they get what
//! is known about the attempt ([`Running`]) and answer with what became of it, as data.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{JobId, LeasedJob, Renewal};
use tokio::sync::oneshot;

use super::settle::Failing;
use super::worker::Incarnation;
use super::{Engine, EngineError};
use crate::cancel::Cancel;
use crate::outcome::Executed;
use crate::surroundings::Surroundings;

/// A future that somebody else owns.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Carries out attempts of one kind of job.
///
/// ```
/// use redrive::engine::{Executor, Running};
/// use redrive::{Executed, Outcome};
/// use std::future::Future;
/// use std::pin::Pin;
///
/// struct Shout;
/// impl Executor for Shout {
///     fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
///         Box::pin(async move {
///             let _loud = String::from_utf8_lossy(&running.job.payload).to_uppercase();
///             Executed::silent(Outcome::Succeeded, Default::default())
///         })
///     }
/// }
/// ```
pub trait Executor: Send + Sync {
    /// One attempt. Dropping the future ends it; [`Running::cancel`] is the friendlier way and comes first.
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>>;

    /// How much longer than [`Running::limit`] it may take to end an attempt by itself. An executor that keeps to no
    /// limit of its own leaves this at zero, and its attempts are dropped at their limit.
    fn leeway(&self) -> Duration {
        Duration::ZERO
    }
}

/// What an attempt knows of itself. It reads as the [`LeasedJob`] that it runs under.
#[derive(Clone)]
pub struct Running(Arc<RunningShared>);

struct RunningShared {
    engine: Engine,
    leased: LeasedJob,
    incarnation: Arc<Incarnation>,
    cancel: Cancel,
    wish: AtomicU8,
    /// Dropped with the last handle, after the attempt is settled or lost: whoever waits for that holds the other end.
    held: Mutex<Option<oneshot::Sender<()>>>,
}

/// What the worker wants of an attempt that it asks to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Somebody cancelled the job.
    Cancelled,
    /// The worker leaves: the job is given back.
    Released,
}

impl Running {
    pub(super) fn new(engine: Engine, leased: LeasedJob, incarnation: Arc<Incarnation>) -> Running {
        let (cancel, wish) = (Cancel::new(), AtomicU8::new(0));
        let held = Mutex::new(None);
        Running(Arc::new(RunningShared { engine, leased, incarnation, cancel, wish, held }))
    }

    /// Ends, with an error, when the attempt is settled or lost and nobody holds it any more.
    pub(super) fn released(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// The engine that runs it.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Fires when the attempt should end: the job was cancelled, or the worker leaves.
    pub fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// The job's id.
    pub fn job_id(&self) -> JobId {
        self.0.leased.job.id
    }

    /// The key that its effects carry: the job's own, or one made from its id; the same for each attempt.
    pub fn idempotency_key(&self) -> String {
        let job = &self.0.leased.job;
        job.idempotency_key
            .clone()
            .unwrap_or_else(|| job.id.idempotency_key(self.0.engine.store().store_id()))
    }

    /// Asks for the lease now, instead of at the next heartbeat. `false`: it is lost, and nothing that this attempt
    /// does counts any more.
    pub async fn extend(&self) -> Result<bool, EngineError> {
        let RunningShared { engine, leased, incarnation, .. } = &*self.0;
        let renewals = engine
            .store()
            .renew(engine.now(), incarnation.id, incarnation.presence_for, vec![leased.token])
            .await?;
        Ok(renewals.iter().all(|renewal| *renewal != Renewal::Lost))
    }

    /// How long the attempt may run: the job's limit for each, or what is left until its deadline.
    pub fn limit(&self) -> Option<Duration> {
        let job = &self.0.leased.job;
        let left = job.deadline_at.map(|deadline| deadline.since(self.0.engine.now()));
        [job.timeout, left].into_iter().flatten().min()
    }

    /// What a command or a call is told about the attempt that carries it out.
    pub fn surroundings(&self) -> Surroundings {
        Surroundings {
            hint: self.hint.clone(),
            idempotency_key: Some(self.idempotency_key()),
            fence: Some(self.token.fence.to_string()),
            timeout: self.limit(),
            cancel: Some(self.cancel().clone()),
            after_a_crash: self.crashes > 0,
            ..Surroundings::new(self.job_id().to_string(), self.attempt)
        }
    }

    pub(super) fn incarnation(&self) -> &Arc<Incarnation> {
        &self.0.incarnation
    }

    pub(super) fn ask_to_end(&self, wish: Wish) {
        let number = match wish {
            Wish::Cancelled => 1,
            Wish::Released => 2,
        };
        self.0.wish.store(number, Ordering::SeqCst);
        self.0.cancel.cancel();
    }

    pub(super) fn wish(&self) -> Option<Wish> {
        match self.0.wish.load(Ordering::SeqCst) {
            1 => Some(Wish::Cancelled),
            2 => Some(Wish::Released),
            _ => None,
        }
    }
}

impl Deref for Running {
    type Target = LeasedJob;

    fn deref(&self) -> &LeasedJob {
        &self.0.leased
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("job", &self.job.id)
            .field("kind", &self.job.kind)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What work hands back: what was carried out, or a failure that was looked at already.
pub(super) enum Worked {
    Executed(Executed),
    Failing(Box<Failing>),
}

/// A kind of work as the worker sees it: handlers of any type, and executors.
pub(super) trait Work: Send + Sync {
    /// Begins an attempt. What it holds it owns, so that it can run as a task of its own.
    fn begin(&self, running: Running) -> Boxed<'static, Worked>;

    /// See [`Executor::leeway`].
    fn leeway(&self) -> Duration {
        Duration::ZERO
    }
}

/// An executor as work.
pub(super) struct ByExecutor(pub(super) Arc<dyn Executor>);

impl Work for ByExecutor {
    fn begin(&self, running: Running) -> Boxed<'static, Worked> {
        let executor = Arc::clone(&self.0);
        Box::pin(async move { Worked::Executed(executor.execute(&running).await) })
    }

    fn leeway(&self) -> Duration {
        self.0.leeway()
    }
}
