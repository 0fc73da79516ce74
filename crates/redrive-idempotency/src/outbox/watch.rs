//! Sending for as long as somebody wants it: what is added is sent soon, and what was not reached when the network is back.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redrive::engine::Shutdown;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::flush::{Flushed, LaneEnded, LeftWhy, MOST_LANES, unwound};
use super::lane::LaneRun;
use super::{Outbox, OutboxError};

/// How often it is looked for something new: at first, and when nothing has come for a while.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// How soon a far side that was not reached, or is still at an earlier send, is tried again: at first, and after a while.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// A lane from which nothing is sent for a while.
struct Rest {
    until: Instant,
    /// How long, if it is for the far side: that it is reached, or comes to an end.
    far_side: Option<Duration>,
}

impl Rest {
    fn of(why: &LeftWhy, before: Option<&Rest>, outbox: &Outbox) -> Rest {
        let (shortest, longest) = TRY_AGAIN;
        let again =
            || before.and_then(|rest| rest.far_side).map_or(shortest, |before| (before * 2).min(longest));
        let (wait, far_side) = match why {
            LeftWhy::NotReached { .. } | LeftWhy::Underway { .. } => (again(), Some(again())),
            // A person may change their mind about it in the meantime.
            LeftWhy::NotBefore { at } => {
                (at.since(outbox.engine.now()).min(shortest), before.and_then(|rest| rest.far_side))
            }
            LeftWhy::HeldByAnother | LeftWhy::Stopped => (shortest, None),
        };
        Rest { until: Instant::now() + wait, far_side }
    }
}

impl Outbox {
    /// Sends what there is and what comes, until somebody asks to end: once to finish the sends that are under way, twice to let go of
    /// them. What is left in the end is told as a flush tells it.
    pub async fn run(&self, shutdown: &Shutdown) -> Result<Flushed, OutboxError> {
        let mut watch = Watch {
            outbox: self,
            resting: HashMap::new(),
            busy: HashSet::new(),
            flushed: Flushed::default(),
        };
        let mut sending = JoinSet::new();
        let watched = watch.until_drained(shutdown, &mut sending).await;
        while let Some(ended) = sending.join_next().await {
            watch.ended(ended)?;
        }
        watched?;
        Ok(watch.flushed)
    }
}

struct Watch<'a> {
    outbox: &'a Outbox,
    resting: HashMap<String, Rest>,
    busy: HashSet<String>,
    flushed: Flushed,
}

impl Watch<'_> {
    async fn until_drained(
        &mut self,
        shutdown: &Shutdown,
        sending: &mut JoinSet<LaneEnded>,
    ) -> Result<(), OutboxError> {
        let (shortest, longest) = LOOK_AGAIN;
        let mut nap = shortest;
        while !shutdown.is_draining() {
            match self.outbox.pending_lanes().await {
                Ok(lanes) => self.begin(lanes, shutdown, sending),
                Err(OutboxError::Store(error)) if error.may_pass() => {
                    tracing::warn!(%error, "the store does not answer; trying again");
                }
                Err(error) => return Err(error),
            }
            tokio::select! {
                biased;
                () = shutdown.draining() => break,
                Some(ended) = sending.join_next(), if !sending.is_empty() => {
                    self.ended(ended)?;
                    nap = shortest;
                }
                () = sleep(nap) => nap = (nap * 2).min(longest),
            }
        }
        Ok(())
    }

    /// Sends from the lanes that have something and do not rest.
    fn begin(&mut self, lanes: Vec<String>, shutdown: &Shutdown, sending: &mut JoinSet<LaneEnded>) {
        let now = Instant::now();
        self.resting.retain(|lane, _| lanes.contains(lane));
        for lane in lanes {
            let rests = self.resting.get(&lane).is_some_and(|rest| rest.until > now);
            if sending.len() < MOST_LANES && !rests && self.busy.insert(lane.clone()) {
                self.outbox.spawn(lane, Duration::ZERO, shutdown, sending);
            }
        }
    }

    fn ended(&mut self, ended: Result<LaneEnded, tokio::task::JoinError>) -> Result<(), OutboxError> {
        let (lane, run) = unwound(ended);
        self.busy.remove(&lane);
        let run = match run {
            Err(OutboxError::Store(error)) if error.may_pass() => {
                tracing::warn!(%error, lane, "the store does not answer; trying again");
                LaneRun::left(LeftWhy::Stopped)
            }
            run => run?,
        };
        // Only how it stands in the end is told.
        self.flushed.left.retain(|left| left.lane != lane);
        // Something went through: the far side was there.
        let before = self.resting.remove(&lane).filter(|_| run.sent == 0);
        if let Some(why) = &run.left {
            self.resting.insert(lane.clone(), Rest::of(why, before.as_ref(), self.outbox));
        }
        self.flushed.add(lane, run);
        Ok(())
    }
}
