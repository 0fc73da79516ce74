//! How a worker is asked to end: once to finish what it has, twice to let go of it.

use crate::cancel::Cancel;

/// A shared wish that a worker ends. The first [`signal`](Shutdown::signal) drains: nothing new is taken, what runs may
/// finish within the worker's grace. The second means now.
///
/// ```
/// use redrive::engine::Shutdown;
///
/// let shutdown = Shutdown::new();
/// shutdown.signal();
/// assert!(shutdown.is_draining() && !shutdown.is_now());
/// shutdown.signal();
/// assert!(shutdown.is_now());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    drain: Cancel,
    now: Cancel,
}

impl Shutdown {
    /// A wish that nobody has had yet.
    pub fn new() -> Shutdown {
        Shutdown::default()
    }

    /// Drains; when it drains already, ends now.
    pub fn signal(&self) {
        if self.drain.is_cancelled() {
            self.now.cancel();
        }
        self.drain.cancel();
    }

    /// Ends now: what still runs is given back.
    pub fn now(&self) {
        self.drain.cancel();
        self.now.cancel();
    }

    /// Whether it drains.
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Whether it ends now.
    pub fn is_now(&self) -> bool {
        self.now.is_cancelled()
    }

    /// Waits until somebody asks to finish.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Waits until somebody asks to let go.
    pub async fn ending_now(&self) {
        self.now.cancelled().await;
    }
}
