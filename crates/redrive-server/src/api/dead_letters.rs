//! Dead letters: looking for them, one with all that is known, mending, letting go, taking them elsewhere.

mod discard;
mod edit;
mod transfer;

use axum::Json;
use axum::extract::State;
use redrive_policy::Cause;
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{JobId, LetterFilter};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Server;
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape::letter::{Letter, LetterWhole};
use crate::shape::{Page, name};

/// The most letters of a page, and with their payloads.
const MOST: u32 = 200;
const MOST_WITH_PAYLOAD: u32 = 50;
/// How many of the payloads before are told: the last ones.
const VERSIONS: usize = 20;

pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::get(
            "/v1/dead-letters",
            Scope::Read,
            "list_dead_letters",
            "Dead letters that match, the newest first.",
            list,
        )
        .asks::<Asked>()
        .answers::<Page<Letter>>(200, "Some of them, and where the next ones begin."),
        Route::get(
            "/v1/dead-letters/{id}",
            Scope::Read,
            "get_dead_letter",
            "A dead letter with its report, in both languages.",
            show,
        )
        .asks::<Shown>()
        .answers::<LetterWhole>(200, "The letter.")
        .problems(&[Code::NotFound]),
    ];
    routes.extend(edit::routes());
    routes.extend(discard::routes());
    routes.extend(transfer::routes());
    routes
}

/// Which letters, and how they are shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// A filter: `cause=rate_limit and queue=mail and error~"timeout" and age>1h`.
    #[serde(rename = "where")]
    filter: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// Only with this cause.
    #[schemars(with = "Option<name::Cause>")]
    cause: Option<Cause>,
    /// Only of this group: its fingerprint, or the beginning of it.
    group: Option<String>,
    /// Only of this caller's id.
    caller_id: Option<String>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// How many at the most, up to 200; with payloads up to 50.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
    /// With payloads, for tokens that may see them.
    #[serde(default)]
    with_payload: bool,
}

/// How one is shown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shown {
    /// With its payload, for tokens that may see it.
    #[serde(default)]
    with_payload: bool,
}

/// Payloads are for tokens that may see them.
fn may_show(caller: &Caller, with_payload: bool) -> Result<(), Problem> {
    if with_payload && !caller.may(Scope::ReadPayload) {
        let scope = Scope::ReadPayload.name();
        return Err(Problem::new(Code::Forbidden, "token.scope").with("scope", scope));
    }
    Ok(())
}

/// The filter of a request, and the group that it names beside it.
fn asked(filter: Option<&str>, group: Option<&str>) -> Result<Option<Filter<LetterField>>, Problem> {
    let filter = reach::filter(filter)?;
    let Some(group) = group else { return Ok(filter) };
    if group.is_empty() || !group.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Problem::new(Code::Invalid, "groups.odd").at("group"));
    }
    let of_group = reach::filter(Some(&format!("group={group}")))?;
    Ok(match (filter, of_group) {
        (Some(filter), Some(of_group)) => Some(filter.and(of_group)),
        (filter, of_group) => filter.or(of_group),
    })
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<Json<Page<Letter>>, Problem> {
    may_show(&caller, query.with_payload)?;
    let limit = reach::limit(query.limit, if query.with_payload { MOST_WITH_PAYLOAD } else { MOST })?;
    let engine = server.engine();
    let among = LetterFilter {
        queue: query.queue,
        cause: query.cause,
        caller_id: query.caller_id,
        after: reach::place::<JobId>(query.cursor.as_deref())?,
        ..LetterFilter::default()
    };
    let asked = asked(query.filter.as_deref(), query.group.as_deref())?;
    let filter = caller.letters(among, asked, engine.now());
    let (items, next) =
        engine.letter_page(filter, limit, |letter| Letter::new(letter, query.with_payload)).await?;
    Ok(Json(Page { items, next: next.map(reach::cursor) }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<Shown>,
) -> Result<Json<LetterWhole>, Problem> {
    may_show(&caller, query.with_payload)?;
    let letter = caller.letter(&server, reach::id(&id)?).await?;
    let versions = server.engine().payload_versions(letter.id).await?;
    let last = &versions[versions.len().saturating_sub(VERSIONS)..];
    let mut whole = LetterWhole::new(&letter, last, query.with_payload, caller.may(Scope::ReadPayload));
    whole.payload_version = u32::try_from(versions.len()).unwrap_or(u32::MAX);
    Ok(Json(whole))
}
