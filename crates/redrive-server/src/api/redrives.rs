//! Redrives: letters put back as durable runs, with a preview, a rate, a canary, progress and an end by hand.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use redrive::engine::{Canary, RedriveRequest, RedriveRun, Which, parse_rate};
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{JobId, LetterFilter, RunId, RunState};
use schemars::JsonSchema;
use serde::Deserialize;

use super::groups;
use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape::redrive::{Preview, Redrive};
use crate::shape::{self, Page};

/// The most redrives that are listed.
const MOST: u32 = 200;
/// How many further ones are looked at for those that are asked for.
const LOOKED_AT: i64 = 1_000;
/// How many ids of a redrive are told.
const IDS: usize = 1_000;
const IDS_IN_LIST: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/redrives",
            Scope::Operate,
            "begin_redrive",
            "Puts letters back, as a run that goes on by itself; with `dry_run` only tells what it would do.",
            begin,
        )
        .takes::<Wish>()
        .answers::<Preview>(200, "What it would do.")
        .answers::<Redrive>(201, "It has begun.")
        .problems(&[Code::NotFound, Code::Conflict]),
        Route::get(
            "/v1/redrives",
            Scope::Read,
            "list_redrives",
            "Redrives, the newest first. A token of some queues sees those that it has begun.",
            list,
        )
        .asks::<Asked>()
        .answers::<Page<Redrive>>(200, "Some of them, and where the next ones begin."),
        Route::get("/v1/redrives/{id}", Scope::Read, "get_redrive", "A redrive and how far it is.", show)
            .place::<Id>("id")
            .answers::<Redrive>(200, "The redrive.")
            .problems(&[Code::NotFound]),
        Route::post(
            "/v1/redrives/{id}/cancel",
            Scope::Operate,
            "cancel_redrive",
            "Ends a redrive. What it has not touched stays dead.",
            cancel,
        )
        .place::<Id>("id")
        .may_take::<Why>()
        .answers::<Redrive>(200, "It is over.")
        .problems(&[Code::NotFound, Code::Conflict]),
    ]
}

/// The id of a redrive.
struct Id;

impl JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RedriveId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(redrive_)?[0-9]{1,18}$" })
    }
}

/// Which letters go back, and how: exactly one of `ids`, `group`, `where` and `all`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewRedrive")]
struct Wish {
    /// These.
    #[schemars(with = "Option<Vec<shape::JobId>>", length(min = 1, max = 1000))]
    ids: Option<Vec<String>>,
    /// Those of this group: its fingerprint, or the beginning of it.
    group: Option<String>,
    /// Those that match this filter.
    #[serde(rename = "where")]
    filter: Option<String>,
    /// All there are.
    #[serde(default)]
    all: bool,
    /// In steps of 1, 10, 10 % and all, each judged by first attempts before the next begins.
    #[serde(default)]
    canary: bool,
    /// The share of first attempts that may fail, from 0 to 1; 0.1 unless said. With `canary`.
    #[schemars(range(min = 0.0, max = 1.0))]
    max_failure_rate: Option<f64>,
    /// How many in a second, a minute or an hour: `10/s`, `30/m`, `100/h`.
    rate: Option<String>,
    /// How many at the most.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// Puts nothing back, and tells what it would do.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the record.
    reason: Option<String>,
}

/// Which redrives.
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

async fn begin(
    State(server): State<Server>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Response, Problem> {
    let engine = server.engine();
    let which = which(&server, &caller, &wish).await?;
    let request = RedriveRequest {
        rate: rate(wish.rate.as_deref())?,
        limit: limit(wish.limit)?,
        canary: canary(&wish)?,
        wanted_by: caller.who.clone(),
        ..RedriveRequest::new(which)
    };
    let preview = engine.preview_redrive(&request).await?;
    if wish.dry_run {
        return Ok(Json(Preview::new(preview, wish.canary, request.rate)).into_response());
    }
    if preview.count == 0 {
        return Err(Problem::new(Code::NotFound, "redrives.nothing"));
    }
    act(&server, &caller, "redrive.begin", target(&request.which), wish.reason).await?;
    let id = engine.start_redrive(request).await?;
    let run = engine.redrive_run(id).await?.ok_or_else(|| reach::unknown(id))?;
    Ok((StatusCode::CREATED, Json(Redrive::new(&run, None, IDS))).into_response())
}

/// Which letters are meant, as far as the caller reaches.
async fn which(server: &Server, caller: &Caller, wish: &Wish) -> Result<Which, Problem> {
    let given = [wish.ids.is_some(), wish.group.is_some(), wish.filter.is_some(), wish.all];
    if given.into_iter().filter(|given| *given).count() != 1 {
        return Err(Problem::new(Code::Invalid, "redrives.which"));
    }
    if let Some(ids) = &wish.ids {
        return Ok(Which::Ids(letters(server, caller, ids).await?));
    }
    if let Some(written) = &wish.group {
        let fingerprint = groups::named(server, caller, written).await?.fingerprint;
        return Ok(match caller.queue_filter() {
            None => Which::Group(fingerprint),
            Some(own) => Which::Where(format!("group={fingerprint} and ({own})")),
        });
    }
    if wish.all {
        caller.must_reach_all()?;
        return Ok(Which::All);
    }
    let filter = caller.narrowed(reach::filter(wish.filter.as_deref())?);
    let text = filter.map(|filter| filter.to_string()).unwrap_or_default();
    // With what the token adds to it, it must still be one.
    Filter::<LetterField>::parse_own(&text).map_err(|error| Problem::from(error).at("where"))?;
    Ok(Which::Where(text))
}

/// These letters, all of which must be there and within reach.
async fn letters(server: &Server, caller: &Caller, written: &[String]) -> Result<Vec<JobId>, Problem> {
    let most = server.settings().max_batch;
    if written.len() > most {
        let problem = Problem::new(Code::Invalid, "refused.many").with("count", written.len());
        return Err(problem.with("most", most).at("ids"));
    }
    let ids = written.iter().map(|id| reach::id::<JobId>(id)).collect::<Result<Vec<_>, _>>()?;
    let these = LetterFilter { ids: Some(ids.clone()), ..LetterFilter::default() };
    let these = caller.letters(these, None, server.engine().now());
    let most = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let found = server.engine().store().letter_heads(these, most, most.max(1)).await?.heads;
    match ids.iter().find(|id| !found.iter().any(|head| head.id == **id)) {
        Some(missing) => Err(Problem::new(Code::NotFound, "letters.none").with("id", missing).at("ids")),
        None => Ok(ids),
    }
}

fn rate(written: Option<&str>) -> Result<Option<f64>, Problem> {
    let Some(written) = written else { return Ok(None) };
    let rate = parse_rate(written);
    rate.map(Some).ok_or_else(|| Problem::new(Code::Invalid, "redrives.rate").at("rate"))
}

fn limit(limit: Option<u64>) -> Result<Option<u64>, Problem> {
    match limit {
        Some(0) => Err(Problem::new(Code::Invalid, "redrives.limit").at("limit")),
        limit => Ok(limit),
    }
}

fn canary(wish: &Wish) -> Result<Option<Canary>, Problem> {
    let odd = || Problem::new(Code::Invalid, "redrives.failure_rate").at("max_failure_rate");
    match wish.max_failure_rate {
        Some(_) if !wish.canary => Err(odd()),
        Some(rate) if !(0.0..=1.0).contains(&rate) => Err(odd()),
        Some(max_failure_rate) => Ok(Some(Canary { max_failure_rate })),
        None => Ok(wish.canary.then(Canary::default)),
    }
}

/// Which letters, for the record.
fn target(which: &Which) -> String {
    match which {
        Which::Ids(ids) => {
            let first: Vec<String> = ids.iter().take(5).map(ToString::to_string).collect();
            format!("{} ids: {}", ids.len(), first.join(", "))
        }
        Which::Group(fingerprint) => format!("group={fingerprint}"),
        Which::Where(filter) => filter.clone(),
        Which::All => "all".to_owned(),
    }
}

/// Of a redrive nobody can say which queues it concerns: a token of some sees what it has begun itself.
fn sees(caller: &Caller, run: &RedriveRun) -> bool {
    caller.reaches_all() || run.wanted_by == caller.who
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<Json<Page<Redrive>>, Problem> {
    let limit = reach::limit(query.limit, MOST)?;
    let engine = server.engine();
    let wanted = limit as usize;
    let mut runs: Vec<RedriveRun> = Vec::new();
    let mut place = if let Some(cursor) = query.cursor.as_deref() {
        cursor.parse::<RunId>().map_err(|_| reach::no_place())?.0
    } else {
        let newest = engine.redrive_runs(query.open, limit).await?;
        let last = newest.last().map_or(0, |last| last.id.0);
        let full = newest.len() >= wanted;
        runs.extend(newest.into_iter().filter(|run| sees(&caller, run)));
        if full { last } else { 0 }
    };
    // Further back they are looked up by their numbers, one after the other.
    let lowest = place.saturating_sub(LOOKED_AT).max(1);
    while runs.len() < wanted && place > lowest {
        place -= 1;
        let run = engine.redrive_run(RunId(place)).await?;
        let is_asked = |run: &RedriveRun| !query.open || run.state == RunState::Running;
        runs.extend(run.filter(|run| is_asked(run) && sees(&caller, run)));
    }
    // A full page goes on behind its last item, and nobody else's is named; a short one where it stopped looking.
    let next = if runs.len() == wanted { runs.last().map_or(0, |last| last.id.0) } else { place };
    let mut items = Vec::with_capacity(runs.len());
    for run in &runs {
        items.push(Redrive::new(run, engine.tally(run).await?, IDS_IN_LIST));
    }
    Ok(Json(Page { items, next: (next > 1).then(|| RunId(next).to_string()) }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Redrive>, Problem> {
    found(&server, &caller, reach::id(&id)?).await.map(Json)
}

async fn found(server: &Server, caller: &Caller, id: RunId) -> Result<Redrive, Problem> {
    let engine = server.engine();
    let run = engine.redrive_run(id).await?.filter(|run| sees(caller, run));
    let run = run.ok_or_else(|| reach::unknown(id))?;
    Ok(Redrive::new(&run, engine.tally(&run).await?, IDS))
}

async fn cancel(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<Redrive>, Problem> {
    let id: RunId = reach::id(&id)?;
    found(&server, &caller, id).await?;
    act(&server, &caller, "redrive.cancel", id.to_string(), body.why.clone()).await?;
    if !server.engine().cancel_redrive(id, body.why).await? {
        return Err(Problem::new(Code::Conflict, "redrives.over").with("id", id));
    }
    found(&server, &caller, id).await.map(Json)
}
