//! Holding a lane while something of it is sent. Whoever dies lets it go by keeping silent.

use std::time::Duration;

use redrive::engine::Engine;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Outbox, OutboxError, holder};

/// For how long a lane is held at a time, unless told otherwise.
pub(super) const HOLD_FOR: Duration = Duration::from_secs(4);

/// The holder is heard so often while it holds.
const BEATS: u32 = 4;

/// A lane that is ours.
pub(super) struct Held {
    engine: Engine,
    lane: String,
    pub(super) holder: i64,
    /// Dropping it ends the beat.
    stop: oneshot::Sender<()>,
    beat: JoinHandle<()>,
}

impl Held {
    /// Takes a lane, unless somebody else has it.
    pub(super) async fn take(outbox: &Outbox, lane: &str) -> Result<Option<Held>, OutboxError> {
        let (engine, lane, holder) = (outbox.engine.clone(), lane.to_owned(), holder()?);
        let hold_for = outbox.hold_for;
        if !engine.store().hold_lane(engine.now(), lane.clone(), holder, hold_for).await? {
            return Ok(None);
        }
        let (stop, stopped) = oneshot::channel();
        let beat = tokio::spawn(keep(engine.clone(), lane.clone(), holder, hold_for, stopped));
        Ok(Some(Held { engine, lane, holder, stop, beat }))
    }

    /// Lets it go.
    pub(super) async fn leave(self) -> Result<(), OutboxError> {
        drop(self.stop);
        // A beat that is under way ends first: behind the farewell it would hold the lane for nobody.
        if let Err(error) = self.beat.await {
            tracing::warn!(lane = %self.lane, %error, "the lane was not kept to the end");
        }
        Ok(self.engine.store().leave_lane(self.lane, self.holder).await?)
    }
}

async fn keep(
    engine: Engine,
    lane: String,
    holder: i64,
    hold_for: Duration,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            () = sleep(hold_for / BEATS) => {}
        }
        match engine.store().hold_lane(engine.now(), lane.clone(), holder, hold_for).await {
            Ok(true) => {}
            // What is on its way cannot be called back; what became of it is no longer ours to say.
            Ok(false) => {
                tracing::warn!(lane, "somebody else holds the lane now");
                return;
            }
            Err(error) => tracing::warn!(lane, %error, "the lane could not be held longer; trying again"),
        }
    }
}
