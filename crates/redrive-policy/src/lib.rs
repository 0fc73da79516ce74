//! The pure core of redrive: what is a failure, is it worth another try, how long to wait, and why.
//!
//! Nothing here reads a clock, a file or a socket, and nothing is async. A [`Report`] of what went wrong is
//! classified into a [`Failure`]; [`decide`] turns it into a [`Decision`] under a [`Policy`]; every decision
//! can say why in English and Japanese.
//!
//! ```
//! use redrive_policy::{Classifier, History, Lang, Policy, Report, Rng, decide};
//!
//! let report = Report::text("Too Many Requests").with_status(429);
//! let failure = Classifier::built_in().classify(&report);
//! let decision = decide(&Policy::standard(), &failure, &History::default(), &mut Rng::seeded(1));
//! assert!(decision.is_retry());
//! println!("{}", decision.reasoning(Lang::En));
//! ```

mod backoff;
mod cause;
mod classify;
mod config;
mod decide;
mod duration;
mod escalation;
mod failure;
mod fingerprint;
pub mod graph;
mod hint;
pub mod idempotency;
mod jitter;
mod known_secrets;
mod lang;
mod nearest;
pub mod plan;
mod policy;
mod presets;
pub mod protection;
mod redact;
mod retry_after;
pub mod review;
mod rng;
pub mod simulate;
mod size;
pub mod strategy;

pub use backoff::{
    Backoff, Curve, DEFAULT_CAP, Delay, EXACT_STEPS, FALLBACK_DELAY, Multiplier, Strategy, SwitchStrategy,
};
pub use cause::{Cause, CauseSet, Class, ErrorCategory, FailureType, UnknownName};
pub use classify::{Classifier, Explanation, RuleError, RuleSpec, TEXT_BOUND, UserRule};
pub use config::{
    AlertBy, AlertReceiver, AlertSettings, Allowed, AutoRedrive, Config, ConfigError, Expected, Format,
    Place, Problem, ProblemKind, ProxySettings, PushConfig, RecoverySettings, ServerConfig, Settings,
    Severity, TargetSettings, TaskRetryOverride, TlsFiles, ValueType, policy_from_json, policy_to_json,
};
pub use decide::{
    Action, Decision, DecisionKind, DecisionRecord, DelaySource, History, Why, decide, describe_jitter,
    round_to_millis,
};
pub use duration::{BadDuration, human_duration, parse_duration};
pub use escalation::{
    DebugInfo, EscalateSettings, Escalation, EscalationLevel, EscalationReason, EscalationReport,
    FailureSummary, FatalError, LastFailure, MAX_LOG_LINES, ReasonType, RetryAttempt, also_failed,
    ended_by_somebody, not_restored,
};
pub use failure::{Code, Details, Failure, Report, RuleId, Verdict, Words};
pub use fingerprint::{fingerprint, skeleton};
pub use hint::{Hint, blamed_hint};
pub use jitter::{Factor, Jitter};
pub use known_secrets::{KnownSecrets, is_plain_header, looks_random, redact_json};
pub use lang::{Catalog, Lang};
pub use nearest::nearest;
pub use policy::{
    CurveKind, DEFAULT_CRASH_BUDGET, DEFAULT_MAX_RETRY_AFTER, Entry, LongRetryAfter, Override, Policy,
    PolicySpec, PolicyWarning,
};
pub use presets::{PRESETS, THROTTLING_CODES};
pub use redact::{one_line, redact};
pub use retry_after::parse_retry_after;
pub use rng::Rng;
pub use size::{BadSize, parse_size};
