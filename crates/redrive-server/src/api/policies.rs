//! Policies: what they say, whether a configuration would load, what one decides about a failure, and what failures are.

mod simulate;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use redrive::engine::{RuleProblem, check_recovery_rule};
use redrive_policy::{
    AutoRedrive, Cause, Config, Failure, Format, History, Lang, Policy, Report, Rng, TaskRetryOverride,
    UserRule, decide, parse_retry_after, round_to_millis,
};
use redrive_store::MAX_OVERRIDES_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Server;
use crate::body::Body;
use crate::caller::Scope;
use crate::heavy::{heavy, short_enough};
use crate::language::Language;
use crate::object::Object;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::route::Route;
use crate::shape::policy::{Classification, ConfigChecked, ConfigProblem, Decision, PolicyLine, PolicyWhole};
use crate::shape::{self, name};

/// The longest configuration, and the most problems of one that are told.
const MOST_CONFIG: usize = 256 * 1024;
const MOST_PROBLEMS: usize = 100;
/// The most delays that are told.
const MOST_DELAYS: u32 = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/policies", Scope::Read, "list_policies", "Every policy that a job can name.", list)
            .answers::<Policies>(200, "The policies."),
        Route::get(
            "/v1/policies/{name}",
            Scope::Read,
            "get_policy",
            "A policy, and what it does about every cause.",
            show,
        )
        .answers::<PolicyWhole>(200, "The policy.")
        .problems(&[Code::NotFound]),
        Route::post(
            "/v1/policies/check",
            Scope::Read,
            "check_config",
            "Whether a configuration would load, and what is wrong in it. Nothing is changed.",
            check,
        )
        .unguarded()
        .takes::<Written>()
        .answers::<ConfigChecked>(200, "What was found."),
        Route::post(
            "/v1/policies/explain",
            Scope::Read,
            "explain_decision",
            "What a policy decides about a failure, and why.",
            explain,
        )
        .unguarded()
        .takes::<Explain>()
        .answers::<Decision>(200, "The decision."),
        Route::post(
            "/v1/policies/delays",
            Scope::Read,
            "list_delays",
            "The waits before each retry, as a running job would get them.",
            delays,
        )
        .unguarded()
        .takes::<Delays>()
        .answers::<DelaysTold>(200, "The delays."),
        simulate::route(),
        Route::post(
            "/v1/classify",
            Scope::Read,
            "classify",
            "What failures are, by what is known of them.",
            classify,
        )
        .unguarded()
        .takes::<Classify>()
        .answers::<Classified>(200, "One answer for each, in the same order."),
    ]
}

/// Policies.
#[derive(Debug, Serialize, JsonSchema)]
struct Policies {
    /// By name.
    items: Vec<PolicyLine>,
}

async fn list(State(server): State<Server>) -> Json<Policies> {
    let default = server.engine().default_policy().name.clone();
    let line = |(policy, own): &(Policy, bool)| PolicyLine::new(policy, *own, policy.name == default);
    Json(Policies { items: server.engine().all_policies().iter().map(line).collect() })
}

async fn show(State(server): State<Server>, Path(name): Path<String>) -> Result<Json<PolicyWhole>, Problem> {
    let found = server.engine().all_policies().into_iter().find(|(policy, _)| policy.name == name);
    let (policy, own) = found.ok_or_else(|| crate::reach::unknown(name))?;
    Ok(Json(PolicyWhole::new(&policy, own)))
}

/// A configuration: exactly one of `text` and `config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The text of a file.
    text: Option<String>,
    /// In which language that is: `toml` or `json`.
    #[serde(default)]
    format: ConfigFormat,
    /// The same as JSON.
    #[schemars(with = "Option<shape::Object>")]
    config: Option<Object>,
}

/// In which language a configuration is written.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ConfigFormat {
    /// TOML.
    #[default]
    Toml,
    /// JSON.
    Json,
}

/// A configuration out of a request.
fn written(
    text: Option<&str>,
    format: ConfigFormat,
    config: Option<&Object>,
) -> Result<(String, Format), Problem> {
    match (text, config) {
        (Some(text), None) => {
            short_enough(text, MOST_CONFIG, "text")?;
            let format = match format {
                ConfigFormat::Toml => Format::Toml,
                ConfigFormat::Json => Format::Json,
            };
            Ok((text.to_owned(), format))
        }
        (None, Some(config)) => {
            let text = config.text(MOST_CONFIG, "config")?;
            Ok((text.to_owned(), Format::Json))
        }
        _ => Err(Problem::new(Code::Invalid, "policies.one_config")),
    }
}

async fn check(Language(lang): Language, Body(body): Body<Written>) -> Result<Json<ConfigChecked>, Problem> {
    let (text, format) = written(body.text.as_deref(), body.format, body.config.as_ref())?;
    heavy(move || checked(&text, format, lang)).await.map(Json)
}

fn checked(text: &str, format: Format, lang: Lang) -> ConfigChecked {
    match Config::parse_placed(text, format, "config") {
        Ok(config) => {
            let problems = recovery_problems(&config, lang);
            ConfigChecked {
                ok: problems.is_empty(),
                problems,
                warnings: ConfigProblem::all(few(&config.warnings), lang),
                policies: config.policies.keys().cloned().collect(),
                rules: config.rules.iter().map(UserRule::id).map(ToOwned::to_owned).collect(),
                recovery_rules: config.auto_redrive.iter().map(|rule| rule.name.clone()).collect(),
            }
        }
        Err(error) => ConfigChecked {
            ok: false,
            problems: ConfigProblem::all(few(&error.problems), lang),
            warnings: Vec::new(),
            policies: Vec::new(),
            rules: Vec::new(),
            recovery_rules: Vec::new(),
        },
    }
}

/// As many problems as somebody reads.
fn few(problems: &[redrive_policy::Problem]) -> &[redrive_policy::Problem] {
    &problems[..problems.len().min(MOST_PROBLEMS)]
}

/// Rules of automatic recovery that no worker could obey.
fn recovery_problems(config: &Config, lang: Lang) -> Vec<ConfigProblem> {
    let problem = |(at, rule): (usize, &AutoRedrive)| {
        let (field, problem) = match check_recovery_rule(rule).err()? {
            RuleProblem::Filter(error) => ("where", Problem::from(error)),
            RuleProblem::Rate(_) => ("rate", Problem::new(Code::Invalid, "redrives.rate")),
        };
        Some(ConfigProblem {
            path: format!("auto_redrive[{at}].{field}"),
            what: problem.told(lang).detail,
            allowed: String::new(),
            line: None,
            column: None,
        })
    };
    config.auto_redrive.iter().enumerate().filter_map(problem).collect()
}

/// The policy that is meant, with what is to be different about it.
fn meant(server: &Server, name: Option<&str>, overrides: Option<&Object>) -> Result<Policy, Problem> {
    let policy = match name {
        Some(name) => server.engine().policy(name)?,
        None => server.engine().default_policy(),
    };
    let Some(overrides) = overrides else { return Ok(policy) };
    let overrides: Value = serde_json::from_str(overrides.text(MAX_OVERRIDES_BYTES, "overrides")?)
        .map_err(|_| Problem::new(Code::Invalid, "json.wants.object").at("overrides"))?;
    let task =
        TaskRetryOverride::from_json(&json!({ "task_id": "asked", "overrides": overrides }), "overrides")
            .map_err(|error| {
                Problem::in_words(Code::Invalid, |lang| {
                    let told = error.problems.iter().take(5).map(|problem| problem.describe(lang));
                    told.collect::<Vec<_>>().join(" ")
                })
                .at("overrides")
            })?;
    Ok(task.apply_to(&policy))
}

/// A failure, and the policy to ask. Either its cause is known, or what is known of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Explain {
    /// The policy; the default one unless said.
    policy: Option<String>,
    /// What is to be different about it: the `overrides` of a job.
    #[schemars(with = "Option<shape::Object>")]
    overrides: Option<Object>,
    /// What the failure is.
    #[schemars(with = "Option<name::Cause>")]
    cause: Option<Cause>,
    /// Its words.
    text: Option<String>,
    /// The status of an answer.
    http_status: Option<u16>,
    /// The exit code of a command.
    exit_code: Option<i32>,
    /// A code of a library or a database.
    code: Option<String>,
    /// What a Retry-After header said: seconds or a date.
    retry_after: Option<String>,
    /// Retries made so far.
    #[serde(default)]
    retry_count: u32,
    /// With what chance is drawn, to draw the same again.
    seed: Option<u64>,
}

async fn explain(
    State(server): State<Server>,
    Language(lang): Language,
    Body(body): Body<Explain>,
) -> Result<Json<Decision>, Problem> {
    let policy = meant(&server, body.policy.as_deref(), body.overrides.as_ref())?;
    let retry_after = match &body.retry_after {
        None => None,
        Some(value) => Some(wait(&server, value)?),
    };
    let failure = if let Some(cause) = body.cause {
        Failure {
            http_status: body.http_status,
            code: body.code.as_deref().and_then(redrive_policy::Code::new),
            retry_after,
            ..Failure::of(cause)
        }
    } else {
        let nothing = body.text.is_none()
            && body.http_status.is_none()
            && body.exit_code.is_none()
            && body.code.is_none();
        if nothing {
            return Err(Problem::new(Code::Invalid, "policies.no_evidence"));
        }
        let mut report = body.text.as_deref().map(Report::text).unwrap_or_default();
        report.http_status = body.http_status;
        report.exit_code = body.exit_code;
        report.code = body.code.as_deref().map(Into::into);
        report.retry_after = retry_after;
        server.engine().classifier().classify(&report)
    };
    // Crashes are counted apart.
    let history = match failure.cause {
        Cause::Crashed => History { crash_count: body.retry_count, ..History::default() },
        _ => History::retries(body.retry_count),
    };
    let mut rng = body.seed.map_or_else(|| server.engine().rng(), Rng::seeded);
    Ok(Json(decide(&policy, &failure, &history, &mut rng).record(lang).into()))
}

fn wait(server: &Server, value: &str) -> Result<Duration, Problem> {
    let now = u64::try_from(server.engine().now().millis() / 1_000).unwrap_or(0);
    let wait = parse_retry_after(value, now);
    wait.ok_or_else(|| Problem::new(Code::Invalid, "policies.retry_after").at("retry_after"))
}

/// Which delays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Delays {
    /// The policy; the default one unless said.
    policy: Option<String>,
    /// What is to be different about it: the `overrides` of a job.
    #[schemars(with = "Option<shape::Object>")]
    overrides: Option<Object>,
    /// The delays after a failure of this cause.
    #[schemars(with = "Option<name::Cause>")]
    cause: Option<Cause>,
    /// How many; 10 unless said.
    #[schemars(range(min = 1, max = 1000))]
    count: Option<u32>,
    /// With what chance is drawn, to draw the same again.
    seed: Option<u64>,
}

/// Delays.
#[derive(Debug, Serialize, JsonSchema)]
struct DelaysTold {
    /// In milliseconds, the first one first.
    delays_ms: Vec<u64>,
}

async fn delays(State(server): State<Server>, Body(body): Body<Delays>) -> Result<Json<DelaysTold>, Problem> {
    let policy = meant(&server, body.policy.as_deref(), body.overrides.as_ref())?;
    let count = body.count.unwrap_or(10);
    if !(1..=MOST_DELAYS).contains(&count) {
        return Err(Problem::new(Code::Invalid, "range.number")
            .with("least", 1)
            .with("most", MOST_DELAYS)
            .at("count"));
    }
    let failure = body.cause.map(Failure::of);
    let backoff = failure.as_ref().map_or(&policy.backoff, |failure| policy.backoff_for(failure));
    let mut rng = body.seed.map_or_else(|| server.engine().rng(), Rng::seeded);
    let mut previous = None;
    let delays = (0..count).map(|n| {
        let delay = backoff.delay(n, previous, &mut rng).wait;
        previous = Some(delay);
        round_to_millis(delay)
    });
    Ok(Json(DelaysTold { delays_ms: delays.collect() }))
}

/// Failures.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Classify {
    /// What is known of each.
    #[schemars(length(max = 1000))]
    items: Vec<Known>,
}

/// What is known of a failure; anything may be null.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Its words.
    text: Option<String>,
    /// The status of an answer.
    http_status: Option<u16>,
    /// The exit code of a command.
    exit_code: Option<i32>,
    /// A code of a library or a database.
    code: Option<String>,
}

/// What failures are.
#[derive(Debug, Serialize, JsonSchema)]
struct Classified {
    /// One for each, in the same order.
    items: Vec<Classification>,
}

async fn classify(
    State(server): State<Server>,
    Body(body): Body<Classify>,
) -> Result<Json<Classified>, Problem> {
    let most = server.settings().max_batch;
    if body.items.len() > most {
        let problem = Problem::new(Code::Invalid, "refused.many").with("count", body.items.len());
        return Err(problem.with("most", most).at("items"));
    }
    let classifier = server.engine().classifier();
    let found = move || {
        let one = |known: &Known| {
            let mut report = known.text.as_deref().map(Report::text).unwrap_or_default();
            report.http_status = known.http_status;
            report.exit_code = known.exit_code;
            report.code = known.code.as_deref().map(Into::into);
            Classification::from(&classifier.classify(&report))
        };
        body.items.iter().map(one).collect()
    };
    Ok(Json(Classified { items: heavy(found).await? }))
}
