//! Numbers: how things stand now, and what they did over a time (R-C4).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use redrive::engine::{MetricsReport, StatusReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::events::begins;
use crate::Server;
use crate::caller::{Caller, Scope};
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::shape;

/// The period that is meant unless somebody says.
const A_DAY: Duration = Duration::from_hours(24);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/metrics", Scope::Read, "get_metrics", "The numbers of a period, as JSON.", metrics)
            .asks::<MetricsQuery>()
            .answers::<MetricsShape>(200, "The contract redrive/metrics.v1."),
        Route::get("/v1/status", Scope::Read, "get_status", "How things stand.", status)
            .answers::<StatusShape>(200, "The contract redrive/status.v1."),
    ]
}

/// Which numbers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsQuery {
    /// From when on: a length of time such as 24h, or a time of RFC 3339; a day when absent.
    since: Option<String>,
    /// Only of this queue.
    #[schemars(with = "Option<shape::Name>")]
    queue: Option<String>,
}

#[derive(Debug, Serialize)]
struct Metrics {
    schema: &'static str,
    #[serde(flatten)]
    report: MetricsReport,
}

/// The numbers of a period: the contract redrive/metrics.v1.
#[derive(JsonSchema)]
#[schemars(rename = "Metrics", extend("additionalProperties" = true))]
#[allow(dead_code)] // Only its schema is used.
struct MetricsShape {
    schema: String,
    #[schemars(with = "shape::Time")]
    from: String,
    #[schemars(with = "shape::Time")]
    to: String,
    queue: Option<String>,
    totals: shape::Object,
    rates: shape::Object,
    by_cause: shape::Object,
    retries: shape::Object,
    dead_letters: shape::Object,
    recovery: shape::Object,
    automatic_retry: shape::Object,
    manual_retries: u64,
    hourly: Vec<shape::Object>,
}

/// How things stand: the contract redrive/status.v1.
#[derive(JsonSchema)]
#[schemars(rename = "Status", extend("additionalProperties" = true))]
#[allow(dead_code)] // Only its schema is used.
struct StatusShape {
    schema: String,
    failed_events: u64,
    dead_letter_queue: u64,
    /// Those of them whose group somebody has acknowledged.
    acknowledged: u64,
    retry_candidates: u64,
    by_cause: shape::Object,
    queues: Vec<shape::Object>,
    groups: Vec<shape::Object>,
    /// Those who are present and take work.
    workers: u64,
    /// What is due, by queue and kind, while nobody takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    nobody_takes: Option<Vec<shape::Object>>,
    unknown_outcomes: u64,
    outbox_failed: u64,
    /// Targets that are not called, or that work is parked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<shape::Object>>,
}

async fn metrics(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<MetricsQuery>,
) -> Result<Json<Metrics>, Problem> {
    reach::name("queue", query.queue.as_ref())?;
    match &query.queue {
        Some(queue) if !caller.reaches(queue) => {
            return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue).at("queue"));
        }
        None if !caller.queues.is_empty() => {
            return Err(Problem::new(Code::Forbidden, "limited.queue").at("queue"));
        }
        _ => {}
    }
    let engine = server.engine();
    let now = engine.now();
    let since = match &query.since {
        Some(since) => now.since(begins(since, now)?),
        None => A_DAY,
    };
    let report = engine.metrics(since, query.queue.as_deref()).await?;
    Ok(Json(Metrics { schema: "redrive/metrics.v1", report }))
}

async fn status(State(server): State<Server>, caller: Caller) -> Result<Json<StatusReport>, Problem> {
    if !caller.queues.is_empty() {
        return Err(Problem::new(Code::Forbidden, "limited.whole"));
    }
    Ok(Json(server.engine().status_report().await?))
}
