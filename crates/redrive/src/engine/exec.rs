//! Commands as jobs: the executor that a worker uses for them.
//!
//! A plain command is run, and that is all. A step says more: its files are kept before it and put back when it fails, and
//! what it wrote is reviewed. A review that rejects is an attempt that failed; what happens next is the policy's to say.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::review::ReviewPlan;
use redrive_policy::{Cause, Verdict};
use redrive_store::Origin;

use super::handler::unreadable;
use super::{Executor, Running};
use crate::exec::{CommandSpec, DEFAULT_GRACE, Wiring, run_command};
use crate::outcome::{Evidence, Executed, Outcome};
use crate::review::{Captured, Reviewed, review_output};

/// How much longer than its command an attempt may take that keeps files, reviews, and puts files back.
const STEP_LEEWAY: Duration = Duration::from_mins(45);

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
    wiring: Box<dyn Fn(&Running) -> Wiring + Send + Sync>,
    /// The programs that jobs which came in over the API may run.
    listed: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl CommandExecutor {
    /// Output is kept and not shown: how a worker runs commands.
    pub fn captured() -> CommandExecutor {
        CommandExecutor::wired(Wiring::captured)
    }

    /// Each attempt is connected as this says: how `redrive run` shows what a command writes.
    pub fn wired(wiring: impl Fn() -> Wiring + Send + Sync + 'static) -> CommandExecutor {
        CommandExecutor::wired_by(move |_| wiring())
    }

    /// The same, for those who want to know which attempt it is: how `redrive task run` shows what each step writes.
    pub fn wired_by(wiring: impl Fn(&Running) -> Wiring + Send + Sync + 'static) -> CommandExecutor {
        CommandExecutor { wiring: Box::new(wiring), listed: Box::new(Vec::new) }
    }

    /// Jobs that came in over the API may run these programs, exactly as they are written here; without this, none.
    #[must_use]
    pub fn listing(self, programs: impl IntoIterator<Item = impl Into<String>>) -> CommandExecutor {
        let programs: Vec<String> = programs.into_iter().map(Into::into).collect();
        self.listed_by(move || programs.clone())
    }

    /// The same for a list that may change: it is asked for before each such job is run.
    #[must_use]
    pub fn listed_by(self, programs: impl Fn() -> Vec<String> + Send + Sync + 'static) -> CommandExecutor {
        CommandExecutor { listed: Box::new(programs), ..self }
    }

    async fn carry_out(&self, running: &Running, spec: &CommandSpec) -> Executed {
        #[cfg(feature = "snapshot")]
        let guard = match super::protect::begin(running, spec.snapshot.as_deref()).await {
            Ok(guard) => guard,
            Err(executed) => return *executed,
        };
        let mut wiring = (self.wiring)(running);
        let captured = Captured::new();
        if spec.review.is_some() {
            wiring.stdout = Some(captured.writer(wiring.stdout.take()));
        }
        let mut executed = run_command(spec, &running.surroundings(), wiring).await;
        if let Some(plan) = &spec.review
            && executed.outcome == Outcome::Succeeded
        {
            #[cfg(feature = "snapshot")]
            let changed = guard.changed().await;
            #[cfg(not(feature = "snapshot"))]
            let changed = None;
            executed = reviewed(running, spec, plan, &captured, changed, executed).await;
        }
        #[cfg(feature = "snapshot")]
        let executed = guard.over(running, executed).await;
        executed
    }
}

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotListed {
    /// Its program is not one that jobs which came in over the API may run.
    #[error("jobs that came in over the API may not run {0:?}; list it in [server] commands to allow it")]
    Program(String),
    /// It asks for more than its program.
    #[error(
        "jobs that came in over the API may not set {0}: it would run other programs or touch other files than those listed"
    )]
    Setting(&'static str),
}

/// Whether a command may be run that came from there. A job of the API runs a listed program with arguments, and nothing around it:
/// no variables, which can make a program load another one, and no review or snapshot, which run commands and write files.
pub fn may_run(origin: Origin, spec: &CommandSpec, listed: &[String]) -> Result<(), NotListed> {
    if origin == Origin::Local {
        return Ok(());
    }
    let program = spec.argv.first().and_then(|program| program.to_str()).unwrap_or_default();
    if !listed.iter().any(|known| known == program) {
        return Err(NotListed::Program(program.chars().take(200).collect()));
    }
    let settings =
        [("env", !spec.env.is_empty()), ("cwd", spec.cwd.is_some()), ("umask", spec.umask.is_some())];
    let more = [("review", spec.review.is_some()), ("snapshot", spec.snapshot.is_some())];
    match settings.into_iter().chain(more).find(|(_, is_set)| *is_set) {
        Some((setting, _)) => Err(NotListed::Setting(setting)),
        None => Ok(()),
    }
}

fn not_run(refused: &NotListed) -> Evidence {
    Evidence {
        said: Some((Cause::Configuration, Verdict::No)),
        error_type: "Refused".to_owned(),
        message: refused.to_string(),
        never_sent: true,
        ..Evidence::default()
    }
}

/// What a command came to once its output was looked at.
async fn reviewed(
    running: &Running,
    spec: &CommandSpec,
    plan: &ReviewPlan,
    captured: &Captured,
    changed: Option<usize>,
    executed: Executed,
) -> Executed {
    let lang = running.engine().0.lang;
    let cwd = spec.cwd.clone().unwrap_or_else(|| ".".into());
    let (output, total_bytes) = captured.take();
    let output = Reviewed { output: &output, total_bytes, name: None, cwd: &cwd, changed_files: changed };
    let judgment = match review_output(plan, output, &running.surroundings()).await {
        Ok(judgment) => judgment,
        // A review that cannot be made says nothing about the output: somebody has to mend the review.
        Err(error) => {
            let evidence = Evidence {
                said: Some((Cause::Configuration, Verdict::No)),
                error_type: "Review".to_owned(),
                message: format!("the output cannot be reviewed: {error}"),
                ..Evidence::default()
            };
            return Executed { outcome: Outcome::failed(evidence), ..executed };
        }
    };
    let Some(cause) = judgment.cause() else { return executed };
    let evidence = Evidence {
        said: Some((cause, Verdict::Unsaid)),
        error_type: "Review".to_owned(),
        message: judgment.message(lang),
        details: Some(Arc::new(judgment.details(lang))),
        ..Evidence::default()
    };
    // The command's own code says that all is well.
    Executed { outcome: Outcome::failed(evidence), exit_code: None, ..executed }
}

impl Executor for CommandExecutor {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            match CommandSpec::from_payload(&running.job.payload) {
                Ok(spec) => match may_run(running.job.origin, &spec, &(self.listed)()) {
                    Ok(()) => self.carry_out(running, &spec).await,
                    Err(refused) => Executed::silent(Outcome::failed(not_run(&refused)), Duration::ZERO),
                },
                Err(error) => {
                    Executed::silent(Outcome::failed(unreadable(&error.to_string())), Duration::ZERO)
                }
            }
        })
    }

    fn leeway(&self) -> Duration {
        // It keeps to the limit itself: asks, and kills after a grace.
        DEFAULT_GRACE + STEP_LEEWAY
    }
}

impl fmt::Debug for CommandExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandExecutor").finish_non_exhaustive()
    }
}
