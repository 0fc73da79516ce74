//! Who a worker is while it runs: a number that nobody else has ever had, and how long its leases certainly hold.
//!
//! Every heartbeat that succeeds moves the time up to which all leases of this worker are certain. A process that was
//! stopped or suspended past it must ask first: until then its attempts are not polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive_store::WorkerId;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::super::Clock;

/// One run of a worker.
#[derive(Debug)]
pub(in super::super) struct Incarnation {
    pub(in super::super) id: WorkerId,
    pub(in super::super) presence_for: Duration,
    held_for: Option<WorkerId>,
    lease_for: Duration,
    /// On the steady reading, in microseconds.
    sure_until: AtomicU64,
    /// Somebody is in doubt.
    wanted: Notify,
    /// A heartbeat was answered.
    beaten: Arc<Notify>,
}

impl Incarnation {
    pub(super) fn new(
        id: WorkerId,
        presence_for: Duration,
        held_for: Option<WorkerId>,
        lease_for: Duration,
        clock: &dyn Clock,
    ) -> Incarnation {
        let incarnation = Incarnation {
            id,
            presence_for,
            held_for,
            lease_for,
            sure_until: AtomicU64::new(0),
            wanted: Notify::new(),
            beaten: Arc::new(Notify::new()),
        };
        incarnation.beat(clock.steady());
        incarnation
    }

    /// Who keeps a job that is put back: this worker, if it works on nothing but what is held for it.
    pub(in super::super) fn held_for(&self) -> Option<WorkerId> {
        self.held_for
    }

    /// A heartbeat that was sent at this time has succeeded.
    pub(super) fn beat(&self, sent_at: Duration) {
        self.sure_until.store(micros(sent_at.saturating_add(self.lease_for)), Ordering::Release);
        self.beaten.notify_waiters();
    }

    /// Whether the leases certainly hold.
    pub(in super::super) fn is_sure(&self, clock: &dyn Clock) -> bool {
        micros(clock.steady()) <= self.sure_until.load(Ordering::Acquire)
    }

    /// Asks for a heartbeat at once; ends when one was answered.
    pub(in super::super) fn next_beat(&self) -> OwnedNotified {
        let beaten = Arc::clone(&self.beaten).notified_owned();
        self.wanted.notify_one();
        beaten
    }

    /// Ends when somebody asks for a heartbeat.
    pub(super) async fn beat_wanted(&self) {
        self.wanted.notified().await;
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
