//! A token by which somebody else ends a retry: running attempts, asynchronous waits and blocking waits.
//!
//! Cancelling is final and wakes everybody at once. A waiter that goes away leaves nothing behind.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// A shared "stop now".
///
/// ```
/// use redrive::Cancel;
///
/// let cancel = Cancel::new();
/// let theirs = cancel.clone();
/// std::thread::spawn(move || theirs.cancel()).join().unwrap();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    tasks: Arc<Notify>,
    threads: (Mutex<()>, Condvar),
}

impl Cancel {
    /// A token that nobody has used yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends everything that holds this token. Once is enough; there is no way back.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.tasks.notify_waiters();
        // Taking the lock orders this after a waiter's look at the flag, so that none sleeps through it.
        drop(self.0.threads.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.threads.1.notify_all();
    }

    /// Whether somebody has cancelled.
    ///
    /// ```
    /// assert!(!redrive::Cancel::new().is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Waits until somebody cancels.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let cancel = redrive::Cancel::new();
    /// cancel.cancel();
    /// cancel.cancelled().await;
    /// # });
    /// ```
    pub async fn cancelled(&self) {
        let notified = self.listen();
        if !self.is_cancelled() {
            notified.await;
        }
    }

    /// A future that ends at the next `cancel`. Made first and the flag read afterwards, it misses nothing.
    pub(crate) fn listen(&self) -> OwnedNotified {
        Arc::clone(&self.0.tasks).notified_owned()
    }

    /// Blocks for so long, or until somebody cancels.
    pub(crate) fn sleep(&self, wait: Duration) {
        let until = Instant::now().checked_add(wait);
        let mut guard = self.0.threads.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_cancelled() {
            // A wait past the end of the clock is as good as a day at a time for ever.
            let left = until
                .map_or(Duration::from_hours(24), |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            let waited = self.0.threads.1.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-P13: a blocking wait of a thousand hours ends at once.
    #[test]
    fn a_sleeping_thread_is_woken() {
        let cancel = Cancel::new();
        let theirs = cancel.clone();
        let sleeper = std::thread::spawn(move || theirs.sleep(Duration::from_hours(1_000)));
        cancel.cancel();
        sleeper.join().unwrap();
        cancel.sleep(Duration::MAX);
    }
}
