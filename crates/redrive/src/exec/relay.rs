//! Signals on their way from us to a running command.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// A handle by which a signal that reached this process is passed on to a command, and cancels its job.
///
/// Like [`Cancel`](crate::Cancel) it is shared and does not forget: a command that is to be started after a signal
/// came is not started at all.
///
/// ```
/// let relay = redrive::Relay::new();
/// relay.clone().send(15);
/// assert_eq!(relay.heard(), Some(15));
/// ```
#[derive(Clone)]
pub struct Relay(Arc<watch::Sender<Heard>>);

/// What has come so far.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    first: Option<i32>,
    last: i32,
    count: u32,
}

impl Relay {
    /// A relay that has heard nothing.
    pub fn new() -> Relay {
        Relay(Arc::new(watch::Sender::new(Heard::default())))
    }

    /// Passes this signal on.
    pub fn send(&self, signal: i32) {
        self.0.send_modify(|heard| {
            heard.first.get_or_insert(signal);
            heard.last = signal;
            heard.count = heard.count.saturating_add(1);
        });
    }

    /// The first signal that came: the one that cancelled.
    pub fn heard(&self) -> Option<i32> {
        self.0.borrow().first
    }

    pub(super) fn listen(&self) -> Listener {
        Listener(Some(self.0.subscribe()))
    }
}

impl Default for Relay {
    fn default() -> Relay {
        Relay::new()
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("heard", &self.heard()).finish()
    }
}

/// The command's end of a relay.
pub(super) struct Listener(Option<watch::Receiver<Heard>>);

impl Listener {
    /// The end of no relay: nothing ever comes.
    pub(super) fn deaf() -> Listener {
        Listener(None)
    }

    /// The signal that cancelled, if one came.
    pub(super) fn heard(&self) -> Option<i32> {
        self.0.as_ref()?.borrow().first
    }

    /// The next signal, and how many have come. Of signals that come at once only the last may be told.
    pub(super) async fn next(&mut self) -> (i32, u32) {
        if let Some(heard) = &mut self.0
            && heard.changed().await.is_ok()
        {
            let heard = *heard.borrow_and_update();
            return (heard.last, heard.count);
        }
        std::future::pending().await
    }
}
