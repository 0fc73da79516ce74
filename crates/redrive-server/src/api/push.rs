//! Push endpoints: services that are called for jobs instead of asking for them. Their secrets go in and are never shown again.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use redrive::engine::{BadEndpoint, EngineError, PushEndpoint, PushProblem, PushSecret, PushWish};
use redrive::{Refused, shown_webhook};
use redrive_policy::{Lang, round_to_millis};
use redrive_store::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::fillable;
use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::once::Once;
use crate::path::Path;
use crate::problem::{Code, Problem, text};
use crate::route::Route;
use crate::shape;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/push", Scope::Admin, "list_push", "Lists push endpoints.", list)
            .answers::<shape::Page<PushShown>>(200, "All of them, by name."),
        Route::get("/v1/push/{name}", Scope::Admin, "get_push", "Shows a push endpoint.", get)
            .answers::<PushShown>(200, "The endpoint, without its secrets."),
        Route::put("/v1/push/{name}", Scope::Admin, "put_push", "Sets up or changes a push endpoint.", put)
            .takes::<PushBody>()
            .answers::<PushShown>(
                200,
                "The endpoint as it is now; with its secret, if that is new and the key is not sent again.",
            ),
        Route::delete("/v1/push/{name}", Scope::Admin, "remove_push", "Removes a push endpoint.", remove)
            .may_take::<Why>()
            .empty(204, "It is gone; calls that are under way are finished."),
    ]
}

/// A push endpoint as it is wanted. What is absent stays as it is, or is what is usual.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushBody {
    /// The queue whose jobs it gets.
    #[schemars(with = "shape::Name")]
    queue: String,
    /// Where it is called.
    url: String,
    /// Only these kinds; all of the queue when absent.
    kinds: Option<Vec<String>>,
    /// The secrets that calls are signed with, `whsec_…`, the newest first; one is made when there are none.
    secrets: Option<Vec<String>>,
    /// Makes a new secret and keeps the one before, so that the service can change over.
    rotate: Option<bool>,
    /// How many calls are under way at a time; 4 when absent.
    concurrency: Option<usize>,
    /// How many jobs go into one call; 1 when absent, and more need kinds.
    batch: Option<usize>,
    /// How long a call may take, in milliseconds; 15,000 when absent.
    timeout_ms: Option<u64>,
    /// Whether it is called; yes when absent.
    enabled: Option<bool>,
    /// Why, for the record.
    why: Option<String>,
}

/// A push endpoint.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PushShown {
    /// Its name.
    name: String,
    /// The queue whose jobs it gets.
    queue: String,
    /// Only these kinds; none: all of the queue.
    kinds: Vec<String>,
    /// Where it is called: the host alone, since the rest is often a secret. All of it when one endpoint is looked at with
    /// `read:payload`.
    url: String,
    /// How many secrets each call is signed with.
    secrets: usize,
    /// The secret that was made just now. It is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_secret: Option<String>,
    /// How many calls are under way at a time.
    concurrency: usize,
    /// How many jobs go into one call.
    batch: usize,
    /// How long a call may take, in milliseconds.
    timeout_ms: u64,
    /// Whether it is called.
    enabled: bool,
    /// Why it is not, when it was not a person's wish.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_why: Option<String>,
}

impl PushShown {
    fn of(endpoint: PushEndpoint, new_secret: Option<&PushSecret>) -> PushShown {
        PushShown {
            name: endpoint.name,
            queue: endpoint.queue,
            kinds: endpoint.kinds,
            url: shown_webhook(&endpoint.url),
            secrets: endpoint.secrets.len(),
            new_secret: new_secret.map(PushSecret::reveal),
            concurrency: endpoint.concurrency,
            batch: endpoint.batch,
            timeout_ms: round_to_millis(endpoint.timeout),
            enabled: endpoint.enabled,
            disabled_why: endpoint.disabled_why,
        }
    }
}

async fn list(State(server): State<Server>, caller: Caller) -> Result<Json<shape::Page<PushShown>>, Problem> {
    // Where an endpoint is, and which queue it gets, is nobody's business but of who reaches every queue.
    caller.must_reach_all()?;
    let endpoints = server.engine().push_endpoints().await?;
    let items = endpoints.into_iter().map(|endpoint| PushShown::of(endpoint, None)).collect();
    Ok(Json(shape::Page { items, next: None }))
}

async fn get(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<PushShown>, Problem> {
    caller.must_reach_all()?;
    let endpoint = server.engine().push_endpoint(&name).await?.ok_or_else(|| unknown(&name))?;
    let whole = caller.may(Scope::ReadPayload).then(|| endpoint.url.clone());
    let shown = PushShown::of(endpoint, None);
    Ok(Json(PushShown { url: whole.unwrap_or_else(|| shown.url.clone()), ..shown }))
}

async fn put(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<PushBody>,
) -> Result<Once<PushShown>, Problem> {
    caller.must_reach_all()?;
    fillable(&body.queue, "queue")?;
    // What cannot be is told before anything is written down.
    server.settings().guard.check(&body.url).map_err(|refused| not_called(&refused))?;
    let PushBody { queue, url, kinds, secrets, rotate, concurrency, batch, timeout_ms, enabled, why } = body;
    let wish = PushWish {
        queue: Some(queue),
        url: Some(url),
        kinds,
        secrets: secrets.map(read).transpose()?,
        rotate: rotate == Some(true),
        concurrency,
        batch,
        timeout: timeout_ms.map(Duration::from_millis),
        enabled: Some(enabled.unwrap_or(true)),
        origin: Origin::Api,
    };
    server.engine().check_push_endpoint(&name, &wish).await.map_err(refused)?;
    act(&server, &caller, "push.add", format!("push {name}"), why).await?;
    let (endpoint, made) = server.engine().set_push_endpoint(&name, &wish).await.map_err(refused)?;
    let kept = PushShown::of(endpoint.clone(), None);
    Ok(Once { shown: PushShown::of(endpoint, made.as_ref()), kept })
}

async fn remove(
    State(server): State<Server>,
    caller: Caller,
    Path(name): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<http::StatusCode, Problem> {
    caller.must_reach_all()?;
    if server.engine().push_endpoint(&name).await?.is_none() {
        return Err(unknown(&name));
    }
    act(&server, &caller, "push.remove", format!("push {name}"), body.why).await?;
    server.engine().change_push_endpoint(&name, |_| Ok::<_, EngineError>(None)).await?;
    Ok(http::StatusCode::NO_CONTENT)
}

/// Secrets as they were given. Which of them is none is said, but not what it was.
fn read(given: Vec<String>) -> Result<Vec<PushSecret>, Problem> {
    let one = |secret| {
        PushSecret::try_from(secret).map_err(|_| Problem::new(Code::Invalid, "push.secret").at("secrets"))
    };
    given.into_iter().map(one).collect()
}

/// Why it cannot be had.
fn refused(error: EngineError) -> Problem {
    match error {
        EngineError::Push(PushProblem::Bad(BadEndpoint { field, .. })) => bad(field),
        EngineError::Push(PushProblem::TooMany(most)) => {
            Problem::new(Code::Conflict, "push.too_many").with("most", most)
        }
        other => other.into(),
    }
}

fn bad(field: &'static str) -> Problem {
    let key = match field {
        "name" => "push.name",
        "queue" => "push.queue",
        "url" => "push.url",
        "secrets" => "push.secrets",
        "concurrency" => "push.concurrency",
        "batch" => "push.batch",
        "kinds" => "push.kinds",
        _ => "push.timeout_ms",
    };
    Problem::new(Code::Invalid, key).at(field)
}

/// Why an address that came over the API is not called, and who may have it called.
fn not_called(refused: &Refused) -> Problem {
    let words = |lang: Lang| match refused {
        Refused::Inside { host, address, inside } => {
            let what = text(lang, &format!("push.inside.{}", inside.name()), &[]);
            let what = if host.parse() == Ok(*address) {
                what
            } else {
                text(lang, "push.found", &[("address", address), ("what", &what)])
            };
            text(lang, "push.refused", &[("host", host), ("what", &what), ("address", address)])
        }
        Refused::Ourselves { host, .. } => text(lang, "push.ourselves", &[("host", host)]),
        Refused::Port { host, port } => text(lang, "push.port", &[("host", host), ("port", port)]),
        _ => text(lang, "push.url", &[]),
    };
    Problem::in_words(Code::Invalid, words).at("url")
}

fn unknown(name: &str) -> Problem {
    Problem::new(Code::NotFound, "push.unknown").with("name", name)
}
