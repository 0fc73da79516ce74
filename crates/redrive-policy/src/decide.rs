//! `decide`: what happens after a failure (R-P4, R-P8, R-P10, R-P11).
//!
//! Pure: it sees a policy, a failure, what came before, and a source of chance. The caller decides first
//! and records afterwards, so the first failure has a retry count of 0. Words are rendered on demand.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Curve;
use crate::cause::{Cause, FailureType, named_enum};
use crate::failure::{Failure, RuleId, Verdict};
use crate::hint::Hint;
use crate::jitter::Jitter;
use crate::lang::{Lang, text};
use crate::policy::{LongRetryAfter, Policy};
use crate::rng::Rng;

/// What came before the failure that is being decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History {
    /// Retries made so far, 0 at the first failure.
    pub retry_count: u32,
    /// Crashes so far; they are charged to the crash budget, not to `max_retries`.
    pub crash_count: u32,
    /// The delay that was waited last.
    pub previous_delay: Option<Duration>,
}

impl History {
    /// A history of so many retries and nothing else.
    pub const fn retries(retry_count: u32) -> History {
        History { retry_count, crash_count: 0, previous_delay: None }
    }

    /// Enters a decision that was just made: decide first, then record.
    pub fn record(&mut self, decision: &Decision) {
        if let Action::Retry { delay } = decision.action {
            self.previous_delay = Some(delay);
            match decision.cause {
                Some(Cause::Crashed) => self.crash_count = self.crash_count.saturating_add(1),
                _ => self.retry_count = self.retry_count.saturating_add(1),
            }
        }
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it succeeded.
    Pass,
    /// Try again after the delay.
    Retry {
        /// How long to wait first.
        delay: Duration,
    },
    /// Set it aside and tell a person.
    Escalate,
}

named_enum! {
    /// The word for an action in a [`DecisionRecord`].
    DecisionKind {
        /// It succeeded.
        Pass = "PASS",
        /// It will be tried again.
        Retry = "RETRY",
        /// A person is told.
        Escalate = "ESCALATE",
    }
}

/// A decision with all that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What happens next.
    pub action: Action,
    /// What the failure was; none for a success.
    pub cause: Option<Cause>,
    /// Retries made before this decision.
    pub current_retry_count: u32,
    /// Retries that a failure of this kind gets; 0 when it gets none.
    pub max_retries: u32,
    /// Why, as data; [`Decision::reasoning`] puts it into words.
    pub why: Why,
    /// The policy that decided.
    pub policy: Policy,
    /// What to tell the next attempt; rendered by [`Decision::modification_hint`].
    pub hint: Option<Hint>,
}

/// Why a decision was taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// The attempt succeeded.
    Succeeded,
    /// The cause is not in the policy's list, and no rule asks for a retry.
    NotListed {
        /// The rule that recognised the failure.
        rule: RuleId,
    },
    /// The rule that recognised the failure forbids a retry.
    RuleForbids {
        /// That rule.
        rule: RuleId,
    },
    /// A rule asks for a retry, but the policy never retries this cause.
    NeverRetried {
        /// That rule.
        rule: RuleId,
    },
    /// All retries are used up.
    Exhausted {
        /// The rule that recognised the failure.
        rule: RuleId,
    },
    /// The other side asks for a longer wait than the policy obeys.
    RetryAfterTooLong {
        /// What it asks for.
        asked: Duration,
        /// What the policy obeys.
        limit: Duration,
    },
    /// It is tried again.
    Retried {
        /// The rule that recognised the failure.
        rule: RuleId,
        /// Whether that rule asked for it against the habit of the cause.
        rule_asks: bool,
        /// Where the delay comes from.
        delay: DelaySource,
    },
}

/// Where a delay comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum DelaySource {
    /// The policy's curve.
    Curve {
        /// Its shape.
        curve: Curve,
        /// Its jitter.
        jitter: Jitter,
        /// Its cap.
        cap: Duration,
    },
    /// The curve could not say; one second stands in.
    Fallback {
        /// The curve that failed.
        curve: Curve,
    },
    /// The other side said so.
    RetryAfter,
    /// The other side asked for more than the policy waits.
    RetryAfterClamped {
        /// What it asked for.
        asked: Duration,
    },
}

/// Decides what happens after a failure.
///
/// ```
/// use redrive_policy::{Action, Cause, Failure, History, Policy, Rng, decide};
///
/// let policy = Policy::standard();
/// let decision = decide(&policy, &Failure::of(Cause::Timeout), &History::default(), &mut Rng::seeded(1));
/// assert_eq!(decision.action, Action::Retry { delay: std::time::Duration::from_secs(5) });
/// ```
pub fn decide(policy: &Policy, failure: &Failure, history: &History, rng: &mut Rng) -> Decision {
    let count = match failure.cause {
        Cause::Crashed => history.crash_count,
        _ => history.retry_count,
    };
    let escalate = |why, max_retries| Decision {
        action: Action::Escalate,
        cause: Some(failure.cause),
        current_retry_count: count,
        max_retries,
        why,
        policy: policy.clone(),
        hint: None,
    };

    let rule = failure.rule.clone();
    let listed = policy.retry_on.contains(failure.cause);
    let rule_asks = match failure.verdict {
        Verdict::No => return escalate(Why::RuleForbids { rule }, 0),
        Verdict::Yes | Verdict::Unsaid if listed => false,
        Verdict::Yes if policy.never.contains(failure.cause) => {
            return escalate(Why::NeverRetried { rule }, 0);
        }
        Verdict::Yes => true,
        Verdict::Unsaid => return escalate(Why::NotListed { rule }, 0),
    };

    let max_retries = policy.max_retries_for(failure);
    if count >= max_retries {
        return escalate(Why::Exhausted { rule }, max_retries);
    }

    // "Now" (zero, or a date in the past) names no wait: the curve keeps the retries apart, and undercuts nothing.
    let (wait, source) = match failure.retry_after.filter(|asked| !asked.is_zero()) {
        Some(asked) if asked <= policy.max_retry_after => (asked, DelaySource::RetryAfter),
        Some(asked) => match policy.on_long_retry_after {
            LongRetryAfter::Clamp => (policy.max_retry_after, DelaySource::RetryAfterClamped { asked }),
            LongRetryAfter::Escalate => {
                let why = Why::RetryAfterTooLong { asked, limit: policy.max_retry_after };
                return escalate(why, max_retries);
            }
        },
        None => {
            let backoff = policy.backoff_for(failure);
            let delay = backoff.delay(count, history.previous_delay, rng);
            let curve = backoff.curve.clone();
            let source = if delay.fallback {
                DelaySource::Fallback { curve }
            } else {
                DelaySource::Curve { curve, jitter: backoff.jitter, cap: backoff.cap }
            };
            (delay.wait, source)
        }
    };

    Decision {
        action: Action::Retry { delay: wait },
        cause: Some(failure.cause),
        current_retry_count: count,
        max_retries,
        why: Why::Retried { rule, rule_asks, delay: source },
        policy: policy.clone(),
        hint: Hint::for_failure(
            failure,
            policy.entry_for(failure).and_then(|entry| entry.modification_hint.clone()),
        ),
    }
}

impl Decision {
    /// The decision about an attempt that succeeded.
    pub fn pass(policy: &Policy, history: &History) -> Decision {
        Decision {
            action: Action::Pass,
            cause: None,
            current_retry_count: history.retry_count,
            max_retries: policy.max_retries,
            why: Why::Succeeded,
            policy: policy.clone(),
            hint: None,
        }
    }

    /// Whether the work is tried again.
    pub const fn is_retry(&self) -> bool {
        matches!(self.action, Action::Retry { .. })
    }

    /// How long to wait before the next attempt, if there is one.
    pub const fn delay(&self) -> Option<Duration> {
        match self.action {
            Action::Retry { delay } => Some(delay),
            Action::Pass | Action::Escalate => None,
        }
    }

    /// The task-runner view of the cause.
    pub fn failure_type(&self) -> Option<FailureType> {
        self.cause.map(Cause::failure_type)
    }

    /// What to tell the next attempt.
    pub fn modification_hint(&self, lang: Lang) -> Option<String> {
        self.hint.as_ref().map(|hint| hint.render(lang))
    }

    /// Why it is escalated, in a few words.
    pub fn escalate_reason(&self, lang: Lang) -> Option<String> {
        let failure_type = self.failure_type()?;
        let key = match &self.why {
            Why::Succeeded | Why::Retried { .. } => return None,
            Why::Exhausted { .. } if self.max_retries == 0 => "decide.reason.no-retries",
            Why::Exhausted { .. } if self.cause == Some(Cause::Crashed) => "decide.reason.crash-budget",
            Why::Exhausted { .. } => "decide.reason.exhausted",
            Why::RetryAfterTooLong { asked, limit } => {
                return Some(text(
                    lang,
                    "decide.reason.retry-after",
                    &[("asked", &Human(*asked)), ("limit", &Human(*limit))],
                ));
            }
            Why::NotListed { .. } | Why::RuleForbids { .. } | Why::NeverRetried { .. } => {
                "decide.reason.not-retryable"
            }
        };
        Some(text(lang, key, &[("failure_type", &failure_type), ("max", &self.max_retries)]))
    }

    /// Why, in a sentence or two that a person can follow.
    pub fn reasoning(&self, lang: Lang) -> String {
        let cause = self.cause.map_or("", Cause::name);
        let policy = &self.policy.name;
        let count = self.current_retry_count;
        match &self.why {
            Why::Succeeded => text(lang, "decide.why.succeeded", &[]),
            Why::NotListed { rule } if self.cause == Some(Cause::Unknown) => {
                text(lang, "decide.why.unknown", &[("rule", &name_of(lang, rule)), ("policy", policy)])
            }
            Why::NotListed { rule } => text(
                lang,
                "decide.why.not-listed",
                &[("cause", &cause), ("rule", &name_of(lang, rule)), ("policy", policy)],
            ),
            Why::RuleForbids { rule } => {
                text(lang, "decide.why.rule-forbids", &[("cause", &cause), ("rule", &name_of(lang, rule))])
            }
            Why::NeverRetried { rule } => text(
                lang,
                "decide.why.never",
                &[("cause", &cause), ("rule", &name_of(lang, rule)), ("policy", policy)],
            ),
            Why::Exhausted { rule } => {
                let key =
                    if self.max_retries == 0 { "decide.why.no-retries" } else { "decide.why.exhausted" };
                text(
                    lang,
                    key,
                    &[
                        ("cause", &cause),
                        ("rule", &name_of(lang, rule)),
                        ("policy", policy),
                        ("count", &count),
                        ("max", &self.max_retries),
                    ],
                )
            }
            Why::RetryAfterTooLong { asked, limit } => text(
                lang,
                "decide.why.retry-after-too-long",
                &[("asked", &Human(*asked)), ("limit", &Human(*limit)), ("policy", policy)],
            ),
            Why::Retried { rule, rule_asks, delay } => {
                let key = if *rule_asks { "decide.why.rule-asks" } else { "decide.why.listed" };
                let first = text(
                    lang,
                    key,
                    &[
                        ("cause", &cause),
                        ("rule", &name_of(lang, rule)),
                        ("policy", policy),
                        ("number", &count.saturating_add(1)),
                        ("max", &self.max_retries),
                    ],
                );
                // Rounded like `delay_ms`, so that one answer does not name two delays.
                let wait = Human(Duration::from_millis(round_to_millis(self.delay().unwrap_or_default())));
                let second = match delay {
                    DelaySource::Curve { curve, jitter, cap } => text(
                        lang,
                        "decide.delay.curve",
                        &[
                            ("delay", &wait),
                            ("curve", &describe_curve(curve, count)),
                            ("jitter", &describe_jitter(lang, *jitter)),
                            ("cap", &Human(*cap)),
                        ],
                    ),
                    DelaySource::Fallback { curve } => {
                        text(lang, "decide.delay.fallback", &[("delay", &wait), ("curve", &curve.name())])
                    }
                    DelaySource::RetryAfter => text(lang, "decide.delay.retry-after", &[("delay", &wait)]),
                    DelaySource::RetryAfterClamped { asked } => {
                        text(lang, "decide.delay.clamped", &[("delay", &wait), ("asked", &Human(*asked))])
                    }
                };
                match lang {
                    Lang::En => format!("{first} {second}"),
                    Lang::Ja => first + &second,
                }
            }
        }
    }

    /// The decision as the record of 002 §2.2, in words of that language.
    pub fn record(&self, lang: Lang) -> DecisionRecord {
        DecisionRecord {
            decision: match self.action {
                Action::Pass => DecisionKind::Pass,
                Action::Retry { .. } => DecisionKind::Retry,
                Action::Escalate => DecisionKind::Escalate,
            },
            failure_type: self.failure_type(),
            cause: self.cause,
            current_retry_count: self.current_retry_count,
            max_retries: self.max_retries,
            delay_ms: self.delay().map(round_to_millis),
            modification_hint: self.modification_hint(lang),
            escalate_reason: self.escalate_reason(lang),
            reasoning: self.reasoning(lang),
            policy: self.policy.name.clone(),
            strategy: match &self.why {
                Why::Retried {
                    delay: DelaySource::Curve { curve, .. } | DelaySource::Fallback { curve },
                    ..
                } => Some(curve.name().to_owned()),
                Why::Retried { .. } => Some("retry_after".to_owned()),
                _ => None,
            },
        }
    }
}

/// A delay as whole milliseconds, to the nearest.
pub fn round_to_millis(delay: Duration) -> u64 {
    u64::try_from(delay.saturating_add(Duration::from_micros(500)).as_millis()).unwrap_or(u64::MAX)
}

/// The `RetryDecision` of 002 §2.2, as it is written into JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// PASS, RETRY or ESCALATE.
    pub decision: DecisionKind,
    /// The task-runner view of the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<FailureType>,
    /// The cause itself.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// What a person reads where a rule is named: its id, or that somebody said so.
fn name_of(lang: Lang, rule: &RuleId) -> String {
    match rule.as_str() {
        "said" => text(lang, "decide.said", &[]),
        "unknown" => text(lang, "decide.no-rule", &[]),
        id => id.to_owned(),
    }
}

/// A duration as people write it; see [`crate::human_duration`].
struct Human(Duration);

impl std::fmt::Display for Human {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::human_duration(self.0))
    }
}

/// The formula of a curve at retry `n`: `5s×2^2`.
fn describe_curve(curve: &Curve, n: u32) -> String {
    match curve {
        Curve::Exponential { initial, multiplier } => {
            format!("exponential {}×{multiplier}^{n}", Human(*initial))
        }
        Curve::Linear { initial, increment } => {
            format!("linear {}+{}×{n}", Human(*initial), Human(*increment))
        }
        Curve::Constant { delay } => format!("constant {}", Human(*delay)),
        Curve::Fibonacci { unit } => format!("fibonacci {}×fib({n})", Human(*unit)),
        Curve::List(_) => format!("list[{n}]"),
        Curve::Own(strategy) => format!("{}({n})", strategy.name()),
    }
}

/// A jitter in words.
pub fn describe_jitter(lang: Lang, jitter: Jitter) -> String {
    match jitter {
        Jitter::None => text(lang, "jitter.none", &[]),
        Jitter::PlusMinus(factor) => text(lang, "jitter.plus-minus", &[("percent", &factor.in_percent())]),
        Jitter::Additive(factor) => text(lang, "jitter.additive", &[("percent", &factor.in_percent())]),
        Jitter::Full => text(lang, "jitter.full", &[]),
        Jitter::Decorrelated => text(lang, "jitter.decorrelated", &[]),
    }
}
