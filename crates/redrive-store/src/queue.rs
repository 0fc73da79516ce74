//! Queues: which there are, and whether their work is handed out.

use serde::Serialize;

use crate::Answer;
use crate::time::Timestamp;

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Since when none of its work is handed out; absent: it is.
    pub paused_at: Option<Timestamp>,
    /// Why, in the words of whoever paused it.
    pub paused_why: Option<String>,
}

/// Looking at queues, and stopping their work for a while.
pub trait Queues: Send + Sync {
    /// Every queue, by name.
    fn queues(&self) -> Answer<'_, Vec<Queue>>;

    /// From now on no work of the queue is handed out; what is running goes on. With a `queue_paused` event. Answers whether
    /// it was running; a queue that nobody has used yet is made. Workers of other processes obey at their next request for work.
    fn pause_queue(&self, now: Timestamp, queue: String, why: Option<String>) -> Answer<'_, bool>;

    /// Its work is handed out again, with a `queue_resumed` event. Nothing when there is no such queue; otherwise whether it
    /// was paused.
    fn resume_queue(&self, now: Timestamp, queue: String) -> Answer<'_, Option<bool>>;
}
