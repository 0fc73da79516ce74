//! Escalations: what waits for a person, one of them whole, and that somebody has seen it.

use axum::Json;
use axum::extract::State;
use redrive::engine::{EscalationId, EscalationItem};
use schemars::JsonSchema;
use serde::Deserialize;

use super::tasks;
use crate::Server;
use crate::act::act;
use crate::body::MayBody;
use crate::caller::{Caller, Scope};
use crate::language::Language;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape::Page;
use crate::shape::escalation::{Escalation, EscalationWhole};

/// The most that are listed.
const MOST: u32 = 200;
/// How many pages are read for those of a token of some queues.
const PAGES: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/escalations",
            Scope::Read,
            "list_escalations",
            "What waits for a person, the newest first.",
            list,
        )
        .asks::<Asked>()
        .answers::<Page<Escalation>>(200, "Some of them, and where the next ones begin."),
        Route::get(
            "/v1/escalations/{id}",
            Scope::Read,
            "get_escalation",
            "An escalation with its report.",
            show,
        )
        .place::<Id>("id")
        .answers::<EscalationWhole>(200, "The escalation.")
        .problems(&[Code::NotFound]),
        Route::post(
            "/v1/escalations/{id}/ack",
            Scope::Operate,
            "acknowledge_escalation",
            "Says that somebody has seen it.",
            acknowledge,
        )
        .place::<Id>("id")
        .may_take::<Seen>()
        .answers::<EscalationWhole>(200, "The escalation.")
        .problems(&[Code::NotFound]),
    ]
}

/// The id of a task or of a letter.
struct Id;

impl JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EscalationId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(task-|job_)?[0-9]{1,18}$" })
    }
}

/// Which escalations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// With those that somebody has seen.
    #[serde(default)]
    all: bool,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many at the most.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
}

/// What the person says who has seen it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// What there is to know about it.
    note: Option<String>,
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Query(query): Query<Asked>,
) -> Result<Json<Page<Escalation>>, Problem> {
    let limit = reach::limit(query.limit, MOST)?;
    let after = reach::place::<EscalationId>(query.cursor.as_deref())?;
    let wanted = limit as usize;
    let at_once = if caller.reaches_all() { limit } else { MOST };
    let (mut found, mut place) = (Vec::new(), after);
    for _ in 0..PAGES {
        let page = server.engine().escalations(!query.all, place, at_once).await?;
        place = page.next;
        for item in page.items {
            if within_reach(&server, &caller, &item).await? {
                found.push(item);
            }
        }
        // What lies out of reach does not count, and is no place to go on at.
        if found.len() > wanted {
            found.truncate(wanted);
            place = found.last().map(|last| (last.escalated_at, last.id));
            break;
        }
        if place.is_none() || found.len() == wanted && at_once == limit {
            break;
        }
    }
    let items = found.iter().map(|item| Escalation::new(item, lang)).collect();
    Ok(Json(Page { items, next: place.map(reach::cursor) }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(id): Path<String>,
) -> Result<Json<EscalationWhole>, Problem> {
    let item = found(&server, &caller, reach::id(&id)?).await?;
    Ok(Json(EscalationWhole::new(&item, lang, caller.may(Scope::ReadPayload))))
}

async fn acknowledge(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Path(id): Path<String>,
    MayBody(seen): MayBody<Seen>,
) -> Result<Json<EscalationWhole>, Problem> {
    let id = reach::id(&id)?;
    found(&server, &caller, id).await?;
    act(&server, &caller, "escalation.acknowledge", id.to_string(), seen.note.clone()).await?;
    if !server.engine().acknowledge_escalation(id, seen.note.as_deref()).await? {
        return Err(reach::unknown(id));
    }
    let item = found(&server, &caller, id).await?;
    Ok(Json(EscalationWhole::new(&item, lang, caller.may(Scope::ReadPayload))))
}

async fn found(server: &Server, caller: &Caller, id: EscalationId) -> Result<EscalationItem, Problem> {
    let item = server.engine().escalation(id).await?.ok_or_else(|| reach::unknown(id))?;
    if within_reach(server, caller, &item).await? { Ok(item) } else { Err(reach::unknown(id)) }
}

/// Whether it lies in a queue that the caller reaches.
async fn within_reach(server: &Server, caller: &Caller, item: &EscalationItem) -> Result<bool, Problem> {
    if caller.reaches_all() {
        return Ok(true);
    }
    match item.id {
        EscalationId::Letter(_) => Ok(item.queue.as_deref().is_some_and(|queue| caller.reaches(queue))),
        EscalationId::Task(id) => {
            let task = server.engine().store().task(id).await?;
            Ok(task.is_some_and(|task| tasks::within_reach(server, caller, &task)))
        }
    }
}
