//! The named policies that come with redrive (R-P9), each from the system whose numbers it carries.

use std::sync::LazyLock;
use std::time::Duration;

use crate::backoff::{Backoff, Curve, DEFAULT_CAP};
use crate::cause::{Cause, CauseSet, Class};
use crate::jitter::{Factor, Jitter};
use crate::policy::{
    DEFAULT_CRASH_BUDGET, DEFAULT_MAX_RETRY_AFTER, Entry, LongRetryAfter, Policy, PolicySpec,
};

/// The presets in the order they are listed to people.
pub const PRESETS: &[&str] = &["standard", "command", "api", "stream", "collector", "client", "consumer"];

/// The codes by which the `collector` preset knows that an SDK was throttled.
pub const THROTTLING_CODES: &[&str] = &[
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
    "TransactionInProgressException",
    "EC2ThrottledException",
];

static STANDARD: LazyLock<Policy> = LazyLock::new(|| standard("standard", CauseSet::NONE).into());
static COMMAND: LazyLock<Policy> =
    LazyLock::new(|| standard("command", CauseSet::of(&[Cause::Unknown])).into());
static API: LazyLock<Policy> = LazyLock::new(|| api().into());
static STREAM: LazyLock<Policy> = LazyLock::new(|| stream().into());
static COLLECTOR: LazyLock<Policy> = LazyLock::new(|| collector().into());
static CLIENT: LazyLock<Policy> = LazyLock::new(|| client().into());
static CONSUMER: LazyLock<Policy> = LazyLock::new(|| consumer().into());

impl Policy {
    /// The preset of that name; [`PRESETS`] lists them.
    ///
    /// ```
    /// use redrive_policy::{PRESETS, Policy};
    /// assert!(PRESETS.iter().all(|name| Policy::preset(name).is_some()));
    /// ```
    pub fn preset(name: &str) -> Option<Policy> {
        Some(match name {
            "standard" => STANDARD.clone(),
            "command" => COMMAND.clone(),
            "api" => API.clone(),
            "stream" => STREAM.clone(),
            "collector" => COLLECTOR.clone(),
            "client" => CLIENT.clone(),
            "consumer" => CONSUMER.clone(),
            _ => return None,
        })
    }

    /// The default of everything but commands: three retries of what time can heal, 1 s, 2 s, 4 s ± 10 %.
    pub fn standard() -> Policy {
        STANDARD.clone()
    }

    /// As `standard`, and a failure that says nothing is tried again too.
    pub fn command() -> Policy {
        COMMAND.clone()
    }
}

/// Retries in milliseconds-exact steps: `initial · 2^n`, spread and capped.
fn doubling(initial_ms: u64, cap_ms: u64, jitter: Jitter) -> Backoff {
    Backoff::new(Curve::exponential(Duration::from_millis(initial_ms)))
        .with_jitter(jitter)
        .with_cap(Duration::from_millis(cap_ms))
}

/// The parts that all presets share.
fn preset(name: &str, max_retries: u32, backoff: Backoff, retry_on: CauseSet) -> PolicySpec {
    PolicySpec {
        name: name.to_owned(),
        max_retries,
        backoff,
        retry_on,
        // A person's word is final: no rule may turn it into a retry.
        never: CauseSet::of(&[Cause::HumanJudgment, Cause::Cancelled]),
        entries: Vec::new(),
        crash_budget: DEFAULT_CRASH_BUDGET,
        max_retry_after: DEFAULT_MAX_RETRY_AFTER,
        on_long_retry_after: LongRetryAfter::Escalate,
        forced_max_retries: None,
    }
}

fn entry(causes: &[Cause], max_retries: u32, backoff: Backoff) -> Entry {
    Entry {
        causes: CauseSet::of(causes),
        max_retries: Some(max_retries),
        backoff: Some(backoff),
        ..Entry::default()
    }
}

const PLUS_MINUS_10: Jitter = Jitter::PlusMinus(Factor::percent(10));
const PLUS_MINUS_20: Jitter = Jitter::PlusMinus(Factor::percent(20));

/// 002 §1.3, with whatever else is to be retried.
pub(crate) fn standard(name: &str, also: CauseSet) -> PolicySpec {
    let mut spec = preset(
        name,
        3,
        doubling(1_000, 30_000, PLUS_MINUS_10),
        CauseSet::of_class(Class::Transient).union(also),
    );
    spec.entries = vec![
        entry(&[Cause::RateLimit], 5, doubling(5_000, 60_000, PLUS_MINUS_20)),
        entry(
            &[Cause::Timeout],
            2,
            Backoff::new(Curve::constant(Duration::from_secs(5))).with_cap(Duration::from_secs(5)),
        ),
    ];
    spec
}

/// 000's table; its categories "network" and "api error" hold timeouts and contention.
fn api() -> PolicySpec {
    let network = [Cause::Network, Cause::Timeout];
    let api_error = [Cause::ApiError, Cause::Contention];
    let retried =
        CauseSet::of(&[Cause::RateLimit]).union(CauseSet::of(&network)).union(CauseSet::of(&api_error));
    let mut spec = preset("api", 0, doubling(1_000, 60_000, PLUS_MINUS_20), retried);
    // "Others 0": not even a rule that asks for a retry gets one.
    spec.never = CauseSet::ALL.minus(retried).minus(CauseSet::of(&[Cause::Crashed]));
    spec.retry_on = retried.union(CauseSet::of(&[Cause::Crashed]));
    spec.entries = vec![
        entry(&[Cause::RateLimit], 5, doubling(5_000, 300_000, PLUS_MINUS_20)),
        entry(&network, 3, doubling(1_000, 60_000, PLUS_MINUS_20)),
        entry(&api_error, 3, doubling(500, 30_000, PLUS_MINUS_20)),
    ];
    spec
}

/// 003's stream: what is transient, and what nobody knows.
fn stream() -> PolicySpec {
    let retried = CauseSet::of_class(Class::Transient).union(CauseSet::of(&[Cause::Unknown]));
    preset("stream", 3, doubling(1_000, 300_000, PLUS_MINUS_20), retried)
}

/// 001's collector. Its documents name no cap, so the general one holds.
fn collector() -> PolicySpec {
    let cap = u64::try_from(DEFAULT_CAP.as_millis()).unwrap_or(u64::MAX);
    let mut spec =
        preset("collector", 3, doubling(2_000, cap, Jitter::Full), CauseSet::of_class(Class::Transient));
    spec.entries = vec![
        Entry {
            codes: THROTTLING_CODES.iter().map(|code| (*code).to_owned()).collect(),
            ..entry(&[Cause::RateLimit], 3, doubling(1_000, cap, Jitter::Full))
        },
        entry(&[Cause::RateLimit], 3, doubling(5_000, cap, Jitter::Full)),
    ];
    spec
}

/// 004's client: three attempts in all.
fn client() -> PolicySpec {
    let jitter = Jitter::Additive(Factor::percent(10));
    preset("client", 2, doubling(1_000, 300_000, jitter), CauseSet::of_class(Class::Transient))
}

/// 004's queue consumer: 120, 240, 480 seconds, for everything that is not known to be permanent.
fn consumer() -> PolicySpec {
    let retried = CauseSet::of_class(Class::Transient).union(CauseSet::of_class(Class::Unknown));
    preset("consumer", 3, doubling(120_000, 3_600_000, Jitter::None), retried)
}
