//! The living jobs, page by page.

use axum::Json;
use axum::extract::State;
use redrive::engine::Engine;
use redrive_store::{JobHead, JobId, JobQuery, JobStateName, Origin, Timestamp, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::caller::Caller;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::{reach, shape};

/// The most in one page.
const MOST: u32 = 1_000;
/// How many pages are read for those of a token of some queues.
const PAGES: usize = 10;

/// Which jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsQuery {
    /// Only of this queue.
    #[schemars(with = "Option<shape::Name>")]
    queue: Option<String>,
    /// Only of this kind.
    #[schemars(with = "Option<shape::Name>")]
    kind: Option<String>,
    /// Only in this state. What is retried later counts as scheduled here.
    state: Option<Living>,
    /// Only with this id of the caller's.
    #[schemars(with = "Option<shape::Name>")]
    caller_id: Option<String>,
    /// At most so many; a page may have fewer, and yet not be the last.
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u32>,
    /// `next` of the page before.
    #[schemars(with = "Option<shape::JobId>")]
    cursor: Option<JobId>,
}

/// Where a living job stands.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LivingState")]
enum Living {
    Ready,
    Scheduled,
    Running,
    Dead,
}

/// A living job, without its payload.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobHead")]
pub(crate) struct Head {
    #[schemars(with = "shape::JobId")]
    id: JobId,
    /// `ready`, `scheduled`, `running`, `retrying` or `dead`.
    state: &'static str,
    queue: String,
    kind: String,
    priority: i32,
    policy: Option<String>,
    caller_id: Option<String>,
    unique_key: Option<String>,
    #[schemars(with = "String")]
    origin: Origin,
    #[schemars(with = "shape::Time")]
    enqueued_at: Timestamp,
    attempts: u32,
    retries: u32,
    crashes: u32,
    /// When it is tried, while it waits.
    #[schemars(with = "Option<shape::Time>")]
    next_run_at: Option<Timestamp>,
    /// The worker that has it.
    worker: Option<String>,
    #[schemars(with = "Option<shape::Time>")]
    lease_expires_at: Option<Timestamp>,
    cancel_requested: bool,
}

impl From<JobHead> for Head {
    fn from(job: JobHead) -> Head {
        Head {
            id: job.id,
            state: match job.state {
                JobStateName::Scheduled if job.attempts > 0 => "retrying",
                JobStateName::Leased => "running",
                other => other.name(),
            },
            queue: job.queue,
            kind: job.kind,
            priority: job.priority,
            policy: job.policy,
            caller_id: job.caller_id,
            unique_key: job.unique_key,
            origin: job.origin,
            enqueued_at: job.enqueued_at,
            attempts: job.attempts,
            retries: job.retries,
            crashes: job.crashes,
            next_run_at: job.run_at,
            worker: job.leased_by.as_ref().map(WorkerId::to_string),
            lease_expires_at: job.lease_expires_at,
            cancel_requested: job.cancel_requested,
        }
    }
}

pub(super) async fn jobs(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<JobsQuery>,
) -> Result<Json<shape::Page<Head>>, Problem> {
    for (field, name) in [("queue", &query.queue), ("kind", &query.kind), ("caller_id", &query.caller_id)] {
        reach::name(field, name.as_ref())?;
    }
    if let Some(queue) = query.queue.as_ref().filter(|queue| !caller.reaches(queue)) {
        return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue).at("queue"));
    }
    let wanted = JobQuery {
        queue: query.queue,
        kind: query.kind,
        state: query.state.map(|state| match state {
            Living::Ready => JobStateName::Ready,
            Living::Scheduled => JobStateName::Scheduled,
            Living::Running => JobStateName::Leased,
            Living::Dead => JobStateName::Dead,
        }),
        caller_id: query.caller_id,
        after: query.cursor,
        limit: reach::limit(query.limit, MOST)?,
        ..JobQuery::default()
    };
    let engine = server.engine();
    let (jobs, next) = reached(engine, &caller, wanted).await?;
    let items = jobs.into_iter().map(Head::from).collect();
    Ok(Json(shape::Page { items, next: next.map(|next| next.to_string()) }))
}

/// Those within reach, and where to go on. For a token of some queues what lies elsewhere does not count, and is no place to go on at, as
/// far as so many pages are enough.
async fn reached(
    engine: &Engine,
    caller: &Caller,
    mut wanted: JobQuery,
) -> Result<(Vec<JobHead>, Option<JobId>), Problem> {
    let limit = wanted.limit as usize;
    let pages = if caller.reaches_all() || wanted.queue.is_some() { 1 } else { PAGES };
    if pages > 1 {
        wanted.limit = MOST;
    }
    let mut found = Vec::new();
    for _ in 0..pages {
        let page = engine.store().list_jobs(engine.now(), wanted.clone()).await?;
        found.extend(page.jobs.into_iter().filter(|job| caller.reaches(&job.queue)));
        if found.len() > limit {
            found.truncate(limit);
            let last = found.last().map(|last: &JobHead| last.id);
            return Ok((found, last));
        }
        wanted.after = page.next;
        if wanted.after.is_none() {
            break;
        }
    }
    Ok((found, wanted.after))
}
