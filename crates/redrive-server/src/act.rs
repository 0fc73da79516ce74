//! Acts of operators over HTTP: written down first, then done.

use redrive::engine::Act;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Server;
use crate::caller::Caller;
use crate::problem::Problem;

/// Why something is done: the whole body of an act that needs no more.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// Why; written down with the act, its first 1,000 characters.
    pub(crate) why: Option<String>,
}

/// Writes down what a caller is about to do. Handlers of routes that need `operate` or `admin` call it before they act; `why` is
/// the body's, or else what the request said in `Redrive-Reason`.
pub(crate) async fn act(
    server: &Server,
    caller: &Caller,
    act: &'static str,
    target: String,
    why: Option<String>,
) -> Result<(), Problem> {
    let why = why.or_else(|| caller.why.clone());
    server.engine().record_act(Act { who: caller.who.clone(), act: act.to_owned(), target, why }).await?;
    Ok(())
}
