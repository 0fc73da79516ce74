//! Looking at a job: what is known about it, its story, its trace.

use axum::Json;
use axum::extract::State;
use redrive::engine::{JobStory, TraceEntry};
use redrive_store::JobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shapes::Job;
use crate::Server;
use crate::api::events::seen_by;
use crate::caller::{Caller, Scope};
use crate::language::Language;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::shape;

/// How a job is looked at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookQuery {
    /// Whether its payload is told as well; needs the scope `read:payload`.
    #[serde(default)]
    with_payload: bool,
}

pub(super) async fn job(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(id): Path<JobId>,
    Query(query): Query<LookQuery>,
) -> Result<Json<Job>, Problem> {
    if query.with_payload && !caller.may(Scope::ReadPayload) {
        let problem = Problem::new(Code::Forbidden, "token.scope");
        return Err(problem.with("scope", Scope::ReadPayload.name()).at("with_payload"));
    }
    let engine = server.engine();
    let (record, last) = engine.job_and_last(id).await?.ok_or_else(|| unknown(id))?;
    let job = Job::new(record, last.as_ref(), engine.now(), lang, query.with_payload);
    reached(&caller, id, job.queue())?;
    Ok(Json(job))
}

/// There is no such job; nor is there one in a queue that the caller does not reach.
pub(super) fn unknown(id: JobId) -> Problem {
    Problem::new(Code::NotFound, "jobs.unknown").with("id", id)
}

/// Whether the caller reaches the queue of this job. One of which nobody knows the queue any more is nobody's but those who reach all.
pub(super) fn reached(caller: &Caller, id: JobId, queue: Option<&str>) -> Result<(), Problem> {
    let reaches = queue.map_or(caller.queues.is_empty(), |queue| caller.reaches(queue));
    if reaches { Ok(()) } else { Err(unknown(id)) }
}

/// A job's story.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Story(#[schemars(with = "StoryShape")] JobStory);

/// The story of a job: the contract redrive/story.v1.
#[derive(JsonSchema)]
#[schemars(rename = "JobStory")]
#[allow(dead_code)] // Only its schema is used.
pub(crate) struct StoryShape {
    schema: String,
    #[schemars(with = "shape::JobId")]
    id: String,
    /// `ready`, `scheduled`, `running`, `retrying`, `dead`, `succeeded`, `cancelled` or `discarded`.
    state: String,
    queue: Option<String>,
    kind: Option<String>,
    /// Whom it calls, if it is an HTTP call that is not over: the method and the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<String>,
    source: Option<String>,
    policy: Option<String>,
    caller_id: Option<String>,
    attempts: u64,
    retry_count: u32,
    /// From 1, tried again by itself, to 5, where somebody mends the data.
    level: Option<u8>,
    #[schemars(with = "Option<shape::Time>")]
    next_run_at: Option<String>,
    /// Every attempt that ended, and what was decided about it, in both languages.
    history: Vec<shape::Object>,
    events: Vec<crate::api::events::EventShape>,
}

pub(super) async fn explain(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<JobId>,
) -> Result<Json<Story>, Problem> {
    let mut story = server.engine().story(id).await?.ok_or_else(|| unknown(id))?;
    reached(&caller, id, story.queue.as_deref())?;
    story.events = story.events.into_iter().map(|event| seen_by(&caller, event)).collect();
    Ok(Json(Story(story)))
}

/// The trace of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Trace {
    #[schemars(with = "shape::JobId")]
    id: JobId,
    #[schemars(with = "Vec<shape::Object>")]
    items: Vec<TraceEntry>,
}

pub(super) async fn trace(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(id): Path<JobId>,
) -> Result<Json<Trace>, Problem> {
    let engine = server.engine();
    if !caller.queues.is_empty() {
        let story = engine.story(id).await?.ok_or_else(|| unknown(id))?;
        reached(&caller, id, story.queue.as_deref())?;
    }
    let items = engine.trace(id, lang).await?.ok_or_else(|| unknown(id))?;
    Ok(Json(Trace { id, items }))
}
