//! A policy: which causes are retried, how often, and with what delays (R-P4, R-P8, R-P9).
//!
//! A [`Policy`] is a cheap handle to values that never change; `decide` reads it and nothing else.
//! Overrides make a new policy, field by field, so that by the time of a decision nothing is left to merge.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::{Backoff, Curve, Multiplier};
use crate::cause::{Cause, CauseSet, named_enum};
use crate::failure::Failure;
use crate::jitter::Jitter;

/// How often a job may take its worker down before it is set aside.
pub const DEFAULT_CRASH_BUDGET: u32 = 3;

/// The longest `Retry-After` that is obeyed without asking anyone.
pub const DEFAULT_MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// A shared, immutable policy.
///
/// ```
/// use redrive_policy::{Override, Policy};
///
/// let policy = Policy::preset("standard").unwrap();
/// let patient = policy.with_override(&Override { max_retries: Some(20), ..Override::default() });
/// assert_eq!((policy.max_retries, patient.max_retries), (3, 20));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Policy(Arc<PolicySpec>);

impl Deref for Policy {
    type Target = PolicySpec;

    fn deref(&self) -> &PolicySpec {
        &self.0
    }
}

impl From<PolicySpec> for Policy {
    fn from(spec: PolicySpec) -> Policy {
        Policy(Arc::new(spec))
    }
}

impl From<&Policy> for Policy {
    fn from(policy: &Policy) -> Policy {
        policy.clone()
    }
}

named_enum! {
    /// What to do when the other side asks for a longer wait than the policy obeys.
    LongRetryAfter {
        /// Let a person see it.
        Escalate = "escalate",
        /// Wait as long as the policy allows, then try.
        Clamp = "clamp",
    }
}

/// What a policy says.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// Its name, which every decision carries.
    pub name: String,
    /// Retries for a cause that has no entry of its own.
    pub max_retries: u32,
    /// Delays for a cause that has no entry of its own.
    pub backoff: Backoff,
    /// The causes that are retried unless a rule's verdict forbids it.
    pub retry_on: CauseSet,
    /// The causes that are not retried even when a rule's verdict asks for it.
    pub never: CauseSet,
    /// What differs for some causes. Entries narrowed by code come before the rest.
    pub entries: Vec<Entry>,
    /// How often the work may take its worker down; charged apart from `max_retries`.
    pub crash_budget: u32,
    /// The longest `Retry-After` that is obeyed.
    pub max_retry_after: Duration,
    /// What happens beyond it.
    pub on_long_retry_after: LongRetryAfter,
    /// A limit that beats every other, the crash budget of a panicking handler included.
    pub forced_max_retries: Option<u32>,
}

/// What differs for some causes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// The causes it speaks of.
    pub causes: CauseSet,
    /// The codes it is narrowed to; empty means any.
    pub codes: Vec<String>,
    /// Another number of retries.
    pub max_retries: Option<u32>,
    /// Other delays.
    pub backoff: Option<Backoff>,
    /// Words that are added to the modification hint.
    pub modification_hint: Option<Arc<str>>,
}

impl Entry {
    fn matches(&self, failure: &Failure) -> bool {
        self.causes.contains(failure.cause)
            && (self.codes.is_empty()
                || failure
                    .code
                    .is_some_and(|code| self.codes.iter().any(|own| own.eq_ignore_ascii_case(code.as_str()))))
    }
}

impl PolicySpec {
    /// The entry that speaks of this failure: one narrowed to its code before one for the cause.
    pub fn entry_for(&self, failure: &Failure) -> Option<&Entry> {
        let mut matching = self.entries.iter().filter(|entry| entry.matches(failure));
        let first = matching.next()?;
        if first.codes.is_empty() {
            matching.find(|entry| !entry.codes.is_empty()).or(Some(first))
        } else {
            Some(first)
        }
    }

    /// How many retries a failure of this kind gets, were it retried at all.
    pub fn max_retries_for(&self, failure: &Failure) -> u32 {
        if failure.worker_died {
            return self.crash_budget;
        }
        if let Some(forced) = self.forced_max_retries {
            return forced;
        }
        match failure.cause {
            Cause::Crashed => self.crash_budget,
            _ => self.entry_for(failure).and_then(|entry| entry.max_retries).unwrap_or(self.max_retries),
        }
    }

    /// The delays that a failure of this kind gets.
    pub fn backoff_for(&self, failure: &Failure) -> &Backoff {
        self.entry_for(failure).and_then(|entry| entry.backoff.as_ref()).unwrap_or(&self.backoff)
    }

    /// What is odd about this policy without being wrong.
    pub fn warnings(&self) -> Vec<PolicyWarning> {
        let own = self.backoff.starts_above_cap().then(|| PolicyWarning::InitialAboveCap {
            causes: CauseSet::ALL,
            initial: self.backoff.curve.clone(),
            cap: self.backoff.cap,
        });
        let entries = self.entries.iter().filter_map(|entry| {
            let backoff = entry.backoff.as_ref().filter(|backoff| backoff.starts_above_cap())?;
            Some(PolicyWarning::InitialAboveCap {
                causes: entry.causes,
                initial: backoff.curve.clone(),
                cap: backoff.cap,
            })
        });
        own.into_iter().chain(entries).collect()
    }
}

/// Something odd in a policy that still works.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyWarning {
    /// The first delay is above the cap; the cap wins.
    InitialAboveCap {
        /// The causes it concerns.
        causes: CauseSet,
        /// The curve whose first delay is cut.
        initial: Curve,
        /// The cap that cuts it.
        cap: Duration,
    },
}

/// What somebody said for one task or on one command line. Each field that is set beats the policy's, for
/// every cause.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Override {
    /// Another number of retries; 0 escalates at once.
    pub max_retries: Option<u32>,
    /// Another shape of the delays.
    pub curve: Option<CurveKind>,
    /// Another first delay (the unit of fibonacci, the delay of constant).
    pub initial: Option<Duration>,
    /// Another multiplier of exponential delays.
    pub multiplier: Option<Multiplier>,
    /// Another increment of linear delays.
    pub increment: Option<Duration>,
    /// Another cap.
    pub cap: Option<Duration>,
    /// Another jitter.
    pub jitter: Option<Jitter>,
    /// Causes that are retried as well.
    pub retry_on: CauseSet,
    /// Another number of times that the work may take its worker down; 0: nobody begins it again by itself.
    pub crash_budget: Option<u32>,
}

named_enum! {
    /// The shapes that can be named in configuration and on the command line.
    CurveKind {
        /// Each delay is a multiple of the last.
        Exponential = "exponential",
        /// Each delay is the last and a bit.
        Linear = "linear",
        /// All delays are equal.
        Constant = "constant",
        /// Delays grow as 1, 1, 2, 3, 5.
        Fibonacci = "fibonacci",
    }
}

impl Override {
    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Override::default()
    }

    /// The backoff with every overridden field replaced.
    pub fn apply_to(&self, backoff: &Backoff) -> Backoff {
        let mut curve = match self.curve {
            Some(kind) => reshape(&backoff.curve, kind),
            None => backoff.curve.clone(),
        };
        match &mut curve {
            Curve::Exponential { initial, multiplier } => {
                *initial = self.initial.unwrap_or(*initial);
                *multiplier = self.multiplier.unwrap_or(*multiplier);
            }
            Curve::Linear { initial, increment } => {
                let follows_initial = increment == initial;
                *initial = self.initial.unwrap_or(*initial);
                // An increment that nobody set is the initial delay, also after that was overridden.
                *increment = self.increment.unwrap_or(if follows_initial { *initial } else { *increment });
            }
            Curve::Constant { delay } => *delay = self.initial.unwrap_or(*delay),
            Curve::Fibonacci { unit } => *unit = self.initial.unwrap_or(*unit),
            Curve::List(_) | Curve::Own(_) => {
                if let Some(initial) = self.initial {
                    curve = Curve::constant(initial);
                }
            }
        }
        Backoff { curve, jitter: self.jitter.unwrap_or(backoff.jitter), cap: self.cap.unwrap_or(backoff.cap) }
    }
}

/// A curve of another shape with the same first delay.
fn reshape(curve: &Curve, kind: CurveKind) -> Curve {
    let first = match curve {
        Curve::Exponential { initial, .. } | Curve::Linear { initial, .. } => *initial,
        Curve::Constant { delay } => *delay,
        Curve::Fibonacci { unit } => *unit,
        Curve::List(delays) => delays.first().copied().unwrap_or(crate::backoff::FALLBACK_DELAY),
        Curve::Own(strategy) => strategy.delay(0).unwrap_or(crate::backoff::FALLBACK_DELAY),
    };
    match (kind, curve) {
        (CurveKind::Exponential, Curve::Exponential { .. }) | (CurveKind::Linear, Curve::Linear { .. }) => {
            curve.clone()
        }
        (CurveKind::Exponential, _) => Curve::exponential(first),
        (CurveKind::Linear, _) => Curve::linear(first, first),
        (CurveKind::Constant, _) => Curve::constant(first),
        (CurveKind::Fibonacci, _) => Curve::fibonacci(first),
    }
}

impl Policy {
    /// Which version of the policy this is: eight hexadecimal digits that change whenever what it says changes.
    ///
    /// ```
    /// use redrive_policy::Policy;
    /// assert_eq!(Policy::standard().version(), Policy::standard().version());
    /// assert_ne!(Policy::standard().version(), Policy::standard().with_max_retries(7).version());
    /// ```
    pub fn version(&self) -> String {
        let mut hash = crate::fingerprint::Fnv::new();
        hash.text(&crate::config::policy_to_json(self).to_string());
        hash.hex()[..8].to_owned()
    }

    /// This policy with somebody's overrides, which beat the values for single causes too.
    pub fn with_override(&self, wish: &Override) -> Policy {
        if wish.is_empty() {
            return self.clone();
        }
        let mut spec = (*self.0).clone();
        spec.crash_budget = wish.crash_budget.unwrap_or(spec.crash_budget);
        // Who asks for other delays does not want them cut by a cap that was made for one cause's old ones.
        let general_cap = spec.backoff.cap;
        let reshaped = wish.curve.is_some() || wish.initial.is_some();
        spec.backoff = wish.apply_to(&spec.backoff);
        for entry in &mut spec.entries {
            entry.max_retries = wish.max_retries.or(entry.max_retries);
            entry.backoff = entry.backoff.as_ref().map(|backoff| {
                let mut backoff = wish.apply_to(backoff);
                if reshaped && wish.cap.is_none() {
                    backoff.cap = backoff.cap.max(general_cap);
                }
                backoff
            });
        }
        spec.max_retries = wish.max_retries.unwrap_or(spec.max_retries);
        spec.forced_max_retries = wish.max_retries.or(spec.forced_max_retries);
        spec.retry_on = spec.retry_on.union(wish.retry_on);
        spec.never = spec.never.minus(wish.retry_on);
        Policy::from(spec)
    }

    /// The most common wish: this policy with another number of retries for every cause.
    pub fn with_max_retries(&self, max_retries: u32) -> Policy {
        self.with_override(&Override { max_retries: Some(max_retries), ..Override::default() })
    }
}
