//! Services of the configuration that are called for jobs: their secrets come from the environment.

use redrive::engine::{PushEndpoint, PushSecret};
use redrive_policy::PushConfig;

use crate::trouble::{ServeTrouble, Trouble};

/// The endpoints that a configuration means.
pub(super) fn endpoints(
    configured: &[PushConfig],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<PushEndpoint>, Trouble> {
    configured.iter().map(|config| endpoint(config, &variable)).collect()
}

fn endpoint(
    config: &PushConfig,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<PushEndpoint, Trouble> {
    let name = config.name.clone();
    let secret = |env: &String| {
        let unset = || ServeTrouble::PushSecret { name: name.clone(), variable: env.clone() };
        PushSecret::try_from(variable(env).ok_or_else(unset)?).map_err(|_| unset())
    };
    let secrets: Result<Vec<PushSecret>, ServeTrouble> = config.secret_env.iter().map(secret).collect();
    let usual = PushEndpoint::new(name.clone(), config.queue.clone(), config.url.clone())?;
    let endpoint = PushEndpoint {
        secrets: secrets.map_err(Trouble::Serve)?,
        kinds: config.kinds.clone(),
        concurrency: config.concurrency.unwrap_or(usual.concurrency),
        batch: config.batch.unwrap_or(usual.batch),
        timeout: config.timeout.unwrap_or(usual.timeout),
        ..usual
    };
    match endpoint.check() {
        Ok(()) => Ok(endpoint),
        Err(bad) => Err(Trouble::Serve(ServeTrouble::BadPush { name, why: bad.to_string() })),
    }
}
