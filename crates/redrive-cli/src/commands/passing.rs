//! Runs a job's command with our own stdin, stdout and stderr: how `run` runs it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Executor, Running};
use redrive::{CommandSpec, DEFAULT_GRACE, Evidence, Executed, Outcome, Relay, Surroundings, Wiring, run_command};
use redrive_policy::{Cause, Verdict};

pub(super) struct Passing {
    relay: Relay,
}

impl Passing {
    pub(super) fn through(relay: Relay) -> Arc<Passing> {
        Arc::new(Passing { relay })
    }
}

impl Executor for Passing {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            let spec = match CommandSpec::from_payload(&running.job.payload) {
                Ok(spec) => spec,
                Err(error) => {
                    let evidence = Evidence {
                        said: Some((Cause::ValidationError, Verdict::No)),
                        error_type: "BadCommand".to_owned(),
                        message: error.to_string(),
                        ..Evidence::default()
                    };
                    return Executed::silent(Outcome::failed(evidence), Duration::ZERO);
                }
            };
            let around = Surroundings {
                hint: running.hint.clone(),
                idempotency_key: Some(running.idempotency_key()),
                fence: Some(running.token.fence.to_string()),
                timeout: running.limit(),
                cancel: Some(running.cancel().clone()),
                ..Surroundings::new(running.job_id().to_string(), running.attempt)
            };
            run_command(&spec, &around, Wiring::passed_through(self.relay.clone())).await
        })
    }

    // The time limit asks the command to end before it kills it.
    fn leeway(&self) -> Duration {
        DEFAULT_GRACE + Duration::from_secs(5)
    }
}
