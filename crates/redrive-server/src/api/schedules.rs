//! Schedules: jobs by the clock. What they enqueue came in over the API, and may do no more than any such job.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redrive::engine::{Engine, EngineError, Missed, NewSchedule, Schedule, ScheduleProblem};
use redrive_store::{NewJob, Origin, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jobs::{allowed, named};
use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::route::Route;
use crate::shape;

/// How many are listed at a time, unless somebody says.
const USUAL: u32 = 100;
/// How many are looked at in one go for those of a token of some queues.
const AT_ONCE: u32 = 1_000;
/// How many of the next ticks are told.
const UPCOMING: usize = 3;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/schedules", Scope::Read, "schedules", "Every schedule, by name.", list)
            .asks::<ListQuery>()
            .answers::<shape::Page<ScheduleShape>>(200, "The schedules."),
        Route::post("/v1/schedules", Scope::Operate, "add_schedule", "Adds a schedule.", add)
            .takes::<ScheduleBody>()
            .answers::<ScheduleShape>(201, "It is stored.")
            .problems(&[Code::Conflict]),
        Route::get("/v1/schedules/{name}", Scope::Read, "schedule", "One schedule and its next ticks.", look)
            .place::<ScheduleName>("name")
            .answers::<ScheduleShape>(200, "The schedule."),
        Route::put(
            "/v1/schedules/{name}",
            Scope::Operate,
            "put_schedule",
            "Adds a schedule, or replaces the one of that name; its past stays.",
            put,
        )
        .place::<ScheduleName>("name")
        .takes::<ScheduleBody>()
        .answers::<ScheduleShape>(200, "It is stored."),
        Route::delete(
            "/v1/schedules/{name}",
            Scope::Operate,
            "remove_schedule",
            "Removes a schedule.",
            remove,
        )
        .place::<ScheduleName>("name")
        .empty(204, "It is gone; jobs that came of it stay."),
        Route::post("/v1/schedules/{name}/pause", Scope::Operate, "pause_schedule", "Lets it rest.", pause)
            .place::<ScheduleName>("name")
            .may_take::<Why>()
            .answers::<ScheduleShape>(200, "It rests."),
        Route::post(
            "/v1/schedules/{name}/resume",
            Scope::Operate,
            "resume_schedule",
            "Lets it go on.",
            resume,
        )
        .place::<ScheduleName>("name")
        .may_take::<Why>()
        .answers::<ScheduleShape>(200, "It goes on with its next tick."),
        Route::post(
            "/v1/schedules/{name}/run",
            Scope::Operate,
            "run_schedule",
            "Adds its job now, beside its ticks.",
            run,
        )
        .place::<ScheduleName>("name")
        .may_take::<Why>()
        .answers::<Ran>(201, "The job is stored."),
    ]
}

/// The name of a schedule.
pub(crate) enum ScheduleName {}

impl JsonSchema for ScheduleName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ScheduleName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$" })
    }
}

/// Where a list begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Behind this one.
    #[schemars(with = "Option<ScheduleName>")]
    cursor: Option<String>,
    /// At most so many.
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u32>,
}

/// A schedule to be added.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSchedule")]
pub(crate) struct ScheduleBody {
    /// Its name; made from the expression when absent. Beside a name in the path it must be the same.
    #[schemars(with = "Option<ScheduleName>")]
    name: Option<String>,
    /// When: minute, hour, day of the month, month and day of the week, a second may come first; or `@daily` and its like.
    #[schemars(length(min = 1, max = 200), example = "0 6 * * *")]
    cron: String,
    /// The time zone, by its IANA name; UTC when absent.
    #[schemars(length(min = 1, max = 100))]
    tz: Option<String>,
    /// What happens to ticks that nobody was there for; `once` when absent.
    missed: Option<MissedShape>,
    /// The job of each tick.
    job: TickJob,
    /// Why; written down with the act.
    why: Option<String>,
}

/// What happens to ticks that nobody was there for.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Missed")]
pub(crate) enum MissedShape {
    Skip,
    Once,
    All,
}

/// The job of each tick.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TickJob {
    /// The queue; `default` when absent.
    #[schemars(with = "Option<shape::Name>")]
    queue: Option<String>,
    /// What kind of work it is, by which workers choose.
    #[schemars(with = "shape::Name")]
    kind: String,
    /// What the worker gets; `null` when absent.
    #[serde(default)]
    #[schemars(with = "shape::Json")]
    payload: Value,
    /// Higher comes first.
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i32>,
    /// The name of its policy.
    #[schemars(with = "Option<shape::Name>")]
    policy: Option<String>,
    /// How long one attempt may take.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// What it goes to.
    #[schemars(with = "Option<shape::Name>")]
    target: Option<String>,
}

/// A schedule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub(crate) struct ScheduleShape {
    name: String,
    cron: String,
    tz: String,
    missed: &'static str,
    queue: String,
    kind: String,
    policy: Option<String>,
    priority: i32,
    #[schemars(with = "shape::Time")]
    created_at: Timestamp,
    #[schemars(with = "Option<shape::Time>")]
    paused_at: Option<Timestamp>,
    /// Its next ticks.
    #[schemars(with = "Vec<shape::Time>")]
    upcoming: Vec<Timestamp>,
    /// The next of them, as the clocks of its zone show it.
    next_in_zone: Option<String>,
    #[schemars(with = "Option<shape::Time>")]
    next: Option<Timestamp>,
    /// The last tick that became a job.
    #[schemars(with = "Option<shape::Time>")]
    last: Option<Timestamp>,
    /// That job, as long as its events are kept.
    last_job: Option<String>,
    fired: u64,
    skipped: u64,
}

/// The job that was added.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ScheduleRan")]
struct Ran {
    #[schemars(with = "shape::JobId")]
    id: String,
}

impl ScheduleShape {
    async fn of(engine: &Engine, schedule: &Schedule) -> Result<ScheduleShape, Problem> {
        let last_job = match schedule.last {
            Some(tick) => engine.job_of_tick(schedule, tick).await?,
            None => None,
        };
        Ok(ScheduleShape {
            name: schedule.name.clone(),
            cron: schedule.cron.source().to_owned(),
            tz: schedule.zone.clone(),
            missed: schedule.missed.name(),
            queue: schedule.job.queue().to_owned(),
            kind: schedule.job.kind.clone(),
            policy: schedule.job.policy.clone(),
            priority: schedule.job.priority,
            created_at: schedule.created_at,
            paused_at: schedule.paused_at,
            upcoming: schedule.upcoming(UPCOMING),
            next_in_zone: schedule.next.map(|at| schedule.in_its_zone(at)),
            next: schedule.next,
            last: schedule.last,
            last_job: last_job.map(|id| id.to_string()),
            fired: schedule.fired,
            skipped: schedule.skipped,
        })
    }
}

impl ScheduleBody {
    fn schedule(self, server: &Server, caller: &Caller, replace: bool) -> Result<NewSchedule, Problem> {
        let TickJob { queue, kind, payload, priority, policy, timeout_ms, target } = self.job;
        let job = NewJob {
            queue: named(queue)?,
            priority: priority.unwrap_or(0),
            policy,
            timeout: timeout_ms.map(Duration::from_millis),
            target,
            origin: Origin::Api,
            ..NewJob::new(kind, payload.to_string())
        };
        Ok(NewSchedule {
            name: self.name,
            cron: self.cron,
            zone: self.tz.unwrap_or_else(|| "UTC".to_owned()),
            missed: match self.missed {
                Some(MissedShape::Skip) => Missed::Skip,
                Some(MissedShape::All) => Missed::All,
                Some(MissedShape::Once) | None => Missed::Once,
            },
            job: allowed(server, caller, job)?,
            replace,
        })
    }
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<shape::Page<ScheduleShape>>, Problem> {
    let engine = server.engine();
    let limit = crate::reach::limit(query.limit.or(Some(USUAL)), 1_000)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if query
        .cursor
        .as_ref()
        .is_some_and(|name| !(1..=100).contains(&name.len()) || !name.bytes().all(is_name))
    {
        return Err(Problem::new(Code::Invalid, "list.cursor").at("cursor"));
    }
    // What lies out of reach is not counted, and not named as a place either.
    let at_once = if caller.reaches_all() { limit + 1 } else { AT_ONCE };
    let (wanted, mut place) = (limit as usize, query.cursor);
    let mut schedules = Vec::new();
    loop {
        let page = engine.schedules(place, at_once).await?;
        let full = page.len() >= at_once as usize;
        place = page.last().map(|last| last.name.clone());
        schedules.extend(page.into_iter().filter(|schedule| caller.reaches(schedule.job.queue())));
        if !full || schedules.len() > wanted {
            break;
        }
    }
    let more = schedules.len() > wanted;
    schedules.truncate(wanted);
    let next = schedules.last().filter(|_| more).map(|last| last.name.clone());
    let mut items = Vec::with_capacity(schedules.len());
    for schedule in &schedules {
        items.push(ScheduleShape::of(engine, schedule).await?);
    }
    Ok(Json(shape::Page { items, next }))
}

async fn add(
    State(server): State<Server>,
    caller: Caller,
    Body(body): Body<ScheduleBody>,
) -> Result<(StatusCode, Json<ScheduleShape>), Problem> {
    let added = stored(&server, &caller, body, false).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

async fn put(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Body(mut body): Body<ScheduleBody>,
) -> Result<Json<ScheduleShape>, Problem> {
    if body.name.as_ref().is_some_and(|other| *other != name) {
        return Err(Problem::new(Code::Invalid, "schedules.two_names").at("name"));
    }
    // Whoever replaces one must reach it as it was.
    if let Some(there) = server.engine().schedule(&name).await?
        && !caller.reaches(there.job.queue())
    {
        return Err(unknown(&name));
    }
    body.name = Some(name);
    stored(&server, &caller, body, true).await.map(Json)
}

async fn stored(
    server: &Server,
    caller: &Caller,
    mut body: ScheduleBody,
    replace: bool,
) -> Result<ScheduleShape, Problem> {
    let why = body.why.take();
    let new = body.schedule(server, caller, replace)?;
    let engine = server.engine();
    engine.check_schedule(&new)?;
    let target = format!("{} {}", new.name.as_deref().unwrap_or_default(), new.cron);
    act(server, caller, "schedule.add", target, why).await?;
    let name = new.name.clone().unwrap_or_default();
    let schedule = match engine.add_schedule(new).await {
        Ok(schedule) => schedule,
        Err(EngineError::Schedule(ScheduleProblem::Taken(_)))
            if engine.schedule(&name).await?.is_none_or(|there| !caller.reaches(there.job.queue())) =>
        {
            // It is somebody else's, and cannot be replaced.
            return Err(Problem::new(Code::Conflict, "schedules.not_free").with("name", name).at("name"));
        }
        Err(error) => return Err(error.into()),
    };
    ScheduleShape::of(engine, &schedule).await
}

async fn look(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ScheduleShape>, Problem> {
    let schedule = reached(&server, &caller, &name).await?;
    ScheduleShape::of(server.engine(), &schedule).await.map(Json)
}

async fn remove(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    reached(&server, &caller, &name).await?;
    act(&server, &caller, "schedule.remove", name.clone(), None).await?;
    server.engine().remove_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn pause(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<ScheduleShape>, Problem> {
    paused(&server, &caller, &name, body.why, true).await.map(Json)
}

async fn resume(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<ScheduleShape>, Problem> {
    paused(&server, &caller, &name, body.why, false).await.map(Json)
}

async fn paused(
    server: &Server,
    caller: &Caller,
    name: &str,
    why: Option<String>,
    paused: bool,
) -> Result<ScheduleShape, Problem> {
    reached(server, caller, name).await?;
    let verb = if paused { "schedule.pause" } else { "schedule.resume" };
    act(server, caller, verb, name.to_owned(), why).await?;
    server.engine().pause_schedule(name, paused).await?;
    let schedule = reached(server, caller, name).await?;
    ScheduleShape::of(server.engine(), &schedule).await
}

async fn run(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<(StatusCode, Json<Ran>), Problem> {
    reached(&server, &caller, &name).await?;
    act(&server, &caller, "schedule.run", name.clone(), body.why).await?;
    let job = server.engine().run_schedule(&name).await?.ok_or_else(|| unknown(&name))?;
    Ok((StatusCode::CREATED, Json(Ran { id: job.to_string() })))
}

/// The schedule, if this caller may know of it.
async fn reached(server: &Server, caller: &Caller, name: &str) -> Result<Schedule, Problem> {
    let schedule = server.engine().schedule(name).await?;
    schedule.filter(|schedule| caller.reaches(schedule.job.queue())).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Problem {
    Problem::new(Code::NotFound, "schedules.unknown").with("name", name)
}
