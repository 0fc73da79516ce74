//! Time as an argument: what the wall says, and what has passed.
//!
//! Due times are stored as wall time, since they outlive the process. How long something has lasted is measured on the
//! steady reading, which nobody sets: a wall clock that jumps must not make a living worker's lease look expired.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use redrive_store::Timestamp;

/// Where the engine reads the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// What the wall clock shows.
    fn now(&self) -> Timestamp;

    /// How much time has passed since some beginning. It never goes back, whatever happens to the wall clock.
    fn steady(&self) -> Duration;
}

/// The machine's own clocks.
///
/// ```
/// use redrive::engine::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.steady() <= clock.steady());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    began: Instant,
}

impl SystemClock {
    /// Clocks whose steady reading begins now.
    pub fn new() -> SystemClock {
        SystemClock { began: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system(SystemTime::now())
    }

    fn steady(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A clock that moves only when it is told to, for tests.
///
/// ```
/// use redrive::engine::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::at("2026-11-15T00:00:00Z".parse().unwrap());
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().to_string(), "2026-11-15T00:01:30.000Z");
/// assert_eq!(clock.steady(), Duration::from_secs(90));
/// ```
#[derive(Debug)]
pub struct ManualClock(Mutex<(Timestamp, Duration)>);

impl ManualClock {
    /// A clock that stands at this time.
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(Mutex::new((now, Duration::ZERO)))
    }

    /// Time passes, on both readings.
    pub fn advance(&self, by: Duration) {
        let mut reading = self.reading();
        *reading = (reading.0.after(by), reading.1 + by);
    }

    /// Somebody sets the wall clock; no time has passed.
    pub fn jump_to(&self, now: Timestamp) {
        self.reading().0 = now;
    }

    fn reading(&self) -> std::sync::MutexGuard<'_, (Timestamp, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.reading().0
    }

    fn steady(&self) -> Duration {
        self.reading().1
    }
}
