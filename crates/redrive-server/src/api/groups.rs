//! Groups: letters with one fingerprint, and what people say of them.

use axum::Json;
use axum::extract::State;
use redrive::engine::Named;
use redrive_policy::Cause;
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{DeadLetter, GroupState, LetterFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::act;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape::group::{Group, GroupWhole};
use crate::shape::letter::Letter;
use crate::shape::name;

/// The most groups that are listed.
const MOST: u32 = 500;
/// How many are looked at for those of a token of some queues.
const LOOKED_AT: u32 = 2_000;
/// How many letters are shown with a group.
const NEWEST: u32 = 5;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/groups",
            Scope::Read,
            "list_groups",
            "Groups of letters, the largest first and those that are resolved last.",
            list,
        )
        .asks::<Asked>()
        .answers::<Groups>(200, "The groups."),
        Route::get(
            "/v1/groups/{fingerprint}",
            Scope::Read,
            "get_group",
            "A group with its newest letters. The beginning of a fingerprint is enough.",
            show,
        )
        .place::<Fingerprint>("fingerprint")
        .answers::<GroupWhole>(200, "The group.")
        .problems(&[Code::NotFound, Code::Conflict]),
        Route::post(
            "/v1/groups/{fingerprint}/state",
            Scope::Operate,
            "set_group_state",
            "Says where a group stands: acknowledged, resolved, or open again.",
            set,
        )
        .place::<Fingerprint>("fingerprint")
        .takes::<Say>()
        .answers::<Group>(200, "The group as it stands now.")
        .problems(&[Code::NotFound, Code::Conflict]),
    ]
}

/// A fingerprint, or the beginning of one.
struct Fingerprint;

impl JsonSchema for Fingerprint {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fingerprint".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{1,64}$" })
    }
}

/// Which groups.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Only in these states, with commas between them: `open,regressed`.
    #[schemars(regex(
        pattern = r"^(open|acknowledged|resolved|regressed)(,(open|acknowledged|resolved|regressed))*$"
    ))]
    state: Option<String>,
    /// Only with this cause.
    #[schemars(with = "Option<name::Cause>")]
    cause: Option<Cause>,
    /// How many at the most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Groups.
#[derive(Debug, Serialize, JsonSchema)]
struct Groups {
    /// The largest first, those that are resolved last.
    items: Vec<Group>,
    /// Whether there are more than these.
    more: bool,
}

/// What a person says of a group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Say {
    /// Where it stands.
    state: Said,
    /// What there is to know about it.
    note: Option<String>,
    /// Why, for the record.
    why: Option<String>,
}

/// What can be said of a group.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// Somebody knows of it; it raises no alarm.
    Acknowledged,
    /// It is mended.
    Resolved,
    /// Nobody looks after it.
    Open,
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<Json<Groups>, Problem> {
    let limit = reach::limit(query.limit, MOST)?;
    let states = match query.state.as_deref() {
        None => Vec::new(),
        Some(names) => {
            names.split(',').map(GroupState::from_name).collect::<Option<Vec<_>>>().ok_or_else(|| {
                let names = GroupState::ALL.map(GroupState::name).join(", ");
                Problem::new(Code::Invalid, "json.one_of").with("names", names).at("state")
            })?
        }
    };
    let wanted = limit as usize;
    let (mut items, mut looked_at) = (Vec::new(), 0);
    // What lies out of reach does not count: more of them are looked at, and not without end.
    for among in if caller.reaches_all() { [limit, limit] } else { [MOST, LOOKED_AT] } {
        let (groups, more) = server.engine().list_groups(&states, query.cause, among).await?;
        for group in groups.into_iter().skip(looked_at) {
            looked_at += 1;
            items.extend(seen(&server, &caller, group).await?);
            if items.len() > wanted {
                items.truncate(wanted);
                return Ok(Json(Groups { items, more: true }));
            }
        }
        if caller.reaches_all() {
            return Ok(Json(Groups { items, more }));
        }
        if !more {
            break;
        }
    }
    Ok(Json(Groups { items, more: false }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Path(written): Path<String>,
) -> Result<Json<GroupWhole>, Problem> {
    let group = named(&server, &caller, &written).await?;
    let engine = server.engine();
    let of_it = LetterFilter { fingerprint: Some(group.fingerprint.clone()), ..LetterFilter::default() };
    let of_it = caller.letters(of_it, None, engine.now());
    let (letters, _) = engine.letter_page(of_it, NEWEST, |letter| Letter::new(letter, false)).await?;
    Ok(Json(GroupWhole { group, letters }))
}

async fn set(
    State(server): State<Server>,
    caller: Caller,
    Path(written): Path<String>,
    Body(say): Body<Say>,
) -> Result<Json<Group>, Problem> {
    let group = named(&server, &caller, &written).await?;
    must_be_own(&server, &caller, &group.fingerprint).await?;
    let (state, what) = match say.state {
        Said::Acknowledged => (GroupState::Acknowledged, "group.acknowledge"),
        Said::Resolved => (GroupState::Resolved, "group.resolve"),
        Said::Open => (GroupState::Open, "group.reopen"),
    };
    let why = say.why.or_else(|| say.note.clone());
    act(&server, &caller, what, group.fingerprint.clone(), why).await?;
    let changed = server.engine().set_group_state(group.fingerprint.clone(), state, say.note).await?;
    let changed = changed.ok_or_else(|| reach::unknown(&group.fingerprint))?;
    seen(&server, &caller, changed).await?.map(Json).ok_or_else(|| reach::unknown(written))
}

/// The group that is meant, if it lies within reach.
pub(super) async fn named(server: &Server, caller: &Caller, written: &str) -> Result<Group, Problem> {
    match server.engine().group_named(written).await? {
        Named::One(group) => seen(server, caller, *group).await?.ok_or_else(|| reach::unknown(written)),
        // Which others there are is not for a token of some queues to know.
        Named::Several(candidates) if caller.reaches_all() => {
            let candidates = candidates.join(", ");
            let problem = Problem::new(Code::Conflict, "groups.several").with("written", written);
            Err(problem.with("candidates", candidates))
        }
        Named::Several(_) | Named::Nothing => Err(reach::unknown(written)),
    }
}

/// A group as the caller may see it: for a token of some queues with what lies in them, and nothing when that is nothing.
async fn seen(
    server: &Server,
    caller: &Caller,
    group: redrive_store::Group,
) -> Result<Option<Group>, Problem> {
    let shown = Group::from(group);
    if caller.reaches_all() {
        return Ok(Some(shown));
    }
    let engine = server.engine();
    let of_it = LetterFilter { fingerprint: Some(shown.fingerprint.clone()), ..LetterFilter::default() };
    let of_it = caller.letters(of_it, None, engine.now());
    let count = engine.store().count_letters(of_it.clone()).await?;
    let told = |letter: &DeadLetter| (letter.died_at, letter.error_message.clone());
    let newest = engine.letter_page(of_it.clone(), 1, told).await?.0.pop();
    let oldest_first = LetterFilter { oldest_first: true, ..of_it };
    let oldest = engine.letter_page(oldest_first, 1, told).await?.0.pop();
    let (Some((last_seen, sample)), Some((first_seen, _))) = (newest, oldest) else { return Ok(None) };
    // What was said, and how many there ever were, is of all queues.
    Ok(Some(Group {
        count: i64::try_from(count).unwrap_or(i64::MAX),
        sample,
        first_seen,
        last_seen,
        note: None,
        failures: None,
        under_way: None,
        recovered: None,
        relapsed: None,
        ..shown
    }))
}

/// What is said of a group holds for all of it, so no letter of it may lie out of reach.
async fn must_be_own(server: &Server, caller: &Caller, fingerprint: &str) -> Result<(), Problem> {
    let Some(own) = caller.queue_filter() else { return Ok(()) };
    let others: Filter<LetterField> = Filter::parse_own(&format!("not ({own})"))?;
    let of_it = LetterFilter { fingerprint: Some(fingerprint.to_owned()), ..LetterFilter::default() };
    let others = others.letters_among(of_it, server.engine().now());
    match server.engine().store().count_letters(others).await? {
        0 => Ok(()),
        _ => Err(Problem::new(Code::Forbidden, "groups.shared").with("group", fingerprint)),
    }
}
