//! What other policies would have made of the failures of a period. It reads the stream, so it is bounded in every direction, and
//! one at a time is enough.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use redrive::engine::{Candidate, Simulate};
use redrive_policy::{Cause, Config, parse_duration};
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{ConfigFormat, written};
use crate::Server;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::heavy::heavy;
use crate::object::Object;
use crate::problem::{Code, Problem};
use crate::route::Route;
use crate::shape::simulation::Simulation;
use crate::shape::{self, name};

/// The most jobs, the longest period, and the longest that it may take.
const MOST_JOBS: u32 = 20_000;
const LONGEST: Duration = Duration::from_hours(7 * 24);
const WITHIN: Duration = Duration::from_secs(30);
/// The most policies that are tried at once.
const MOST_POLICIES: usize = 5;

/// One at a time.
static TURN: Semaphore = Semaphore::const_new(1);

pub(super) fn route() -> Route {
    Route::post(
        "/v1/policies/simulate",
        Scope::Read,
        "simulate_policies",
        "What other policies would have made of the failures of a period.",
        simulate,
    )
    .unguarded()
    .takes::<Wish>()
    .answers::<Simulation>(200, "What is recorded, and what each would have made of it.")
}

/// Which failures, and which policies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSimulation")]
struct Wish {
    /// From when on: how long ago, `6h`, or a time. A day ago unless said, and no longer than 7 days.
    since: Option<String>,
    /// Until when: how long ago, or a time. Now unless said.
    until: Option<String>,
    /// Only of this queue.
    queue: Option<String>,
    /// Only of this kind.
    kind: Option<String>,
    /// Only those that failed of this cause at least once.
    #[schemars(with = "Option<name::Cause>")]
    cause: Option<Cause>,
    /// No more jobs than this; 20,000 unless said.
    #[schemars(range(min = 1, max = 20000))]
    limit: Option<u32>,
    /// With what chance is drawn, to draw the same again.
    seed: Option<u64>,
    /// A policy for every job, each tried by itself; without any, every job keeps its own.
    #[serde(default)]
    #[schemars(length(max = 5))]
    policies: Vec<String>,
    /// A configuration to take the policies from: the text of a file.
    text: Option<String>,
    /// In which language that is: `toml` or `json`.
    #[serde(default)]
    format: ConfigFormat,
    /// The same as JSON.
    #[schemars(with = "Option<shape::Object>")]
    config: Option<Object>,
}

async fn simulate(
    State(server): State<Server>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Json<Simulation>, Problem> {
    match &wish.queue {
        Some(queue) if caller.reaches(queue) => {}
        Some(queue) => {
            return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue).at("queue"));
        }
        None => caller.must_reach_all()?,
    }
    let now = server.engine().now();
    let since = moment(wish.since.as_deref(), now, "since")?.unwrap_or(now.before(Duration::from_hours(24)));
    let until = moment(wish.until.as_deref(), now, "until")?;
    // What fails in this very millisecond has failed before now.
    let until = until.unwrap_or(now.after(Duration::from_millis(1)));
    if since < now.before(LONGEST) {
        return Err(Problem::new(Code::Invalid, "policies.long").at("since"));
    }
    let limit = wish.limit.unwrap_or(MOST_JOBS);
    if !(1..=MOST_JOBS).contains(&limit) {
        return Err(Problem::new(Code::Invalid, "range.number")
            .with("least", 1)
            .with("most", MOST_JOBS)
            .at("limit"));
    }
    let wanted = Simulate {
        since,
        until,
        now,
        queue: wish.queue.clone(),
        kind: wish.kind.clone(),
        cause: wish.cause,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        seed: wish.seed.unwrap_or(1),
        candidates: candidates(&server, &wish, parsed(&wish).await?)?,
    };
    let Ok(_turn) = TURN.try_acquire() else { return Err(Problem::of(Code::TooMany)) };
    let simulation = tokio::time::timeout(WITHIN, server.engine().simulate(&wanted)).await;
    let simulation = simulation.map_err(|_| Problem::new(Code::Invalid, "policies.long").at("since"))??;
    Ok(Json(Simulation::new(&simulation, wanted.since, wanted.until, wanted.seed)))
}

/// How long ago, or a time.
fn moment(written: Option<&str>, now: Timestamp, field: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(written) = written else { return Ok(None) };
    let ago = parse_duration(written).map(|length| now.before(length));
    let at = ago.ok().or_else(|| written.parse().ok());
    at.map(Some).ok_or_else(|| Problem::new(Code::Invalid, "policies.moment").at(field))
}

/// The configuration that it brings, if it brings one.
async fn parsed(wish: &Wish) -> Result<Option<Config>, Problem> {
    if wish.text.is_none() && wish.config.is_none() {
        return Ok(None);
    }
    let (text, format) = written(wish.text.as_deref(), wish.format, wish.config.as_ref())?;
    let parsed = heavy(move || Config::parse(&text, format, "config")).await?;
    let parsed = parsed.map_err(|error| {
        Problem::in_words(Code::Invalid, |lang| {
            let told = error.problems.iter().take(5).map(|problem| problem.describe(lang));
            told.collect::<Vec<_>>().join(" ")
        })
        .at("config")
    })?;
    Ok(Some(parsed))
}

fn candidates(server: &Server, wish: &Wish, config: Option<Config>) -> Result<Vec<Candidate>, Problem> {
    if wish.policies.len() > MOST_POLICIES {
        let problem = Problem::new(Code::Invalid, "refused.many").with("count", wish.policies.len());
        return Err(problem.with("most", MOST_POLICIES).at("policies"));
    }
    if wish.policies.is_empty() {
        let label = if config.is_some() { "config" } else { "own" };
        return Ok(vec![Candidate { label: label.to_owned(), config, ..Candidate::default() }]);
    }
    let candidate = |name: &String| {
        let known = config.as_ref().map_or_else(
            || server.engine().policy(name).map(drop),
            |config| {
                config.policy(name).map(drop).ok_or_else(|| redrive::engine::EngineError::UnknownPolicy {
                    name: name.clone(),
                    known: config.policy_names(),
                })
            },
        );
        known.map_err(|error| Problem::from(error).at("policies"))?;
        Ok(Candidate {
            label: name.clone(),
            config: config.clone(),
            policy: Some(name.clone()),
            ..Candidate::default()
        })
    };
    wish.policies.iter().map(candidate).collect()
}
