//! Which events a caller sees: all of them, or those of the queues that its token reaches.

use std::collections::HashMap;

use redrive_store::{Event, JobId};

use crate::Server;
use crate::caller::Caller;
use crate::problem::Problem;

/// Of how many jobs it is remembered whether they are seen.
const REMEMBERED: usize = 10_000;

/// What a caller sees.
pub(super) struct Reach {
    server: Server,
    /// Absent: everything.
    limited: Option<Caller>,
    jobs: HashMap<JobId, bool>,
}

impl Reach {
    pub(super) fn new(server: &Server, caller: &Caller) -> Reach {
        let limited = (!caller.queues.is_empty()).then(|| caller.clone());
        Reach { server: server.clone(), limited, jobs: HashMap::new() }
    }

    /// Whether this event is in reach. What belongs to no queue is not, for somebody who is limited to queues.
    pub(super) async fn sees(&mut self, event: &Event) -> Result<bool, Problem> {
        let Some(caller) = &self.limited else { return Ok(true) };
        let Some(job) = event.job else {
            let queue = event.data.get("queue").and_then(|queue| queue.as_str());
            return Ok(queue.is_some_and(|queue| caller.reaches(queue)));
        };
        if let Some(known) = self.jobs.get(&job) {
            return Ok(*known);
        }
        let queue = self.queue_of(job, event).await?;
        let sees = queue.is_some_and(|queue| caller.reaches(&queue));
        if self.jobs.len() >= REMEMBERED {
            self.jobs.clear();
        }
        self.jobs.insert(job, sees);
        Ok(sees)
    }

    /// The queue of a job: as its event says where nobody but us has written that, else as the job or its story does.
    async fn queue_of(&self, job: JobId, event: &Event) -> Result<Option<String>, Problem> {
        let said = event.data.get("queue").and_then(|queue| queue.as_str());
        if let ("job_enqueued" | "attempt_started", Some(queue)) = (event.event_type.as_str(), said) {
            return Ok(Some(queue.to_owned()));
        }
        let engine = self.server.engine();
        if let Some(job) = engine.store().job(job).await?.and_then(|record| record.job) {
            return Ok(Some(job.queue));
        }
        Ok(engine.story(job).await?.and_then(|story| story.queue))
    }
}
