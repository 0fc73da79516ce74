//! What an executor is told about the attempt it carries out; the same for a command and for an HTTP call.

use std::time::Duration;

use crate::cancel::Cancel;

/// One attempt as the work sees it.
///
/// ```
/// use redrive::Surroundings;
/// use std::time::Duration;
///
/// let around = Surroundings { timeout: Some(Duration::from_secs(60)), ..Surroundings::new("job_01", 1) };
/// assert_eq!((around.job_id.as_str(), around.attempt), ("job_01", 1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The job.
    pub job_id: String,
    /// Which attempt this is, counted from 1.
    pub attempt: u32,
    /// What to do differently this time.
    pub hint: Option<String>,
    /// The key under which the other side knows the job again (R-I8); it stays the same through all attempts.
    pub idempotency_key: Option<String>,
    /// What grows with every lease of the job, so that the other side can turn away who lost it.
    pub fence: Option<String>,
    /// How long the attempt may take.
    pub timeout: Option<Duration>,
    /// Ends the attempt.
    pub cancel: Option<Cancel>,
    /// An earlier attempt was lost with its worker: what it may have left running is ended first.
    pub after_a_crash: bool,
}

impl Surroundings {
    /// An attempt without limits.
    pub fn new(job_id: impl Into<String>, attempt: u32) -> Surroundings {
        Surroundings { job_id: job_id.into(), attempt, ..Surroundings::default() }
    }

    /// Waits until somebody cancels; for ever when nobody can.
    #[cfg(any(feature = "exec", feature = "http-call"))]
    pub(crate) async fn cancelled(&self) {
        match &self.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }
}
