//! Commands as jobs: the executor that a worker uses for them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::handler::unreadable;
use super::{Executor, Running};
use crate::exec::{CommandSpec, DEFAULT_GRACE, Wiring, run_command};
use crate::outcome::{Executed, Outcome};

/// Runs the command that a job's payload describes; see [`CommandSpec::to_payload`].
///
/// ```no_run
/// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
/// use redrive::engine::CommandExecutor;
/// use std::sync::Arc;
///
/// engine.worker().executor("exec", Arc::new(CommandExecutor::captured())).run_until_empty().await?;
/// # Ok(())
/// # }
/// ```
pub struct CommandExecutor {
    wiring: Box<dyn Fn() -> Wiring + Send + Sync>,
}

impl CommandExecutor {
    /// Output is kept and not shown: how a worker runs commands.
    pub fn captured() -> CommandExecutor {
        CommandExecutor::wired(Wiring::captured)
    }

    /// Each attempt is connected as this says: how `redrive run` shows what a command writes.
    pub fn wired(wiring: impl Fn() -> Wiring + Send + Sync + 'static) -> CommandExecutor {
        CommandExecutor { wiring: Box::new(wiring) }
    }
}

impl Executor for CommandExecutor {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            match CommandSpec::from_payload(&running.job.payload) {
                Ok(spec) => run_command(&spec, &running.surroundings(), (self.wiring)()).await,
                Err(error) => {
                    Executed::silent(Outcome::failed(unreadable(&error.to_string())), Duration::ZERO)
                }
            }
        })
    }

    fn leeway(&self) -> Duration {
        // It keeps to the limit itself: asks, and kills after a grace.
        DEFAULT_GRACE + Duration::from_secs(5)
    }
}

impl fmt::Debug for CommandExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandExecutor").finish_non_exhaustive()
    }
}
