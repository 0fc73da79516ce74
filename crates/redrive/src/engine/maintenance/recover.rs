//! Automatic recovery (R-D11): dead letters whose cause may have healed are put back by rule. Only what trying again can
//! plausibly help is taken; the rest of what a rule names, validation errors above all, is reported and stays. A rule's
//! redrive is a run like any other, by default a canary: one letter goes first, and when it fails the others are not touched.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::{AutoRedrive, one_line};
use redrive_store::filter::{Filter, LetterField};
use redrive_store::{LetterFilter, MAX_NAME_BYTES, NoticeChange, Posted, RunId, RunState, Timestamp};
use serde::{Deserialize, Serialize};

use super::Maintained;
use crate::bounded::both_ends;
use crate::engine::redrive::{Canary, RedriveRequest, RedriveRun, Which, parse_rate};
use crate::engine::{Engine, EngineError, RuleProblem};

/// The space of the board where it is known when rules began what.
const SPACE: &str = "recovery";
/// How long whoever is about to begin a redrive by a rule is waited for.
const CLAIM_LASTS: Duration = Duration::from_secs(30);
/// How many runs are looked at for the last one of a rule, where the board does not say it.
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

    /// Its name on the board, which takes no text that people could not read.
    fn name_on_the_board(&self) -> String {
        both_ends(&one_line(&self.wanted_by), MAX_NAME_BYTES).into_owned()
    }
}

/// Whether a rule could be obeyed: `redrive config check` asks before anybody relies on it.
pub fn check_recovery_rule(rule: &AutoRedrive) -> Result<(), RuleProblem> {
    Rule::read(rule).map(drop)
}

/// What is known of a rule, on the board: whoever knows the rule and finds it due says there first that it begins a redrive, and of
/// two that say so at once one is outrun. No process waits for another, whoever else is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Known {
    /// Its last redrive, unless somebody is about to begin one.
    run: Option<i64>,
    /// How many before that one were stopped, one after the other.
    stopped: u32,
    /// Since when somebody is about to begin one.
    claimed_at: Option<Timestamp>,
}

/// One look at every rule. Every process that knows a rule looks.
pub(super) async fn recover(engine: &Engine, maintained: &mut Maintained) -> Result<(), EngineError> {
    let held = engine.held();
    for rule in &held.recovery_rules {
        match look_at(engine, rule).await {
            Ok(begun) => maintained.recoveries_begun += u64::from(begun),
            Err(EngineError::Store(error)) => return Err(error.into()),
            // One rule's trouble is its own.
            Err(error) => tracing::warn!(rule = rule.wanted_by, %error, "a rule of recovery is not obeyed"),
        }
    }
    Ok(())
}

async fn look_at(engine: &Engine, rule: &Rule) -> Result<bool, EngineError> {
    let notice = engine.store().notice(SPACE.to_owned(), rule.name_on_the_board()).await?;
    // What cannot be read begins anew, and is mended by that.
    let known: Option<Known> = notice.as_ref().and_then(|notice| serde_json::from_str(&notice.value).ok());
    let seen = notice.map(|notice| notice.version);
    let now = engine.now();
    if known.as_ref().and_then(|known| known.claimed_at).is_some_and(|at| at.after(CLAIM_LASTS) > now) {
        return Ok(false);
    }
    let (last, stopped) = match known {
        Some(Known { run: Some(run), stopped, claimed_at: None }) => {
            (engine.redrive_run(RunId(run)).await?, stopped)
        }
        // Whoever was about to begin one has not said which it was.
        Some(_) | None => search(engine, rule).await?,
    };
    if !is_due(rule, last.as_ref(), stopped, now) {
        return Ok(false);
    }
    let stopped = match &last {
        Some(last) if last.state == RunState::Stopped => (stopped + 1).min(MOST_DOUBLINGS),
        Some(_) | None => 0,
    };
    begin(engine, rule, last.as_ref(), seen, stopped).await
}

/// The last redrive of a rule among the newest, and how many before it were stopped.
async fn search(engine: &Engine, rule: &Rule) -> Result<(Option<RedriveRun>, u32), EngineError> {
    let runs = engine.redrive_runs(false, REMEMBERED).await?;
    let mut of_rule = runs.into_iter().filter(|run| run.wanted_by == rule.wanted_by);
    let last = of_rule.next();
    let before = of_rule.take_while(|run| run.state == RunState::Stopped).take(MOST_DOUBLINGS as usize);
    Ok((last, u32::try_from(before.count()).unwrap_or(MOST_DOUBLINGS)))
}

/// Whether nothing of the rule goes on and its last run is long enough ago: twice as long for each that was stopped.
fn is_due(rule: &Rule, last: Option<&RedriveRun>, stopped_before: u32, now: Timestamp) -> bool {
    let Some(last) = last else { return true };
    let stopped = match last.state {
        RunState::Running => return false,
        RunState::Stopped => stopped_before + 1,
        RunState::Done | RunState::Cancelled => 0,
    };
    let wait = rule.every.max(LEAST_WAIT).saturating_mul(1 << stopped.min(MOST_DOUBLINGS));
    last.ended_at.unwrap_or(last.created_at).after(wait) <= now
}

/// Begins a redrive by this rule if there is something to put back, or something new to report: what it leaves to people is
/// kept with the run, and told with the event of its beginning.
async fn begin(
    engine: &Engine,
    rule: &Rule,
    last: Option<&RedriveRun>,
    seen: Option<i64>,
    stopped: u32,
) -> Result<bool, EngineError> {
    let request = &rule.request;
    let wanted =
        engine.letters_of(&request.which, engine.now(), request.max_redrives, request.only_retryable)?;
    let matching = engine.store().count_letters(wanted).await?;
    let left_alone = left_alone(engine, request).await?;
    let reported = last.is_some_and(|run| run.plan.left_alone == left_alone);
    if matching == 0 && (left_alone.is_empty() || reported) {
        return Ok(false);
    }
    let claim = Known { run: None, stopped, claimed_at: Some(engine.now()) };
    let Some(seen) = post(engine, rule, seen, &claim).await? else { return Ok(false) };
    let run = engine.start_redrive(RedriveRequest { left_alone, ..request.clone() }).await?;
    // Where that is not said any more, the run is found by who wanted it.
    post(engine, rule, Some(seen), &Known { run: Some(run.0), stopped, claimed_at: None }).await?;
    tracing::info!(%run, rule = rule.wanted_by, matching, "automatic recovery begins");
    Ok(true)
}

/// Writes what is known of a rule: the new version, or nothing when somebody was faster.
async fn post(
    engine: &Engine,
    rule: &Rule,
    seen: Option<i64>,
    known: &Known,
) -> Result<Option<i64>, EngineError> {
    let change = NoticeChange {
        space: SPACE.to_owned(),
        name: rule.name_on_the_board(),
        seen,
        value: Some(serde_json::to_string(known).map_err(EngineError::Payload)?),
        due_at: None,
    };
    Ok(match engine.store().post(engine.now(), vec![change], Vec::new(), Vec::new()).await? {
        Posted::Done { versions, .. } => versions.first().copied().flatten(),
        Posted::Outrun => None,
    })
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
