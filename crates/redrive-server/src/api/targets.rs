//! Protected targets: where their breakers stand, what waits for them, and limits that are set while everything runs.

use axum::Json;
use axum::extract::State;
use redrive::engine::{TargetLimits, TargetReport};
use redrive_policy::protection::{Rate, queue_of_key};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::language::Language;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::route::Route;
use crate::shape;

/// How many targets one answer holds, unless another number is asked for.
const USUAL: u32 = 100;
/// How many are looked at in one go for those of a token of some queues.
const AT_ONCE: u32 = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/targets", Scope::Read, "targets", "Protected targets and how they stand.", targets)
            .asks::<Asked>()
            .answers::<shape::Page<TargetShape>>(200, "The targets, by name."),
        Route::get("/v1/targets/{target}", Scope::Read, "target", "One protected target.", target)
            .place::<shape::Name>("target")
            .answers::<TargetShape>(200, "The target."),
        Route::post(
            "/v1/targets/{target}/limits",
            Scope::Operate,
            "limit_target",
            "Sets limits of a target for all servers; without any, those of the configuration hold again.",
            limit,
        )
        .place::<shape::Name>("target")
        .takes::<LimitsBody>()
        .answers::<TargetShape>(200, "They hold from now on."),
        Route::post(
            "/v1/targets/{target}/reset",
            Scope::Operate,
            "reset_target",
            "Forgets what is held against a target: calls pass again.",
            reset,
        )
        .place::<shape::Name>("target")
        .may_take::<Why>()
        .answers::<Reset>(200, "It is forgotten; what is parked keeps its times."),
        Route::put(
            "/v1/queues/{queue}/limits",
            Scope::Operate,
            "limit_queue",
            "Sets limits of a queue for all servers; without any, those of the configuration hold again.",
            limit_queue,
        )
        .place::<shape::Name>("queue")
        .takes::<LimitsBody>()
        .answers::<TargetShape>(200, "They hold from now on."),
    ]
}

/// A protected target and how it stands.
#[derive(JsonSchema)]
#[schemars(rename = "Target")]
#[allow(dead_code)] // Only its schema is used.
struct TargetShape {
    /// `host:api.example.com`, `queue:mail`, `key:tenant-7`.
    name: String,
    /// `closed`, `open`, `half_open` or `ramp`.
    state: String,
    /// When it is tried again, while nobody calls it.
    #[schemars(with = "Option<shape::Time>")]
    tried_again_at: Option<String>,
    /// Why nobody calls it, or few do.
    why: Option<String>,
    calls: u32,
    failed: u32,
    refused: u32,
    running: Option<u32>,
    /// Jobs that are parked now, about.
    parked: u32,
    parked_total: u64,
    opened_total: u64,
    retry_budget: Option<u32>,
    /// Such as `10/s`.
    rate: Option<String>,
    burst: Option<u32>,
    concurrency: Option<u32>,
    /// Whether somebody has set a limit while everything runs.
    limited: bool,
}

/// Which targets are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Behind this one, by name.
    cursor: Option<String>,
    /// At most so many.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// Limits of a target.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsBody {
    /// How many calls may begin in a time: `10/s`, `600/m`, `1000/h`.
    #[schemars(regex(pattern = r"^[1-9][0-9]{0,5}/[smh]$"))]
    rate: Option<String>,
    /// How many of them may come at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    burst: Option<u32>,
    /// How many calls may run at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: Option<u32>,
    /// Why; written down with the act.
    why: Option<String>,
}

/// A target that was reset.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TargetReset")]
struct Reset {
    target: String,
    /// Whether anything was known of it.
    known: bool,
}

impl LimitsBody {
    fn limits(&self) -> Result<TargetLimits, Problem> {
        let bad = |field: &'static str| Problem::new(Code::Invalid, "targets.limit").at(field);
        let sound = |number: Option<u32>| number.is_none_or(|number| (1..=1_000_000).contains(&number));
        let rate = self.rate.as_deref().map(str::parse::<Rate>).transpose().map_err(|_| bad("rate"))?;
        if !sound(self.burst) {
            return Err(bad("burst"));
        }
        if !sound(self.concurrency) {
            return Err(bad("concurrency"));
        }
        Ok(TargetLimits { rate, burst: self.burst, concurrency: self.concurrency })
    }
}

async fn targets(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Query(asked): Query<Asked>,
) -> Result<Json<shape::Page<TargetReport>>, Problem> {
    let limit = asked.limit.unwrap_or(USUAL);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::new(Code::Invalid, "targets.page").at("limit"));
    }
    // What lies out of reach is not counted, and not named as a place either.
    let at_once = if caller.reaches_all() { limit + 1 } else { AT_ONCE };
    let (wanted, mut place) = (limit as usize, asked.cursor);
    let mut found = Vec::new();
    loop {
        let page = server.engine().targets(place, at_once).await?;
        let full = page.len() >= at_once as usize;
        place = page.last().map(|last| last.name.clone());
        found.extend(page.into_iter().filter(|target| reaches(&caller, &target.name)));
        if !full || found.len() > wanted {
            break;
        }
    }
    let more = found.len() > wanted;
    found.truncate(wanted);
    let next = found.last().filter(|_| more).map(|last| last.name.clone());
    Ok(Json(shape::Page { items: found.iter().map(|target| target.report(lang)).collect(), next }))
}

async fn target(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(target): Path<String>,
) -> Result<Json<TargetReport>, Problem> {
    reached(&caller, &target)?;
    one(&server, &target, lang).await
}

async fn limit(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(target): Path<String>,
    Body(body): Body<LimitsBody>,
) -> Result<Json<TargetReport>, Problem> {
    set(&server, &caller, lang, target, body).await
}

async fn limit_queue(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(queue): Path<String>,
    Body(body): Body<LimitsBody>,
) -> Result<Json<TargetReport>, Problem> {
    set(&server, &caller, lang, format!("queue:{queue}"), body).await
}

async fn set(
    server: &Server,
    caller: &Caller,
    lang: redrive_policy::Lang,
    target: String,
    body: LimitsBody,
) -> Result<Json<TargetReport>, Problem> {
    reached(caller, &target)?;
    let limits = body.limits()?;
    if !redrive::engine::is_target(&target) {
        return Err(Problem::new(Code::Invalid, "targets.name").at("target"));
    }
    let name = if target.starts_with("queue:") { "queue.limit" } else { "target.limit" };
    act(server, caller, name, target.clone(), body.why).await?;
    server.engine().limit_target(&target, limits).await?;
    let seen = server.engine().target(&target).await?;
    // Without a limit and without anything known of it there is nothing to protect: that is how it stands.
    let seen = seen.unwrap_or_else(|| server.engine().unknown_target(&target));
    Ok(Json(seen.report(lang)))
}

async fn reset(
    State(server): State<Server>,
    caller: Caller,
    Path(target): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<Reset>, Problem> {
    reached(&caller, &target)?;
    act(&server, &caller, "target.reset", target.clone(), body.why).await?;
    let known = server.engine().reset_target(&target).await?;
    Ok(Json(Reset { target, known }))
}

async fn one(
    server: &Server,
    target: &str,
    lang: redrive_policy::Lang,
) -> Result<Json<TargetReport>, Problem> {
    let unknown = || Problem::new(Code::NotFound, "targets.unknown").with("target", target);
    let seen = server.engine().target(target).await?.ok_or_else(unknown)?;
    Ok(Json(seen.report(lang)))
}

/// Whoever is limited to queues sees those and the keys of those, and no host and no other key: others' work goes there as well.
fn reaches(caller: &Caller, target: &str) -> bool {
    let queue = target.strip_prefix("queue:").map(str::to_owned);
    let queue = queue.or_else(|| Some(queue_of_key(target.strip_prefix("key:")?)?.0));
    caller.queues.is_empty() || queue.is_some_and(|queue| caller.reaches(&queue))
}

fn reached(caller: &Caller, target: &str) -> Result<(), Problem> {
    if reaches(caller, target) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "targets.reach").with("target", target))
}
