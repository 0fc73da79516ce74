//! What one job overrides in its policy, as it is stored with the job: the `overrides` object of 002 §7.2 and beside it
//! `retry_on`, the causes that are retried as well, and `crash_budget`.
//!
//! `{"max_retries":5,"backoff":{"type":"linear","initial_delay_ms":250,"jitter":"none"},"retry_on":["unknown"]}`

use std::time::Duration;

use redrive_policy::{Cause, CauseSet, Jitter, Override, Policy, TaskRetryOverride};
use serde_json::{Map, Value, json};

use super::EngineError;

/// Writes what somebody wants otherwise, to be stored with a job; nothing when nothing is.
///
/// ```
/// use redrive::Override;
/// use redrive::engine::{overrides_from_json, overrides_to_json};
///
/// let wish = Override { max_retries: Some(5), ..Override::default() };
/// let stored = overrides_to_json(&wish).unwrap();
/// assert_eq!(stored, r#"{"max_retries":5}"#);
/// assert_eq!(overrides_from_json(&stored).unwrap(), wish);
/// assert_eq!(overrides_to_json(&Override::default()), None);
/// ```
pub fn overrides_to_json(wish: &Override) -> Option<String> {
    if wish.is_empty() {
        return None;
    }
    let mut json = Map::new();
    let mut backoff = Map::new();
    if let Some(max_retries) = wish.max_retries {
        json.insert("max_retries".to_owned(), json!(max_retries));
    }
    if let Some(curve) = wish.curve {
        backoff.insert("type".to_owned(), json!(curve.name()));
    }
    for (name, duration) in
        [("initial_delay", wish.initial), ("increment", wish.increment), ("max_delay", wish.cap)]
    {
        if let Some(duration) = duration {
            put_duration(&mut backoff, name, duration);
        }
    }
    if let Some(multiplier) = wish.multiplier {
        backoff.insert("multiplier".to_owned(), json!(multiplier.as_f64()));
    }
    if let Some(jitter) = wish.jitter {
        backoff.insert("jitter".to_owned(), jitter_to_json(jitter));
    }
    if !backoff.is_empty() {
        json.insert("backoff".to_owned(), Value::Object(backoff));
    }
    if wish.retry_on != CauseSet::NONE {
        let causes = wish.retry_on.iter().map(Cause::name).collect::<Vec<_>>();
        json.insert("retry_on".to_owned(), json!(causes));
    }
    if let Some(crash_budget) = wish.crash_budget {
        json.insert("crash_budget".to_owned(), json!(crash_budget));
    }
    Some(Value::Object(json).to_string())
}

/// Reads what [`overrides_to_json`] wrote. What it cannot hold (`retryable_failures`, `cause_specific`) is checked too.
pub fn overrides_from_json(text: &str) -> Result<Override, EngineError> {
    JobOverrides::parse(text).map(|overrides| overrides.0.overrides)
}

/// In whole milliseconds where it is one; else with a unit, which is exact.
fn put_duration(json: &mut Map<String, Value>, name: &str, duration: Duration) {
    let nanos = duration.as_nanos();
    if nanos.is_multiple_of(1_000_000) {
        json.insert(format!("{name}_ms"), json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)));
    } else {
        let text = format!("{}.{:06}ms", nanos / 1_000_000, nanos % 1_000_000);
        json.insert(name.to_owned(), json!(text));
    }
}

fn jitter_to_json(jitter: Jitter) -> Value {
    match jitter {
        Jitter::None | Jitter::Full | Jitter::Decorrelated => json!(jitter.mode()),
        Jitter::PlusMinus(factor) | Jitter::Additive(factor) => {
            json!({"mode": jitter.mode(), "factor": factor.as_f64()})
        }
    }
}

/// What a job overrides.
#[derive(Debug)]
pub(super) struct JobOverrides(TaskRetryOverride);

impl JobOverrides {
    pub(super) fn parse(text: &str) -> Result<JobOverrides, EngineError> {
        let not_json = |why: String| EngineError::OverridesNotJson(why);
        let json: Value = serde_json::from_str(text).map_err(|error| not_json(error.to_string()))?;
        let Value::Object(mut fields) = json else { return Err(not_json("it is no object".to_owned())) };
        let mut retry_on = CauseSet::NONE;
        if let Some(causes) = fields.remove("retry_on") {
            let causes: Vec<Cause> =
                serde_json::from_value(causes).map_err(|error| not_json(error.to_string()))?;
            retry_on = CauseSet::of(&causes);
        }
        let crash_budget = match fields.remove("crash_budget") {
            Some(budget) => {
                Some(serde_json::from_value(budget).map_err(|error| not_json(error.to_string()))?)
            }
            None => None,
        };
        let task = json!({"task_id": "job", "overrides": fields});
        let mut task = TaskRetryOverride::from_json(&task, "overrides")?;
        task.overrides.retry_on = retry_on;
        task.overrides.crash_budget = crash_budget;
        Ok(JobOverrides(task))
    }

    pub(super) fn apply_to(&self, policy: &Policy) -> Policy {
        self.0.apply_to(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_policy::{CurveKind, Factor, Multiplier};

    /// R-P8: what the command line overrides is the same after it was stored.
    #[test]
    fn what_is_written_reads_back() {
        let wishes = [
            Override { max_retries: Some(0), ..Override::default() },
            Override { crash_budget: Some(0), ..Override::default() },
            Override { jitter: Factor::new(0.25).map(Jitter::PlusMinus), ..Override::default() },
            Override {
                curve: Some(CurveKind::Linear),
                initial: Some(Duration::from_micros(1_500)),
                increment: Some(Duration::from_secs(2)),
                multiplier: Multiplier::new(1.5),
                cap: Some(Duration::from_mins(10)),
                jitter: Some(Jitter::Full),
                retry_on: CauseSet::of(&[Cause::Unknown, Cause::NotFound]),
                ..Override::default()
            },
        ];
        for wish in wishes {
            let text = overrides_to_json(&wish).unwrap();
            assert_eq!(overrides_from_json(&text).unwrap(), wish, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_path() {
        assert!(overrides_from_json("7").is_err());
        assert!(overrides_from_json(r#"{"retry_on":["gremlins"]}"#).is_err());
        let error = overrides_from_json(r#"{"max_tries":5}"#).unwrap_err().to_string();
        assert!(error.contains("max_tries"), "{error}");
    }
}
