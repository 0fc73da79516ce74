//! Those who follow the stream: one look at its end for all of them, so that hundreds who follow cost what one does.
//!
//! A look answers only those who were there before it began: whoever has just written something is told of it.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::desk::Room;
use super::fault::Fault;
use super::line::{args, column};
use super::patience::Patience;
use super::texts::sql;
use super::verb::{Answered, Reply};
use crate::error::StoreError;
use crate::id::EventSeq;

/// How often the stream is looked at for whoever follows it.
const LOOK_FOR_EVENTS: Duration = Duration::from_millis(100);
/// How often while it is only a matter of others' commits.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// How long an event may wait for the transactions that were under way before its own, though nobody wants to wait.
const SETTLING: Duration = Duration::from_secs(1);

/// Somebody who waits for what comes behind this place.
#[derive(Debug)]
pub(super) struct Follow {
    after: EventSeq,
    arrived: Instant,
    until: Instant,
    /// The last event there was when we looked first, if it is behind that place.
    goal: EventSeq,
    reply: Reply<EventSeq>,
}

/// The end of the stream.
#[derive(Debug, Clone, Copy)]
struct Horizon {
    /// The last event of those before which nothing can appear any more.
    complete: EventSeq,
    /// The last of all.
    last: EventSeq,
}

impl Follow {
    pub(super) fn new(after: EventSeq, wait: Duration) -> (Follow, Answered<EventSeq>) {
        let (reply, answer) = oneshot::channel();
        let arrived = Instant::now();
        let until = arrived + wait.min(Duration::from_hours(1));
        (Follow { after, arrived, until, goal: EventSeq(0), reply }, answer)
    }

    /// Answers it, or says how soon to look again.
    fn meet(mut self, horizon: Horizon, now: Instant) -> Option<(Follow, Duration)> {
        let Horizon { complete, last } = horizon;
        // What is there, but may still get neighbours before it, is waited for a little.
        self.goal = if self.goal > self.after { self.goal } else { last };
        let unsettled = self.goal > self.after.max(complete) && now.duration_since(self.arrived) < SETTLING;
        if !unsettled && (complete > self.after || self.until <= now) {
            // Whoever does not wait for the answer does not need it.
            drop(self.reply.send(Ok(complete.max(self.after))));
            return None;
        }
        let left = self.until.saturating_duration_since(now);
        let soon = if unsettled { LOOK_SOON } else { left.min(LOOK_FOR_EVENTS) };
        Some((self, soon))
    }
}

/// Looks for whoever follows, until the store is closed. Who follows then hears that it is.
pub(super) async fn follow(room: Rc<Room>) {
    let mut following: Vec<Follow> = Vec::new();
    while !room.is_closing() {
        following.append(&mut room.followers.borrow_mut());
        following.retain(|one| !one.reply.is_closed());
        if following.is_empty() {
            room.wake_follower.notified().await;
            continue;
        }
        let mut nap = LOOK_FOR_EVENTS;
        match look(&room, &mut following).await {
            Ok(horizon) => {
                let now = Instant::now();
                let waiting = following.into_iter().filter_map(|one| one.meet(horizon, now));
                following = waiting.map(|(one, soon)| (nap = nap.min(soon), one).1).collect();
            }
            Err(error) => following.drain(..).for_each(|one| drop(one.reply.send(Err(error.clone())))),
        }
        let waiting = !following.is_empty();
        tokio::select! {
            () = tokio::time::sleep(nap), if waiting => {}
            () = room.wake_follower.notified() => {}
        }
    }
}

/// The end of the stream. Asks until it is told, or until nobody wants to know any more.
async fn look(room: &Room, following: &mut Vec<Follow>) -> Result<Horizon, StoreError> {
    let _busy = room.busy();
    room.counted.follows.fetch_add(1, Ordering::Relaxed);
    let mut patience = Patience::new(room.pool.down_since());
    loop {
        match horizon(room).await {
            Ok(horizon) => {
                room.pool.note(true);
                return Ok(horizon);
            }
            Err(fault) => {
                if let Fault::Lost(_) = fault {
                    room.pool.note(false);
                }
                following.retain(|one| !one.reply.is_closed());
                match patience.after(&fault) {
                    Some(delay) if !following.is_empty() => tokio::time::sleep(delay).await,
                    _ => return Err(fault.into_error()),
                }
            }
        }
    }
}

async fn horizon(room: &Room) -> Result<Horizon, Fault> {
    let line = room.pool.line().await?;
    let row = line.first(sql!("event_horizon"), args![]).await;
    if let Err(Fault::Lost(_)) = &row {
        line.discard();
    }
    let row = row?.ok_or_else(|| Fault::corrupt("a question without an answer"))?;
    Ok(Horizon { complete: EventSeq(column(&row, 0)?), last: EventSeq(column(&row, 1)?) })
}
