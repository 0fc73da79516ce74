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
        let story = self.server.engine().story(job).await?;
        let queue = story.and_then(|story| story.queue);
        let sees = queue.is_some_and(|queue| caller.reaches(&queue));
        if self.jobs.len() >= REMEMBERED {
            self.jobs.clear();
        }
        self.jobs.insert(job, sees);
        Ok(sees)
    }
}
