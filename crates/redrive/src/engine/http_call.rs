//! HTTP calls as jobs: the executor that a worker uses for them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::handler::unreadable;
use super::{EngineError, Executor, Running};
use crate::http_call::{HttpSpec, call_http, http_client};
use crate::outcome::{Executed, Outcome};

/// Makes the call that a job's payload describes; see [`HttpSpec::to_payload`].
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
}

impl HttpExecutor {
    /// With a client of our own.
    pub fn new() -> Result<HttpExecutor, EngineError> {
        http_client().build().map(HttpExecutor::with).map_err(EngineError::HttpClient)
    }

    /// With this client.
    pub fn with(client: reqwest::Client) -> HttpExecutor {
        HttpExecutor { client }
    }
}

impl Executor for HttpExecutor {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            match HttpSpec::from_payload(&running.job.payload) {
                Ok(spec) => call_http(&self.client, &spec, &running.surroundings()).await,
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
