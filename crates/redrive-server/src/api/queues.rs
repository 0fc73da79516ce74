//! Queues: how much waits where, and stopping their work for a while.

use axum::Json;
use axum::extract::State;
use redrive::engine::{Engine, QueueReport};
use redrive::redact;
use redrive_policy::protection::{Protection, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::{Why, act};
use crate::body::MayBody;
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::route::Route;
use crate::shape;

/// The most that is kept of a reason.
const WHY_CHARS: usize = 1_000;
/// How many queues one answer holds, at the most and unless fewer are asked for.
const MOST: u32 = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/queues", Scope::Read, "list_queues", "Every queue and how much is in it.", queues)
            .asks::<Asked>()
            .answers::<shape::Page<QueueShape>>(200, "The queues, by name."),
        Route::get("/v1/queues/{queue}", Scope::Read, "get_queue", "One queue and how much is in it.", queue)
            .place::<shape::Name>("queue")
            .answers::<QueueShape>(200, "The queue."),
        Route::post(
            "/v1/queues/{queue}/pause",
            Scope::Operate,
            "pause_queue",
            "Hands out none of its work.",
            pause,
        )
        .place::<shape::Name>("queue")
        .may_take::<Why>()
        .answers::<Stands>(200, "It is paused; what runs goes on."),
        Route::post(
            "/v1/queues/{queue}/resume",
            Scope::Operate,
            "resume_queue",
            "Hands out its work again.",
            resume,
        )
        .place::<shape::Name>("queue")
        .may_take::<Why>()
        .answers::<Stands>(200, "Its work is handed out."),
    ]
}

/// A queue and how much is in it.
#[derive(JsonSchema)]
#[schemars(rename = "Queue")]
#[allow(dead_code)] // Only its schema is used.
struct QueueShape {
    name: String,
    /// Due, and waiting for a worker.
    ready: u64,
    /// Waiting for their time.
    scheduled: u64,
    running: u64,
    dead: u64,
    succeeded: u64,
    /// How long the oldest one has been due.
    oldest_due_age_ms: Option<u64>,
    #[schemars(with = "Option<shape::Time>")]
    paused_at: Option<String>,
    paused_why: Option<String>,
    /// How fast it is worked on at the most; null without limits.
    limits: Option<LimitsShape>,
}

/// The limits of a queue, of the configuration or set since.
#[derive(JsonSchema)]
#[schemars(rename = "QueueLimits")]
#[allow(dead_code)] // Only its schema is used.
struct LimitsShape {
    /// How many may begin in a time, such as `10/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    /// How many of them may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    /// How many may run at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
}

/// A queue, how much is in it, and its limits.
#[derive(Debug, Serialize)]
struct QueueTold {
    #[serde(flatten)]
    report: QueueReport,
    limits: Option<Limits>,
}

#[derive(Debug, Serialize)]
struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
}

impl QueueTold {
    fn new(engine: &Engine, report: QueueReport) -> QueueTold {
        let Protection { rate, burst, concurrency, .. } =
            engine.protection_of(&format!("queue:{}", report.name));
        let limited = rate.is_some() || concurrency.is_some();
        QueueTold { report, limits: limited.then_some(Limits { rate, burst, concurrency }) }
    }
}

/// Which queues are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Behind this one, by name.
    cursor: Option<String>,
    /// At most so many.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// How a queue stands.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QueueChanged")]
struct Stands {
    queue: String,
    /// How it stands now.
    paused: bool,
    /// Whether it stood otherwise before.
    changed: bool,
}

async fn queues(
    State(server): State<Server>,
    caller: Caller,
    Query(asked): Query<Asked>,
) -> Result<Json<shape::Page<QueueTold>>, Problem> {
    let limit = asked.limit.unwrap_or(MOST);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Code::Invalid, "queues.page").at("limit"));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let engine = server.engine();
    let mut reports = engine.queue_reports().await?;
    let behind = |name: &String| asked.cursor.as_ref().is_none_or(|cursor| name > cursor);
    reports.retain(|queue| behind(&queue.name) && caller.reaches(&queue.name));
    let more = reports.len() > limit;
    reports.truncate(limit);
    let next = reports.last().filter(|_| more).map(|last| last.name.clone());
    engine.refresh_limits().await?;
    let items = reports.into_iter().map(|report| QueueTold::new(engine, report)).collect();
    Ok(Json(shape::Page { items, next }))
}

async fn queue(
    State(server): State<Server>,
    caller: Caller,
    Path(queue): Path<String>,
) -> Result<Json<QueueTold>, Problem> {
    reached(&caller, &queue)?;
    let engine = server.engine();
    let all = engine.queue_reports().await?;
    let report = all.into_iter().find(|known| known.name == queue).ok_or_else(|| unknown(&queue))?;
    engine.refresh_limits().await?;
    Ok(Json(QueueTold::new(engine, report)))
}

async fn pause(
    State(server): State<Server>,
    caller: Caller,
    Path(queue): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<Stands>, Problem> {
    reached(&caller, &queue)?;
    act(&server, &caller, "queue.pause", queue.clone(), body.why.clone()).await?;
    let why = body.why.map(|why| redact(&why).chars().filter(|c| *c != '\0').take(WHY_CHARS).collect());
    let engine = server.engine();
    let changed = engine.store().pause_queue(engine.now(), queue.clone(), why).await?;
    Ok(Json(Stands { queue, paused: true, changed }))
}

async fn resume(
    State(server): State<Server>,
    caller: Caller,
    Path(queue): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<Stands>, Problem> {
    reached(&caller, &queue)?;
    act(&server, &caller, "queue.resume", queue.clone(), body.why).await?;
    let engine = server.engine();
    let resumed = engine.store().resume_queue(engine.now(), queue.clone()).await?;
    let changed = resumed.ok_or_else(|| unknown(&queue))?;
    Ok(Json(Stands { queue, paused: false, changed }))
}

fn reached(caller: &Caller, queue: &str) -> Result<(), Problem> {
    if caller.reaches(queue) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue))
}

fn unknown(queue: &str) -> Problem {
    Problem::new(Code::NotFound, "queues.unknown").with("queue", queue)
}
