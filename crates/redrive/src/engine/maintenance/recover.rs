//! Automatic recovery (R-D11): dead letters whose cause may have healed are put back by rule. Only what trying again can
//! plausibly help is taken; the rest of what a rule names, validation errors above all, is reported and stays. A rule's
//! redrive is a run like any other, by default a canary: one letter goes first, and when it fails the others are not touched.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::AutoRedrive;
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{LetterFilter, RunState, WorkerId};

use super::Maintained;
use crate::engine::redrive::{Canary, RedriveRequest, RedriveRun, Which, parse_rate};
use crate::engine::{Engine, EngineError, RuleProblem};

/// How many runs are looked at for the last one of a rule.
const REMEMBERED: u32 = 500;
/// How many letters are looked at to report what stays.
const REPORTED: u32 = 1_000;
/// No rule begins sooner after its last redrive.
const LEAST_WAIT: Duration = Duration::from_secs(10);
/// A rule whose canary failed waits twice as long as before, up to so many times its usual time.
const MOST_DOUBLINGS: u32 = 5;

/// A rule that was found to make sense.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Rule {
    wanted_by: String,
    every: Duration,
    request: RedriveRequest,
}

impl Rule {
    /// What a configuration says; an error that names the rule when it cannot be obeyed.
    pub(in crate::engine) fn new(rule: &AutoRedrive) -> Result<Rule, EngineError> {
        Rule::read(rule).map_err(|why| EngineError::BadRecoveryRule { rule: rule.name.clone(), why })
    }

    /// The same, with the problem alone.
    pub(in crate::engine) fn read(rule: &AutoRedrive) -> Result<Rule, RuleProblem> {
        let filter: Filter<LetterField> = rule.filter.parse().map_err(RuleProblem::Filter)?;
        let rate = match &rule.rate {
            None => None,
            Some(text) => Some(parse_rate(text).ok_or_else(|| RuleProblem::Rate(text.clone()))?),
        };
        let wanted_by = format!("rule:{}", rule.name);
        let request = RedriveRequest {
            rate,
            limit: rule.limit,
            canary: rule.canary.then(Canary::default),
            max_redrives: Some(rule.max_redrives),
            only_retryable: true,
            wanted_by: wanted_by.clone(),
            ..RedriveRequest::new(Which::Where(filter.to_string()))
        };
        Ok(Rule { wanted_by, every: rule.every, request })
    }
}

/// Whether a rule could be obeyed: `redrive config check` asks before anybody relies on it.
pub fn check_recovery_rule(rule: &AutoRedrive) -> Result<(), RuleProblem> {
    Rule::read(rule).map(drop)
}

/// One look at every rule. The worker that came first of those present does it, so that two do not begin the same.
pub(super) async fn recover(
    engine: &Engine,
    worker: WorkerId,
    maintained: &mut Maintained,
) -> Result<(), EngineError> {
    let held = engine.held();
    if held.recovery_rules.is_empty() {
        return Ok(());
    }
    let present = engine.store().workers(engine.now()).await?;
    if present.iter().any(|other| other.id < worker) {
        return Ok(());
    }
    let runs = engine.redrive_runs(false, REMEMBERED).await?;
    for rule in &held.recovery_rules {
        let mut of_rule = runs.iter().filter(|run| run.wanted_by == rule.wanted_by);
        let last = of_rule.clone().next();
        if is_due(engine, rule, &mut of_rule) && begin(engine, rule, last).await? {
            maintained.recoveries_begun += 1;
        }
    }
    Ok(())
}

/// Whether nothing of the rule goes on and its last run is long enough ago: twice as long for each that was stopped.
fn is_due<'a>(engine: &Engine, rule: &Rule, runs: &mut impl Iterator<Item = &'a RedriveRun>) -> bool {
    let Some(last) = runs.next() else { return true };
    if last.state == RunState::Running {
        return false;
    }
    let mut stopped = u32::from(last.state == RunState::Stopped);
    if stopped == 1 {
        let before = runs.take_while(|run| run.state == RunState::Stopped).take(MOST_DOUBLINGS as usize);
        stopped += u32::try_from(before.count()).unwrap_or(MOST_DOUBLINGS);
    }
    let wait = rule.every.max(LEAST_WAIT).saturating_mul(1 << stopped.min(MOST_DOUBLINGS));
    last.ended_at.unwrap_or(last.created_at).after(wait) <= engine.now()
}

/// Begins a redrive by this rule if there is something to put back, or something new to report: what it leaves to people is
/// kept with the run, and told with the event of its beginning.
async fn begin(engine: &Engine, rule: &Rule, last: Option<&RedriveRun>) -> Result<bool, EngineError> {
    let request = &rule.request;
    let wanted =
        engine.letters_of(&request.which, engine.now(), request.max_redrives, request.only_retryable)?;
    let matching = engine.store().count_letters(wanted).await?;
    let left_alone = left_alone(engine, request).await?;
    let reported = last.is_some_and(|run| run.plan.left_alone == left_alone);
    if matching == 0 && (left_alone.is_empty() || reported) {
        return Ok(false);
    }
    let run = engine.start_redrive(RedriveRequest { left_alone, ..request.clone() }).await?;
    tracing::info!(%run, rule = rule.wanted_by, matching, "automatic recovery begins");
    Ok(true)
}

/// What the rule names and does not put back, by cause: those that trying again cannot help, or did not often enough.
async fn left_alone(engine: &Engine, request: &RedriveRequest) -> Result<BTreeMap<String, u64>, EngineError> {
    let all: LetterFilter = engine.letters_of(&request.which, engine.now(), None, false)?;
    let heads = engine.store().letter_heads(all, REPORTED, REPORTED).await?.heads;
    let most = request.max_redrives.unwrap_or(u32::MAX);
    let mut left = BTreeMap::new();
    for head in heads.iter().filter(|head| !head.retryable || head.redrives >= most) {
        *left.entry(head.cause.name().to_owned()).or_default() += 1;
    }
    Ok(left)
}
