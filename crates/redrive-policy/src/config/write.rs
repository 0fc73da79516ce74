//! A policy written down in the shape of a configuration file, whole: nothing is left to be inherited.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::file::{MAX_DELAY_MS, NOTHING};
use crate::backoff::{Backoff, Curve, nanos};
use crate::cause::CauseSet;
use crate::jitter::Jitter;
use crate::policy::{Entry, Policy};

/// The policy as an entry of `policies` in a configuration file; [`policy_from_json`](super::policy_from_json)
/// and [`Config::parse`](super::Config::parse) read it back as it was.
///
/// A strategy of one's own is written by its name, which a file cannot know, and a delay beyond a year as a
/// year, the longest that a file can say.
///
/// ```
/// use redrive_policy::{Policy, policy_from_json, policy_to_json};
///
/// let policy = Policy::preset("api").unwrap();
/// assert_eq!(policy_from_json("api", &policy_to_json(&policy)).unwrap(), policy);
/// ```
pub fn policy_to_json(policy: &Policy) -> Value {
    let mut json = Map::new();
    json.insert("extends".to_owned(), json!(NOTHING));
    json.insert("max_retries".to_owned(), json!(policy.max_retries));
    json.insert("backoff".to_owned(), backoff(&policy.backoff));
    json.insert("retryable_failures".to_owned(), names(policy.retry_on));
    json.insert("never".to_owned(), names(policy.never));
    json.insert("cause_specific".to_owned(), policy.entries.iter().map(entry).collect());
    json.insert("crash_budget".to_owned(), json!(policy.crash_budget));
    put_duration(&mut json, "max_retry_after", policy.max_retry_after);
    json.insert("on_long_retry_after".to_owned(), json!(policy.on_long_retry_after));
    if let Some(forced) = policy.forced_max_retries {
        json.insert("forced_max_retries".to_owned(), json!(forced));
    }
    Value::Object(json)
}

fn entry(entry: &Entry) -> Value {
    let mut json = Map::new();
    let causes: Vec<&str> = entry.causes.iter().map(crate::cause::Cause::name).collect();
    let cause = if let [only] = causes.as_slice() { json!(only) } else { json!(causes) };
    json.insert("cause".to_owned(), cause);
    if !entry.codes.is_empty() {
        json.insert("codes".to_owned(), json!(entry.codes));
    }
    if let Some(max_retries) = entry.max_retries {
        json.insert("max_retries".to_owned(), json!(max_retries));
    }
    if let Some(own) = &entry.backoff {
        json.insert("backoff".to_owned(), backoff(own));
    }
    if let Some(hint) = &entry.modification_hint {
        json.insert("modification_hint".to_owned(), json!(**hint));
    }
    Value::Object(json)
}

fn backoff(backoff: &Backoff) -> Value {
    let mut json = Map::new();
    json.insert("type".to_owned(), json!(backoff.curve.name()));
    match &backoff.curve {
        Curve::Exponential { initial, multiplier } => {
            put_duration(&mut json, "initial_delay", *initial);
            json.insert("multiplier".to_owned(), number(multiplier.as_f64()));
        }
        Curve::Linear { initial, increment } => {
            put_duration(&mut json, "initial_delay", *initial);
            put_duration(&mut json, "increment", *increment);
        }
        Curve::Constant { delay: initial } | Curve::Fibonacci { unit: initial } => {
            put_duration(&mut json, "initial_delay", *initial);
        }
        Curve::List(delays) => put_delays(&mut json, delays),
        Curve::Own(_) => {}
    }
    put_duration(&mut json, "max_delay", backoff.cap);
    json.insert("jitter".to_owned(), jitter(backoff.jitter));
    Value::Object(json)
}

fn jitter(jitter: Jitter) -> Value {
    match jitter {
        Jitter::None | Jitter::Full | Jitter::Decorrelated => json!(jitter.mode()),
        Jitter::PlusMinus(factor) if factor.as_f64() > 0.0 => number(factor.as_f64()),
        Jitter::PlusMinus(factor) | Jitter::Additive(factor) => {
            json!({"mode": jitter.mode(), "factor": number(factor.as_f64())})
        }
    }
}

/// In whole milliseconds where it is one, which programs read best; else with a unit, which is exact.
fn put_duration(json: &mut Map<String, Value>, name: &str, duration: Duration) {
    match millis(duration) {
        Some(millis) => json.insert(format!("{name}_ms"), json!(millis)),
        None => json.insert(name.to_owned(), json!(with_unit(duration))),
    };
}

fn put_delays(json: &mut Map<String, Value>, delays: &[Duration]) {
    match delays.iter().copied().map(millis).collect::<Option<Vec<u64>>>() {
        Some(millis) => json.insert("delays_ms".to_owned(), json!(millis)),
        None => json.insert("delays".to_owned(), delays.iter().copied().map(with_unit).collect()),
    };
}

fn millis(duration: Duration) -> Option<u64> {
    let nanos = nanos(duration.min(Duration::from_millis(MAX_DELAY_MS)));
    nanos.is_multiple_of(1_000_000).then_some(nanos / 1_000_000)
}

fn with_unit(duration: Duration) -> String {
    let nanos = nanos(duration.min(Duration::from_millis(MAX_DELAY_MS)));
    let fraction = format!("{:06}", nanos % 1_000_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{}ms", nanos / 1_000_000),
        fraction => format!("{}.{fraction}ms", nanos / 1_000_000),
    }
}

/// A whole number as one: people write 2, not 2.0.
#[allow(clippy::cast_possible_truncation)]
fn number(value: f64) -> Value {
    // Multipliers end at a million and factors at one, so nothing is cut off.
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

fn names(causes: CauseSet) -> Value {
    causes.iter().map(|cause| json!(cause.name())).collect()
}
