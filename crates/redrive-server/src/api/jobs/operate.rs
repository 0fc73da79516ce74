//! What an operator does to one job: end it, or try it now.

use axum::Json;
use axum::extract::State;
use redrive::engine::RetryNow;
use redrive_store::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::look::{reached, unknown};
use crate::Server;
use crate::act::{Why, act};
use crate::body::MayBody;
use crate::caller::Caller;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::shape;

/// What is said when nobody says why.
const ASKED: &str = "somebody asked for it";

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    #[schemars(with = "shape::JobId")]
    id: JobId,
    /// Whether it is over; otherwise the worker that has it is asked to stop.
    over: bool,
}

pub(super) async fn cancel(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<JobId>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<Cancelled>, Problem> {
    let engine = server.engine();
    look(&server, &caller, id).await?;
    act(&server, &caller, "job.cancel", id.to_string(), body.why.clone()).await?;
    let why = body.why.map_or_else(|| ASKED.to_owned(), |why| redrive::redact(&why));
    let over = engine.store().cancel(engine.now(), id, why).await?.ok_or_else(|| ended(id))?;
    Ok(Json(Cancelled { id, over }))
}

/// How a job is tried again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    /// Also when it is a dead letter of a cause that time does not heal.
    #[serde(default)]
    even_if_permanent: bool,
    /// Why; written down with the act.
    why: Option<String>,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Retried {
    #[schemars(with = "shape::JobId")]
    id: JobId,
    /// `due`: it waited, and is due now. `redriven`: it was a letter, and is ready again with a fresh budget.
    result: &'static str,
}

pub(super) async fn retry(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<JobId>,
    MayBody(body): MayBody<RetryBody>,
) -> Result<Json<Retried>, Problem> {
    look(&server, &caller, id).await?;
    act(&server, &caller, "job.retry", id.to_string(), body.why).await?;
    let result = match server.engine().retry_now(id, body.even_if_permanent).await? {
        RetryNow::Due => "due",
        RetryNow::Redriven => "redriven",
        RetryNow::Running => return Err(Problem::new(Code::Conflict, "jobs.running").with("id", id)),
        RetryNow::Permanent { cause, .. } => {
            return Err(Problem::new(Code::Permanent, "jobs.permanent").with("id", id).with("cause", cause));
        }
        RetryNow::Duplicate { of } => {
            return Err(Problem::new(Code::Conflict, "jobs.duplicate").with("id", id).with("of", of));
        }
        RetryNow::Ended => return Err(ended(id)),
        _ => return Err(unknown(id)),
    };
    Ok(Json(Retried { id, result }))
}

fn ended(id: JobId) -> Problem {
    Problem::new(Code::Conflict, "jobs.ended").with("id", id)
}

/// Whether there is such a job, for this caller.
async fn look(server: &Server, caller: &Caller, id: JobId) -> Result<(), Problem> {
    let (record, last) = server.engine().job_and_last(id).await?.ok_or_else(|| unknown(id))?;
    let told = last.as_ref().and_then(|last| last.data.get("queue")?.as_str());
    reached(caller, id, record.job.as_ref().map_or(told, |job| Some(&job.queue)))
}
