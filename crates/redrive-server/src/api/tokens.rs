//! Tokens: making, listing and revoking them. A token's text is in one answer, and nowhere else.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redrive::engine::{EngineError, NewToken, Token, TokenProblem};
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::act::Why;
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::once::Once;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::route::Route;
use crate::{Server, shape};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/tokens",
            Scope::Admin,
            "create_token",
            "Makes a token. Its text is shown once.",
            create,
        )
        .takes::<TokenBody>()
        .answers::<CreatedToken>(201, "The token, with its text; without, when the same key is sent again."),
        Route::get(
            "/v1/tokens",
            Scope::Admin,
            "list_tokens",
            "Every token, also those that hold no more.",
            list,
        )
        .answers::<shape::Page<TokenShape>>(200, "The tokens, the newest first."),
        Route::post("/v1/tokens/{id}/revoke", Scope::Admin, "revoke_token", "Revokes a token.", revoke)
            .place::<String>("id")
            .may_take::<Why>()
            .answers::<TokenShape>(200, "The token, which holds no more.")
            .problems(&[Code::NotFound]),
    ]
}

/// A token to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// What people call it.
    #[schemars(length(min = 1, max = 100))]
    name: String,
    /// What it allows: `read`, `read:payload`, `produce`, `work`, `operate`, `admin`.
    #[schemars(length(min = 1), with = "Vec<ScopeShape>")]
    scopes: Vec<String>,
    /// The queues that it allows it in, as patterns in which `*` stands for anything; absent: all of them.
    #[serde(default)]
    #[schemars(length(max = 64))]
    queues: Vec<String>,
    /// When it ends by itself.
    #[serde(default)]
    #[schemars(with = "Option<shape::Time>")]
    expires_at: Option<Timestamp>,
    /// Why, for the record.
    #[serde(default)]
    why: Option<String>,
}

/// What a token allows.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(dead_code)]
enum ScopeShape {
    #[serde(rename = "read")]
    Read,
    #[serde(rename = "read:payload")]
    ReadPayload,
    #[serde(rename = "produce")]
    Produce,
    #[serde(rename = "work")]
    Work,
    #[serde(rename = "operate")]
    Operate,
    #[serde(rename = "admin")]
    Admin,
}

/// A token; never its text, nor what is kept of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Token")]
pub(crate) struct TokenShape {
    /// What it is known by.
    id: String,
    /// What people call it.
    name: String,
    /// What it allows.
    #[schemars(with = "Vec<ScopeShape>")]
    scopes: Vec<Scope>,
    /// The queues that it allows it in; none: all of them.
    queues: Vec<String>,
    /// Whether it still allows anything.
    holds: bool,
    /// When it was made.
    #[schemars(with = "shape::Time")]
    created_at: Timestamp,
    /// By whom.
    created_by: String,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Time>")]
    expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Time>")]
    revoked_at: Option<Timestamp>,
    /// When it was used last, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Time>")]
    last_used_at: Option<Timestamp>,
}

impl TokenShape {
    fn of(token: Token, now: Timestamp) -> TokenShape {
        TokenShape {
            holds: token.holds(now),
            id: token.id,
            name: token.name,
            scopes: token.scopes,
            queues: token.queues,
            created_at: token.created_at,
            created_by: token.created_by,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            last_used_at: token.last_used_at,
        }
    }
}

/// A token that was just made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    token: TokenShape,
    /// Its text: what a client sends as `Authorization: Bearer`. It is shown once: to who sends the same key again it is not.
    #[serde(rename = "token")]
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

async fn create(
    State(server): State<Server>,
    caller: Caller,
    Body(body): Body<TokenBody>,
) -> Result<(StatusCode, Once<CreatedToken>), Problem> {
    must_reach_all(&caller)?;
    let scopes = body.scopes.iter().map(|name| name.parse());
    let scopes = scopes.collect::<Result<Vec<Scope>, TokenProblem>>().map_err(|bad| told(bad.into()))?;
    let new = NewToken { name: body.name, scopes, queues: body.queues, expires_at: body.expires_at };
    let engine = server.engine();
    // It is written down in the transaction that makes it.
    let (token, text) = engine.create_token(new, &caller.who, body.why.or(caller.why)).await.map_err(told)?;
    server.front().tokens.forget();
    let made = |text| CreatedToken { token: TokenShape::of(token.clone(), engine.now()), text };
    let shown = Once { shown: made(Some(text.reveal().to_owned())), kept: made(None) };
    Ok((StatusCode::CREATED, shown))
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<shape::Page<TokenShape>>, Problem> {
    must_reach_all(&caller)?;
    let now = server.engine().now();
    let tokens = server.engine().tokens().await?;
    let items = tokens.into_iter().map(|token| TokenShape::of(token, now)).collect();
    Ok(Json(shape::Page { items, next: None }))
}

async fn revoke(
    State(server): State<Server>,
    Path(id): Path<String>,
    caller: Caller,
    MayBody(body): MayBody<Why>,
) -> Result<Json<TokenShape>, Problem> {
    must_reach_all(&caller)?;
    let why = body.why.or(caller.why);
    let revoked = server.engine().revoke_token(&id, &caller.who, why).await?;
    server.front().tokens.forget();
    let token = revoked.ok_or_else(|| Problem::new(Code::NotFound, "tokens.unknown").with("id", &id))?;
    Ok(Json(TokenShape::of(token, server.engine().now())))
}

/// A token that is kept to some queues makes none that reaches others.
fn must_reach_all(caller: &Caller) -> Result<(), Problem> {
    if caller.queues.is_empty() { Ok(()) } else { Err(Problem::new(Code::Forbidden, "tokens.some-queues")) }
}

fn told(error: EngineError) -> Problem {
    let EngineError::BadToken(problem) = error else { return error.into() };
    match problem {
        TokenProblem::Name => Problem::new(Code::Invalid, "tokens.name").at("name"),
        TokenProblem::NoScope => Problem::new(Code::Invalid, "tokens.no-scope").at("scopes"),
        TokenProblem::UnknownScope(name) => {
            Problem::new(Code::Invalid, "tokens.scope").with("name", name).at("scopes")
        }
        TokenProblem::Pattern(text) => {
            Problem::new(Code::Invalid, "tokens.pattern").with("text", text).at("queues")
        }
        TokenProblem::Expired => Problem::new(Code::Invalid, "tokens.expired").at("expires_at"),
        TokenProblem::TooMany => Problem::new(Code::Conflict, "tokens.too-many"),
    }
}
