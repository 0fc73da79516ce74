//! One flush: every lane is sent from as far as it goes, several at a time.

use std::panic::resume_unwind;

use redrive::engine::Shutdown;
use redrive_store::Timestamp;
use serde::Serialize;
use tokio::task::{JoinError, JoinSet};

use super::lane::{self, LaneRun};
use super::{Outbox, OutboxError};

/// So many lanes are sent from at once.
pub(super) const MOST_LANES: usize = 8;

/// What a flush came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Flushed {
    /// Items that were sent and answered well.
    pub sent: u64,
    /// Items that wait for a person since this flush.
    pub failed: u64,
    /// Lanes in which something is still pending.
    pub left: Vec<Left>,
}

/// A lane in which something is still pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The lane.
    pub lane: String,
    /// Why nothing more was sent from it.
    #[serde(flatten)]
    pub why: LeftWhy,
}

/// Why nothing more was sent from a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum LeftWhy {
    /// The far side is not reached.
    NotReached {
        /// In words.
        last: String,
    },
    /// Its first item is not sent before this time.
    NotBefore {
        /// When.
        at: Timestamp,
    },
    /// Its far side is still at an earlier send of its first item, and was waited for long enough.
    Underway {
        /// Not asked again before this time.
        at: Timestamp,
    },
    /// Somebody else is sending from it.
    HeldByAnother,
    /// We were asked to end.
    Stopped,
}

impl Flushed {
    /// Whether there was nothing to send.
    pub fn is_nothing(&self) -> bool {
        self.sent == 0 && self.failed == 0 && self.left.is_empty()
    }

    /// Whether everything was sent.
    pub fn is_all_sent(&self) -> bool {
        self.failed == 0 && self.left.is_empty()
    }

    pub(super) fn add(&mut self, lane: String, run: LaneRun) {
        self.sent += run.sent;
        self.failed += run.failed;
        self.left.extend(run.left.map(|why| Left { lane, why }));
    }
}

/// A lane that was sent from, and what came of it.
pub(super) type LaneEnded = (String, Result<LaneRun, OutboxError>);

impl Outbox {
    /// Sends what is pending, as far as it goes now. A lane whose far side is not reached, or does not come to an end with what it was
    /// sent, is left for the next flush.
    pub async fn flush(&self) -> Result<Flushed, OutboxError> {
        self.flush_until(&Shutdown::new()).await
    }

    /// The same, until somebody asks to end: once to finish the sends that are under way, twice to let go of them.
    pub async fn flush_until(&self, shutdown: &Shutdown) -> Result<Flushed, OutboxError> {
        let mut waiting = self.pending_lanes().await?.into_iter();
        let (mut sending, mut flushed, mut broken) = (JoinSet::new(), Flushed::default(), None);
        loop {
            for lane in waiting.by_ref().take(MOST_LANES - sending.len()) {
                self.spawn(lane, self.patience, shutdown, &mut sending);
            }
            let Some(ended) = sending.join_next().await else { break };
            match unwound(ended) {
                (lane, Ok(run)) => flushed.add(lane, run),
                // The other lanes are not left in the middle of a send.
                (_, Err(error)) => broken = Some(error),
            }
        }
        flushed.left.sort_by(|one, other| one.lane.cmp(&other.lane));
        broken.map_or(Ok(flushed), Err)
    }

    /// The lanes to send from.
    pub(super) async fn pending_lanes(&self) -> Result<Vec<String>, OutboxError> {
        let mut lanes = self.engine.store().pending_lanes().await?;
        if let Some(only) = &self.lane {
            lanes.retain(|lane| lane == only);
        }
        Ok(lanes)
    }

    pub(super) fn spawn(
        &self,
        name: String,
        patience: std::time::Duration,
        shutdown: &Shutdown,
        sending: &mut JoinSet<LaneEnded>,
    ) {
        let (outbox, shutdown) = (self.clone(), shutdown.clone());
        sending.spawn(async move {
            let run = lane::send(&outbox, &name, patience, &shutdown).await;
            (name, run)
        });
    }
}

/// A panic in there is one here: nobody aborts these.
pub(super) fn unwound(ended: Result<LaneEnded, JoinError>) -> LaneEnded {
    match ended {
        Ok(ended) => ended,
        Err(error) => resume_unwind(error.into_panic()),
    }
}
