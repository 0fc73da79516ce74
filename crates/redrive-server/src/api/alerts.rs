//! Alerts: how the rules stand, whether messages arrive, and what is silenced. Who is told is the configuration's alone.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use redrive::engine::{AlertReport, AlertStatus, AlertUnit, NewSilence, Silence};
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::act;
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::route::Route;
use crate::shape;

/// The longest silence: a month.
const LONGEST_MS: u64 = 31 * 24 * 3_600 * 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/alerts",
            Scope::Read,
            "alerts",
            "How every rule stands, and what is silenced.",
            alerts,
        )
        .answers::<Alerts>(200, "The contract redrive/alerts.v1."),
        Route::get("/v1/alerts/check", Scope::Read, "check_alerts", "Whether anything is wrong now.", check)
            .answers::<Checked>(200, "The rules that find something."),
        Route::post("/v1/alerts/test", Scope::Operate, "test_alerts", "Sends a test to who is told.", test)
            .may_take::<TestBody>()
            .answers::<shape::Page<Sent>>(202, "The jobs that deliver it.")
            .problems(&[Code::Conflict]),
        Route::get("/v1/alerts/silences", Scope::Read, "silences", "What is silenced.", silences)
            .answers::<shape::Page<SilenceShape>>(200, "The silences."),
        Route::post("/v1/alerts/silences", Scope::Operate, "silence", "Silences a rule or a group.", silence)
            .takes::<SilenceBody>()
            .answers::<SilenceShape>(201, "It is silenced.")
            .problems(&[Code::NotFound]),
        Route::delete("/v1/alerts/silences/{id}", Scope::Operate, "end_silence", "Ends a silence.", end)
            .place::<shape::Name>("id")
            .empty(204, "It is over."),
    ]
}

/// How alerts stand.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alerts {
    schema: &'static str,
    /// Whether anything is wrong.
    firing: bool,
    rules: Vec<RuleShape>,
    /// Rules that are switched off.
    off: Vec<&'static str>,
    silences: Vec<SilenceShape>,
    /// Who is told.
    receivers: Vec<Receiver>,
}

/// How a rule stands.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AlertRule")]
pub(crate) struct RuleShape {
    rule: &'static str,
    severity: &'static str,
    firing: bool,
    /// Absent where there is nothing to tell, or too little.
    value: Option<f64>,
    threshold: f64,
    /// `count`, `percent` or `ms`.
    unit: &'static str,
    samples: Option<u64>,
    #[schemars(with = "Option<shape::Time>")]
    since: Option<Timestamp>,
    #[schemars(with = "Option<shape::Time>")]
    told_at: Option<Timestamp>,
    #[schemars(with = "Option<shape::Time>")]
    silenced_until: Option<Timestamp>,
}

/// Somebody who is told.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AlertReceiver")]
pub(crate) struct Receiver {
    name: String,
    /// Where to, without what may be a secret.
    to: String,
}

/// Whether anything is wrong.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AlertsChecked")]
struct Checked {
    firing: bool,
    rules: Vec<RuleShape>,
}

/// Who gets a test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AlertTest")]
pub(crate) struct TestBody {
    /// Only this one.
    #[schemars(with = "Option<shape::Name>")]
    receiver: Option<String>,
    /// Why; written down with the act.
    why: Option<String>,
}

/// A test that is on its way.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AlertTestSent")]
struct Sent {
    receiver: String,
    #[schemars(with = "shape::JobId")]
    job: String,
}

/// What is to be silenced.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSilence")]
pub(crate) struct SilenceBody {
    /// A rule, or the fingerprint of a group or its beginning.
    #[schemars(length(min = 1, max = 100))]
    of: String,
    /// For how long.
    #[schemars(range(min = 1_000, max = 2_678_400_000_u64))]
    for_ms: u64,
    /// Why; written down with the act.
    why: Option<String>,
}

/// What is not told until then.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Silence")]
pub(crate) struct SilenceShape {
    id: String,
    rule: Option<String>,
    group: Option<String>,
    #[schemars(with = "shape::Time")]
    until: Timestamp,
    why: Option<String>,
    by: String,
}

impl From<Silence> for SilenceShape {
    fn from(silence: Silence) -> SilenceShape {
        let Silence { id, rule, group, until, why, by } = silence;
        SilenceShape { id, rule, group, until, why, by }
    }
}

impl From<AlertStatus> for RuleShape {
    fn from(status: AlertStatus) -> RuleShape {
        let finding = status.finding;
        RuleShape {
            rule: finding.rule.name(),
            severity: finding.rule.severity().name(),
            firing: finding.firing,
            value: finding.value,
            threshold: finding.threshold,
            unit: match finding.rule.unit() {
                AlertUnit::Count => "count",
                AlertUnit::Percent => "percent",
                AlertUnit::Millis => "ms",
            },
            samples: finding.samples,
            since: status.since,
            told_at: status.told_at,
            silenced_until: status.silence.map(|silence| silence.until),
        }
    }
}

async fn report(server: &Server, caller: &Caller) -> Result<AlertReport, Problem> {
    if !caller.queues.is_empty() {
        return Err(Problem::new(Code::Forbidden, "limited.whole"));
    }
    Ok(server.engine().alerts().await?)
}

async fn alerts(State(server): State<Server>, caller: Caller) -> Result<Json<Alerts>, Problem> {
    let report = report(&server, &caller).await?;
    Ok(Json(Alerts {
        schema: "redrive/alerts.v1",
        firing: report.is_firing(),
        rules: report.rules.into_iter().map(RuleShape::from).collect(),
        off: report.off.iter().map(|rule| rule.name()).collect(),
        silences: report.silences.into_iter().map(SilenceShape::from).collect(),
        receivers: report.receivers.into_iter().map(|(name, to)| Receiver { name, to }).collect(),
    }))
}

async fn check(State(server): State<Server>, caller: Caller) -> Result<Json<Checked>, Problem> {
    let report = report(&server, &caller).await?;
    let rules =
        report.rules.into_iter().filter(|rule| rule.finding.firing).map(RuleShape::from).collect::<Vec<_>>();
    Ok(Json(Checked { firing: !rules.is_empty(), rules }))
}

async fn test(
    State(server): State<Server>,
    caller: Caller,
    MayBody(body): MayBody<TestBody>,
) -> Result<(StatusCode, Json<shape::Page<Sent>>), Problem> {
    whole(&caller)?;
    act(&server, &caller, "alert.test", body.receiver.clone().unwrap_or_default(), body.why).await?;
    let sent = server.engine().test_alerts(body.receiver.as_deref()).await?;
    let items = sent.into_iter().map(|(receiver, job)| Sent { receiver, job: job.to_string() }).collect();
    Ok((StatusCode::ACCEPTED, Json(shape::Page { items, next: None })))
}

async fn silences(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<shape::Page<SilenceShape>>, Problem> {
    whole(&caller)?;
    let items = server.engine().silences().await?.into_iter().map(SilenceShape::from).collect();
    Ok(Json(shape::Page { items, next: None }))
}

async fn silence(
    State(server): State<Server>,
    caller: Caller,
    Body(body): Body<SilenceBody>,
) -> Result<(StatusCode, Json<SilenceShape>), Problem> {
    whole(&caller)?;
    if !(1_000..=LONGEST_MS).contains(&body.for_ms) {
        return Err(Problem::new(Code::Invalid, "alerts.how_long").at("for_ms"));
    }
    act(&server, &caller, "alert.silence", body.of.clone(), body.why.clone()).await?;
    let lasts = Duration::from_millis(body.for_ms);
    let new = NewSilence { of: body.of, lasts, why: body.why, by: caller.who.clone() };
    let silence = server.engine().silence_alerts(new).await?;
    Ok((StatusCode::CREATED, Json(silence.into())))
}

async fn end(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    whole(&caller)?;
    act(&server, &caller, "alert.unsilence", id.clone(), None).await?;
    if server.engine().end_silence(&id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(Code::NotFound, "alerts.no_silence").with("id", id))
}

/// Rules are about everything: a token that is kept to some queues has no business with them.
fn whole(caller: &Caller) -> Result<(), Problem> {
    if caller.queues.is_empty() { Ok(()) } else { Err(Problem::new(Code::Forbidden, "limited.whole")) }
}
