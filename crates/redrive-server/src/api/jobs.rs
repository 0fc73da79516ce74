//! Jobs: enqueuing one or many, looking at one, cancelling.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redrive_store::{NewJob, Origin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Server;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::problem::{Code, Problem};
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/jobs", Scope::Produce, "enqueue", "Adds a job.", enqueue)
            .takes::<JobBody>()
            .answers::<Added>(201, "It is stored."),
    ]
}

/// A job to be added.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobBody {
    /// The queue; `default` when absent.
    queue: Option<String>,
    /// What kind of work it is.
    kind: String,
    /// What the worker gets.
    payload: Value,
}

/// A job that was added.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Added {
    /// Its id.
    id: String,
    /// Whether it was there already, under its unique key.
    existing: bool,
}

async fn enqueue(
    State(server): State<Server>,
    caller: Caller,
    Body(body): Body<JobBody>,
) -> Result<(StatusCode, Json<Added>), Problem> {
    let queue = body.queue.unwrap_or_default();
    let job = NewJob { queue, origin: Origin::Api, ..NewJob::new(body.kind, body.payload.to_string()) };
    if !caller.reaches(job.queue()) {
        return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", job.queue()));
    }
    let engine = server.engine();
    let added = engine.store().enqueue(engine.now(), vec![job]).await?;
    let added = added.first().ok_or(Problem::of(Code::Internal))?;
    let told = Added { id: added.id.to_string(), existing: added.existing };
    Ok((StatusCode::CREATED, Json(told)))
}
