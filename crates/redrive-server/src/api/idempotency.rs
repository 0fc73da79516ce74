//! Idempotency keys: those that were used, what is known of one, and forgetting it (R-I2, R-I4).

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use redrive::engine::{KeyReport, key_id};
use redrive::redact;
use redrive_store::{KeyQuery, KeyState, StoredResponse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::act;
use crate::body::MayBody;
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::route::Route;
use crate::shape;

/// How many are listed unless somebody says, and at most.
const DEFAULT_LIMIT: u32 = 20;
const MOST: u32 = 1_000;
/// The most that is kept of a reason.
const WHY_CHARS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/idempotency", Scope::Read, "list_idempotency_keys", "The keys that were used.", list)
            .asks::<KeysQuery>()
            .answers::<shape::Page<KeyShape>>(200, "The newest first."),
        Route::get(
            "/v1/idempotency/{id}",
            Scope::Read,
            "get_idempotency_key",
            "What is known of a key.",
            show,
        )
        .place::<KeyIdShape>("id")
        .asks::<ShowQuery>()
        .answers::<KeyDetailShape>(200, "The key, and its answer."),
        Route::post(
            "/v1/idempotency/{id}/reset",
            Scope::Operate,
            "reset_idempotency_key",
            "Forgets a key.",
            reset,
        )
        .place::<KeyIdShape>("id")
        .may_take::<ResetBody>()
        .answers::<KeyShape>(200, "As it was; from now on it is free."),
    ]
}

/// Which keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysQuery {
    /// Only in this state: `in_progress`, `completed` or `unknown_outcome`.
    state: Option<String>,
    /// Only this key, whosever it is.
    key: Option<String>,
    /// At most so many.
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// How a key is looked at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowQuery {
    /// Whether the body of its answer is told as well; needs the scope `read:payload`.
    #[serde(default)]
    with_body: bool,
}

/// How a key is forgotten.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {
    /// The state that it was seen in; in another one it is left alone.
    state: Option<String>,
    /// Why; written down with the act.
    why: Option<String>,
}

/// The number of a key.
enum KeyIdShape {}

impl JsonSchema for KeyIdShape {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KeyId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(key-)?[0-9]{1,18}$", "examples": ["key-17"] })
    }
}

/// An idempotency key.
#[derive(JsonSchema)]
#[schemars(rename = "IdempotencyKey")]
#[allow(dead_code)] // Only its schema is used.
struct KeyShape {
    id: String,
    key: String,
    /// Whose key it is.
    principal: String,
    endpoint: String,
    /// `in_progress`, `completed` or `unknown_outcome`.
    state: String,
    response_status: Option<u16>,
    response_bytes: Option<u64>,
    request_hash: String,
    #[schemars(with = "shape::Time")]
    created_at: String,
    #[schemars(with = "Option<shape::Time>")]
    leased_until: Option<String>,
    #[schemars(with = "Option<shape::Time>")]
    ended_at: Option<String>,
    #[schemars(with = "Option<shape::Time>")]
    expires_at: Option<String>,
    #[schemars(with = "Option<shape::JobId>")]
    job_id: Option<String>,
}

/// An idempotency key, and its answer: the contract `redrive/idempotency_key.v1`.
#[derive(JsonSchema)]
#[schemars(rename = "IdempotencyKeyDetail")]
#[allow(dead_code)] // Only its schema is used.
struct KeyDetailShape {
    schema: String,
    #[serde(flatten)]
    key: KeyShape,
    /// Why nobody knows how it ended.
    why: Option<String>,
    response_headers: Vec<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
}

#[derive(Debug, Serialize)]
struct KeyDetail {
    schema: &'static str,
    #[serde(flatten)]
    key: KeyReport,
    why: Option<String>,
    response_headers: Vec<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
}

/// A header of a kept answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Header {
    name: String,
    value: String,
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<KeysQuery>,
) -> Result<Json<shape::Page<KeyReport>>, Problem> {
    unlimited(&caller)?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Code::Invalid, "events.limit").with("most", MOST).at("limit"));
    }
    let before = query.cursor.as_deref().map(|cursor| number(cursor).map_err(|bad| bad.at("cursor")));
    // One more than is told tells whether there is a next page.
    let keys = KeyQuery {
        state: query.state.as_deref().map(state).transpose()?,
        key: query.key,
        before: before.transpose()?,
        limit: limit.saturating_add(1),
        ..KeyQuery::default()
    };
    let mut records = server.engine().store().keys(keys).await?;
    let more = records.len() > limit as usize;
    records.truncate(limit as usize);
    let next = records.last().filter(|_| more).map(|last| key_id(last.id));
    Ok(Json(shape::Page { items: records.iter().map(KeyReport::new).collect(), next }))
}

async fn show(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ShowQuery>,
) -> Result<Json<KeyDetail>, Problem> {
    unlimited(&caller)?;
    if query.with_body && !caller.may(Scope::ReadPayload) {
        let problem = Problem::new(Code::Forbidden, "token.scope");
        return Err(problem.with("scope", Scope::ReadPayload.name()).at("with_body"));
    }
    let engine = server.engine();
    let found = engine.store().key(number(&id)?).await?;
    let (record, response) = found.ok_or_else(|| unknown(&id))?;
    let why = engine.why_key_unknown(&record).await?;
    let StoredResponse { headers, body, .. } = response.unwrap_or_default();
    let header = |(name, value): (String, Vec<u8>)| Header {
        name,
        value: String::from_utf8_lossy(&value).into_owned(),
    };
    let body = body.filter(|_| query.with_body);
    let (text, bytes) = match body.map(String::from_utf8) {
        Some(Ok(text)) => (Some(text), None),
        Some(Err(no_text)) => (None, Some(BASE64.encode(no_text.into_bytes()))),
        None => (None, None),
    };
    Ok(Json(KeyDetail {
        schema: "redrive/idempotency_key.v1",
        key: KeyReport::new(&record),
        why,
        response_headers: headers.into_iter().map(header).collect(),
        response_body: text,
        response_body_base64: bytes,
    }))
}

async fn reset(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    MayBody(body): MayBody<ResetBody>,
) -> Result<Json<KeyReport>, Problem> {
    unlimited(&caller)?;
    let engine = server.engine();
    let found = engine.store().key(number(&id)?).await?;
    let (record, _) = found.ok_or_else(|| unknown(&id))?;
    let seen = body.state.as_deref().map(state).transpose()?.unwrap_or(record.state);
    act(&server, &caller, "key.reset", key_id(record.id), body.why.clone()).await?;
    let why = body.why.map(|why| redact(&why).chars().filter(|c| *c != '\0').take(WHY_CHARS).collect());
    let gone = engine.store().reset_key(engine.now(), record.id, seen, why).await?;
    let changed = || Problem::new(Code::Conflict, "keys.changed").with("id", key_id(record.id));
    gone.map(|record| Json(KeyReport::new(&record))).ok_or_else(changed)
}

/// Keys belong to no queue.
fn unlimited(caller: &Caller) -> Result<(), Problem> {
    if caller.queues.is_empty() { Ok(()) } else { Err(Problem::new(Code::Forbidden, "limited.keys")) }
}

fn number(id: &str) -> Result<i64, Problem> {
    let digits = id.strip_prefix("key-").unwrap_or(id);
    let fits = (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.parse().ok()).flatten().ok_or_else(|| Problem::new(Code::Invalid, "keys.id").at("id"))
}

fn state(name: &str) -> Result<KeyState, Problem> {
    KeyState::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| {
        let names = KeyState::ALL.map(KeyState::name).join(", ");
        Problem::new(Code::Invalid, "keys.state").with("names", names).at("state")
    })
}

fn unknown(id: &str) -> Problem {
    Problem::new(Code::NotFound, "keys.unknown").with("id", id)
}
