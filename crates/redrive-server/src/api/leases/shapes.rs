//! What goes in and out when work is leased, kept and ended over HTTP.

use std::ops::RangeInclusive;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_policy::Lang;
use redrive_store::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::body;
use crate::problem::{Code, Problem};

/// How long a lease may last before it must be extended.
pub(super) const LEASE_FOR: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(12);
/// How long it lasts when nothing is said.
pub(super) const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// How many kinds one request may name.
pub(super) const MOST_KINDS: usize = 100;

/// What a worker asks for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseBody {
    /// At most so many jobs; 1 when absent.
    #[schemars(range(min = 1))]
    pub(super) max: Option<usize>,
    /// How long each is the worker's own unless it is extended, in milliseconds; 30,000 when absent.
    // As `LEASE_FOR` has it.
    #[schemars(range(min = 100, max = 43_200_000))]
    pub(super) lease_ms: Option<u64>,
    /// How long to wait when nothing is due, in milliseconds; not at all when absent, and no longer than the server waits.
    pub(super) wait_ms: Option<u64>,
    /// Only these kinds; all of the queue when absent.
    pub(super) kinds: Option<Vec<String>>,
}

/// What was handed out.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Leased<'a> {
    /// The jobs, the most urgent first.
    pub(super) items: Vec<LeasedItem<'a>>,
}

/// A job under a lease.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LeasedItem<'a> {
    /// The proof of the lease, to be shown when it is extended or settled. What it holds is nobody's business.
    pub(super) lease: &'a str,
    /// The job's id.
    pub(super) id: String,
    /// Its queue.
    pub(super) queue: &'a str,
    /// Its kind.
    pub(super) kind: &'a str,
    /// What it carries, when that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(super) payload: Option<&'a RawValue>,
    /// What it carries, when that is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload_base64: Option<String>,
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
    /// The retries before it that count.
    pub(super) retries: u32,
    /// What the decision about the last attempt tells this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<&'a str>,
    /// The key for its effects, the same for each attempt.
    pub(super) idempotency_key: &'a str,
    /// The caller's own id for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) caller_id: Option<&'a str>,
    /// Grows with each lease of the job: the far side of an effect may refuse a lower one than it has seen.
    pub(super) fence: i64,
    /// When it was enqueued.
    pub(super) enqueued_at: String,
    /// When the lease lapses unless it is extended.
    pub(super) expires_at: String,
    /// When it must be over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline_at: Option<String>,
    /// How long one attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_ms: Option<u64>,
}

/// What a job carries.
pub(super) enum LeasedPayload<'a> {
    Json(&'a RawValue),
    Bytes(&'a [u8]),
}

impl<'a> LeasedPayload<'a> {
    pub(super) fn json(&self) -> Option<&'a RawValue> {
        match self {
            LeasedPayload::Json(json) => Some(json),
            LeasedPayload::Bytes(_) => None,
        }
    }

    pub(super) fn base64(&self) -> Option<String> {
        match self {
            LeasedPayload::Json(_) => None,
            LeasedPayload::Bytes(bytes) => Some(STANDARD.encode(bytes)),
        }
    }
}

/// Attempts that ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody {
    /// The ends, each read for itself.
    #[schemars(with = "Vec<SettleItem>")]
    pub(super) items: Vec<Box<RawValue>>,
}

/// The end of one attempt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleItem {
    /// The proof of the lease.
    pub(super) lease: String,
    /// How it ended.
    pub(super) outcome: OutcomeName,
    /// What went wrong, when it failed or is set aside.
    pub(super) error: Option<ErrorBody>,
    /// When to come again, when it is snoozed.
    pub(super) delay_ms: Option<u64>,
    /// What it said, unless it is snoozed or given back: a text is kept as it is, anything else as JSON.
    pub(super) output: Option<serde_json::Value>,
    /// How long it took; since it was handed out, when absent.
    pub(super) latency_ms: Option<u64>,
    /// Why it failed, is cancelled, set aside or given back.
    pub(super) reason: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeName {
    /// It is done.
    Succeeded,
    /// It failed, and the policy decides.
    Failed,
    /// It wants to come again later; nothing is counted.
    Snoozed,
    /// It is over without a letter.
    Cancelled,
    /// It is set aside.
    Dead,
    /// It is given back; nothing is counted.
    Released,
}

impl OutcomeName {
    /// As it is written.
    pub(super) const fn name(self) -> &'static str {
        match self {
            OutcomeName::Succeeded => "succeeded",
            OutcomeName::Failed => "failed",
            OutcomeName::Snoozed => "snoozed",
            OutcomeName::Cancelled => "cancelled",
            OutcomeName::Dead => "dead",
            OutcomeName::Released => "released",
        }
    }
}

/// What is known about a failure.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorBody {
    /// What kind of thing failed: the name of the error's type.
    #[serde(rename = "type")]
    pub(super) error_type: Option<String>,
    /// The words it came with.
    pub(super) message: Option<String>,
    /// Whatever the source calls its code.
    pub(super) code: Option<String>,
    /// The HTTP status of the answer.
    pub(super) http_status: Option<u16>,
    /// The exit code of a process.
    pub(super) exit_code: Option<i32>,
    /// How long the other side asked to wait.
    pub(super) retry_after_ms: Option<u64>,
    /// Where it came from.
    pub(super) stack: Option<String>,
    /// What the worker knows it to be: one of the causes of the classifier.
    pub(super) cause: Option<String>,
    /// What the worker knows about trying again; the classifier's business when absent.
    pub(super) retryable: Option<bool>,
}

/// What became of ends.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SettledItems {
    /// In the order of the request.
    pub(super) items: Vec<SettledItem>,
}

/// What became of one end.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SettledItem {
    /// `settled`; `stale` when the lease was lost and nothing changed; `cancelled` when it would have come again, but somebody
    /// had asked for its end; `refused` when the item is no good.
    pub(super) status: &'static str,
    /// What follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<DecisionBody>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<ItemProblem>,
}

impl SettledItem {
    pub(super) fn plain(status: &'static str) -> SettledItem {
        SettledItem { status, decision: None, problem: None }
    }

    pub(super) fn decided(decision: DecisionBody) -> SettledItem {
        SettledItem { decision: Some(decision), ..SettledItem::plain("settled") }
    }

    pub(super) fn refused(problem: ItemProblem) -> SettledItem {
        SettledItem { problem: Some(problem), ..SettledItem::plain("refused") }
    }
}

/// What follows from the end of an attempt.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct DecisionBody {
    /// `succeeded`, `retry`, `dead`, `snoozed`, `cancelled` or `released`.
    pub(super) decision: &'static str,
    /// When it comes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_at: Option<String>,
    /// After which delay, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay_ms: Option<u64>,
    /// The dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) letter: Option<String>,
    /// Why it is set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// Why an item is refused.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ItemProblem {
    /// Which kind of problem.
    pub(super) code: &'static str,
    /// What to do about it.
    pub(super) detail: String,
    /// The field that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
}

impl ItemProblem {
    pub(super) fn told(problem: &Problem, lang: Lang) -> ItemProblem {
        let told = problem.told(lang);
        ItemProblem { code: problem.code.name(), detail: told.detail, field: told.field }
    }

    pub(super) fn no_lease(lang: Lang) -> ItemProblem {
        let told = ItemProblem::told(&Problem::new(Code::Conflict, "leases.unknown").at("lease"), lang);
        ItemProblem { code: "lease-unknown", ..told }
    }
}

/// One item of many, or what is wrong with it.
pub(super) fn read<T: DeserializeOwned>(item: &RawValue) -> Result<T, Problem> {
    // How deep the body nests was looked at with the whole of it.
    serde_json::from_str(item.get()).or_else(|_| body::parse(item.get().as_bytes(), usize::MAX))
}

/// Leases to be kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    /// The leases, each read for itself.
    #[schemars(with = "Vec<ExtendItem>")]
    pub(super) items: Vec<Box<RawValue>>,
}

/// A lease to be kept for as long again as it was asked for with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendItem {
    /// The proof of the lease.
    pub(super) lease: String,
}

/// What became of leases.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Extended {
    /// In the order of the request.
    pub(super) items: Vec<ExtendedItem>,
}

/// What became of one lease.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExtendedItem {
    /// `extended`; `cancel_requested` when it lasts longer, but somebody wants the job to end; `lost` when it is over: stop, and
    /// settle nothing; `refused` when the item is no good.
    pub(super) status: &'static str,
    /// Until when it lasts now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<ItemProblem>,
}

impl ExtendedItem {
    pub(super) fn until(status: &'static str, at: Timestamp) -> ExtendedItem {
        ExtendedItem { status, expires_at: Some(at.to_string()), problem: None }
    }

    pub(super) fn lost() -> ExtendedItem {
        ExtendedItem { status: "lost", expires_at: None, problem: None }
    }

    pub(super) fn refused(problem: ItemProblem) -> ExtendedItem {
        ExtendedItem { status: "refused", expires_at: None, problem: Some(problem) }
    }
}
