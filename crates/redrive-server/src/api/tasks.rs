//! Tasks: plans of dependent subtasks, begun over HTTP, looked at, ended and resumed.
//!
//! What a plan begins has come in through the API: its jobs may do no more than others that came that way.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redrive::engine::{TASK_QUEUE, TaskRequest, check_plan, latest_iteration};
use redrive_policy::Format;
use redrive_policy::plan::{Plan, Work};
use redrive_store::{NewJob, Origin, TaskId, TaskState};
use schemars::JsonSchema;
use serde::Deserialize;

use super::jobs::{check_origin, fillable};
use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::heavy::heavy;
use crate::language::Language;
use crate::object::Object;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape::{
    self, Page,
    task::{Task, TaskWhole, Trace},
};

/// The most tasks that are listed.
const MOST: u32 = 200;
/// How many further ones are looked at for those that are asked for.
const LOOKED_AT: i64 = 1_000;
/// How many problems of a plan are told.
const TOLD: usize = 10;

/// The longest plan.
const MOST_PLAN: usize = 1024 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/tasks",
            Scope::Produce,
            "begin_task",
            "Begins a task: a plan of dependent subtasks.",
            begin,
        )
        .takes::<Wish>()
        .answers::<TaskWhole>(201, "It is stored; workers move it on."),
        Route::get("/v1/tasks", Scope::Read, "list_tasks", "Tasks, the newest first.", list)
            .asks::<Asked>()
            .answers::<Page<Task>>(200, "Some of them, and where the next ones begin."),
        Route::get("/v1/tasks/{id}", Scope::Read, "get_task", "A task and where each subtask stands.", show)
            .place::<Id>("id")
            .answers::<TaskWhole>(200, "The task.")
            .problems(&[Code::NotFound]),
        Route::post(
            "/v1/tasks/{id}/cancel",
            Scope::Operate,
            "cancel_task",
            "Asks that a task end: what runs is cancelled, nothing more is begun.",
            cancel,
        )
        .place::<Id>("id")
        .may_take::<Why>()
        .answers::<TaskWhole>(200, "The task. It is over once a worker has moved it on.")
        .problems(&[Code::NotFound, Code::Conflict]),
        Route::post(
            "/v1/tasks/{id}/resume",
            Scope::Operate,
            "resume_task",
            "Goes on with a task that is over and did not succeed.",
            resume,
        )
        .place::<Id>("id")
        .may_take::<Why>()
        .answers::<TaskWhole>(200, "The task.")
        .problems(&[Code::NotFound, Code::Conflict]),
        Route::get(
            "/v1/tasks/{id}/trace",
            Scope::Read,
            "trace_task",
            "The retries, escalations and recoveries of a task.",
            trace,
        )
        .place::<Id>("id")
        .asks::<Traced>()
        .answers::<Trace>(200, "The trace.")
        .problems(&[Code::NotFound]),
    ]
}

/// The id of a task.
struct Id;

impl JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(task-)?[0-9]{1,18}$" })
    }
}

/// A task to be begun.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTask")]
struct Wish {
    /// The plan, as `redrive task schema` describes it.
    #[schemars(with = "shape::Object")]
    plan: Object,
}

/// Which tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Only those that go on.
    #[serde(default)]
    open: bool,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many at the most; a page may have fewer, and yet not be the last.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
}

/// How much of a trace.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Traced {
    /// Only of the latest attempt of each part.
    #[serde(default)]
    latest: bool,
}

async fn begin(
    State(server): State<Server>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<(StatusCode, Json<TaskWhole>), Problem> {
    let text = wish.plan.text(MOST_PLAN, "plan")?.to_owned();
    let (mut plan, _) = heavy(move || Plan::parse(&text, Format::Json, "plan")).await?.map_err(|error| {
        Problem::in_words(Code::Invalid, |lang| {
            let told = error.problems.iter().take(TOLD).map(|problem| problem.describe(lang));
            told.collect::<Vec<_>>().join(" ")
        })
        .at("plan")
    })?;
    if plan.name.is_empty() {
        "task".clone_into(&mut plan.name);
    }
    let queue = plan.queue.as_deref().unwrap_or(TASK_QUEUE);
    if !caller.reaches(queue) {
        return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue).at("plan.queue"));
    }
    fillable(queue, "plan.queue")?;
    refuse_commands(&plan)?;
    check_calls(&server, &plan)?;
    check_plan(&plan).map_err(|(number, error)| {
        let problem = Problem::new(Code::Invalid, "tasks.unfit").with("subtask", plan.name_of(number));
        problem.with("why", error).at(format!("plan.subtasks[{number}]"))
    })?;
    let base = PathBuf::from("/");
    let request = TaskRequest { plan, place: None, base, umask: None, origin: Origin::Api };
    let id = server.engine().start_task(request).await?;
    Ok((StatusCode::CREATED, Json(told(&server, id).await?)))
}

/// A plan from elsewhere runs no commands here: with one come its folder, its files and its own checks.
fn refuse_commands(plan: &Plan) -> Result<(), Problem> {
    for (number, subtask) in (0..).zip(&plan.subtasks) {
        // One of the programs that the server lists may be run by a job of the kind `exec`, which is looked at as any other.
        let runs = matches!(subtask.work, Work::Command(_));
        if runs || subtask.review.is_some() || subtask.snapshot.is_some() {
            let problem =
                Problem::new(Code::Forbidden, "tasks.command").with("subtask", plan.name_of(number));
            return Err(problem.at(format!("plan.subtasks[{number}]")));
        }
    }
    Ok(())
}

/// What its subtasks do must be what any job from outside may do.
fn check_calls(server: &Server, plan: &Plan) -> Result<(), Problem> {
    for (number, subtask) in plan.subtasks.iter().enumerate() {
        let job = match &subtask.work {
            Work::Http(call) => NewJob::new("http", call.to_string()),
            Work::Handler { kind, payload } => NewJob::new(kind.clone(), payload.to_string()),
            Work::Command(_) => continue,
        };
        let job = NewJob { origin: Origin::Api, ..job };
        check_origin(server, &job).map_err(|problem| {
            let place = problem.field().map_or_else(String::new, |field| format!(".{field}"));
            problem.at(format!("plan.subtasks[{number}]{place}"))
        })?;
    }
    Ok(())
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<Json<Page<Task>>, Problem> {
    let limit = reach::limit(query.limit, MOST)?;
    let wanted = limit as usize;
    let store = server.engine().store();
    let mut items: Vec<redrive_store::Task> = Vec::new();
    let mut place = if let Some(cursor) = query.cursor.as_deref() {
        cursor.parse::<TaskId>().map_err(|_| reach::no_place())?.0
    } else {
        let newest = store.tasks(query.open, None, limit).await?;
        let last = newest.last().map_or(0, |last| last.id.0);
        let full = newest.len() >= wanted;
        items.extend(newest.into_iter().filter(|task| within_reach(&server, &caller, task)));
        if full { last } else { 0 }
    };
    // Further back they are looked up by their numbers, one after the other: so nobody's are skipped, and no more are held than are told.
    let lowest = place.saturating_sub(LOOKED_AT).max(1);
    while items.len() < wanted && place > lowest {
        place -= 1;
        let task = store.task(TaskId(place)).await?;
        let is_asked = |task: &redrive_store::Task| !query.open || task.state == TaskState::Running;
        items.extend(task.filter(|task| is_asked(task) && within_reach(&server, &caller, task)));
    }
    // A full page goes on behind its last item, and nobody else's is named; a short one where it stopped looking.
    let next = if items.len() == wanted { items.last().map_or(0, |last| last.id.0) } else { place };
    let next = (next > 1).then(|| TaskId(next).to_string());
    Ok(Json(Page { items: items.into_iter().map(Task::from).collect(), next }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<TaskWhole>, Problem> {
    let task = found(&server, &caller, &id).await?;
    told(&server, task.id).await.map(Json)
}

async fn cancel(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<TaskWhole>, Problem> {
    let task = found(&server, &caller, &id).await?;
    act(&server, &caller, "task.cancel", task.id.to_string(), body.why.clone()).await?;
    let why = body.why.unwrap_or_else(|| caller.who.clone());
    if !server.engine().cancel_task(task.id, &why).await? {
        return Err(Problem::new(Code::Conflict, "tasks.over").with("id", task.id));
    }
    told(&server, task.id).await.map(Json)
}

async fn resume(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<TaskWhole>, Problem> {
    let task = found(&server, &caller, &id).await?;
    if task.state == TaskState::Succeeded {
        return Err(Problem::new(Code::Conflict, "tasks.succeeded").with("id", task.id));
    }
    act(&server, &caller, "task.resume", task.id.to_string(), body.why).await?;
    if !server.engine().resume_task(task.id).await? {
        return Err(Problem::of(Code::Conflict));
    }
    told(&server, task.id).await.map(Json)
}

async fn trace(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(id): Path<String>,
    Query(query): Query<Traced>,
) -> Result<Json<Trace>, Problem> {
    let task = found(&server, &caller, &id).await?;
    let entries = server.engine().trace_task(task.id, lang).await?.ok_or_else(|| reach::unknown(task.id))?;
    let entries = if query.latest { latest_iteration(entries) } else { entries };
    Ok(Json(Trace::new(task.id.to_string(), entries)))
}

async fn told(server: &Server, id: TaskId) -> Result<TaskWhole, Problem> {
    let engine = server.engine();
    Ok(TaskWhole::new(&engine.task_story(id).await?, engine.now()))
}

/// The task of that id, if it lies within reach.
async fn found(server: &Server, caller: &Caller, id: &str) -> Result<redrive_store::Task, Problem> {
    let id: TaskId = reach::id(id)?;
    let task = server.engine().store().task(id).await?;
    task.filter(|task| within_reach(server, caller, task)).ok_or_else(|| reach::unknown(id))
}

/// Whether the jobs of a task lie in a queue that the caller reaches.
pub(super) fn within_reach(server: &Server, caller: &Caller, task: &redrive_store::Task) -> bool {
    if caller.reaches_all() {
        return true;
    }
    // A plan that cannot be read belongs to nobody.
    let plan = server.engine().plan_of(task);
    plan.is_ok_and(|plan| caller.reaches(plan.queue.as_deref().unwrap_or(TASK_QUEUE)))
}
