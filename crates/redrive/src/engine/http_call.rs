//! HTTP calls as jobs: the executor that a worker uses for them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redrive_store::Origin;

use super::handler::unreadable;
use super::{EngineError, Executor, Running};
use crate::http_call::{Guard, GuardedCalls, HttpSpec, call_http, http_client};
use crate::outcome::{Executed, Outcome};

/// Makes the call that a job's payload describes; see [`HttpSpec::to_payload`]. Jobs that came in over the API reach only what a
/// [`Guard`] lets them.
///
/// ```no_run
/// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
/// use redrive::engine::HttpExecutor;
/// use std::sync::Arc;
///
/// engine.worker().executor("http", Arc::new(HttpExecutor::new()?)).run_until_empty().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HttpExecutor {
    client: reqwest::Client,
    guarded: GuardedCalls,
}

impl HttpExecutor {
    /// With a client of our own. Jobs that came in over the API reach the outside world and nothing else.
    pub fn new() -> Result<HttpExecutor, EngineError> {
        HttpExecutor::guarded_by(Guard::default())
    }

    /// With a client of our own, and what jobs that came in over the API may reach.
    pub fn guarded_by(guard: Guard) -> Result<HttpExecutor, EngineError> {
        let client = http_client().build().map_err(EngineError::HttpClient)?;
        HttpExecutor::with(client, guard)
    }

    /// With this client for jobs of this machine, and what jobs that came in over the API may reach.
    pub fn with(client: reqwest::Client, guard: Guard) -> Result<HttpExecutor, EngineError> {
        let guarded = GuardedCalls::new(guard).map_err(EngineError::HttpClient)?;
        Ok(HttpExecutor { client, guarded })
    }

    /// With these calls for jobs that came in over the API.
    #[must_use]
    pub fn and_guarded(self, guarded: GuardedCalls) -> HttpExecutor {
        HttpExecutor { guarded, ..self }
    }
}

impl Executor for HttpExecutor {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            match HttpSpec::from_payload(&running.job.payload) {
                Ok(spec) => match running.job.origin {
                    Origin::Local => call_http(&self.client, &spec, &running.surroundings()).await,
                    Origin::Api => self.guarded.call(&spec, &running.surroundings()).await,
                },
                Err(error) => {
                    Executed::silent(Outcome::failed(unreadable(&error.to_string())), Duration::ZERO)
                }
            }
        })
    }

    fn leeway(&self) -> Duration {
        // It keeps to the limit itself, and tells what the call had come to.
        Duration::from_secs(5)
    }
}
