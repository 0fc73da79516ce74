//! The beginning of a job: checked here, then durable in the store before anybody is told its id.

use std::fmt;
use std::time::Duration;

use redrive_policy::Override;
use redrive_store::{Enqueued, EventSeq, NewJob, Timestamp, WorkerId};
use serde::Serialize;

use super::overrides::{JobOverrides, overrides_to_json};
use super::{Engine, EngineError};

impl Engine {
    /// Adds one job.
    ///
    /// A policy that nobody has defined is refused here, where somebody can still correct it.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, EngineError> {
        let mut enqueued = self.enqueue_many(vec![job]).await?;
        // The store answers with one for each.
        enqueued.pop().ok_or_else(|| {
            redrive_store::StoreError::from(redrive_store::Trouble::Database(
                "one job was added, and none was answered".to_owned(),
            ))
            .into()
        })
    }

    /// Adds jobs: either all of them or none.
    pub async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, EngineError> {
        self.check_jobs(&jobs).map_err(|(_, error)| error)?;
        Ok(self.0.store.enqueue(self.now(), jobs).await?)
    }

    /// Whether jobs can be added: their policies are there, what they override can be read, and they fit the store. Otherwise the
    /// place of the first that cannot, and why.
    // The error is large because ours is; nobody passes it on far.
    #[allow(clippy::result_large_err)]
    pub fn check_jobs(&self, jobs: &[NewJob]) -> Result<(), (usize, EngineError)> {
        let policies = self.policies();
        for (place, job) in jobs.iter().enumerate() {
            let at = |error| (place, error);
            policies.named(job.policy.as_deref()).map_err(at)?;
            // First whether it is short enough to be read.
            job.validate().map_err(|error| at(error.into()))?;
            if let Some(overrides) = &job.overrides {
                JobOverrides::parse(overrides).map_err(at)?;
            }
        }
        Ok(())
    }

    /// A job of this kind whose payload is written as JSON, to be furnished and enqueued.
    ///
    /// ```no_run
    /// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
    /// use std::time::Duration;
    ///
    /// let enqueued = engine
    ///     .job("send_email", &serde_json::json!({"to": "ada@example.com"}))
    ///     .queue("mail")
    ///     .delay(Duration::from_secs(60))
    ///     .unique("welcome-ada")
    ///     .policy("api")
    ///     .enqueue()
    ///     .await?;
    /// println!("{}", enqueued.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn job<T: Serialize + ?Sized>(&self, kind: impl Into<String>, payload: &T) -> JobBuilder {
        let payload = serde_json::to_vec(payload);
        let mut job = NewJob { kind: kind.into(), ..NewJob::default() };
        let refused = match payload {
            Ok(payload) => {
                job.payload = payload;
                None
            }
            Err(error) => Some(EngineError::Payload(error)),
        };
        JobBuilder { engine: self.clone(), job, delay: None, deadline: None, refused }
    }
}

/// A job in the making; see [`Engine::job`].
#[must_use = "nothing is enqueued until `enqueue` is awaited"]
pub struct JobBuilder {
    engine: Engine,
    job: NewJob,
    delay: Option<Duration>,
    deadline: Option<Duration>,
    refused: Option<EngineError>,
}

impl JobBuilder {
    /// In this queue instead of `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> JobBuilder {
        self.job.queue = queue.into();
        self
    }

    /// Not before so much time has passed.
    pub fn delay(mut self, delay: Duration) -> JobBuilder {
        self.delay = Some(delay);
        self
    }

    /// Not before this time.
    pub fn run_at(mut self, run_at: Timestamp) -> JobBuilder {
        self.job.run_at = Some(run_at);
        self
    }

    /// Before others (up to 100) or after them (down to −100).
    pub fn priority(mut self, priority: i32) -> JobBuilder {
        self.job.priority = priority;
        self
    }

    /// Once only: while an unfinished job of the queue has this key, that one is answered and nothing is added.
    pub fn unique(mut self, key: impl Into<String>) -> JobBuilder {
        self.job.unique_key = Some(key.into());
        self
    }

    /// The caller's own id for it.
    pub fn caller_id(mut self, id: impl Into<String>) -> JobBuilder {
        self.job.caller_id = Some(id.into());
        self
    }

    /// Under the policy of this name.
    pub fn policy(mut self, name: impl Into<String>) -> JobBuilder {
        self.job.policy = Some(name.into());
        self
    }

    /// With these fields of the policy otherwise.
    pub fn overrides(mut self, wish: &Override) -> JobBuilder {
        self.job.overrides = overrides_to_json(wish);
        self
    }

    /// The key that its effects carry, instead of one made from its id.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> JobBuilder {
        self.job.idempotency_key = Some(key.into());
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, each: Duration) -> JobBuilder {
        self.job.timeout = Some(each);
        self
    }

    /// How long the whole may take, counted from now.
    pub fn deadline(mut self, total: Duration) -> JobBuilder {
        self.deadline = Some(total);
        self
    }

    /// What its events name as their source, instead of the kind.
    pub fn source(mut self, source: impl Into<String>) -> JobBuilder {
        self.job.source = source.into();
        self
    }

    /// Only this worker leases it, while its presence lasts.
    pub fn held_for(mut self, worker: WorkerId) -> JobBuilder {
        self.job.held_for = Some(worker);
        self
    }

    /// It goes to this target, and is protected together with everything else that goes there, as `key:NAME`.
    pub fn target(mut self, target: impl Into<String>) -> JobBuilder {
        self.job.target = Some(target.into());
        self
    }

    /// The event that led to it.
    pub fn parent(mut self, event: EventSeq) -> JobBuilder {
        self.job.parent = Some(event);
        self
    }

    /// The job as it would be enqueued now.
    pub fn build(self) -> Result<NewJob, EngineError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let now = self.engine.now();
        let mut job = self.job;
        job.run_at = self.delay.map(|delay| now.after(delay)).or(job.run_at);
        job.deadline_at = self.deadline.map(|total| now.after(total)).or(job.deadline_at);
        Ok(job)
    }

    /// Adds it, durably.
    pub async fn enqueue(self) -> Result<Enqueued, EngineError> {
        let engine = self.engine.clone();
        let job = self.build()?;
        engine.enqueue(job).await
    }
}

impl fmt::Debug for JobBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobBuilder").field("job", &self.job).finish_non_exhaustive()
    }
}
