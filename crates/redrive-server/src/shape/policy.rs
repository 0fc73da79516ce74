//! Policies, decisions and classifications as JSON. `policy` and `classify` write the same.

use redrive_policy::{
    Backoff, Cause, Class, Curve, DecisionRecord, ErrorCategory, Failure, FailureType, Jitter, Lang,
    LongRetryAfter, Policy as Rules, PolicySpec, round_to_millis,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::name;

/// How delays grow.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Delays {
    /// exponential, linear, constant, fibonacci, list, or the name of one's own.
    pub curve: String,
    /// The first delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay_ms: Option<u64>,
    /// What each delay is of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    /// What each delay has more than the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub increment_ms: Option<u64>,
    /// The delays, where each is written down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub delays_ms: Vec<u64>,
    /// How chance moves them.
    pub jitter: &'static str,
    /// How far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_factor: Option<f64>,
    /// The longest.
    pub max_delay_ms: u64,
}

impl From<&Backoff> for Delays {
    fn from(backoff: &Backoff) -> Delays {
        let mut delays = Delays {
            curve: backoff.curve.name().to_owned(),
            initial_delay_ms: None,
            multiplier: None,
            increment_ms: None,
            delays_ms: Vec::new(),
            jitter: backoff.jitter.mode(),
            jitter_factor: match backoff.jitter {
                Jitter::PlusMinus(factor) | Jitter::Additive(factor) => Some(factor.as_f64()),
                Jitter::None | Jitter::Full | Jitter::Decorrelated => None,
            },
            max_delay_ms: round_to_millis(backoff.cap),
        };
        match &backoff.curve {
            Curve::Exponential { initial, multiplier } => {
                delays.initial_delay_ms = Some(round_to_millis(*initial));
                delays.multiplier = Some(multiplier.as_f64());
            }
            Curve::Linear { initial, increment } => {
                delays.initial_delay_ms = Some(round_to_millis(*initial));
                delays.increment_ms = Some(round_to_millis(*increment));
            }
            Curve::Constant { delay } => delays.initial_delay_ms = Some(round_to_millis(*delay)),
            Curve::Fibonacci { unit } => delays.initial_delay_ms = Some(round_to_millis(*unit)),
            Curve::List(list) => delays.delays_ms = list.iter().map(|each| round_to_millis(*each)).collect(),
            // A strategy of one's own is known by its name only.
            _ => {}
        }
        delays
    }
}

/// Where a policy comes from, in JSON.
pub const fn origin(own: bool) -> &'static str {
    if own { "file" } else { "preset" }
}

/// A policy, in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyLine {
    /// Its name.
    pub name: String,
    /// `preset`, or `file` for one of the configuration.
    pub origin: &'static str,
    /// Whether jobs that name none run under it.
    pub is_default: bool,
    /// Retries where a cause has no number of its own.
    pub max_retries: u32,
    /// Delays where a cause has none of its own.
    pub backoff: Delays,
    /// The causes that it retries.
    #[schemars(with = "Vec<name::Cause>")]
    pub retry_on: Vec<Cause>,
}

impl PolicyLine {
    /// This policy; `own` when it comes from the configuration.
    pub fn new(policy: &Rules, own: bool, is_default: bool) -> PolicyLine {
        PolicyLine {
            name: policy.name.clone(),
            origin: origin(own),
            is_default,
            max_retries: policy.max_retries,
            backoff: Delays::from(&policy.backoff),
            retry_on: policy.retry_on.iter().collect(),
        }
    }
}

/// A policy with what it does about every cause.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyWhole {
    /// Its name.
    pub name: String,
    /// `preset`, or `file` for one of the configuration.
    pub origin: &'static str,
    /// Retries where a cause has no number of its own.
    pub max_retries: u32,
    /// Delays where a cause has none of its own.
    pub backoff: Delays,
    /// The causes that it retries.
    #[schemars(with = "Vec<name::Cause>")]
    pub retry_on: Vec<Cause>,
    /// The causes that it never retries, whatever a rule says.
    #[schemars(with = "Vec<name::Cause>")]
    pub never: Vec<Cause>,
    /// How often a job may kill its worker.
    pub crash_budget: u32,
    /// The longest Retry-After that is waited for.
    pub max_retry_after_ms: u64,
    /// What is done about a longer one: `escalate` or `clamp`.
    #[schemars(with = "String")]
    pub on_long_retry_after: LongRetryAfter,
    /// What is otherwise for some causes or codes.
    pub entries: Vec<PolicyEntry>,
    /// What it comes to for every cause.
    pub causes: Vec<OfCause>,
}

/// What a policy says about some causes or codes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyEntry {
    /// The causes.
    #[schemars(with = "Vec<name::Cause>")]
    pub causes: Vec<Cause>,
    /// The codes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub codes: Vec<String>,
    /// Retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Delays>,
    /// What the next attempt is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modification_hint: Option<String>,
}

/// What a policy does about one cause.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OfCause {
    /// The cause.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// Whether it is retried.
    pub retried: bool,
    /// How often.
    pub max_retries: u32,
    /// The delays without jitter, at most ten of them.
    pub delays_ms: Vec<u64>,
}

impl OfCause {
    fn new(policy: &PolicySpec, cause: Cause) -> OfCause {
        let failure = Failure::of(cause);
        let retried = policy.retry_on.contains(cause);
        let max_retries = if retried { policy.max_retries_for(&failure) } else { 0 };
        let backoff = policy.backoff_for(&failure);
        OfCause {
            cause,
            retried: retried && max_retries > 0,
            max_retries,
            delays_ms: (0..max_retries.min(10)).map(|n| round_to_millis(backoff.nominal(n))).collect(),
        }
    }
}

impl PolicyWhole {
    /// This policy; `own` when it comes from the configuration.
    pub fn new(policy: &Rules, own: bool) -> PolicyWhole {
        let entries = policy.entries.iter().map(|entry| PolicyEntry {
            causes: entry.causes.iter().collect(),
            codes: entry.codes.clone(),
            max_retries: entry.max_retries,
            backoff: entry.backoff.as_ref().map(Delays::from),
            modification_hint: entry.modification_hint.as_ref().map(ToString::to_string),
        });
        PolicyWhole {
            name: policy.name.clone(),
            origin: origin(own),
            max_retries: policy.max_retries,
            backoff: Delays::from(&policy.backoff),
            retry_on: policy.retry_on.iter().collect(),
            never: policy.never.iter().collect(),
            crash_budget: policy.crash_budget,
            max_retry_after_ms: round_to_millis(policy.max_retry_after),
            on_long_retry_after: policy.on_long_retry_after,
            entries: entries.collect(),
            causes: Cause::ALL.iter().map(|cause| OfCause::new(policy, *cause)).collect(),
        }
    }
}

/// What a policy decides about a failure: the `RetryDecision` of 002 §2.2.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Decision {
    /// PASS, RETRY or ESCALATE.
    #[schemars(with = "name::Verdict")]
    pub decision: String,
    /// The task-runner view of the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<name::FailureType>")]
    pub failure_type: Option<FailureType>,
    /// The cause itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<name::Cause>")]
    pub cause: Option<Cause>,
    /// Retries made before.
    pub current_retry_count: u32,
    /// Retries allowed.
    pub max_retries: u32,
    /// Milliseconds until the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// What to tell the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modification_hint: Option<String>,
    /// Why a person is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_reason: Option<String>,
    /// Why, for a person.
    pub reasoning: String,
    /// The policy that decided.
    pub policy: String,
    /// The name of the strategy that gave the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
}

impl From<DecisionRecord> for Decision {
    fn from(record: DecisionRecord) -> Decision {
        Decision {
            decision: record.decision.to_string(),
            failure_type: record.failure_type,
            cause: record.cause,
            current_retry_count: record.current_retry_count,
            max_retries: record.max_retries,
            delay_ms: record.delay_ms,
            modification_hint: record.modification_hint,
            escalate_reason: record.escalate_reason,
            reasoning: record.reasoning,
            policy: record.policy,
            strategy: record.strategy,
        }
    }
}

/// What a failure was found to be.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Classification {
    /// What it was.
    #[schemars(with = "name::Cause")]
    pub cause: Cause,
    /// Whether trying again may help.
    pub retry: bool,
    /// 002's view of the cause.
    #[schemars(with = "name::FailureType")]
    pub failure_type: FailureType,
    /// 000's view of the cause.
    #[schemars(with = "name::ErrorCategory")]
    pub error_category: ErrorCategory,
    /// 003's view of the cause.
    #[schemars(with = "name::Class")]
    pub class: Class,
    /// The rule that said so.
    pub rule: String,
}

impl From<&Failure> for Classification {
    fn from(failure: &Failure) -> Classification {
        Classification {
            cause: failure.cause,
            retry: failure.is_retryable(),
            failure_type: failure.cause.failure_type(),
            error_category: failure.cause.error_category(),
            class: failure.cause.class(),
            rule: failure.rule.to_string(),
        }
    }
}

/// One thing that is wrong in a configuration, or odd.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConfigProblem {
    /// Where: `retry.default_backoff.multiplier`.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// What is right there.
    pub allowed: String,
    /// The line of the text, from 1, where it is known.
    pub line: Option<u32>,
    /// The column in that line, from 1.
    pub column: Option<u32>,
}

impl ConfigProblem {
    /// These problems in words of that language.
    pub fn all(problems: &[redrive_policy::Problem], lang: Lang) -> Vec<ConfigProblem> {
        let told = |problem: &redrive_policy::Problem| ConfigProblem {
            path: problem.path.clone(),
            what: problem.what(lang),
            allowed: problem.allowed(lang),
            line: problem.place.map(|place| place.line),
            column: problem.place.map(|place| place.column),
        };
        problems.iter().map(told).collect()
    }
}

/// Whether a configuration would load, and what is wrong or odd in it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConfigChecked {
    /// Whether it would load.
    pub ok: bool,
    /// What is wrong.
    pub problems: Vec<ConfigProblem>,
    /// What is odd.
    pub warnings: Vec<ConfigProblem>,
    /// The policies that it defines.
    pub policies: Vec<String>,
    /// The rules that it defines.
    pub rules: Vec<String>,
    /// The rules of automatic recovery that it defines.
    pub recovery_rules: Vec<String>,
}
