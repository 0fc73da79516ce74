//! What a handler is told beside its payload.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Running;

/// What a handler is told beside its payload: the state that its worker was given, and all that [`Running`] knows.
///
/// ```no_run
/// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
/// use redrive::engine::Context;
/// use redrive::Fail;
///
/// struct Mailer;
/// async fn send(to: String, cx: Context<Mailer>) -> Result<(), Fail> {
///     let _mailer: &Mailer = cx.state();
///     println!("attempt {} of {} for {to}, key {}", cx.attempt, cx.job_id(), cx.idempotency_key());
///     Ok(())
/// }
/// engine.worker().state(Mailer).handle("send_email", send).run_until_empty().await?;
/// # Ok(())
/// # }
/// ```
pub struct Context<S = ()> {
    running: Running,
    state: Arc<S>,
}

impl<S> Context<S> {
    pub(super) fn new(running: Running, state: Arc<S>) -> Context<S> {
        Context { running, state }
    }

    /// The state that the worker was given.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The attempt's number, from 1.
    pub fn attempt(&self) -> u32 {
        self.running.attempt
    }

    /// Which of the job's leases this is. The far side of an effect may refuse a fence lower than one it has seen.
    pub fn fence(&self) -> i64 {
        self.running.token.fence
    }

    /// What the last decision tells this attempt.
    pub fn hint(&self) -> Option<&str> {
        self.running.hint.as_deref()
    }

    /// The caller's own id for the job.
    pub fn caller_id(&self) -> Option<&str> {
        self.running.job.caller_id.as_deref()
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Context<S> {
        Context { running: self.running.clone(), state: Arc::clone(&self.state) }
    }
}

impl<S> Deref for Context<S> {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("running", &self.running).finish_non_exhaustive()
    }
}
